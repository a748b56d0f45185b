//! One value of the file: from TOML to a checked value, as its record demands.
//!
//! Everything that can be said about a value alone is said here: type, unit, range, form. What
//! depends on other keys is said in `check.rs`.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use spillgate_core::units::{ByteSize, Ratio};
use spillgate_runtime::http::settings::Endpoint;
use toml::Spanned;
use toml::de::DeValue;

use super::key::{Key, Kind, one_of};
use super::problem::{Problem, Span, shown};
use super::raw::Section;
use super::text::{self, Role};
use super::unit::{self, Fault};

/// Most entries of a list or table of values.
const ENTRIES_MAX: usize = 4096;

/// A checked value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// `"off"`.
    Off,
    Duration(Duration),
    Size(ByteSize),
    Share(Ratio),
    Count(u64),
    Flag(bool),
    Word(&'static str),
    Text(String),
    Path(PathBuf),
    Endpoint(Endpoint),
    Endpoints(Vec<At<Endpoint>>),
    Networks(Vec<IpNet>),
    Folders(Vec<At<PathBuf>>),
    Command(Vec<String>),
    Environment(Vec<(String, String)>),
    Reply(Box<Section>),
}

impl Value {
    /// The duration, if it is one.
    pub(super) fn as_duration(&self) -> Option<Duration> {
        if let Value::Duration(duration) = self { Some(*duration) } else { None }
    }

    /// The size, if it is one.
    pub(super) fn as_size(&self) -> Option<ByteSize> {
        if let Value::Size(size) = self { Some(*size) } else { None }
    }

    /// The share, if it is one.
    pub(super) fn as_share(&self) -> Option<Ratio> {
        if let Value::Share(share) = self { Some(*share) } else { None }
    }

    /// The whole number, if it is one.
    pub(super) fn as_count(&self) -> Option<u64> {
        if let Value::Count(count) = self { Some(*count) } else { None }
    }

    /// The truth, if it is one.
    pub(super) fn as_flag(&self) -> Option<bool> {
        if let Value::Flag(flag) = self { Some(*flag) } else { None }
    }

    /// The text, if it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The path, if it is one.
    pub(super) fn as_path(&self) -> Option<&PathBuf> {
        if let Value::Path(path) = self { Some(path) } else { None }
    }

    /// The address, if it is one.
    pub(super) fn as_endpoint(&self) -> Option<&Endpoint> {
        if let Value::Endpoint(endpoint) = self { Some(endpoint) } else { None }
    }
}

/// Something, and where the file says it.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// A value of the file as TOML gives it.
pub(super) type Found<'a> = Spanned<DeValue<'a>>;

/// Checks `found` against the record of its key; what is wrong goes to `problems`.
pub(super) fn read(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let result = match key.kind {
        Kind::Endpoints => return endpoints(key, found, problems),
        Kind::Networks => return networks(key, found, problems),
        Kind::Folders => return folders(key, found, problems),
        Kind::Command => return command(key, found, problems),
        Kind::Environment => return environment(key, found, problems),
        Kind::Reply => return reply(key, found, problems),
        Kind::Count { min, max } => count(key, found, min, max),
        Kind::Flag => flag(key, found),
        _ => text_of(key, found).and_then(|text| {
            one_text(key.kind, text).map_err(|fault| faulty(key, found, text, fault))
        }),
    };
    result.map_err(|problem| problems.push(problem)).ok()
}

/// The kinds that the file writes as one text.
fn one_text(kind: Kind, text: &str) -> Result<Value, Fault> {
    match kind {
        Kind::DurationOrOff { .. } | Kind::AddressOrOff if text == "off" => Ok(Value::Off),
        Kind::Duration { min, max } | Kind::DurationOrOff { min, max } => {
            in_range(unit::duration(text)?, min, max).map(Value::Duration)
        }
        Kind::Size { min, max } => in_range(unit::size(text)?, min, max).map(Value::Size),
        Kind::Rate { min, max } => in_range(unit::rate(text)?, min, max).map(Value::Size),
        Kind::Share { min, max } => {
            let (low, high) = (u64::from(min.as_ppm()), u64::from(max.as_ppm()));
            let ppm = in_range(unit::share(text)?, low, high)?;
            let ppm = u32::try_from(ppm).map_err(|_| Fault::new("out of range"))?;
            Ok(Value::Share(Ratio::from_ppm(ppm)))
        }
        Kind::Choice(words) => choice(words, text).map(Value::Word),
        Kind::Address | Kind::AddressOrOff => {
            text::endpoint(text, Role::Listen).map(Value::Endpoint)
        }
        Kind::Path | Kind::Log => text::path(text).map(Value::Path),
        Kind::Host => text::host(text).map(Value::Text),
        Kind::UrlPath => text::url_path(text).map(Value::Text),
        Kind::ContentType => text::content_type(text).map(Value::Text),
        _ => Ok(Value::Text(text.to_owned())),
    }
}

