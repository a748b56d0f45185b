//! What a rule found, and how a line says that it breaks a rule on purpose.
//!
//! A waiver stands on the line itself or on the line above it: `tidy: allow(RULE) REASON` in a
//! comment. It needs a reason, and the rule must exist; both are checked.

use std::fmt;

use crate::tree::Tree;

/// The rules, as findings and waivers name them.
pub(crate) const RULES: &[&str] = &[
    "clock",
    "dead-file",
    "file-length",
    "function-length",
    "function-name",
    "hashed-map",
    "ignored-test",
    "layer",
    "left-over",
    "line-length",
    "link",
    "machine-path",
    "module-doc",
    "module-name",
    "reason",
    "room",
    "sleeping-test",
    "title",
    "unsafe",
    "waiver",
    "word",
];

/// How a waiver begins, after the comment sign.
const WAIVER: &str = "tidy: allow(";

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path within the project, with forward slashes.
    pub(crate) path: String,
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// One of [`RULES`].
    pub(crate) rule: &'static str,
    /// What is wrong and how to mend it.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.text)
    }
}

/// The findings that no waiver covers.
pub(crate) fn unwaived(tree: &Tree, findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| !is_waived(tree, finding)).collect()
}

/// Rule `waiver`: a waiver names a rule that exists and gives a reason.
pub(crate) fn waivers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.is_tidy()) {
        for (index, line) in file.text.lines().enumerate() {
            let Some((rule, reason)) = waiver(line) else { continue };
            if RULES.contains(&rule) && reason.len() >= 10 {
                continue;
            }
            let text = format!("waiver of `{rule}` needs a known rule and a reason after it");
            findings.push(file.finding(index + 1, "waiver", text));
        }
    }
    findings
}

fn is_waived(tree: &Tree, finding: &Finding) -> bool {
    let Some(file) = tree.file(&finding.path) else { return false };
    let lines: Vec<&str> = file.text.lines().collect();
    let above = finding.line.saturating_sub(2);
    let waives = |line: &&str| {
        waiver(line).is_some_and(|(rule, reason)| rule == finding.rule && !reason.is_empty())
    };
    lines[above.min(lines.len())..].iter().take(2).any(waives)
}

/// The rule and the reason of the waiver on `line`.
fn waiver(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("// ")?;
    let (rule, reason) = rest.strip_prefix(WAIVER)?.split_once(')')?;
    Some((rule, reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiver_is_rule_and_reason() {
        assert_eq!(waiver("let x = 1; // tidy: allow(word) its name"), Some(("word", "its name")));
        assert_eq!(waiver("// tidy: allow(word)"), Some(("word", "")));
        assert_eq!(waiver("// allow(word) its name"), None);
    }

    #[test]
    fn waiver_covers_its_line_and_the_next() {
        let text =
            "// tidy: allow(word) named so by a standard\nlet backend = 1;\nlet backend = 2;\n";
        let tree = Tree::of(&[("crates/core/src/a.rs", text)]);
        let left = unwaived(&tree, crate::words::identifiers(&tree));
        assert_eq!(left.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn waiver_without_reason_or_rule_is_found() {
        let check = |line: &str| waivers(&Tree::of(&[("crates/core/src/a.rs", line)])).len();
        assert_eq!(check("// tidy: allow(word) named so by a standard"), 0);
        assert_eq!(check("// tidy: allow(word)"), 1);
        assert_eq!(check("// tidy: allow(wort) named so by a standard"), 1);
    }
}
