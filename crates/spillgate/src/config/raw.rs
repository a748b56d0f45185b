//! The file as it stands: each value checked alone, with its place, nothing filled in.
//!
//! The walk visits every key of the TOML tree once and asks the table what it may hold. It never
//! stops at a problem. Whether the keys go together is for `check.rs`; what they mean is for
//! `build.rs`.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::key::{Key, Place, Preset, one_of};
use super::problem::{Problem, Span, shown};
use super::table;
use super::text;
use super::value::{self, At, Found, Value, nearest};

/// Most listeners, pools or routes of one file.
const SECTIONS_MAX: usize = 1024;

/// Most keys that an error lists.
const LISTED_MAX: usize = 20;

/// The names that stand at the top of the file and are no keys.
const SECTIONS: [&str; 6] = ["listener", "pool", "route", "spill", "access_log", "admin"];

/// All sections of a file, in its order.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) top: Section,
    pub(super) spill: Option<Section>,
    pub(super) listeners: Vec<Section>,
    pub(super) pools: Vec<Section>,
    pub(super) routes: Vec<Section>,
    pub(super) access_log: Option<Section>,
    pub(super) admin: Option<Section>,
    /// Whether a section is there that could not be read as one, so that others may seem to lack.
    pub(super) lost: bool,
}

/// One section: the values that the file gives.
#[derive(Clone, Debug)]
pub(super) struct Section {
    place: Place,
    /// The name of a listener or pool; empty elsewhere.
    pub(super) name: String,
    /// Where the section begins.
    pub(super) header: Span,
    entries: BTreeMap<&'static str, Entry>,
}

/// One key that is there.
#[derive(Clone, Debug)]
struct Entry {
    key: Span,
    /// None: there is a value, but a problem with it was told.
    value: Option<At<Value>>,
}

impl Section {
    /// A section without keys, as if written by ourselves.
    pub(super) fn empty(place: Place, name: &str) -> Self {
        Section { place, name: name.to_owned(), header: 0..0, entries: BTreeMap::new() }
    }

    /// The same section with `value` for `name`.
    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        let value = Some(At { value, span: 0..0 });
        self.entries.insert(name, Entry { key: 0..0, value });
        self
    }

    /// Reads the table of a `reply`.
    pub(super) fn read_reply(
        header: Span,
        table: &DeTable<'_>,
        problems: &mut Vec<Problem>,
    ) -> Section {
        let mut section = Section { header, ..Section::empty(Place::Reply, "") };
        section.read(table, problems);
        section
    }

    /// Whether the file has this key, with a good value or a bad one.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Where the key stands, if the file has it.
    pub(super) fn key_span(&self, name: &str) -> Option<&Span> {
        self.entries.get(name).map(|entry| &entry.key)
    }

    /// The good value that the file gives.
    pub(super) fn given(&self, name: &str) -> Option<&At<Value>> {
        self.entries.get(name)?.value.as_ref()
    }

    /// The value that holds: what the file gives, or the default. None when the key is off, when
    /// its default depends on other keys, or when its value is bad.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        match self.entries.get(name) {
            Some(entry) => entry.value.as_ref().map(|at| at.value.clone()),
            None => default_of(self.key(name)),
        }
    }

    /// Names of the keys that are there, in alphabetical order, with their places.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&'static str, &Span)> {
        self.entries.iter().map(|(name, entry)| (*name, &entry.key))
    }

    fn key(&self, name: &str) -> &'static Key {
        table::find(self.place, name).expect("the table has each key that the code asks for")
    }

    fn read(&mut self, table: &DeTable<'_>, problems: &mut Vec<Problem>) {
        for (name, found) in table {
            let is_section =
                self.place == Place::Top && SECTIONS.contains(&name.get_ref().as_ref());
            if is_section {
                continue;
            }
            match table::find(self.place, name.get_ref()) {
                Some(key) => {
                    let value = value::read(key, found, problems);
                    let value = value.map(|value| At { value, span: found.span() });
                    self.entries.insert(key.name, Entry { key: name.span(), value });
                }
                None => {
                    problems.push(unknown(self.place, name.get_ref(), &name.span()));
                    self.take_for_meant(name.get_ref(), name.span());
                }
            }
        }
    }

    /// The key that was probably meant is there, with a problem that was told: it is not missing.
    fn take_for_meant(&mut self, name: &str, span: Span) {
        let names = table::keys_of(self.place).map(|key| key.name);
        if let Some(key) = nearest(name, names).and_then(|near| table::find(self.place, near)) {
            self.entries.entry(key.name).or_insert(Entry { key: span, value: None });
        }
    }

    /// Tells which required keys are missing.
    pub(super) fn demand(&self, problems: &mut Vec<Problem>) {
        for key in table::keys_of(self.place) {
            if let (Preset::Required(example), false) = (key.preset, self.has(key.name)) {
                let title = format!("`{}` is missing", key.name);
                let label = match self.place {
                    Place::Reply => "this reply needs it",
                    Place::Listener => "this listener needs it",
                    _ => "this section needs it",
                };
                problems.push(
                    Problem::error(title)
                        .at(&self.header, label)
                        .note(key.note())
                        .mend(format!("add {} = {example}", key.name)),
                );
            }
        }
    }
}

