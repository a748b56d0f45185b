//! Golden files: texts kept in the tree that must be what the program makes.
//!
//! Shared by the tests of this crate, inside and outside of it. Nothing here knows what a text is
//! about.

use std::path::Path;

/// Set to 1 to write the golden files anew.
const VARIABLE: &str = "UPDATE_GOLDEN";

/// What refreshes the golden files of this crate.
const COMMAND: &str = "UPDATE_GOLDEN=1 cargo test -p spillgate";

/// Compares `text` with the file at `path`, or writes it there when asked to.
///
/// Returns what to tell when they differ.
pub(crate) fn compare(path: &Path, text: &str) -> Result<(), String> {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "1") {
        return std::fs::write(path, text)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()));
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if kept == text {
        return Ok(());
    }
    let line = kept.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
    let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    Err(format!(
        "{} is stale from line {} on\n  kept: {}\n  made: {}\nrefresh it: {COMMAND}",
        path.display(),
        line + 1,
        at(&kept),
        at(text),
    ))
}
