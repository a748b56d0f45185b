//! Listeners and workers on Unix sockets.

use rustix::process::Signal;
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
fn a_client_of_a_unix_socket_is_believed_where_told_so() {
    let folder = TempDir::new().expect("a folder can be made");
    let [plain, proxied] = ["plain.sock", "proxied.sock"].map(|name| folder.path().join(name));
    let listeners = format!(
        "[listener.plain]\naddress = \"unix:{}\"\n\
         [listener.proxied]\naddress = \"unix:{}\"\nproxy_protocol = true",
        plain.display(),
        proxied.display()
    );
    let (echo, spillgate) =
        Echo::behind(|config| config.top("trusted_from = [\"unix:\"]").section(&listeners));
    let telling = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n")
    };
    // The harness has waited for the first listener only.
    let connect = |path| until("somebody listens", || Link::connect_unix(path));
    let mut balancer = connect(&plain);
    assert_eq!(balancer.ask(telling("/plain")).status(), 200);
    assert_eq!(spillgate.record("/plain")["client"], "192.0.2.7");
    // The header names a client with an address, whose word is not believed.
    let mut balancer = connect(&proxied);
    balancer.send("PROXY TCP4 192.0.2.9 192.0.2.1 1234 80\r\n");
    assert_eq!(balancer.ask(telling("/proxied")).status(), 200);
    assert_eq!(spillgate.record("/proxied")["client"], "192.0.2.9");
    // Nor is that of a client of the other listener, on TCP.
    assert_eq!(spillgate.ask(telling("/tcp")).status(), 200);
    assert_eq!(spillgate.record("/tcp")["client"], "127.0.0.1");
    let seen = echo.seen();
    let told: Vec<_> = seen.iter().filter_map(|seen| seen.get("x-forwarded-for")).collect();
    assert_eq!(told, ["192.0.2.7, unknown", "192.0.2.9", "127.0.0.1"]);
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

#[test]
fn socket_files_go_away_with_who_listens_there() {
    let folder = TempDir::new().expect("a folder can be made");
    let client = folder.path().join("client.sock");
    let listener = format!("[listener.unix]\naddress = \"unix:{}\"", client.display());
    let (_echo, mut spillgate) = Echo::behind(|config| config.section(&listener));
    until("somebody listens", || Link::connect_unix(&client));
    spillgate.signal(Signal::TERM);
    assert!(spillgate.ended().success());
    assert!(!client.exists());

    // What a successor has put there stays.
    let (_echo, mut spillgate) = Echo::behind(|config| config.section(&listener));
    until("somebody listens", || Link::connect_unix(&client));
    std::fs::rename(&client, folder.path().join("old.sock")).expect("the file can be moved");
    let _successor = std::os::unix::net::UnixListener::bind(&client).expect("the place is free");
    spillgate.signal(Signal::TERM);
    assert!(spillgate.ended().success());
    assert!(client.exists());
}
