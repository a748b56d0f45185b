//! What may be named only in some places: the engine, the router, serde, the clock, unsafe code.
//!
//! The manifests keep most of it out already (`layers.rs`); this is for crates that have the
//! dependency and for what comes with the standard library.

use crate::finding::Finding;
use crate::source::{test_lines, words};
use crate::tree::{File, Tree};

/// Names of crates, and the paths below which they may stand in code.
const ROOMS: &[(&str, &[&str])] = &[
    ("tokio", &["crates/runtime/"]),
    ("axum", &["crates/spillgate/src/admin"]),
    ("serde", SERDE),
    ("serde_json", SERDE),
];

const SERDE: &[&str] = &[
    "crates/spillgate/src/config",
    "crates/spillgate/src/admin",
    "crates/spillgate/src/ctl",
    "crates/spillgate/tests/",
    "crates/sim/",
];

/// The one file that reads the clock of the machine.
const CLOCK: &str = "crates/runtime/src/clock.rs";

/// The only folder with unsafe code.
const SYS: &str = "crates/runtime/src/sys/";

/// How a reading of the machine's clock looks.
const CLOCK_READS: &[&str] = &["Instant::now", "SystemTime", "UNIX_EPOCH", "clock_gettime"];

/// How far above an unsafe block its argument may begin, in lines.
const SAFETY_DISTANCE: usize = 12;

/// Rule `room`: a crate is named only where it belongs.
pub(crate) fn rooms(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in ours(tree) {
        for (index, line) in file.code().lines().enumerate() {
            let misplaced = ROOMS.iter().filter(|(name, places)| {
                words(line).any(|word| word == *name)
                    && !places.iter().any(|place| file.path.starts_with(place))
            });
            for (name, places) in misplaced {
                let text = format!("`{name}` may be named below {places:?} only");
                findings.push(file.finding(index + 1, "room", text));
            }
        }
    }
    findings
}

/// Rule `clock`: only one file reads the clock; everything else is given `now`.
pub(crate) fn clock(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in ours(tree).filter(|file| file.path != CLOCK && !file.is_test()) {
        let code = file.code();
        let is_test = test_lines(&code);
        for (index, line) in code.lines().enumerate().filter(|(index, _)| !is_test[*index]) {
            if let Some(read) = CLOCK_READS.iter().find(|read| line.contains(*read)) {
                let text = format!("`{read}`: take `now`, or ask `runtime::clock::now()`");
                findings.push(file.finding(index + 1, "clock", text));
            }
        }
    }
    findings
}

/// Rule `unsafe`: unsafe code is in one folder, and each block argues why it is sound.
pub(crate) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in ours(tree) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in file.code().lines().enumerate() {
            if !words(line).any(|word| word == "unsafe") {
                continue;
            }
            let above = &lines[index.saturating_sub(SAFETY_DISTANCE)..=index];
            let text = if !file.path.starts_with(SYS) {
                format!("only {SYS} may hold it")
            } else if !above.iter().any(|line| line.contains("SAFETY:")) {
                "argue above it, after `// SAFETY:`, why it is sound".into()
            } else {
                continue;
            };
            findings.push(file.finding(index + 1, "unsafe", text));
        }
    }
    findings
}

/// Rule `hashed-map`: decisions and simulations iterate in an order that no random seed changes.
pub(crate) fn hashed_maps(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_pure = |file: &&File| {
        file.path.starts_with("crates/core/src/") || file.path.starts_with("crates/sim/src/")
    };
    for file in ours(tree).filter(is_pure) {
        for (index, line) in file.code().lines().enumerate() {
            let is_hashed = |word: &str| ["HashMap", "HashSet", "RandomState"].contains(&word);
            if words(line).any(is_hashed) {
                let text = "use BTreeMap, BTreeSet or a Vec: its order is the same in each run";
                findings.push(file.finding(index + 1, "hashed-map", text));
            }
        }
    }
    findings
}

fn ours(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.rust().filter(|file| file.path.starts_with("crates/") && !file.is_tidy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: impl Fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn crates_are_named_in_their_rooms() {
        let text = "use tokio::net::TcpStream; // tokio\n";
        assert_eq!(check(rooms, "crates/runtime/src/a.rs", text), 0);
        assert_eq!(check(rooms, "crates/proxy/src/a.rs", text), 1);
        assert_eq!(check(rooms, "crates/spillgate/src/admin/api.rs", "use axum::Json;"), 0);
        assert_eq!(check(rooms, "crates/spillgate/src/run.rs", "use axum::Json;"), 1);
        assert_eq!(check(rooms, "crates/proxy/src/a.rs", "// tokio is absent here"), 0);
    }

    #[test]
    fn clock_is_read_in_its_file_and_in_tests() {
        let text = "let now = Instant::now();\n";
        assert_eq!(check(clock, "crates/runtime/src/clock.rs", text), 0);
        assert_eq!(check(clock, "crates/core/src/gate/mod.rs", text), 1);
        assert_eq!(check(clock, "crates/core/src/gate/tests.rs", text), 0);
        let text = "#[cfg(test)]\nmod tests {\n    let now = Instant::now();\n}\n";
        assert_eq!(check(clock, "crates/core/src/gate/mod.rs", text), 0);
        assert_eq!(check(clock, "crates/proxy/src/a.rs", "let now = clock::now();"), 0);
    }

    #[test]
    fn unsafe_code_needs_its_folder_and_an_argument() {
        let block = concat!("uns", "afe { f() }");
        let argued = format!("// SAFETY: f has no precondition.\n{block}\n");
        assert_eq!(check(unsafe_code, "crates/runtime/src/sys/a.rs", &argued), 0);
        assert_eq!(check(unsafe_code, "crates/runtime/src/sys/a.rs", block), 1);
        assert_eq!(check(unsafe_code, "crates/runtime/src/a.rs", &argued), 1);
        assert_eq!(check(unsafe_code, "crates/core/src/lib.rs", "#![forbid(unsafe_code)]"), 0);
    }

    #[test]
    fn hashed_maps_are_kept_out_of_decisions() {
        let text = "use std::collections::HashMap;\n";
        assert_eq!(check(hashed_maps, "crates/core/src/a.rs", text), 1);
        assert_eq!(check(hashed_maps, "crates/proxy/src/a.rs", text), 0);
    }
}
