//! Files as modules: each says why it exists, is named by a noun, and is reached from a crate root.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::source::words;
use crate::tree::{File, Tree};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "manager", "misc", "shared", "util", "utils"];

/// Rule `module-doc`: a file begins with its reason to exist.
pub(crate) fn docs(tree: &Tree) -> Vec<Finding> {
    let is_bare = |file: &&File| !file.text.starts_with("//! ");
    let text = "begin with `//!`: why it exists, what is absent, what must hold";
    tree.rust().filter(is_bare).map(|file| file.finding(1, "module-doc", text)).collect()
}

/// Rule `module-name`: a module is named by the noun it is about.
pub(crate) fn names(tree: &Tree) -> Vec<Finding> {
    let is_empty = |file: &&File| {
        let path = file.path.trim_end_matches(".rs");
        path.split('/').any(|part| EMPTY_NAMES.contains(&part))
    };
    let text = "name the noun it is about";
    tree.rust().filter(is_empty).map(|file| file.finding(1, "module-name", text)).collect()
}

/// Rule `dead-file`: every file is part of some crate.
pub(crate) fn dead(tree: &Tree) -> Vec<Finding> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&File> = tree.rust().filter(|file| is_root(&file.path)).collect();
    while let Some(file) = open.pop() {
        if reached.insert(&file.path) {
            open.extend(children(file).iter().filter_map(|path| tree.file(path)));
        }
    }
    tree.rust()
        .filter(|file| !reached.contains(file.path.as_str()))
        .map(|file| file.finding(1, "dead-file", "no `mod` leads here: declare it, or remove it"))
        .collect()
}

/// Does Cargo compile this file as the root of a crate?
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [.., "src", "main.rs" | "lib.rs"] | [.., "build.rs"] => true,
        [.., "bin" | "tests" | "benches" | "examples", _, "main.rs"] => true,
        [.., "src", "bin", _] | [.., "fuzz_targets", _] => true,
        [.., "tests" | "benches" | "examples", _] => !path.contains("/src/"),
        _ => false,
    }
}

/// Where the files of the modules that `file` declares may be.
fn children(file: &File) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let owns_folder = is_root(&file.path) || name == "mod.rs";
    let below = match owns_folder {
        true => folder.to_owned(),
        false => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    let mut paths = Vec::new();
    for line in file.code().lines().filter(|line| line.trim_end().ends_with(';')) {
        let mut found = words(line).skip_while(|word| *word != "mod");
        if let (Some(_), Some(module), None) = (found.next(), found.next(), found.next()) {
            paths.push(format!("{below}/{module}.rs"));
            paths.push(format!("{below}/{module}/mod.rs"));
        }
    }
    paths.extend(quoted_paths(&file.text).map(|path| joined(folder, path)));
    paths
}

/// The files named by `#[path = "…"]` and `include!("…")`.
fn quoted_paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let is_path = line.contains("#[path =") || line.contains("include!(");
        is_path.then(|| line.split('"').nth(1)).flatten()
    })
}

/// `path` seen from `folder`, with its `..` resolved.
pub(crate) fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_files_are_found() {
        let check = |text: &str| docs(&Tree::of(&[("crates/a/src/lib.rs", text)])).len();
        assert_eq!(check("//! Why.\n"), 0);
        assert_eq!(check("use std::fmt;\n"), 1);
        assert_eq!(check("// Why.\n"), 1);
    }

    #[test]
    fn empty_names_are_found() {
        let check = |path: &str| names(&Tree::of(&[(path, "")])).len();
        assert_eq!(check("crates/a/src/budget.rs"), 0);
        assert_eq!(check("crates/a/src/util.rs"), 1);
        assert_eq!(check("crates/a/src/common/mod.rs"), 1);
    }

    #[test]
    fn dead_files_are_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "pub mod gate;\nmod time;\n// mod dead;\n"),
            ("crates/a/src/gate/mod.rs", "mod queue;\n"),
            ("crates/a/src/gate/queue.rs", ""),
            ("crates/a/src/time.rs", "pub(crate) mod zone;\n"),
            ("crates/a/src/time/zone.rs", "#[path = \"../odd.rs\"]\nmod other;\n"),
            ("crates/a/src/odd.rs", ""),
            ("crates/a/src/dead.rs", ""),
            ("crates/a/tests/one.rs", ""),
            ("crates/a/tests/two/main.rs", "mod verbs;\n"),
            ("crates/a/tests/two/verbs.rs", ""),
        ]);
        let found: Vec<String> = dead(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["crates/a/src/dead.rs"]);
    }
}
