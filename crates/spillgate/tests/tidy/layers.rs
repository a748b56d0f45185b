//! Who may import whom, read from the manifests: the compiler then enforces it in the code.
//!
//! The table is that of `ARCHITECTURE.md`, "Layers". A crate that is not in it may import nothing
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

/// Rule `layer`: each manifest imports downwards only, and heavy outsiders stay in their rooms.
pub(crate) fn imports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, file) in crates(tree) {
        let allowed = LAYERS.iter().find(|(layer, _)| *layer == name).map(|(_, allowed)| *allowed);
        for (line, dependency) in dependencies(&file.text) {
            let text = match dependency.strip_prefix("spillgate-") {
                Some(ours) if !allowed.unwrap_or(&[]).contains(&ours) => {
                    format!("`{name}` may not import `{ours}`: see ARCHITECTURE.md, layers")
                }
                Some(_) => continue,
                None => match room(dependency) {
                    Some(rooms) if !rooms.contains(&name) => {
                        format!("`{dependency}` is for {rooms:?} alone, not for `{name}`")
                    }
                    _ => continue,
                },
            };
            findings.push(file.finding(line, "layer", text));
        }
    }
    findings
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

fn room(dependency: &str) -> Option<&'static [&'static str]> {
    ROOMS.iter().find(|(name, _)| *name == dependency).map(|(_, rooms)| *rooms)
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
        assert_eq!(check("crates/core/Cargo.toml", "[dependencies]\nserde = \"1\"\n"), 1);
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
