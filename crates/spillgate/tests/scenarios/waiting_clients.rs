//! Clients that wait for a word, get an early answer, close their sending side, or leave.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Config, Echo, Link, Spillgate, Worker, get, ok, post};

const EXPECTING: &str =
    "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn the_word_to_go_on_is_said_once() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(EXPECTING);
    client.expect("HTTP/1.1 100 Continue\r\n\r\n");
    worker.expect_nobody();
    client.send("hello");
    let mut link = worker.accept();
    let request = link.receive_request();
    assert_eq!((request.text().as_str(), request.get("expect")), ("hello", None));
    // The worker says it late, and twice.
    link.send("HTTP/1.1 100 Continue\r\n\r\n");
    link.send("HTTP/1.1 100 Continue\r\n\r\n");
    link.send(ok("fine"));
    assert_eq!(client.receive_response().text(), "fine");
    client.send(get("/next"));
    assert_eq!(link.receive_request().head.target(), "/next");
}

#[test]
fn who_does_not_wait_needs_no_word() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let response = spillgate.ask(format!("{EXPECTING}hello"));
    assert_eq!(response.status(), 200);
    assert_eq!(echo.seen()[0].text(), "hello");
}

#[test]
fn who_would_be_refused_is_not_told_to_go_on() {
    let (echo, spillgate) = Echo::behind(|config| config.pool("body_size_max = \"4B\""));
    let mut client = spillgate.connect();
    client.send(EXPECTING);
    assert_eq!(client.receive_response().status(), 413);
    client.expect_end();
    assert!(echo.seen().is_empty());
}

#[test]
fn an_early_answer_passes_although_the_worker_reads_no_further() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(post("/", vec![b'x'; 8 << 20]));
    let mut link = worker.accept();
    link.receive_head();
    link.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let response = client.receive_response();
    assert_eq!((response.status(), response.text().as_str()), (403, "no"));
    // Bytes of the body are still on their way to the worker, so nothing else may follow them.
    client.send(get("/next"));
    assert_eq!(worker.accept().receive_request().head.target(), "/next");
}

#[test]
fn an_early_answer_passes_although_the_worker_resets_behind_it() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(post("/", vec![b'x'; 8 << 20]));
    let mut link = worker.accept();
    link.receive_head();
    link.send("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
    // With the body unread, its end is a reset.
    link.close();
    assert_eq!(client.receive_response().text(), "no");
}

#[test]
fn hints_in_the_middle_of_a_body_do_not_stop_it() {
    let (worker, spillgate) = Worker::behind(|config| config);
    for size in [1000, 70_000, 8 << 20] {
        let mut client = spillgate.connect();
        let body = Echo::bytes(size);
        client.send(post("/", &body));
        let mut link = worker.accept();
        link.receive_head();
        let mut read = 0;
        for interim in ["103 Early Hints\r\nLink: </a.css>", "100 Continue", "102 Processing"] {
            link.send(format!("HTTP/1.1 {interim}\r\n\r\n"));
            assert!(link.receive(size / 4) == body[read..][..size / 4]);
            read += size / 4;
        }
        assert!(link.receive(size - read) == body[read..]);
        link.send(ok("all of it"));
        assert_eq!(client.receive_head().status(), 103);
        assert_eq!(client.receive_response().text(), "all of it");
        link.close();
    }
}

/// A worker that is busy with `/first`, and a Spillgate with one slot in front of it.
fn busy(half_close: &str) -> (Echo, Spillgate, Link) {
    let echo = Echo::holding();
    let line = format!("half_close = {half_close:?}");
    let config = Config::of(&[echo.address()]).top("shards = 1").listener(&line);
    let spillgate = Spillgate::start(config);
    let mut first = spillgate.connect();
    first.send(get("/first"));
    echo.wait_inside(1);
    (echo, spillgate, first)
}

#[test]
fn a_half_closed_client_that_waits_has_left() {
    let (echo, spillgate, mut first) = busy("abandon");
    let mut waiting = spillgate.connect();
    waiting.send(get("/waiting"));
    waiting.half_close();
    waiting.expect_gone();
    let record = spillgate.record("/waiting");
    assert_eq!((&record["end"], &record["reason"]), (&"abandoned".into(), &"admit".into()));
    echo.let_all_go();
    assert_eq!(first.receive_response().status(), 200);
    assert_eq!(spillgate.ask(get("/after")).status(), 200);
    assert_eq!(echo.targets(), ["/first", "/after"]);
}

