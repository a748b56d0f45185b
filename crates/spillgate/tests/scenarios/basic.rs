//! The plain life of an exchange, which also shows how a scenario is written.

use crate::harness::{Config, Echo, HeldPort, Spillgate, Worker};

#[test]
fn an_exchange_is_a_dialogue_of_three() {
    let (worker, spillgate) = Worker::behind(|config| config.listener("half_close = \"serve\""));

    let mut client = spillgate.connect();
    client.send("GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n\r\n");

    let mut link = worker.accept();
    let request = link.receive_request();
    assert_eq!(request.head.line, "GET /a?b=c HTTP/1.1");
    assert_eq!(request.get("host"), Some("example.org"));
    link.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");

    let response = client.receive_response();
    assert_eq!((response.status(), response.text().as_str()), (200, "hello"));

    let record = spillgate.record("/a?b=c");
    assert_eq!(record["end"], "success");
    assert_eq!(record["response_bytes"], 5);
}

#[test]
fn connections_of_both_sides_are_used_again() {
    let (worker, spillgate) = Worker::behind(|config| config.top("shards = 1"));
    let mut client = spillgate.connect();
    let mut link = None;
    for target in ["/1", "/2", "/3"] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let link = link.get_or_insert_with(|| worker.accept());
        assert_eq!(link.receive_request().head.target(), target);
        link.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.receive_response().status(), 204);
    }
    worker.expect_nobody();
}

#[test]
fn an_echo_tells_what_it_saw() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let response = spillgate.ask("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(response.status(), 200);
    let seen: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    assert_eq!(seen["body_len"], 3);
    assert_eq!(echo.seen()[0].body, b"abc");
    assert_eq!(echo.most_inside(), 1);

    let response = spillgate.ask("GET /bytes/300000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(response.body == Echo::bytes(300_000));
}

#[test]
fn a_dead_worker_costs_nothing() {
    let (dead, echo) = (HeldPort::any(), Echo::start());
    let config = Config::of(&[dead.address(), echo.address()]);
    let spillgate = Spillgate::start(config);
    for _ in 0..4 {
        assert_eq!(spillgate.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200);
    }
    assert_eq!(echo.seen().len(), 4);
}
