//! Answers that must not be buffered: events, what a worker asks for, and other protocols.

use crate::harness::{Config, Link, Spillgate, Worker, get, ok};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n";

fn asked(request: &str) -> (Worker, Spillgate, Link, Link) {
    let hold = |config: Config| config.pool("respond_hold_wait = \"1m\"").top("shards = 1");
    let (worker, spillgate) = Worker::behind(hold);
    let mut client = spillgate.connect();
    client.send(request);
    let link = worker.accept();
    (worker, spillgate, client, link)
}

/// A head, and then each event, passes before the worker says anything more.
fn passes_at_once(head: &str) {
    let (_worker, spillgate, mut client, mut link) = asked(&get("/events"));
    link.receive_request();
    link.send(format!("HTTP/1.1 200 OK\r\n{head}\r\nTransfer-Encoding: chunked\r\n\r\n"));
    assert_eq!(client.receive_head().status(), 200);
    for number in 0..5 {
        let event = format!("data: {number}\n\n");
        link.send(format!("{:x}\r\n{event}\r\n", event.len()));
        assert_eq!(client.receive_chunk(), event.as_bytes());
    }
    link.send("0\r\n\r\n");
    assert!(client.receive_chunk().is_empty());
    client.expect("\r\n");
    client.send(get("/next"));
    assert_eq!(link.receive_request().head.target(), "/next");
    assert!(spillgate.record("/events")["relay"].is_string());
}

#[test]
fn events_pass_one_by_one() {
    passes_at_once("Content-Type: text/event-stream; charset=utf-8");
    passes_at_once("content-type: Text/Event-Stream");
}

#[test]
fn what_a_worker_wants_unbuffered_passes_at_once() {
    passes_at_once("X-Accel-Buffering: no");
}

#[test]
fn a_stream_whose_listener_leaves_ends_at_the_worker() {
    let (worker, spillgate, mut client, mut link) = asked(&get("/events"));
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    client.receive_head();
    client.receive_chunk();
    client.reset();
    // Nothing is said by anybody: that the listener has gone must be noticed all the same.
    link.expect_end();
    link.close();
    assert_eq!(spillgate.record("/events")["end"], "abandoned");
    let mut next = spillgate.connect();
    next.send(get("/next"));
    assert_eq!(worker.accept().receive_request().head.target(), "/next");
}

#[test]
fn a_stream_that_goes_on_without_its_listener_keeps_its_slot() {
    let (worker, spillgate, mut client, mut link) = asked(&get("/events"));
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    client.receive_head();
    client.receive_chunk();
    client.reset();
    // The worker is told, and has not ended when its time for that is over.
    link.expect_end();
    assert_eq!(spillgate.record("/events")["end"], "abandoned");
    let mut next = spillgate.connect();
    next.send(get("/next"));
    let mut question = worker.accept();
    assert_eq!(question.receive_request().head.line, "OPTIONS * HTTP/1.1");
    let pool = spillgate.wait_pool("a stuck slot", |pool| pool["workers"][0]["stuck"] == 1);
    assert_eq!((&pool["workers"][0]["state"], &pool["queue_len"]), (&"up".into(), &1.into()));
    question.send(ok("well"));
    let (mut link, request) = worker.accept_exchange();
    assert_eq!(request.head.target(), "/next");
    link.send(ok("next"));
    assert_eq!(next.receive_response().text(), "next");
}

#[test]
fn the_last_event_reaches_a_listener_that_was_slow() {
    let (_worker, _spillgate, mut client, mut link) = asked(&get("/events"));
    link.receive_request();
    link.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9000100\r\n\r\n",
    );
    // More than all buffers on the way hold, so that the worker is still sending when the client
    // begins to read.
    let sending = std::thread::spawn(move || {
        for _ in 0..90_000 {
            link.send([b'x'; 100]);
        }
        link
    });
    client.receive_head();
    client.receive(9_000_000);
    let mut link = sending.join().expect("the worker sends everything");
    link.send([b'y'; 99]);
    assert_eq!(client.receive(99), [b'y'; 99]);
}

