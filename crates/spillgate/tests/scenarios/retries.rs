//! What is tried again when a worker fails, and what must not be.

use crate::harness::{Config, Echo, HeldPort, Link, Spillgate, Worker, get, ok, post};

fn two(first: &Worker, second: &Worker, change: impl FnOnce(Config) -> Config) -> Spillgate {
    let config = Config::of(&[first.address(), second.address()]).top("shards = 1");
    Spillgate::start(change(config))
}

/// A client that has asked, the worker that was given its request, and the other one.
struct Chosen<'w> {
    client: Link,
    link: Link,
    first: &'w Worker,
    other: &'w Worker,
}

fn chosen<'w>(
    spillgate: &Spillgate,
    workers: [&'w Worker; 2],
    request: impl AsRef<[u8]>,
) -> Chosen<'w> {
    let mut client = spillgate.connect();
    client.send(request);
    let (index, link) = Worker::accept_of(&workers);
    Chosen { client, link, first: workers[index], other: workers[1 - index] }
}

#[test]
fn a_post_that_a_worker_has_seen_is_not_sent_again() {
    let (first, second) = (Worker::start(), Worker::start());
    let spillgate = two(&first, &second, |config| config);
    let Chosen { mut client, mut link, first: asked, other } =
        chosen(&spillgate, [&first, &second], post("/pay", "1"));
    link.receive_request();
    link.close();
    let response = client.receive_response();
    assert_eq!(response.status(), 502);
    assert_eq!(spillgate.record("/pay")["reason"], "worker_failed");
    other.expect_nobody();
    asked.expect_nobody();
}

#[test]
fn a_get_is_tried_on_another_worker() {
    for end in [Link::close, Link::reset] {
        let (first, second) = (Worker::start(), Worker::start());
        let spillgate = two(&first, &second, |config| config);
        let Chosen { mut client, mut link, other, .. } =
            chosen(&spillgate, [&first, &second], get("/x"));
        link.receive_request();
        end(link);
        let mut link = other.accept();
        assert_eq!(link.receive_request().head.target(), "/x");
        link.send(ok("second"));
        assert_eq!(client.receive_response().text(), "second");
    }
}

#[test]
fn nothing_of_a_broken_answer_goes_out_before_it_is_held_long_enough() {
    let (first, second) = (Worker::start(), Worker::start());
    let hold = |config: Config| config.pool("respond_hold_wait = \"1m\"");
    let spillgate = two(&first, &second, hold);
    let Chosen { mut client, mut link, other, .. } =
        chosen(&spillgate, [&first, &second], get("/x"));
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nX-From: first\r\nContent-Length: 60000\r\n\r\n");
    link.send(vec![b'1'; 30_000]);
    link.close();
    let mut link = other.accept();
    link.receive_request();
    client.expect_silence();
    link.send("HTTP/1.1 200 OK\r\nX-From: second\r\nContent-Length: 5\r\n\r\nclean");
    let response = client.receive_response();
    assert_eq!((response.get("x-from"), response.text().as_str()), (Some("second"), "clean"));
    client.send(get("/next"));
    let record = spillgate.record("/x");
    assert_eq!((&record["end"], &record["tries"]), (&"success".into(), &2.into()));
}

#[test]
fn a_chunked_answer_is_held_back_as_well() {
    let (first, second) = (Worker::start(), Worker::start());
    let hold = |config: Config| config.pool("respond_hold_wait = \"1m\"");
    let spillgate = two(&first, &second, hold);
    let Chosen { mut client, mut link, other, .. } =
        chosen(&spillgate, [&first, &second], get("/x"));
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    link.close();
    let mut link = other.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nclean\r\n0\r\n\r\n");
    assert_eq!(client.receive_response().text(), "clean");
}

#[test]
fn what_never_reached_a_worker_is_tried_again_whatever_its_method() {
    let (dead, echo) = (HeldPort::any(), Echo::start());
    let spillgate = Spillgate::start(Config::of(&[dead.address(), echo.address()]));
    let mut client = spillgate.connect();
    for number in 0..10 {
        let response = client.ask(post(&format!("/{number}"), "x"));
        assert_eq!(response.status(), 200);
    }
    assert_eq!(echo.seen().len(), 10);
}

