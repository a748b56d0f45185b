//! One word per thing: words of `docs/glossary.md` that are never right in our own names.
//!
//! Only words without a second, innocent meaning are here; the rest of the glossary's banned
//! column is for the eyes of a reviewer. Words of standards and of other programs keep their names
//! in texts and comments, which this rule does not read.

use crate::finding::Finding;
use crate::size::function_name;
use crate::source::{test_lines, words};
use crate::tree::{File, Tree};

/// Banned as a part of any identifier, each with the word to use.
const BANNED: &[(&str, &str)] = &[
    ("backend", "worker, pool or origin"),
    ("backends", "workers, pools or origins"),
    ("blacklist", "eject"),
    ("canary", "rollout"),
    ("checkpoint", "snapshot"),
    ("continuum", "ring"),
    ("downstream", "client"),
    ("frontend", "listener"),
    ("helper", "the noun it is about"),
    ("helpers", "the noun it is about"),
    ("keepalive", "idle connection"),
    ("limiter", "gate"),
    ("manager", "machine or supervisor"),
    ("middleware", "stage"),
    ("misc", "the noun it is about"),
    ("nanny", "supervisor"),
    ("quiesce", "drain"),
    ("roster", "membership"),
    ("throttle", "gate or shed"),
    ("upstream", "worker, pool or origin"),
    ("upstreams", "workers, pools or origins"),
    ("util", "the noun it is about"),
    ("utils", "the noun it is about"),
    ("vhost", "route"),
    ("vnode", "point"),
    ("whitelist", "a name that says who is let in"),
];

/// Identifiers of others that hold a banned word: of socket2, and axum's module.
const ALLOWED: &[&str] = &["set_tcp_keepalive", "TcpKeepalive", "set_keepalive", "middleware"];

/// Beginnings of function names that say nothing.
const EMPTY_VERBS: &[&str] = &["get_", "do_", "process_", "handle_request"];

/// Rule `word`: no identifier holds a banned word.
pub(crate) fn identifiers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in ours(tree) {
        for (index, line) in file.code().lines().enumerate() {
            for name in words(line).filter(|name| !ALLOWED.contains(name)) {
                let Some((word, better)) = banned_in(name) else { continue };
                let text = format!("`{name}`: not `{word}` but {better}; see docs/glossary.md");
                findings.push(file.finding(index + 1, "word", text));
            }
        }
    }
    findings
}

/// Rule `function-name`: a function is named by what it does, not that it does something. Tests
/// are named by what they show, so they may begin as they like.
pub(crate) fn functions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in ours(tree).filter(|file| !file.is_test()) {
        let code = file.code();
        let is_test = test_lines(&code);
        for (index, line) in code.lines().enumerate().filter(|(index, _)| !is_test[*index]) {
            let Some(name) = function_name(line) else { continue };
            if EMPTY_VERBS.iter().any(|verb| name.starts_with(verb)) {
                let text = format!("`{name}`: name the noun, or a verb of docs/glossary.md");
                findings.push(file.finding(index + 1, "function-name", text));
            }
        }
    }
    findings
}

fn ours(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.rust().filter(|file| !file.is_tidy())
}

/// The first banned word in `name`, and what to say in its place.
fn banned_in(name: &str) -> Option<(&'static str, &'static str)> {
    let parts = parts(name);
    BANNED.iter().copied().find(|(word, _)| parts.iter().any(|part| part == word))
}

/// The words of a snake-case, camel-case or upper-case name, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = c == '_' || (c.is_uppercase() && was_lower);
        if begins {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("there is always a last part").extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: impl Fn(&Tree) -> Vec<Finding>, text: &str) -> usize {
        rule(&Tree::of(&[("crates/proxy/src/a.rs", text)])).len()
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(parts("UpstreamPool_max"), ["upstream", "pool", "max"]);
        assert_eq!(parts("QUEUE_LEN"), ["queue", "len"]);
    }

    #[test]
    fn banned_words_are_found_in_names_only() {
        for bad in
            ["let backend = 1;", "struct UpstreamPool;", "mod util;", "const VHOST_MAX: u8 = 1;"]
        {
            assert_eq!(found(identifiers, bad), 1, "{bad}");
        }
        for good in [
            "let worker = 1; // nginx calls it an upstream",
            "log(\"upstream\");",
            "let utilisation = 0.5;",
            "socket.set_tcp_keepalive(&keep);",
        ] {
            assert_eq!(found(identifiers, good), 0, "{good}");
        }
    }

    #[test]
    fn empty_verbs_are_found() {
        assert_eq!(found(functions, "fn get_worker() {}"), 1);
        assert_eq!(found(functions, "fn worker() { map.get_mut(1) }"), 0);
    }
}
