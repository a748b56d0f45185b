//! What a client sees of a worker's answer: its end where the worker meant it, an error where the
//! worker broke off, and never a byte of one answer in another.

use crate::harness::{Link, Spillgate, Worker, get, ok};

/// A client has asked for `/`, and a worker has the request.
fn asked(change: impl FnOnce(crate::harness::Config) -> crate::harness::Config) -> Asked {
    asked_with(get("/"), change)
}

fn asked_with(
    request: impl AsRef<[u8]>,
    change: impl FnOnce(crate::harness::Config) -> crate::harness::Config,
) -> Asked {
    let (worker, spillgate) = Worker::behind(|config| change(config.top("shards = 1")));
    let mut client = spillgate.connect();
    client.send(request);
    let mut link = worker.accept();
    link.receive_request();
    Asked { worker, spillgate, client, link }
}

struct Asked {
    worker: Worker,
    spillgate: Spillgate,
    client: Link,
    link: Link,
}

impl Asked {
    /// The client asks again on its connection; the worker sees it on the one it has.
    #[track_caller]
    fn goes_on(mut self) {
        self.client.send(get("/again"));
        assert_eq!(self.link.receive_request().head.target(), "/again");
        self.link.send(ok("again"));
        assert_eq!(self.client.receive_response().text(), "again");
    }

    /// The client asks again on its connection; the worker sees it on another one.
    #[track_caller]
    fn goes_on_elsewhere(mut self) {
        self.client.send(get("/again"));
        let mut link = self.worker.accept();
        assert_eq!(link.receive_request().head.target(), "/again");
        link.send(ok("again"));
        assert_eq!(self.client.receive_response().text(), "again");
        self.link.expect_gone();
    }
}

#[test]
fn early_hints_pass_and_the_answer_follows() {
    let mut asked = asked(|config| config);
    asked.link.send(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x\r\nX: y\r\n\r\n",
    );
    asked.link.send("HTTP/1.1 102 Processing\r\n\r\n");
    asked.link.send("HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n");
    asked.link.send(ok("done"));
    let hints = asked.client.receive_head();
    assert_eq!(hints.line, "HTTP/1.1 103 Early Hints");
    assert_eq!(hints.fields, [("Link".to_owned(), "</a.css>; rel=preload".to_owned())]);
    assert_eq!(asked.client.receive_head().get("link"), Some("</b.css>"));
    assert_eq!(asked.client.receive_response().text(), "done");
    asked.goes_on();
}

#[test]
fn what_is_meant_for_us_is_not_passed_with_hints_or_a_switch() {
    let meant = "Content-Length: 5\r\nSpillgate-Refusal: x\r\nX-Accel-Buffering: no\r\nA: b\r\n";
    let upgrade = "Connection: upgrade\r\nUpgrade: x\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n");
    let mut asked = asked_with(request, |config| config);
    asked.link.send(format!("HTTP/1.1 103 Early Hints\r\n{meant}\r\n"));
    asked.link.send(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}{meant}\r\n"));
    for status in [103, 101] {
        let head = asked.client.receive_head();
        assert_eq!((head.status(), head.get("a")), (status, Some("b")));
        for name in ["content-length", "spillgate-refusal", "x-accel-buffering"] {
            assert_eq!(head.get(name), None, "{status}: {name}");
        }
    }
}

#[test]
fn early_hints_are_not_for_clients_of_old() {
    let mut asked = asked_with("GET / HTTP/1.0\r\n\r\n", |config| config);
    asked.link.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
    asked.link.send(ok("done"));
    assert_eq!(asked.client.receive_response().text(), "done");
    asked.client.expect_end();
}

#[test]
fn interim_answers_that_nobody_asked_for_are_a_fault() {
    for interim in
        ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 150 X\r\n\r\n"]
    {
        let mut asked = asked(|config| config);
        asked.link.send(interim);
        assert_eq!(asked.client.receive_response().status(), 502);
        assert_eq!(asked.spillgate.record("/")["reason"], "bad_response");
    }
}

#[test]
fn an_answer_to_head_ends_at_its_empty_line() {
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    for framing in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
        let mut asked = asked_with(head, |config| config);
        asked.link.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        let response = asked.client.receive_response_to("HEAD");
        let (name, value) = framing.split_once(": ").expect("a field");
        assert_eq!(response.get(name), Some(value));
        asked.goes_on();
    }
}

#[test]
fn answers_without_body_end_at_their_empty_line() {
    for head in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 1000\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ] {
        let mut asked = asked(|config| config);
        asked.link.send(head);
        let response = asked.client.receive_response();
        assert!(response.body.is_empty());
        asked.goes_on();
    }
}

