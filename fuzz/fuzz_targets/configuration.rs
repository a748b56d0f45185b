//! Checks any text as a configuration file, with the very files of the binary that do so.
//!
//! No panic, the same words for the same text, and a configuration where there is no error. The
//! plain test over the corpus is with the other tests of those files.

#![no_main]
#![allow(dead_code, unused_imports, unfulfilled_lint_expectations, reason = "the binary uses it")]

#[path = "../../crates/spillgate/src/cli.rs"]
mod cli;
#[path = "../../crates/spillgate/src/config/mod.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let outcome = config::check_text("fuzz.toml", text);
    let said = outcome.problems.to_string();
    assert_eq!(config::check_text("fuzz.toml", text).problems.to_string(), said);
    assert_eq!(outcome.config.is_none(), said.lines().any(|line| line.starts_with("error: ")));
});