#[test]
fn a_page_that_streams_still_streams() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(get("/"));
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.receive_head().status(), 200);
    for piece in ["<html>", "<body>"] {
        link.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
        assert_eq!(client.receive_chunk(), piece.as_bytes());
    }
    link.send("0\r\n\r\n");
    assert!(client.receive_chunk().is_empty());
}

#[test]
fn a_tunnel_loses_nothing_and_goes_both_ways() {
    let (_worker, spillgate, mut client, mut link) = asked(UPGRADE);
    let request = link.receive_request();
    assert_eq!(request.get("upgrade"), Some("websocket"));
    assert_eq!(request.get("connection"), Some("upgrade"));
    // The first frame lies in the segment of the head.
    link.send(format!("{SWITCHED}frame 1"));
    let head = client.receive_head();
    assert_eq!((head.status(), head.get("upgrade")), (101, Some("websocket")));
    assert_eq!(head.get("sec-websocket-accept"), Some("y"));
    assert_eq!(head.get("transfer-encoding"), None);
    client.expect("frame 1");
    for number in 0..100 {
        client.send(format!("ping {number}!"));
        link.expect(format!("ping {number}!"));
        link.send(format!("pong {number}!"));
        client.expect(format!("pong {number}!"));
    }
    link.close();
    client.expect_end();
    client.close();
    let record = spillgate.record("/chat");
    assert_eq!((&record["end"], &record["status"]), (&"success".into(), &101.into()));
}

#[test]
fn frames_that_a_client_sends_early_are_not_lost() {
    let (_worker, _spillgate, mut client, mut link) = asked(&format!("{UPGRADE}early"));
    link.receive_head();
    link.expect_silence();
    link.send(SWITCHED);
    link.expect("early");
    client.receive_head();
    client.send("more");
    link.expect("more");
}

#[test]
fn an_upgrade_may_have_a_body() {
    let request = UPGRADE.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello");
    let (_worker, _spillgate, mut client, mut link) = asked(&(request + "frame"));
    assert_eq!(link.receive_request().text(), "hello");
    link.send(SWITCHED);
    link.expect("frame");
    assert_eq!(client.receive_head().status(), 101);
}

#[test]
fn megabytes_cross_a_tunnel_both_ways_at_once() {
    let (_worker, _spillgate, mut client, mut link) = asked(UPGRADE);
    link.receive_request();
    link.send(SWITCHED);
    client.receive_head();
    let bytes = crate::harness::Echo::bytes(8 << 20);
    let expected = bytes.clone();
    let worker_side = std::thread::spawn(move || {
        let mut received = Vec::new();
        for piece in bytes.chunks(256 * 1024) {
            link.send(piece);
            received.extend(link.receive(piece.len()));
        }
        received
    });
    let mut received = Vec::new();
    for piece in expected.chunks(256 * 1024) {
        client.send(piece);
        received.extend(client.receive(piece.len()));
    }
    assert!(received == expected);
    assert!(worker_side.join().expect("the worker's side ends") == expected);
}

#[test]
fn each_side_may_stop_sending_before_the_other() {
    let (_worker, _spillgate, mut client, mut link) = asked(UPGRADE);
    link.receive_request();
    link.send(SWITCHED);
    client.receive_head();
    client.send("last words");
    client.half_close();
    assert_eq!(link.receive_to_end(), b"last words");
    link.send("answer");
    client.expect("answer");
    link.close();
    client.expect_end();
}

#[test]
fn a_tunnel_ends_when_its_client_is_gone() {
    let (worker, spillgate, mut client, mut link) = asked(UPGRADE);
    link.receive_request();
    link.send(SWITCHED);
    client.receive_head();
    client.reset();
    link.expect_gone();
    // The worker has not closed, but what it says elsewhere frees the slot.
    let mut next = spillgate.connect();
    next.send(get("/next"));
    assert_eq!(worker.accept_exchange().1.head.target(), "/next");
}

#[test]
fn an_upgrade_that_the_worker_declines_is_an_ordinary_answer() {
    let (_worker, _spillgate, mut client, mut link) = asked(UPGRADE);
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.receive_response().text(), "no");
    client.send(get("/next"));
    assert_eq!(link.receive_request().head.target(), "/next");
}