#[test]
fn a_body_where_none_may_be_ends_the_workers_connection() {
    for (request, answer) in [
        (get("/"), "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody"),
        (get("/"), "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (get("/"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok more"),
        (
            "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".into(),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        ),
    ] {
        let mut asked = asked_with(&request, |config| config);
        asked.link.send(answer);
        let method = request.split(' ').next().expect("a method");
        let response = asked.client.receive_response_to(method);
        assert_ne!(response.text(), "body");
        asked.goes_on_elsewhere();
    }
}

#[test]
fn a_body_that_comes_late_where_none_may_be_is_no_answer() {
    let mut asked = asked(|config| config);
    asked.link.send("HTTP/1.1 304 Not Modified\r\n\r\n");
    assert_eq!(asked.client.receive_response().status(), 304);
    asked.link.send(ok("stray"));
    asked.goes_on_elsewhere();
}

#[test]
fn a_short_body_is_an_error_for_the_client() {
    let big = vec![b'x'; 200_000];
    for head in ["Content-Length: 400000", "Transfer-Encoding: chunked"] {
        let mut asked = asked(|config| config);
        asked.link.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"));
        if head.contains("chunked") {
            asked.link.send("61a80\r\n");
        }
        asked.link.send(&big);
        asked.link.close();
        // What came is passed on, and then the connection ends before its framing says so.
        asked.client.receive_head();
        let body = asked.client.receive_to_end();
        assert!((200_000..400_000).contains(&body.len()), "{}", body.len());
        assert!(!body.ends_with(b"0\r\n\r\n"));
        assert_eq!(asked.spillgate.record("/")["reason"], "response_broken");
    }
}

#[test]
fn a_short_body_that_would_look_whole_ends_with_a_reset() {
    let request = "GET / HTTP/1.0\r\nHost: a\r\n\r\n";
    let mut asked = asked_with(request, |config| config.pool("respond_hold_wait = \"0s\""));
    asked.link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    asked.client.receive_head();
    asked.client.expect("hello");
    asked.link.close();
    asked.client.expect_reset();
}

#[test]
fn a_small_short_body_is_not_even_begun() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 200 O",
    ] {
        let mut asked = asked_with(request, |config| config.pool("respond_hold_wait = \"20s\""));
        asked.link.send(answer);
        asked.link.close();
        assert_eq!(asked.client.receive_response().status(), 502);
    }
}

#[test]
fn what_is_no_answer_of_http_is_a_bad_gateway() {
    for answer in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad name: x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let mut asked = asked(|config| config);
        asked.link.send(answer);
        let response = asked.client.receive_response();
        assert_eq!(response.status(), 502, "{answer:?}");
        assert_eq!(asked.spillgate.record("/")["reason"], "bad_response", "{answer:?}");
        asked.link.expect_gone();
    }
}

#[test]
fn a_large_head_passes() {
    let mut asked = asked(|config| config);
    let cookie = "c".repeat(4000);
    let lines = format!("Set-Cookie: {cookie}\r\n").repeat(8);
    asked.link.send(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok"));
    let response = asked.client.receive_response();
    assert_eq!(response.head.all("set-cookie"), [cookie.as_str(); 8]);
    assert_eq!(response.text(), "ok");
    asked.goes_on();
}

#[test]
fn a_body_that_ends_with_its_connection() {
    for version in ["1.0", "1.1"] {
        let mut asked = asked(|config| config);
        asked.link.send(format!("HTTP/{version} 200 OK\r\n\r\nhello"));
        asked.link.half_close();
        let response = asked.client.receive_response();
        assert_eq!(response.text(), "hello");
        asked.goes_on_elsewhere();
    }
}

#[test]
fn a_body_that_should_end_with_its_connection_and_breaks() {
    let mut asked = asked(|config| config);
    asked.link.send("HTTP/1.1 200 OK\r\nX-Accel-Buffering: no\r\n\r\nhello");
    asked.client.receive_head();
    assert_eq!(asked.client.receive_chunk(), b"hello");
    asked.link.reset();
    asked.client.expect_end();
}

#[test]
fn a_worker_of_old_closes_unless_it_says_otherwise() {
    let mut asked = asked(|config| config);
    asked.link.send("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(asked.client.receive_response().text(), "ok");
    asked.goes_on_elsewhere();

    let mut asked = self::asked(|config| config);
    asked.link.send("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(asked.client.receive_response().text(), "ok");
    asked.goes_on();
}

#[test]
fn chunks_are_framed_anew() {
    let mut asked = asked(|config| config);
    asked.link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    asked.link.send("3;a=b\r\nabc\r\n0002\r\nde\r\n0\r\n\r\n");
    assert_eq!(asked.client.receive_response().text(), "abcde");
    asked.goes_on();
}

#[test]
fn reasons_and_unknown_statuses_pass() {
    for line in ["HTTP/1.1 200 All's well", "HTTP/1.1 299 ", "HTTP/1.1 599 Odd", "HTTP/1.1 404"] {
        let mut asked = asked(|config| config);
        asked.link.send(format!("{line}\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(asked.client.receive_response().head.line.trim(), line.trim());
    }
}
