//! Values of the file that hold several: lists, tables of texts, and the table of a reply.
//!
//! Every entry is looked at, so that all faults of a list are told at once.

use spillgate_core::gate::Class;
use spillgate_core::units::Weight;
use spillgate_proxy::settings::{CallerClass, CallerClasses};
use spillgate_runtime::http::settings::{Endpoint, TrustedFrom};
use toml::de::{DeTable, DeValue};

use super::key::Key;
use super::problem::{Problem, shown};
use super::raw::Section;
use super::text::{self, Role};
use super::unit::Fault;
use super::value::{At, Found, Value, nearest, problem, text_of, wrong_type};

/// Most entries of a list or table of values.
const ENTRIES_MAX: usize = 4096;

pub(super) fn endpoints(
    key: &Key,
    found: &Found<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Value> {
    let one = |text: &str| text::endpoint(text, Role::Worker);
    let entries = filled(key, found, problems, one)?;
    let weights = vec![Weight::ONE; entries.len()];
    Some(Value::Endpoints(entries, weights))
}

/// Reads a list of endpoints, each a text, or a table with its weight.
pub(super) fn workers(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let array = found.get_ref().as_array();
    let Some(array) = array.filter(|all| all.iter().any(|one| one.get_ref().is_table())) else {
        return endpoints(key, found, problems);
    };
    if array.len() > ENTRIES_MAX {
        let title = format!("`{}` has more than {ENTRIES_MAX} entries", key.name);
        problems.push(problem(key, title, &found.span(), format!("{} entries", array.len())));
        return None;
    }
    let read: Vec<_> = array.iter().map(|entry| worker(key, entry, problems)).collect();
    let read: Option<Vec<_>> = read.into_iter().collect();
    let (entries, weights) = read?.into_iter().unzip();
    Some(Value::Endpoints(entries, weights))
}

fn worker(
    key: &Key,
    entry: &Found<'_>,
    problems: &mut Vec<Problem>,
) -> Option<(At<Endpoint>, Weight)> {
    let before = problems.len();
    let (mut address, mut weight) = (Some(entry), Weight::ONE);
    if let Some(table) = entry.get_ref().as_table() {
        address = None;
        for (name, value) in table {
            match name.get_ref().as_ref() {
                "address" => address = Some(value),
                "weight" => match weight_of(value) {
                    Some(read) => weight = read,
                    None => {
                        let label = "a whole number from 1 to 256 is needed";
                        let title = "not a weight".to_owned();
                        problems.push(problem(key, title, &value.span(), label));
                    }
                },
                other => {
                    let title = format!("`{}` cannot hold `{}`", key.name, shown(other));
                    let label = "an endpoint has an `address` and a `weight`";
                    problems.push(problem(key, title, &name.span(), label));
                }
            }
        }
    }
    let Some(address) = address else {
        let title = "an endpoint has no address".to_owned();
        let problem = problem(key, title, &entry.span(), "`address` is missing");
        problems.push(problem.mend("write { address = \"127.0.0.1:9000\", weight = 2 }"));
        return None;
    };
    let found = match text_of(key, address) {
        Ok(text) => {
            let read = text::endpoint(text, Role::Worker);
            read.map_err(|fault| problems.push(faulty_entry(key, address, text, fault))).ok()
        }
        Err(_) => {
            problems.push(wrong_type(key, address, "texts in quotes, or tables", ""));
            None
        }
    };
    let endpoint = found.filter(|_| problems.len() == before)?;
    Some((At { value: endpoint, span: address.span() }, weight))
}

fn weight_of(found: &Found<'_>) -> Option<Weight> {
    let DeValue::Integer(number) = found.get_ref() else { return None };
    Weight::new(u32::from_str_radix(number.as_str(), number.radix()).ok()?)
}

pub(super) fn trusted_from(
    key: &Key,
    found: &Found<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Value> {
    let entries = list(key, found, problems, text::trusted)?;
    let unix = entries.iter().any(|entry| entry.value.is_none());
    let networks = entries.into_iter().filter_map(|entry| entry.value).collect();
    Some(Value::TrustedFrom(TrustedFrom { networks, unix, unsaid: false }))
}

pub(super) fn folders(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    filled(key, found, problems, text::path).map(Value::Folders)
}

pub(super) fn command(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
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

pub(super) fn environment(
    key: &Key,
    found: &Found<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Value> {
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

pub(super) fn classes(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let Some(table) = found.get_ref().as_table() else {
        let mend = "write { POST = \"critical\", HEAD = \"bulk\" }";
        problems.push(wrong_type(key, found, "a table of methods and classes", "").mend(mend));
        return None;
    };
    methods(key, table, problems).map(Value::Classes)
}

/// Reads a table of methods and classes.
fn methods(
    key: &Key,
    table: &DeTable<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<(String, Class)>> {
    let before = problems.len();
    let mut pairs = Vec::new();
    for (method, value) in table {
        let name = method.get_ref();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_uppercase()) {
            let title = format!("`{}` cannot hold `{}`", key.name, shown(name));
            let problem = problem(key, title, &method.span(), "not a method in capital letters");
            problems.push(problem.mend(format!("write {}", shown(&name.to_ascii_uppercase()))));
        }
        if let Some(class) = class(key, value, problems) {
            pairs.push((name.to_string(), class));
        }
    }
    (problems.len() == before).then_some(pairs)
}

fn class(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Class> {
    let all = "write \"critical\", \"normal\", \"degraded\" or \"bulk\"";
    let Some(word) = found.get_ref().as_str() else {
        problems.push(wrong_type(key, found, "classes", "").mend(all));
        return None;
    };
    let class = Class::from_word(word.as_bytes());
    if class.is_none() {
        let title = format!("`{}` cannot hold \"{}\"", key.name, shown(word));
        let near = nearest(word, Class::ALL.into_iter().map(Class::name));
        let mend = near.map_or(all.to_owned(), |near| format!("write \"{near}\""));
        problems.push(problem(key, title, &found.span(), "not a class").mend(mend));
    }
    class
}

/// Reads a table of callers, each with its class, or with a table of methods and classes.
pub(super) fn callers(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
    let Some(table) = found.get_ref().as_table() else {
        let mend = "write { checkout = \"critical\", reports = \"bulk\" }";
        problems.push(wrong_type(key, found, "a table of callers and classes", "").mend(mend));
        return None;
    };
    let before = problems.len();
    let mut callers = Vec::new();
    for (caller, value) in table {
        let name = caller.get_ref();
        if let Err(fault) = text::caller(name) {
            let title = format!("`{}` cannot hold `{}`", key.name, shown(name));
            problems.push(problem(key, title, &caller.span(), fault.what));
        }
        let class = match value.get_ref() {
            DeValue::Table(table) => methods(key, table, problems).map(CallerClass::ByMethod),
            _ => class(key, value, problems).map(CallerClass::Any),
        };
        callers.extend(class.map(|class| (name.to_string(), class)));
    }
    (problems.len() == before).then(|| Value::Callers(CallerClasses::new(callers)))
}

pub(super) fn reply(key: &Key, found: &Found<'_>, problems: &mut Vec<Problem>) -> Option<Value> {
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
