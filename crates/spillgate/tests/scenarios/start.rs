//! Mistakes at start: the message names the file, the key, and what to do, and the exit code is 1.

use std::net::TcpListener;

use rustix::process::Signal;

use crate::harness::{Config, Echo, HeldPort, Program, Spillgate, until};

#[track_caller]
fn check(config: &Config, words: &[&str]) {
    let (code, said) = Spillgate::fails(config);
    assert_eq!(code, 1, "{said}");
    for word in ["spillgate.toml"].iter().chain(words) {
        assert!(said.contains(word), "{word:?} is missing: {said}");
    }
}

/// A pool without workers that anybody would have to stop.
fn quiet() -> Config {
    Config::of(&[HeldPort::any().address()])
}

#[test]
fn a_port_of_somebody_else_is_named_with_its_owner() {
    let stranger = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let address = stranger.local_addr().expect("it has one");
    let config = quiet().listener(&format!("address = \"{address}\""));
    let owner = format!("process {}", std::process::id());
    check(&config, &["listener.main.address", &address.to_string(), "in use", &owner]);

    let first = Spillgate::start(quiet());
    let config = quiet().listener(&format!("address = \"{}\"", first.address()));
    let owner = format!("process {} (spillgate)", first.pid().as_raw_nonzero());
    check(&config, &["listener.main.address", &owner, "choose another address"]);
}

#[test]
fn an_address_of_another_machine_is_told_from_one_in_use() {
    let config = quiet().listener("address = \"192.0.2.1:8080\"");
    check(&config, &["listener.main.address", "192.0.2.1:8080", "no interface of this machine"]);
}

#[test]
fn the_admin_side_is_claimed_before_any_worker_starts() {
    let program = Program::new();
    let mark = program.mark("started");
    let command = format!("command = [\"touch\", {mark:?}]");
    let pool = || Config::new().pool(&command).pool("workers = 1");
    let stranger = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let address = stranger.local_addr().expect("it has one");
    let control = program.mark("control.sock");
    let config =
        pool().section(&format!("[admin]\naddress = \"{address}\"\ncontrol = {control:?}"));
    check(&config, &["admin.address", &address.to_string(), "in use", "process"]);

    let admin = format!("[admin]\naddress = \"off\"\ncontrol = {control:?}");
    let first = Spillgate::start(quiet().section(&admin));
    check(&pool().section(&admin), &["admin.control", &control, "another process listens"]);
    drop(first);
    assert!(!std::fs::exists(&mark).expect("it can be looked for"), "a worker was started");

    // What a killed one leaves behind is in nobody's way.
    assert!(std::fs::exists(&control).expect("it can be looked for"));
    drop(Spillgate::start(quiet().section(&admin)));
}

#[test]
fn a_missing_folder_of_the_log_is_told() {
    let config = quiet().section("[access_log]\npath = \"/nowhere/access.log\"");
    check(&config, &["access_log.path", "/nowhere/access.log", "mkdir -p /nowhere"]);
}

#[test]
fn a_unix_socket_that_is_left_over_is_taken_over_and_a_living_one_is_not() {
    let program = Program::new();
    let path = program.mark("main.sock");
    let echo = Echo::start();
    let config = || Config::of(&[echo.address()]).listener(&format!("address = \"unix:{path}\""));
    std::fs::write(&path, "not a socket").expect("a file can be written");
    check(&config(), &["listener.main.address", "is no socket", "choose another path"]);
    std::fs::remove_file(&path).expect("it is there");
    for _ in 0..2 {
        // The second finds what the first, which is killed, leaves behind.
        let first = Spillgate::start_unheard(config());
        first.messages.wait_for("main: listening on");
        check(&config(), &["listener.main.address", "another process listens there"]);
    }
}

#[test]
fn a_command_is_enough_to_serve() {
    let program = Program::new();
    let mut spillgate = Spillgate::run(&program, 2);
    for _ in 0..4 {
        let answer = spillgate.ask("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(answer.status(), 200);
    }
    spillgate.signal(Signal::TERM);
    assert_eq!(spillgate.ended().code(), Some(0));
}

#[test]
fn an_address_where_nobody_is_is_named_once() {
    let port = HeldPort::any();
    let spillgate = Spillgate::start(Config::of(&[port.address()]));
    let named = format!("app: worker 0 at {}: ", port.address());
    let told = || {
        let lines = spillgate.messages.all();
        lines.iter().filter(|line| line.contains(&named)).count()
    };
    let probes = || spillgate.metrics().sum("spillgate_probes_total", &[("outcome", "failed")]);
    until("several probes", || (probes() >= 3).then_some(()));
    until("a word about it", || (told() > 0).then_some(()));
    assert_eq!(told(), 1, "{:?}", spillgate.messages.all());
}