/// The default of `key` as a value; none when it has none or a derived one.
pub(super) fn default_of(key: &Key) -> Option<Value> {
    let Preset::Is(text) = key.preset else { return None };
    let found = DeValue::parse(text).expect("each default of the table is TOML");
    let value = value::read(key, &found, &mut Vec::new());
    Some(value.expect("each default of the table is within its range"))
}

/// Reads every section below `table`.
pub(super) fn read(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Raw {
    let mut top = Section::empty(Place::Top, "");
    top.read(table, problems);
    let listeners = named(table, "listener", Place::Listener, problems);
    let pools = named(table, "pool", Place::Pool, problems);
    let routes = routes(table, problems);
    let lost = table.iter().any(|(name, found)| match name.get_ref().as_ref() {
        "listener" => listeners.is_empty(),
        "pool" => pools.is_empty(),
        "route" => routes.is_empty(),
        name => found.get_ref().is_table() && !SECTIONS.contains(&name),
    });
    Raw {
        top,
        spill: single(table, "spill", Place::Spill, problems),
        listeners,
        pools,
        routes,
        access_log: single(table, "access_log", Place::AccessLog, problems),
        admin: single(table, "admin", Place::Admin, problems),
        lost,
    }
}

/// Reads a section that a file has once, such as `[spill]`.
fn single(
    table: &DeTable<'_>,
    name: &str,
    place: Place,
    problems: &mut Vec<Problem>,
) -> Option<Section> {
    let (key, found) = table.get_key_value(name)?;
    let Some(inner) = found.get_ref().as_table() else {
        problems.push(
            Problem::error(format!("`{name}` is a section"))
                .at(&key.span(), "not a value or a list of sections")
                .mend(format!("write [{name}] on a line of its own, and its keys below")),
        );
        return None;
    };
    let mut section = Section { header: key.span(), ..Section::empty(place, "") };
    section.read(inner, problems);
    Some(section)
}

/// Reads the sections of `[listener.NAME]` or `[pool.NAME]`.
fn named(
    table: &DeTable<'_>,
    kind: &str,
    place: Place,
    problems: &mut Vec<Problem>,
) -> Vec<Section> {
    let Some((key, found)) = table.get_key_value(kind) else { return Vec::new() };
    let nameless = |span: &Span| {
        Problem::error(format!("each {kind} needs a name"))
            .at(span, "the name is missing")
            .mend(format!("write [{kind}.main], and the keys below"))
    };
    let Some(inner) = found.get_ref().as_table() else {
        problems.push(nameless(&key.span()));
        return Vec::new();
    };
    if inner.len() > SECTIONS_MAX {
        problems.push(
            Problem::error(format!("more than {SECTIONS_MAX} sections of {kind}"))
                .at(&key.span(), format!("{} of them", inner.len())),
        );
        return Vec::new();
    }
    let known = |name: &str| table::find(place, name).is_some();
    let mut sections = Vec::new();
    for (name, found) in inner {
        match found.get_ref().as_table() {
            Some(keys) => {
                check_name(kind, name.get_ref(), &name.span(), problems);
                let name_text = name.get_ref().to_string();
                let mut section =
                    Section { header: name.span(), ..Section::empty(place, &name_text) };
                section.read(keys, problems);
                sections.push(section);
            }
            None if known(name.get_ref()) => problems.push(nameless(&name.span())),
            None => problems.push(
                Problem::error(format!("`{kind}.{}` is not a section", shown(name.get_ref())))
                    .at(&found.span(), "a section is needed")
                    .mend(format!("write [{kind}.NAME], and the keys below")),
            ),
        }
    }
    sections.sort_by_key(|section| section.header.start);
    sections
}

fn check_name(kind: &str, name: &str, span: &Span, problems: &mut Vec<Problem>) {
    if let Err(fault) = text::name(name) {
        problems.push(
            Problem::error(format!("a {kind} cannot have the name \"{}\"", shown(name)))
                .at(span, fault.what)
                .mend_if(fault.mend.map(|right| format!("write [{kind}.{right}]"))),
        );
    }
}

/// Reads the sections of `[[route]]`.
fn routes(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Vec<Section> {
    let Some((key, found)) = table.get_key_value("route") else { return Vec::new() };
    let Some(list) = found.get_ref().as_array().filter(|list| list.len() <= SECTIONS_MAX) else {
        let title = match found.get_ref().as_array() {
            Some(_) => format!("more than {SECTIONS_MAX} routes"),
            None => "routes are a list".to_owned(),
        };
        let problem = Problem::error(title).at(&key.span(), "this is not how one is written");
        problems.push(problem.mend("write [[route]] with two brackets, once for each route"));
        return Vec::new();
    };
    let mut sections = Vec::new();
    for entry in list {
        let Some(inner) = entry.get_ref().as_table() else {
            problems.push(not_a_route(entry));
            continue;
        };
        let mut section = Section { header: entry.span(), ..Section::empty(Place::Route, "") };
        section.read(inner, problems);
        sections.push(section);
    }
    sections
}

fn not_a_route(entry: &Found<'_>) -> Problem {
    Problem::error("a route is a section")
        .at(&entry.span(), "this is not")
        .mend("write [[route]] on a line of its own, and its keys below")
}

/// The problem of a key that the table does not have.
fn unknown(place: Place, name: &str, span: &Span) -> Problem {
    let sections = if place == Place::Top { &SECTIONS[..] } else { &[] };
    let words = || table::keys_of(place).map(|key| key.name).chain(sections.iter().copied());
    let problem = Problem::error(format!("unknown key `{}`", shown(name)))
        .at(span, format!("not a key of {}", place.title()));
    if let Some(near) = nearest(name, words()) {
        return problem.mend(format!("did you mean `{near}`?"));
    }
    let elsewhere: Vec<&str> = Place::ALL
        .into_iter()
        .filter(|other| *other != place && table::find(*other, name).is_some())
        .map(Place::title)
        .collect();
    if !elsewhere.is_empty() {
        let places = one_of(elsewhere, '`');
        return problem.mend(format!("`{name}` is a key of {places}: move it there"));
    }
    let mut known: Vec<&str> = words().collect();
    if known.len() > LISTED_MAX {
        return problem.mend("see docs/config.md for the keys of this section");
    }
    known.sort_unstable();
    problem.note(format!("keys of this section: {}", known.join(", ")))
}
