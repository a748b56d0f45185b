//! The grammar of the file: every syntax error, with a mend for the common ones.
//!
//! The grammar itself is the `toml` crate's. After a syntax error the parser guesses how to go on,
//! so of what it then finds only problems in lines without a syntax error are told, none behind a
//! broken header, and nothing about missing keys or about keys that do not go together.

use std::collections::BTreeSet;

use toml::de::DeTable;

use super::problem::{Problem, Span, shown};
use super::raw::{self, Raw};

/// Most syntax errors that are told; after so many the parser only guesses.
const ERRORS_MAX: usize = 100;

/// Parses `text` and checks each value alone. None: there is a syntax error.
pub(super) fn parse(text: &str, problems: &mut Vec<Problem>) -> Option<Raw> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    let raw = raw::read(table.get_ref(), &mut found);
    if errors.is_empty() {
        problems.append(&mut found);
        return Some(raw);
    }
    let mut bad_lines = BTreeSet::new();
    // Behind a broken header, keys seem to stand in the section before it.
    let mut known_until = text.len();
    for error in errors.iter().take(ERRORS_MAX) {
        let span = error.span().unwrap_or(0..0);
        let line = line_of(text, span.start);
        if text[line.clone()].starts_with('[') {
            known_until = known_until.min(line.start);
        }
        if bad_lines.insert(line.start) {
            problems.push(problem(text, &line, &span, error.message()));
        }
    }
    found.retain(|problem| {
        let start = problem.start();
        start < known_until && !bad_lines.contains(&line_of(text, start).start)
    });
    problems.append(&mut found);
    None
}

fn problem(text: &str, line: &Span, span: &Span, message: &str) -> Problem {
    let message = message.lines().next().unwrap_or(message);
    if message.contains("duplicate key")
        && let Some(first) = first_of(text, line, span)
    {
        let header = text[line.clone()].trim();
        let key = if header.starts_with('[') { header } else { &text[span.clone()] };
        return Problem::error(format!("`{}` is there twice", shown(key)))
            .at(span, "again here")
            .at(&first, "first here")
            .mend("keep one of the two");
    }
    Problem::error("this is not TOML")
        .at(span, shown(message))
        .mend_if(mend(&text[line.clone()], message))
}

/// Where the key at `span` in `line` stands for the first time: another such header, or another
/// such line of the same section. None: it is written in another way there.
fn first_of(text: &str, line: &Span, span: &Span) -> Option<Span> {
    let key = text.get(span.clone())?;
    let is_header = text[line.clone()].starts_with('[');
    let mut found = None;
    let mut start = 0;
    for other in text[..line.start].split_inclusive('\n') {
        let trimmed = other.trim();
        let indent = other.len() - other.trim_start().len();
        if is_header && trimmed == text[line.clone()].trim() {
            let at = start + indent + (span.start - line.start);
            return Some(at..at + key.len());
        }
        if !is_header && trimmed.starts_with('[') {
            found = None;
        }
        if !is_header && other.split_once('=').is_some_and(|(name, _)| name.trim() == key) {
            let at = start + indent;
            found = found.or(Some(at..at + key.len()));
        }
        start += other.len();
    }
    found
}

/// The line around `at`, without its end.
fn line_of(text: &str, at: usize) -> Span {
    let at = text.floor_char_boundary(at);
    let start = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let end = text[at..].find('\n').map_or(text.len(), |n| at + n);
    start..end
}

/// How to write `line`, if it looks like one of the usual slips.
fn mend(line: &str, message: &str) -> Option<String> {
    if message.contains("duplicate key") {
        return Some("keep one of the two".into());
    }
    if message.contains("invalid basic string") {
        return Some("end the text with `\"`".into());
    }
    if message.contains("unclosed table") {
        return Some("end the header with `]`".into());
    }
    if message.starts_with("key with no value") || message.starts_with("invalid key-value pair") {
        return Some("a line is `key = value`, or a header such as `[pool.app]`".into());
    }
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let word = |c: char| c.is_ascii_alphanumeric() || ".:/%-_*".contains(c);
    if value.is_empty() || value.len() > 64 || !value.chars().all(word) {
        return None;
    }
    Some(format!("texts need quotes: {} = \"{value}\"", shown(key)))
}
