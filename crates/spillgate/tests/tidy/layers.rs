//! Who may import whom, read from the manifests: the compiler then enforces it in the code.
//!
//! The table is that of `ARCHITECTURE.md`, "Crates". A crate that is not in it may import nothing
//! of ours until somebody has decided where it stands.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Our crates by folder, each with those of ours that it may import.
const LAYERS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("wire", &[]),
    ("store", &["core"]),
    ("runtime", &["core", "wire"]),
    ("proxy", &["core", "wire", "runtime"]),
    ("gslb", &["core", "wire", "runtime"]),
    ("media", &["core", "wire", "runtime", "store"]),
    ("sim", &["core", "store"]),
    ("spillgate", &["core", "wire", "store", "runtime", "proxy", "gslb", "media", "sim"]),
];

/// Crates of others that only some of ours may depend on.
const ROOMS: &[(&str, &[&str])] = &[
    ("tokio", &["runtime"]),
    ("mio", &["runtime"]),
    ("socket2", &["runtime"]),
    ("rustix", &["runtime", "store", "spillgate"]),
    ("libc", &["runtime"]),
    ("axum", &["spillgate"]),
    ("serde", &["spillgate", "sim"]),
    ("serde_json", &["spillgate", "sim"]),
    ("toml", &["spillgate", "sim"]),
    ("anyhow", &["spillgate"]),
    ("clap", &["spillgate"]),
];

/// The pure crates, each with all outsiders that it may depend on, also in its tests.
const PURE: &[(&str, &[&str])] = &[("core", &["proptest"]), ("wire", &["httparse", "proptest"])];

/// Rule `layer`: each manifest imports downwards only, and heavy outsiders stay in their rooms.
pub(crate) fn imports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, file) in crates(tree) {
        for (line, dependency) in dependencies(&file.text) {
            let Some(text) = breach(name, dependency) else { continue };
            findings.push(file.finding(line, "layer", text));
        }
    }
    findings
}

/// What is wrong with the crate `name` importing `dependency`, if anything.
fn breach(name: &str, dependency: &str) -> Option<String> {
    if let Some(ours) = dependency.strip_prefix("spillgate-") {
        let is_below = entry(LAYERS, name).is_some_and(|below| below.contains(&ours));
        let text = || format!("`{name}` may not import `{ours}`: see ARCHITECTURE.md, crates");
        return (!is_below).then(text);
    }
    if entry(PURE, name).is_some_and(|few| !few.contains(&dependency)) {
        return Some(format!("`{name}` is pure: `{dependency}` has no place in it"));
    }
    let rooms = entry(ROOMS, dependency).filter(|rooms| !rooms.contains(&name))?;
    Some(format!("`{dependency}` is for {rooms:?} alone, not for `{name}`"))
}

/// Rule `reason`: a dependency of the workspace says on its line what it saves us.
pub(crate) fn reasons(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file("Cargo.toml") else { return Vec::new() };
    let mut findings = Vec::new();
    for (line, dependency) in dependencies(&file.text) {
        let entry = file.text.lines().nth(line - 1).unwrap_or_default();
        if dependency.starts_with("spillgate-") || entry.contains(" # ") {
            continue;
        }
        let text = format!("say after `#` what `{dependency}` saves us");
        findings.push(file.finding(line, "reason", text));
    }
    findings
}

/// The crates of the workspace: folder and manifest.
fn crates(tree: &Tree) -> impl Iterator<Item = (&str, &File)> {
    tree.files().filter_map(|file| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then_some((name, file))
    })
}

/// The dependencies that a manifest names, of every kind, with their lines.
fn dependencies(manifest: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_inside = false;
    manifest.lines().enumerate().filter_map(move |(index, line)| {
        if let Some(section) = line.strip_prefix('[') {
            is_inside = section.trim_end().trim_end_matches(']').ends_with("dependencies");
            return None;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        let is_entry =
            is_inside && line.contains('=') && !name.is_empty() && !name.starts_with('#');
        is_entry.then_some((index + 1, name))
    })
}

fn entry(table: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, manifest: &str) -> usize {
        imports(&Tree::of(&[(path, manifest)])).len()
    }

    #[test]
    fn imports_go_down() {
        let manifest = "[dependencies]\nspillgate-core.workspace = true\n";
        assert_eq!(check("crates/runtime/Cargo.toml", manifest), 0);
        assert_eq!(check("crates/wire/Cargo.toml", manifest), 1);
        assert_eq!(check("crates/novel/Cargo.toml", manifest), 1);
        let manifest = "[dev-dependencies]\nspillgate-proxy = { path = \"../proxy\" }\n";
        assert_eq!(check("crates/sim/Cargo.toml", manifest), 1);
    }

    #[test]
    fn outsiders_stay_in_their_rooms() {
        let manifest = "[dependencies]\ntokio.workspace = true\n[lints]\nworkspace = true\n";
        assert_eq!(check("crates/runtime/Cargo.toml", manifest), 0);
        assert_eq!(check("crates/proxy/Cargo.toml", manifest), 1);
        assert_eq!(check("crates/core/Cargo.toml", "[dependencies]\nlog = \"1\"\n"), 1);
        assert_eq!(check("crates/wire/Cargo.toml", "[dependencies]\nhttparse = \"1\"\n"), 0);
    }

    #[test]
    fn dependency_without_reason_is_found() {
        let check = |entry: &str| {
            let manifest = format!("[workspace.dependencies]\n{entry}\n");
            reasons(&Tree::of(&[("Cargo.toml", &manifest)])).len()
        };
        assert_eq!(check("toml = \"1\" # the grammar"), 0);
        assert_eq!(check("toml = \"1\""), 1);
        assert_eq!(check("spillgate-core = { path = \"crates/core\" }"), 0);
    }
}