fn in_range<T: PartialOrd>(value: T, min: T, max: T) -> Result<T, Fault> {
    if value < min || value > max { Err(Fault::new("out of range")) } else { Ok(value) }
}

fn choice(words: &'static [&'static str], text: &str) -> Result<&'static str, Fault> {
    if let Some(word) = words.iter().find(|word| **word == text) {
        return Ok(word);
    }
    let what = format!("not {}", one_of(words.iter().copied(), '`'));
    Err(match nearest(text, words.iter().copied()) {
        Some(word) => Fault::with_mend(what, word),
        None => Fault::new(what),
    })
}

/// The nearest of `words`, if it is near enough to be meant.
pub(super) fn nearest<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text: String = text.chars().take(64).flat_map(char::to_lowercase).collect();
    words
        .map(|word| (strsim::damerau_levenshtein(&text, word), word))
        .filter(|(distance, word)| *distance <= word.len().max(text.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A problem of the value of `key`: its note tells type, range and default.
fn problem(key: &Key, title: String, span: &Span, label: impl Into<String>) -> Problem {
    Problem::error(title).at(span, label).note(key.note())
}

fn faulty(key: &Key, found: &Found<'_>, text: &str, fault: Fault) -> Problem {
    let title = format!("`{}` cannot be \"{}\"", key.name, shown(text));
    problem(key, title, &found.span(), fault.what)
        .mend_if(fault.mend.map(|right| format!("write \"{}\"", shown(&right))))
}

/// The text of `found`, or the problem that it is none.
fn text_of<'a>(key: &Key, found: &'a Found<'_>) -> Result<&'a str, Problem> {
    found.get_ref().as_str().ok_or_else(|| {
        let number = match found.get_ref() {
            DeValue::Integer(n) => Some(n.to_string()),
            DeValue::Float(n) => Some(n.as_str().to_owned()),
            _ => None,
        };
        match number.and_then(|number| with_unit(key.kind, &number)) {
            Some(mend) => {
                let title = format!("`{}` needs a unit", key.name);
                problem(key, title, &found.span(), "a number without a unit").mend(mend)
            }
            None => wrong_type(key, found, "a text in quotes", "take one entry, without brackets"),
        }
    })
}

/// How to write a bare number with its unit; none for kinds without one.
fn with_unit(kind: Kind, number: &str) -> Option<String> {
    match kind {
        Kind::Duration { .. } | Kind::DurationOrOff { .. } if number == "0" => {
            Some("write \"0s\"".into())
        }
        Kind::Duration { .. } | Kind::DurationOrOff { .. } => Some(format!(
            "write \"{number}s\" for seconds, or \"{number}ms\" for thousandths of a second"
        )),
        Kind::Size { .. } if number == "0" => Some("write \"0B\"".into()),
        Kind::Size { .. } => Some(format!(
            "write \"{number}B\" for bytes, \"{number}KiB\" or \"{number}MiB\" for more"
        )),
        Kind::Rate { .. } => Some(format!("write \"{number}B/s\" for bytes a second")),
        Kind::Share { .. } => {
            let percent = unit::fraction_as_percent(number);
            Some(format!("write \"{}\"", percent.unwrap_or(format!("{number}%"))))
        }
        _ => None,
    }
}

fn wrong_type(key: &Key, found: &Found<'_>, wanted: &str, for_list: &str) -> Problem {
    let is = match found.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let title = format!("`{}` takes {wanted}", key.name);
    let problem = problem(key, title, &found.span(), format!("this is {is}"));
    match found.get_ref() {
        DeValue::Array(_) if !for_list.is_empty() => problem.mend(for_list),
        _ => problem,
    }
}

fn count(key: &Key, found: &Found<'_>, min: u64, max: u64) -> Result<Value, Problem> {
    let number = match found.get_ref() {
        DeValue::Integer(number) => number,
        DeValue::String(text) if text.parse::<u64>().is_ok() => {
            return Err(wrong_type(key, found, "a whole number", "")
                .mend(format!("write {text}, without quotes")));
        }
        _ => return Err(wrong_type(key, found, "a whole number", "")),
    };
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(count) if (min..=max).contains(&count) => Ok(Value::Count(count)),
        _ => {
            let title = format!("`{}` cannot be {}", key.name, shown(&number.to_string()));
            Err(problem(key, title, &found.span(), "out of range"))
        }
    }
}

fn flag(key: &Key, found: &Found<'_>) -> Result<Value, Problem> {
    if let DeValue::Boolean(flag) = found.get_ref() {
        return Ok(Value::Flag(*flag));
    }
    let meant = match found.get_ref().as_str().map(str::to_lowercase).as_deref() {
        Some("true" | "yes" | "on") => Some("write true, without quotes".to_owned()),
        Some("false" | "no" | "off") => Some("write false, without quotes".to_owned()),
        _ => None,
    };
    Err(wrong_type(key, found, "true or false", "").mend_if(meant))
}

/// Reads a list of texts, each through `one`. All faults of all entries are told.
fn list<T>(
    key: &Key,
    found: &Found<'_>,
    problems: &mut Vec<Problem>,
    one: impl Fn(&str) -> Result<T, Fault>,
) -> Option<Vec<At<T>>> {
    let Some(array) = found.get_ref().as_array() else {
        let single = found.get_ref().as_str();
        let mend = single.map(|text| format!("write [\"{}\"]", shown(text)));
        problems.push(wrong_type(key, found, "a list", "").mend_if(mend));
        return None;
    };
    if array.len() > ENTRIES_MAX {
        let title = format!("`{}` has more than {ENTRIES_MAX} entries", key.name);
        problems.push(problem(key, title, &found.span(), format!("{} entries", array.len())));
        return None;
    }
    let before = problems.len();
    let mut entries = Vec::new();
    for entry in array {
        let span = entry.span();
        match text_of(key, entry) {
            Ok(text) => match one(text) {
                Ok(value) => entries.push(At { value, span }),
                Err(fault) => problems.push(faulty_entry(key, entry, text, fault)),
            },
            Err(_) => problems.push(wrong_type(key, entry, "texts in quotes", "")),
        }
    }
    (problems.len() == before).then_some(entries)
}

fn faulty_entry(key: &Key, entry: &Found<'_>, text: &str, fault: Fault) -> Problem {
    let title = format!("`{}` cannot hold \"{}\"", key.name, shown(text));
    problem(key, title, &entry.span(), fault.what)
        .mend_if(fault.mend.map(|right| format!("write \"{}\"", shown(&right))))
}

/// A list that must have an entry.
fn filled<T>(
    key: &Key,
    found: &Found<'_>,
    problems: &mut Vec<Problem>,
    one: impl Fn(&str) -> Result<T, Fault>,
) -> Option<Vec<At<T>>> {
    let entries = list(key, found, problems, one)?;
    if entries.is_empty() {
        let title = format!("`{}` is empty", key.name);
        problems.push(problem(key, title, &found.span(), "at least one entry is needed"));
        return None;
    }
    Some(entries)
}

fn endpoints(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let one = |text: &str| text::endpoint(text, Role::Worker);
    filled(key, found, problems, one).map(Value::Endpoints)
}

fn networks(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let entries = list(key, found, problems, text::network)?;
    Some(Value::Networks(entries.into_iter().map(|entry| entry.value).collect()))
}

fn folders(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    filled(key, found, problems, text::path).map(Value::Folders)
}

fn command(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    if let Some(line) = found.get_ref().as_str().filter(|line| line.contains(' ')) {
        let words: Vec<String> = line.split_whitespace().map(|w| format!("{w:?}")).collect();
        let mend = format!("write [{}]", shown(&words.join(", ")));
        problems.push(wrong_type(key, found, "a list", "").mend(mend));
        return None;
    }
    let one = |text: &str| match text.contains('\0') {
        true => Err(Fault::new("a zero byte cannot be part of an argument")),
        false => Ok(text.to_owned()),
    };
    let words = filled(key, found, problems, one)?;
    if words[0].value.is_empty() {
        let title = "`command` begins with an empty text".to_owned();
        problems.push(problem(key, title, &words[0].span, "the program is needed here"));
        return None;
    }
    Some(Value::Command(words.into_iter().map(|word| word.value).collect()))
}

fn environment(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let Some(table) = found.get_ref().as_table() else {
        problems.push(
            wrong_type(key, found, "a table of texts", "")
                .mend("write { NAME = \"value\" }, or a section of its own below the other keys"),
        );
        return None;
    };
    let before = problems.len();
    let mut pairs = Vec::new();
    for (name, value) in table {
        if let Err(fault) = text::variable(name.get_ref()) {
            let title = format!("`environment` cannot hold `{}`", shown(name.get_ref()));
            problems.push(problem(key, title, &name.span(), fault.what));
        }
        match value.get_ref() {
            DeValue::String(text) if !text.contains('\0') => {
                pairs.push((name.span().start, (name.get_ref().to_string(), text.to_string())));
            }
            DeValue::Integer(number) => problems.push(
                wrong_type(key, value, "texts in quotes", "").mend(format!("write \"{number}\"")),
            ),
            _ => problems.push(wrong_type(key, value, "texts in quotes", "")),
        }
    }
    pairs.sort_by_key(|(start, _)| *start);
    let pairs = pairs.into_iter().map(|(_, pair)| pair).collect();
    (problems.len() == before).then_some(Value::Environment(pairs))
}

fn reply(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let Some(table) = found.get_ref().as_table() else {
        let mend = match found.get_ref() {
            DeValue::Integer(status) => Some(format!("write {{ status = {status} }}")),
            _ => Some("write { status = 200, body = \"…\" }".to_owned()),
        };
        problems.push(wrong_type(key, found, "a table", "").mend_if(mend));
        return None;
    };
    let before = problems.len();
    let section = Section::read_reply(found.span(), table, problems);
    (problems.len() == before).then(|| Value::Reply(Box::new(section)))
}