#[test]
fn a_half_closed_client_that_waits_is_served_where_told_so() {
    let (echo, spillgate, mut first) = busy("serve");
    let mut waiting = spillgate.connect();
    waiting.send(get("/waiting"));
    waiting.half_close();
    echo.let_all_go();
    assert_eq!(first.receive_response().status(), 200);
    assert_eq!(waiting.receive_response().status(), 200);
    waiting.expect_end();
}

#[test]
fn a_half_closed_client_is_served_once_dispatched() {
    for setting in ["abandon", "serve"] {
        let (echo, spillgate, mut first) = busy(setting);
        first.half_close();
        // Another exchange shows that the end was there to be seen before the answer.
        let mut other = spillgate.connect();
        other.send(get("/other"));
        echo.let_all_go();
        assert_eq!(first.receive_response().status(), 200);
        first.expect_end();
        assert_eq!(other.receive_response().status(), 200);
    }
}

#[test]
fn a_client_that_leaves_while_it_waits_is_never_seen_by_a_worker() {
    for leave in [Link::close, Link::reset] {
        let (echo, spillgate, mut first) = busy("abandon");
        let mut waiting = spillgate.connect();
        waiting.send(post("/waiting", "body"));
        let mut last = spillgate.connect();
        last.send(get("/last"));
        leave(waiting);
        assert_eq!(spillgate.record("/waiting")["end"], "abandoned");
        echo.let_all_go();
        assert_eq!(first.receive_response().status(), 200);
        assert_eq!(last.receive_response().status(), 200);
        assert_eq!(echo.targets(), ["/first", "/last"]);
    }
}

#[test]
fn a_client_that_pipelined_and_leaves_is_noticed() {
    let (echo, spillgate, mut first) = busy("abandon");
    let mut waiting = spillgate.connect();
    waiting.send(get("/waiting") + &get("/behind").repeat(10));
    waiting.close();
    assert_eq!(spillgate.record("/waiting")["end"], "abandoned");
    echo.let_all_go();
    assert_eq!(first.receive_response().status(), 200);
    assert_eq!(spillgate.ask(get("/after")).status(), 200);
    assert_eq!(echo.targets(), ["/first", "/after"]);
}

#[test]
fn a_slot_stays_taken_although_its_client_has_left() {
    for leave in [Link::close, Link::reset] {
        let (echo, spillgate, first) = busy("abandon");
        leave(first);
        let clients: Vec<Link> = (0..5)
            .map(|number| {
                let mut client = spillgate.connect();
                client.send(get(&format!("/{number}")));
                client
            })
            .collect();
        echo.wait_inside(1);
        echo.let_all_go();
        for mut client in clients {
            assert_eq!(client.receive_response().status(), 200);
        }
        assert_eq!(echo.most_inside(), 1);
    }
}

#[test]
fn a_worker_that_fails_a_client_who_has_left_has_failed() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(post("/", "x"));
    let mut link = worker.accept();
    link.receive_request();
    client.reset();
    link.reset();
    let record = spillgate.record("/");
    assert_eq!((&record["end"], &record["reason"]), (&"failed".into(), &"worker_failed".into()));
    assert_eq!((&record["blame"], &record["status"]), (&"worker".into(), &0.into()));
}

#[test]
fn a_client_that_half_closes_at_once_is_served_where_a_slot_is_free() {
    let (echo, spillgate) = Echo::behind(|config| config.top("shards = 2"));
    spillgate.wait_up(1);
    // One after the other, so that there is never a queue, on both shards.
    for number in 0..100 {
        let mut client = spillgate.connect();
        client.send(get(&format!("/{number}")));
        client.half_close();
        assert_eq!(client.receive_response().status(), 200);
        client.expect_end();
    }
    assert_eq!(echo.seen().len(), 100);
}

#[test]
fn a_connection_that_was_idle_for_long_serves_on_and_ends_with_the_rest() {
    let (echo, mut spillgate) = Echo::behind(|config| config.top("shards = 1"));
    let mut client = spillgate.connect();
    for target in ["/first", "/second"] {
        assert_eq!(client.ask(get(target)).status(), 200);
        // Longer than an idle connection keeps its task.
        assert!(client.is_quiet_for(Duration::from_millis(1_500)));
    }
    assert_eq!(echo.seen().len(), 2);
    spillgate.signal(Signal::TERM);
    client.expect_end();
    assert_eq!(spillgate.ended().code(), Some(0));
}