#[test]
fn a_worker_that_closed_its_idle_connection_gets_another() {
    let (worker, spillgate) = Worker::behind(|config| config.top("shards = 1"));
    let mut client = spillgate.connect();
    client.send(get("/1"));
    let mut link = worker.accept();
    link.receive_request();
    link.send(ok("1"));
    assert_eq!(client.receive_response().text(), "1");
    link.close();
    client.send(post("/2", "x"));
    let mut link = worker.accept();
    assert_eq!(link.receive_request().head.target(), "/2");
    link.send(ok("2"));
    assert_eq!(client.receive_response().text(), "2");
}

#[test]
fn a_worker_that_closes_just_as_it_is_asked_is_asked_again() {
    let (worker, spillgate) = Worker::behind(|config| config.top("shards = 1"));
    let mut client = spillgate.connect();
    client.send(get("/1"));
    let mut link = worker.accept();
    link.receive_request();
    link.send(ok("1"));
    assert_eq!(client.receive_response().text(), "1");
    // Its keep-alive time ran out in the moment in which the request was sent.
    client.send(get("/2"));
    link.receive_request();
    link.close();
    let mut link = worker.accept();
    assert_eq!(link.receive_request().head.target(), "/2");
    link.send(ok("2"));
    assert_eq!(client.receive_response().text(), "2");
}

#[test]
fn trailers_pass_both_ways_although_retries_are_on() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         3\r\nabc\r\n0\r\nX-Sum: 7\r\nAuthorization: no\r\n\r\n",
    );
    let mut link = worker.accept();
    let request = link.receive_request();
    assert_eq!(request.text(), "abc");
    assert_eq!(request.trailers, [("X-Sum".to_owned(), "7".to_owned())]);
    link.send(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 9\r\n\r\n",
    );
    let response = client.receive_response();
    assert_eq!(response.text(), "ok");
    assert_eq!(response.trailers, [("X-Sum".to_owned(), "9".to_owned())]);
}

#[test]
fn a_body_is_sent_whole_to_the_second_worker() {
    let (first, second) = (Worker::start(), Worker::start());
    let spillgate = two(&first, &second, |config| config);
    let body = Echo::bytes(300_000);
    let head = format!("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let request = [head.as_bytes(), &body].concat();
    let Chosen { mut client, mut link, other, .. } = chosen(&spillgate, [&first, &second], request);
    link.receive_head();
    link.receive(1000);
    link.reset();
    let mut link = other.accept();
    assert!(link.receive_request().body == body);
    link.send(ok("second"));
    assert_eq!(client.receive_response().text(), "second");
}

#[test]
fn a_worker_that_says_not_me_is_passed_over() {
    let (first, second) = (Worker::start(), Worker::start());
    let spillgate = two(&first, &second, |config| config);
    let Chosen { mut client, mut link, other, .. } =
        chosen(&spillgate, [&first, &second], post("/x", "body"));
    link.receive_request();
    link.send(
        "HTTP/1.1 503 Service Unavailable\r\nSpillgate-Refusal: busy\r\nContent-Length: 0\r\n\r\n",
    );
    let mut link = other.accept();
    assert_eq!(link.receive_request().text(), "body");
    link.send(ok("second"));
    assert_eq!(client.receive_response().text(), "second");
}

#[test]
fn a_third_worker_is_not_put_at_risk() {
    let workers: Vec<Worker> = (0..3).map(|_| Worker::start()).collect();
    let addresses: Vec<_> = workers.iter().map(Worker::address).collect();
    let spillgate = Spillgate::start(Config::of(&addresses).top("shards = 1"));
    let mut client = spillgate.connect();
    client.send(get("/poison"));
    for _ in 0..2 {
        let all: Vec<&Worker> = workers.iter().collect();
        let (_, mut link) = Worker::accept_of(&all);
        link.receive_request();
        link.reset();
    }
    assert_eq!(client.receive_response().status(), 502);
    workers.iter().for_each(Worker::expect_nobody);
    assert_eq!(spillgate.record("/poison")["reason"], "worker_failed");
}
