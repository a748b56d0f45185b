//! One value of the file: from TOML to a checked value, as its record demands.
//!
//! Everything that can be said about a value alone is said here: type, unit, range, form. What
//! depends on other keys is said in `check.rs`.

use std::path::PathBuf;
use std::time::Duration;

use spillgate_core::gate::Class;
use spillgate_core::units::{ByteSize, Ratio, Weight};
use spillgate_proxy::settings::CallerClasses;
use spillgate_runtime::http::settings::{Endpoint, TrustedFrom};
use toml::Spanned;
use toml::de::DeValue;

use super::key::{Key, Kind, one_of};
use super::many;
use super::problem::{Problem, Span, shown};
use super::raw::Section;
use super::text::{self, Role};
use super::unit::{self, Fault};

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
    /// With their weights.
    Endpoints(Vec<At<Endpoint>>, Vec<Weight>),
    TrustedFrom(TrustedFrom),
    Folders(Vec<At<PathBuf>>),
    Command(Vec<String>),
    Environment(Vec<(String, String)>),
    Classes(Vec<(String, Class)>),
    Callers(CallerClasses),
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
        Kind::Workers => return many::workers(key, found, problems),
        Kind::Endpoints => return many::endpoints(key, found, problems),
        Kind::TrustedFrom => return many::trusted_from(key, found, problems),
        Kind::Folders => return many::folders(key, found, problems),
        Kind::Command => return many::command(key, found, problems),
        Kind::Environment => return many::environment(key, found, problems),
        Kind::Classes => return many::classes(key, found, problems),
        Kind::Callers => return many::callers(key, found, problems),
        Kind::Reply => return many::reply(key, found, problems),
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
            let value = unit::duration(text)?;
            in_range(value, (min, max), unit::duration_text).map(Value::Duration)
        }
        Kind::Size { min, max } => {
            in_range(unit::size(text)?, (min, max), |size| size.to_string()).map(Value::Size)
        }
        Kind::Rate { min, max } => {
            let value = unit::rate(text)?;
            in_range(value, (min, max), |rate| format!("{rate}/s")).map(Value::Size)
        }
        Kind::Share { min, max } => {
            in_range(unit::share(text)?, (min, max), unit::ratio_text).map(Value::Share)
        }
        Kind::Choice(words) => choice(words, text).map(Value::Word),
        Kind::Address | Kind::AddressOrOff => {
            text::endpoint(text, Role::Listen).map(Value::Endpoint)
        }
        Kind::SocketFile => text::socket_file(text).map(Value::Path),
        Kind::Path | Kind::Log => text::path(text).map(Value::Path),
        Kind::Host => text::host(text).map(Value::Text),
        Kind::UrlPath => text::url_path(text).map(Value::Text),
        Kind::ContentType => text::content_type(text).map(Value::Text),
        Kind::FieldName => text::field_name(text).map(Value::Text),
        _ => Ok(Value::Text(text.to_owned())),
    }
}

/// `value`, if it is not below `min` and not above `max`; `shown` writes a bound as the file does.
fn in_range<T: PartialOrd + Copy>(
    value: T,
    (min, max): (T, T),
    shown: impl Fn(T) -> String,
) -> Result<T, Fault> {
    if value < min {
        return Err(Fault::with_mend("below the least", shown(min)));
    }
    if value > max {
        return Err(Fault::with_mend("above the most", shown(max)));
    }
    Ok(value)
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
        .map(|word| (distance(&text, word), word))
        .filter(|(distance, word)| *distance <= word.len().max(text.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How far two words are apart: `max_connections` is `connections_max` said by somebody else.
fn distance(one: &str, other: &str) -> usize {
    let parts = |word: &str| {
        let mut parts: Vec<String> = word.split('_').map(str::to_owned).collect();
        parts.sort_unstable();
        parts
    };
    match parts(one) == parts(other) {
        true => 0,
        false => strsim::damerau_levenshtein(one, other),
    }
}

/// A problem of the value of `key`: its note tells type, range and default.
pub(super) fn problem(key: &Key, title: String, span: &Span, label: impl Into<String>) -> Problem {
    Problem::error(title).at(span, label).note(key.note())
}

fn faulty(key: &Key, found: &Found<'_>, text: &str, fault: Fault) -> Problem {
    let title = format!("`{}` cannot be \"{}\"", key.name, shown(text));
    problem(key, title, &found.span(), fault.what)
        .mend_if(fault.mend.map(|right| format!("write \"{}\"", shown(&right))))
}

/// The text of `found`, or the problem that it is none.
pub(super) fn text_of<'a>(key: &Key, found: &'a Found<'_>) -> Result<&'a str, Problem> {
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

pub(super) fn wrong_type(key: &Key, found: &Found<'_>, wanted: &str, for_list: &str) -> Problem {
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
        count => {
            let below = number.as_str().starts_with('-') || count.is_ok_and(|count| count < min);
            let title = format!("`{}` cannot be {}", key.name, shown(&number.to_string()));
            let (label, bound) =
                if below { ("below the least", min) } else { ("above the most", max) };
            Err(problem(key, title, &found.span(), label).mend(format!("write {bound}")))
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
