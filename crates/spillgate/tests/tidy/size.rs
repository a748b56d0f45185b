//! How long files, functions and lines may be.
//!
//! Long files rot first: it is always the connection, the request path or the configuration. The
//! aim may be missed by a tenth of the files, the stop by none but the tables named here.

use crate::finding::Finding;
use crate::source::{is_word, item_end};
use crate::tree::{File, Tree};

/// Lines that a file should have at most.
const FILE_AIM: usize = 400;

/// Lines that no file may exceed.
const FILE_STOP: usize = 800;

/// Share of files that may be longer than the aim, in per cent.
const FILE_AIM_MISSED_MAX: usize = 10;

/// Lines of a function, from its `fn` to its closing brace.
const FUNCTION_MAX: usize = 70;

/// Columns of a line of Rust.
const LINE_MAX: usize = 100;

/// Rule `file-length`: nine files in ten within the aim, none beyond the stop.
pub(crate) fn files(tree: &Tree) -> Vec<Finding> {
    let measured: Vec<(&File, usize)> =
        tree.rust().map(|file| (file, file.text.lines().count())).collect();
    let beyond = |limit: usize| measured.iter().filter(move |(_, lines)| *lines > limit);
    let mut findings: Vec<Finding> = beyond(FILE_STOP)
        .map(|(file, lines)| {
            let text = format!("{lines} lines, {FILE_STOP} at most: is it still one noun?");
            file.finding(*lines, "file-length", text)
        })
        .collect();
    if beyond(FILE_AIM).count() * 100 > measured.len() * FILE_AIM_MISSED_MAX {
        findings.extend(beyond(FILE_AIM).map(|(file, lines)| {
            let text = format!("{lines} lines; too many files miss the aim of {FILE_AIM}");
            file.finding(*lines, "file-length", text)
        }));
    }
    findings
}

/// Rule `function-length`: a function fits on a screen.
pub(crate) fn functions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = file.code();
        let lines: Vec<&str> = code.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(name) = function_name(line) else { continue };
            let count = item_end(&lines, index) + 1 - index;
            if count > FUNCTION_MAX {
                let text = format!("`{name}` has {count} lines, {FUNCTION_MAX} at most");
                findings.push(file.finding(index + 1, "function-length", text));
            }
        }
    }
    findings
}

/// Rule `line-length`: what rustfmt cannot break (comments, literals) is broken by hand.
pub(crate) fn lines(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_MAX && !line.contains("://") {
                let text = format!("{columns} columns, {LINE_MAX} at most");
                findings.push(file.finding(index + 1, "line-length", text));
            }
        }
    }
    findings
}

/// The name of the function that `line` of code defines or declares.
pub(crate) fn function_name(line: &str) -> Option<&str> {
    let start = line.match_indices("fn ").map(|(at, _)| at).find(|at| {
        let before = line[..*at].chars().next_back();
        before.is_none_or(|c| !is_word(c))
    })?;
    let rest = &line[start + 3..];
    let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    f(\"{\"); // {\n".repeat(lines - 2))
    }

    #[test]
    fn files_may_miss_the_aim_not_the_stop() {
        let check = |lines: &[usize]| {
            let texts: Vec<String> = lines.iter().map(|count| "x\n".repeat(*count)).collect();
            let names: Vec<String> = (0..lines.len()).map(|n| format!("crates/a/{n}.rs")).collect();
            let files: Vec<(&str, &str)> =
                names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
            files_found(&files)
        };
        assert_eq!(check(&[400]), 0);
        assert_eq!(check(&[401]), 1);
        assert_eq!(check(&[401, 1, 1, 1, 1, 1, 1, 1, 1, 1]), 0);
        assert_eq!(check(&[801, 1, 1, 1, 1, 1, 1, 1, 1, 1]), 1);
    }

    fn files_found(tree: &[(&str, &str)]) -> usize {
        files(&Tree::of(tree)).len()
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let check = |text: &str| functions(&Tree::of(&[("crates/a/src/a.rs", text)])).len();
        assert_eq!(check(&function(FUNCTION_MAX)), 0);
        assert_eq!(check(&function(FUNCTION_MAX + 1)), 1);
        assert_eq!(check("fn declared(a: [u8; 4]) -> u8;\n"), 0);
        assert_eq!(check(&format!("// {}", function(FUNCTION_MAX + 1))), 0);
    }

    #[test]
    fn function_names_are_found() {
        assert_eq!(function_name("    pub(crate) async fn send<T>(a: T) {"), Some("send"));
        assert_eq!(function_name("let f: fn (u8) = g;"), None);
        assert_eq!(function_name("let often = 1;"), None);
    }

    #[test]
    fn lines_are_measured_in_columns() {
        let check = |text: &str| lines(&Tree::of(&[("crates/a/src/a.rs", text)])).len();
        assert_eq!(check(&"ä".repeat(100)), 0);
        assert_eq!(check(&"a".repeat(101)), 1);
        assert_eq!(check(&format!("// https://{}", "a".repeat(101))), 0);
    }
}
