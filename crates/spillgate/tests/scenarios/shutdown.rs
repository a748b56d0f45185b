//! The end of Spillgate: graceful, bounded, or at once; and the log that is reopened.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Config, Echo, Link, Spillgate, get, post, until};

/// The records in a file, once there are so many.
#[track_caller]
fn records(file: &Path, count: usize) -> Vec<Value> {
    until("access records in the file", || {
        let text = std::fs::read_to_string(file).ok()?;
        let whole = text.lines().map(|line| serde_json::from_str(line).expect("a record"));
        Some(whole.collect::<Vec<Value>>()).filter(|records| records.len() >= count)
    })
}

/// A Spillgate whose one worker holds one exchange, and a client for which it does.
fn busy(change: impl FnOnce(Config) -> Config) -> (Echo, Spillgate, Link) {
    let worker = Echo::holding();
    let config = Config::of(&[worker.address()]).top("shards = 2");
    let spillgate = Spillgate::start(change(config));
    let mut client = spillgate.connect();
    client.send(post("/running", "x"));
    worker.wait_inside(1);
    (worker, spillgate, client)
}

#[test]
fn what_runs_and_what_waits_is_finished_first() {
    for stop in ["SIGTERM", "SIGINT", "drain"] {
        let (worker, mut spillgate, running) = busy(|config| config);
        let mut clients = vec![running];
        for number in 1..6 {
            let mut client = spillgate.connect();
            client.send(get(&format!("/waiting/{number}")));
            spillgate.wait_queue(number);
            clients.push(client);
        }
        match stop {
            "SIGTERM" => spillgate.signal(Signal::TERM),
            "SIGINT" => spillgate.signal(Signal::INT),
            _ => assert!(spillgate.ctl(&["drain"]).status.success()),
        }
        until("the end of listening", || {
            Link::connect(spillgate.address()).is_none().then_some(())
        });
        worker.let_all_go();
        for client in &mut clients {
            let response = client.receive_response();
            assert_eq!((response.status(), response.get("connection")), (200, Some("close")));
            client.expect_end();
        }
        assert_eq!(spillgate.ended().code(), Some(0), "{stop}");
        spillgate.output.wait_end();
        assert_eq!(spillgate.records().len(), 6);
    }
}

#[test]
fn connections_that_the_kernel_has_completed_are_served() {
    let worker = Echo::start();
    let config = Config::of(&[worker.address()]).top("shards = 2").pool("queue_len_max = 1000");
    let mut spillgate = Spillgate::start(config);
    assert_eq!(spillgate.ask(get("/")).status(), 200);
    // While it stands still, connections are completed by the kernel and wait to be accepted.
    spillgate.signal(Signal::STOP);
    let mut clients: Vec<Link> = (0..300).map(|_| spillgate.connect()).collect();
    for client in &mut clients {
        client.send(post("/late", "x"));
    }
    spillgate.signal(Signal::TERM);
    spillgate.signal(Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.receive_response().status(), 200);
    }
    assert_eq!(spillgate.ended().code(), Some(0));
}

#[test]
fn idle_connections_do_not_keep_it() {
    let (worker, mut spillgate, mut client) = busy(|config| config);
    let mut idle = spillgate.connect();
    worker.let_all_go();
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(idle.ask(get("/")).status(), 200);
    let mut fresh = spillgate.connect();
    spillgate.signal(Signal::TERM);
    for link in [&mut client, &mut idle, &mut fresh] {
        link.expect_end();
    }
    assert_eq!(spillgate.ended().code(), Some(0));
}

#[test]
fn balancers_are_told_before_it_stops_to_listen() {
    let worker = Echo::start();
    let config = Config::of(&[worker.address()]).top("stop_delay = \"500ms\"");
    let mut spillgate = Spillgate::start(config);
    until("it is ready", || (spillgate.page("/ready").status() == 200).then_some(()));
    spillgate.signal(Signal::TERM);
    until("it is not ready", || (spillgate.page("/ready").status() == 503).then_some(()));
    assert_eq!(spillgate.ask(get("/still")).status(), 200);
    assert_eq!(spillgate.ended().code(), Some(0));
}

#[test]
fn the_drain_is_bounded() {
    let (_worker, mut spillgate, mut client) =
        busy(|config| config.top("drain_time_max = \"100ms\""));
    let mut waiting = spillgate.connect();
    waiting.send(get("/waiting"));
    spillgate.wait_queue(1);
    spillgate.signal(Signal::TERM);
    let told = waiting.receive_response();
    assert_eq!((told.status(), told.text().contains("draining")), (503, true), "{}", told.text());
    client.expect_gone();
    assert_eq!(spillgate.ended().code(), Some(0));
    spillgate.messages.wait_for("1 connections cut off at drain_time_max");
    spillgate.output.wait_end();
    let records = spillgate.records();
    assert_eq!(records.len(), 2, "each exchange has its record: {records:?}");
}

#[test]
fn it_stops_at_once_where_told_to() {
    for stop in ["SIGQUIT", "stop"] {
        let (_worker, mut spillgate, mut client) = busy(|config| config);
        match stop {
            "SIGQUIT" => spillgate.signal(Signal::QUIT),
            _ => assert!(spillgate.ctl(&["stop"]).status.success()),
        }
        client.expect_gone();
        assert_eq!(spillgate.ended().code(), Some(1), "{stop}");
    }
}

#[test]
fn a_second_sigterm_changes_nothing_and_sigquit_ends_the_drain() {
    let (_worker, mut spillgate, mut client) = busy(|config| config);
    spillgate.signal(Signal::TERM);
    until("the end of listening", || Link::connect(spillgate.address()).is_none().then_some(()));
    spillgate.signal(Signal::TERM);
    client.expect_silence();
    spillgate.signal(Signal::QUIT);
    client.expect_gone();
    assert_eq!(spillgate.ended().code(), Some(1));
}

#[test]
fn a_hangup_is_answered_and_changes_nothing() {
    let (worker, spillgate, mut client) = busy(|config| config);
    spillgate.signal(Signal::HUP);
    spillgate.messages.wait_for("restart to change it");
    worker.let_all_go();
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(client.ask(get("/")).status(), 200);
}

#[test]
fn the_access_log_is_reopened_after_its_file_was_renamed() {
    let worker = Echo::start();
    let folder = tempfile::TempDir::new().expect("a folder can be made");
    let (log, renamed) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let config = Config::of(&[worker.address()])
        .section(&format!("[access_log]\npath = {:?}", log.display().to_string()));
    let spillgate = Spillgate::start(config);
    assert_eq!(spillgate.ask(get("/before")).status(), 200);
    records(&log, 1);
    std::fs::rename(&log, &renamed).expect("a file can be renamed");
    spillgate.signal(Signal::USR1);
    until("a new file", || log.exists().then_some(()));
    assert_eq!(spillgate.ask(get("/after")).status(), 200);
    assert_eq!(records(&log, 1)[0]["target"], "/after");
    assert_eq!(records(&renamed, 1).len(), 1);
}
