//! What must not be left behind: unfinished marks, tests that do not run, names of one machine.
//!
//! The words looked for are written here in halves, so that a plain search of the tree finds
//! nothing either.

use crate::finding::Finding;
use crate::source::{test_lines, words};
use crate::tree::Tree;

/// Words that mark unfinished work, in any text.
const MARKS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];

/// Macros that mark unfinished work.
const MACROS: &[&str] =
    &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!(")];

/// Attribute that keeps a test from running.
const IGNORE: &str = concat!("#[ig", "nore");

/// Calls that make a test wait for time rather than for an event.
const SLEEPS: &[&str] = &[concat!("thread::", "sleep"), concat!("time::", "sleep(")];

/// Beginnings of paths that exist on one machine only. The last needs a name after it.
const PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Rule `left-over`: nothing is marked as unfinished.
pub(crate) fn marks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let is_rust = file.path.ends_with(".rs");
        let code = if is_rust { file.code() } else { String::new() };
        let mut code_lines = code.lines();
        for (index, line) in file.text.lines().enumerate() {
            let mark = words(line).find(|word| MARKS.contains(word));
            let code_line = code_lines.next().unwrap_or_default();
            let call = MACROS.iter().find(|call| code_line.contains(*call)).copied();
            if let Some(found) = mark.or(call) {
                let text = format!("`{found}`: finish it, or take it out");
                findings.push(file.finding(index + 1, "left-over", text));
            }
        }
    }
    findings
}

/// Rules `ignored-test` and `sleeping-test`: every test runs, and waits on events.
pub(crate) fn tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.is_tidy()) {
        let code = file.code();
        let is_test = test_lines(&code);
        for (index, line) in code.lines().enumerate() {
            if line.contains(IGNORE) {
                findings.push(file.finding(index + 1, "ignored-test", "a test runs, or goes"));
            }
            let sleeps = SLEEPS.iter().any(|call| line.contains(call));
            if sleeps && (file.is_test() || is_test[index]) {
                let text = "a test waits on an event, or on a clock that it moves itself";
                findings.push(file.finding(index + 1, "sleeping-test", text));
            }
        }
    }
    findings
}

/// Rule `machine-path`: things are named by their place in the project.
pub(crate) fn paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = PATHS.iter().find(|path| names_path(line, path)) {
                let text = format!("`{path}…` is a folder of one machine");
                findings.push(file.finding(index + 1, "machine-path", text));
            }
        }
    }
    findings
}

fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "._-}".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: impl Fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn unfinished_marks_are_found() {
        assert_eq!(found(marks, "ci/check.sh", concat!("# TO", "DO: more")), 1);
        assert_eq!(found(marks, "crates/a/src/a.rs", concat!("to", "do!()")), 1);
        assert_eq!(found(marks, "crates/a/src/a.rs", "let todos = 1; // nothing to do!"), 0);
    }

    #[test]
    fn sleeping_and_ignored_tests_are_found() {
        let sleep = concat!("std::thread::", "sleep(d);\n");
        assert_eq!(found(super::tests, "crates/a/tests/a.rs", sleep), 1);
        assert_eq!(found(super::tests, "crates/a/src/a.rs", sleep), 0);
        let module = format!("#[cfg(test)]\nmod tests {{\n    {sleep}}}\n");
        assert_eq!(found(super::tests, "crates/a/src/a.rs", &module), 1);
        let ignored = concat!("#[ig", "nore = \"slow\"]\n#[test]\nfn a() {}\n");
        assert_eq!(found(super::tests, "crates/a/src/a.rs", ignored), 1);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(found(paths, "README.md", concat!("see /wo", "rk/main")), 1);
        assert_eq!(found(paths, "README.md", concat!("see docs/wo", "rk/main")), 0);
        assert_eq!(found(paths, "README.md", "see /var/log/spillgate"), 0);
    }
}
