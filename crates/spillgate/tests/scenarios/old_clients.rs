//! Clients that speak HTTP/1.0, and clients that do not wait for one answer before they ask again.

use crate::harness::{Echo, Worker, get, post};

#[test]
fn a_client_of_old_is_closed_unless_it_asks() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let mut client = spillgate.connect();
    let response = client.ask("GET /bytes/5 HTTP/1.0\r\n\r\n");
    assert_eq!((response.get("connection"), response.body.len()), (Some("close"), 5));
    client.expect_end();
    // Workers are told of no old version, and always of a host.
    assert_eq!(echo.seen()[0].head.line, "GET /bytes/5 HTTP/1.1");
    assert_eq!(echo.seen()[0].get("host"), Some(""));

    let mut client = spillgate.connect();
    for _ in 0..2 {
        let response = client.ask("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\n\r\n");
        assert_eq!(response.get("connection"), Some("keep-alive"));
    }
    let response = client.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(response.get("connection"), Some("close"));
    client.expect_end();
}

#[test]
fn a_client_of_old_knows_no_chunks() {
    let (worker, spillgate) = Worker::behind(|config| config.pool("respond_hold_wait = \"0s\""));
    let mut client = spillgate.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    let head = client.receive_head();
    assert_eq!((head.get("transfer-encoding"), head.get("connection")), (None, Some("close")));
    client.expect("abc");
    link.send("3\r\ndef\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.receive_to_end(), b"def");
}

#[test]
fn a_client_of_old_waits_for_no_100() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send("POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    client.expect_silence();
    client.send("abc");
    let mut link = worker.accept();
    assert_eq!(link.receive_request().text(), "abc");
    link.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.receive_response().status(), 204);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (echo, spillgate) = Echo::behind(|config| config.pool("slots = 4"));
    let mut client = spillgate.connect();
    let mut requests = String::new();
    for number in 0..20 {
        // Bodies and empty lines between requests are no obstacle.
        requests +=
            &format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab\r\n");
        requests += &get(&format!("/bytes/{number}"));
    }
    client.send(requests);
    for number in 0..20 {
        let shown = client.receive_response().text();
        assert!(shown.contains(&format!("\"/{number}\"")), "{shown}");
        assert_eq!(client.receive_response().body, Echo::bytes(number));
    }
    assert_eq!(echo.seen().len(), 40);
    assert_eq!(echo.most_inside(), 1);
}

#[test]
fn requests_behind_the_last_one_are_not_served() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let mut client = spillgate.connect();
    client.send("GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.send(get("/more").repeat(50));
    assert_eq!(client.receive_response().status(), 200);
    client.expect_end();
    assert_eq!(echo.targets(), ["/last"]);
}

#[test]
fn a_request_that_comes_byte_by_byte_is_the_same() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let mut client = spillgate.connect();
    let request = "\r\nPOST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n0\r\nX: y\r\n\r\n";
    for byte in request.as_bytes() {
        client.send([*byte]);
    }
    assert_eq!(client.receive_response().status(), 200);
    let seen = echo.seen().remove(0);
    assert_eq!((seen.text().as_str(), seen.trailers.len()), ("abc", 1));
}

#[test]
fn thousands_of_pipelined_requests_are_all_answered() {
    let ping = "[[route]]\npath_exact = \"/ping\"\nreply = { status = 200, body = \"PONG\" }";
    let (echo, spillgate) = Echo::behind(|config| config.section(ping));
    echo.hold();
    let mut client = spillgate.connect();
    // Most of them come while the first one is still inside.
    client.send(get("/first") + &get("/ping").repeat(5000));
    echo.wait_inside(1);
    echo.let_all_go();
    assert_eq!(client.receive_response().status(), 200);
    for _ in 0..5000 {
        assert_eq!(client.receive_response().text(), "PONG");
    }
    client.expect_silence();
}

#[test]
fn a_small_body_for_a_fixed_reply_does_not_end_the_connection() {
    let ping = "[[route]]\npath_exact = \"/ping\"\nreply = { status = 200, body = \"PONG\" }";
    let (_echo, spillgate) = Echo::behind(|config| config.section(ping));
    let mut client = spillgate.connect();
    for _ in 0..3 {
        let response = client.ask(post("/ping", "small"));
        assert_eq!((response.text().as_str(), response.get("connection")), ("PONG", None));
    }
}
