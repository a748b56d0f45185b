//! The files of the project, read once: path and text.
//!
//! Walks the folder of the workspace rather than asking git, so that it also sees what is about to
//! be committed and works in a copy without history. Build results and installed packages are
//! left out by folder name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::finding::Finding;
use crate::source;

/// Folders that hold nothing of ours.
const FOLDERS_SKIPPED: &[&str] = &["target", "node_modules", ".git", "corpus", "artifacts"];

/// Kinds of text file that rules look at.
const KINDS: &[&str] =
    &["rs", "toml", "md", "sh", "js", "py", "html", "css", "cfg", "conf", "json", "yml"];

/// Files without an ending that rules look at.
const NAMES: &[&str] = &["run", "Dockerfile"];

/// The whole project, ordered by path.
pub(crate) struct Tree {
    files: Vec<File>,
    /// Where it was read from; none for a made-up one.
    root: Option<PathBuf>,
}

/// One text file.
pub(crate) struct File {
    /// Path within the project, with forward slashes.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl Tree {
    /// Reads the project that this test belongs to.
    pub(crate) fn read() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().expect("the workspace is two folders above its binary");
        let mut files = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for path in entries(&folder) {
                if path.is_dir() {
                    folders.extend(is_ours(&path).then_some(path));
                } else if is_text(&path) {
                    files.push(File::read(&root, &path));
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree { files, root: Some(root) }
    }

    /// A made-up project of the given paths and texts.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let file =
            |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        Tree { files: files.iter().map(file).collect(), root: None }
    }

    /// Every file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Every Rust file.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Is there anything at `path`, of whatever kind?
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let is_known = |file: &File| file.path == path || file.path.starts_with(&folder);
        let is_on_disk = |root: &PathBuf| root.join(path).exists();
        self.files.iter().any(is_known) || self.root.as_ref().is_some_and(is_on_disk)
    }
}

impl File {
    fn read(root: &Path, path: &Path) -> File {
        let inside = path.strip_prefix(root).expect("the walk stays below the root");
        let bytes = fs::read(path).unwrap_or_default();
        File {
            path: inside.to_string_lossy().replace('\\', "/"),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// The text with comments and the insides of literals blanked; same lines, same columns.
    pub(crate) fn code(&self) -> String {
        source::code(&self.text)
    }

    /// Is it a test or a bench as a whole? (Test modules inside other files: `source::test_lines`.)
    pub(crate) fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        let is_test_folder = |part: &&str| ["tests", "benches", "bench", "fuzz"].contains(part);
        parts.iter().any(is_test_folder) || self.path.ends_with("/tests.rs")
    }

    /// Is it part of this very test, whose snippets break the rules on purpose?
    pub(crate) fn is_tidy(&self) -> bool {
        self.path.starts_with("crates/spillgate/tests/tidy/")
    }

    /// A finding in this file.
    pub(crate) fn finding(
        &self,
        line: usize,
        rule: &'static str,
        text: impl Into<String>,
    ) -> Finding {
        Finding { path: self.path.clone(), line, rule, text: text.into() }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).expect("a folder of the project can be read");
    read.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !path.is_symlink()).collect()
}

fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| !FOLDERS_SKIPPED.contains(&name))
}

fn is_text(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    let name = path.file_name().and_then(|name| name.to_str());
    kind.is_some_and(|kind| KINDS.contains(&kind)) || name.is_some_and(|name| NAMES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_is_found_and_packages_are_not() {
        let tree = Tree::read();
        assert!(tree.file("Cargo.toml").is_some());
        assert!(tree.file("crates/spillgate/tests/tidy/tree.rs").is_some());
        assert!(tree.files().all(|file| !file.path.contains("target/")));
    }

    #[test]
    fn tests_are_told_by_their_place() {
        let is_test = |path: &str| File { path: path.into(), text: String::new() }.is_test();
        assert!(is_test("crates/core/tests/a.rs"));
        assert!(is_test("crates/core/src/gate/tests.rs"));
        assert!(is_test("fuzz/fuzz_targets/head.rs"));
        assert!(!is_test("crates/core/src/gate/mod.rs"));
    }
}
