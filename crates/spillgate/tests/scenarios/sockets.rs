//! Listeners and workers on Unix sockets.

use tempfile::TempDir;

use crate::harness::{Config, Echo, Link, Spillgate, get, post, until};

#[test]
fn a_unix_socket_serves_on_both_sides() {
    let folder = TempDir::new().expect("a folder can be made");
    let socket = folder.path().join("inner.sock");
    let address = format!("unix:{}", socket.display());
    // One Spillgate is the worker of another, over a Unix socket.
    let (echo, inner) =
        Echo::behind(|config| config.section(&format!("[listener.unix]\naddress = {address:?}")));
    let outer = Spillgate::start(Config::new().endpoint(&address));
    let body = Echo::bytes(500_000);
    assert_eq!(outer.ask(post("/", &body)).status(), 200);
    assert!(echo.seen()[0].body == body);
    assert!(outer.ask(get("/bytes/500000")).body == body);
    assert_eq!(echo.seen()[0].get("x-forwarded-for"), Some("unknown"));
    assert_eq!(inner.record("/bytes/500000")["client"], "-");

    // A client that leaves is noticed there, too.
    echo.hold();
    let mut first = Link::connect_unix(&socket).expect("somebody listens");
    first.send(get("/first"));
    echo.wait_inside(1);
    let mut waiting = Link::connect_unix(&socket).expect("somebody listens");
    waiting.send(get("/waiting"));
    inner.wait_queue(1);
    waiting.close();
    assert_eq!(inner.record("/waiting")["end"], "abandoned");
    echo.let_all_go();
    assert_eq!(first.receive_response().status(), 200);
}

#[test]
fn a_socket_left_over_is_replaced_and_one_in_use_is_not() {
    let folder = TempDir::new().expect("a folder can be made");
    let socket = folder.path().join("listener.sock");
    let section = format!("[listener.unix]\naddress = \"unix:{}\"", socket.display());
    let echo = Echo::start();
    let config = || Config::of(&[echo.address()]).section(&section);
    let ask = || {
        let mut client = until("somebody listens", || Link::connect_unix(&socket));
        client.ask(get("/")).status()
    };
    let killed = Spillgate::start(config());
    assert_eq!(ask(), 200);
    drop(killed);
    assert!(socket.exists(), "it was killed, so its socket is left over");
    let running = Spillgate::start(config());
    assert_eq!(ask(), 200);
    let (code, words) = Spillgate::fails(&config());
    assert!(code != 0 && words.contains("listener.unix"), "{words}");
    assert_eq!(ask(), 200);
    drop(running);
}
