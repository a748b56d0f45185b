//! The committed corpus of every fuzz target, run through the very checks that the target makes.

#[path = "../../../fuzz/src/bytes.rs"]
#[allow(unreachable_pub, reason = "a library of its own, included here")]
mod checks;

use std::path::Path;

/// Call `check` with each file of a target's corpus.
fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("each target has a corpus") {
        let path = entry.expect("the folder can be read").path();
        let input = std::fs::read(&path).expect("the file can be read");
        println!("{}", path.display());
        check(&input);
        count += 1;
    }
    assert!(count >= 10, "{target}: only {count} files");
}

#[test]
fn request_head() {
    run("request_head", checks::request_head);
}

#[test]
fn response_head() {
    run("response_head", checks::response_head);
}

#[test]
fn chunked_body() {
    run("chunked_body", checks::chunked_body);
}

#[test]
fn proxy_protocol() {
    run("proxy_protocol", checks::proxy_protocol);
}

#[test]
fn agent_line() {
    run("agent_line", checks::agent_line);
}

#[test]
fn orca() {
    run("orca", checks::orca);
}
