//! The committed corpus of every fuzz target, run through the very checks that the target makes.

#[path = "../../../fuzz/src/bytes.rs"]
#[allow(unreachable_pub, reason = "a library of its own, included here")]
mod checks;

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

use corpus::run;

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
fn attempt() {
    run("attempt", checks::attempt);
}

#[test]
fn orca() {
    run("orca", checks::orca);
}
