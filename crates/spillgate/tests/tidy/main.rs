//! House rules as tests: what a lint cannot say about this source tree is said here.
//!
//! Reads the files of the whole project, so it needs no build of them and runs in a moment. Each
//! rule is a function from the tree to findings, with its own good and bad snippets beside it. A
//! finding names file, line and rule. A rule that is broken on purpose is waived on that very line,
//! with a reason (see `finding.rs`).
//!
//! Absent: anything that rustfmt or clippy already checks.

mod docs;
mod finding;
mod layers;
mod leftovers;
mod module;
mod size;
mod source;
mod tree;
mod walls;
mod words;

use finding::Finding;
use tree::Tree;

/// Fails with every finding of `rule`, one a line.
fn check(rule: impl Fn(&Tree) -> Vec<Finding>) {
    let tree = Tree::read();
    let findings = finding::unwaived(&tree, rule(&tree));
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} finding(s):\n{}\n", lines.len(), lines.join("\n"));
}

#[test]
fn crates_import_downwards_only() {
    check(layers::imports);
}

#[test]
fn dependencies_state_their_reason() {
    check(layers::reasons);
}

#[test]
fn engine_router_and_serde_stay_in_their_rooms() {
    check(walls::rooms);
}

#[test]
fn clock_is_read_in_one_place() {
    check(walls::clock);
}

#[test]
fn unsafe_code_is_in_sys_and_argued() {
    check(walls::unsafe_code);
}

#[test]
fn decisions_use_no_default_hashed_maps() {
    check(walls::hashed_maps);
}

#[test]
fn files_are_short() {
    check(size::files);
}

#[test]
fn functions_are_short() {
    check(size::functions);
}

#[test]
fn lines_are_narrow() {
    check(size::lines);
}

#[test]
fn identifiers_use_the_glossary() {
    check(words::identifiers);
}

#[test]
fn function_names_are_plain_verbs() {
    check(words::functions);
}

#[test]
fn nothing_is_left_over() {
    check(leftovers::marks);
}

#[test]
fn tests_neither_sleep_nor_are_ignored() {
    check(leftovers::tests);
}

#[test]
fn no_path_of_one_machine_is_named() {
    check(leftovers::paths);
}

#[test]
fn files_say_why_they_exist() {
    check(module::docs);
}

#[test]
fn modules_are_named_by_nouns() {
    check(module::names);
}

#[test]
fn no_file_is_dead() {
    check(module::dead);
}

#[test]
fn pages_have_one_title_and_live_links() {
    check(docs::pages);
}

#[test]
fn waivers_name_a_rule_and_a_reason() {
    check(finding::waivers);
}
