//! Proxies in a row: one of them repeats a request, the others pass on what came of it.

use std::net::SocketAddr;

use crate::harness::{Config, Echo, Message, Spillgate, Worker, get, ok, post};

/// A Spillgate in front of these, of which it asks the first that is up.
fn in_front_of(addresses: &[SocketAddr]) -> Spillgate {
    start(addresses, |config| config)
}

fn start(addresses: &[SocketAddr], change: impl FnOnce(Config) -> Config) -> Spillgate {
    let config = Config::of(addresses).top("shards = 1").pool("balance = \"first\"");
    let spillgate = Spillgate::start(change(config));
    spillgate.wait_up(addresses.len());
    spillgate
}

/// A GET that says of itself that it is that try.
fn attempt(target: &str, number: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nSpillgate-Attempt: {number}\r\n\r\n")
}

/// What these have seen of the number of the try.
fn attempts(echo: &Echo) -> Vec<Option<String>> {
    let said = |seen: &Message| seen.get("spillgate-attempt").map(str::to_owned);
    echo.seen().iter().map(said).collect()
}

#[test]
fn a_worker_is_told_which_try_it_is_from_the_second_on() {
    for (request, said) in [
        (get("/"), None),
        (attempt("/", "1"), Some("1")),
        (attempt("/", "0"), Some("0")),
        (attempt("/", "many"), Some("many")),
    ] {
        let (first, second) = (Worker::start(), Echo::start());
        let spillgate = in_front_of(&[first.address(), second.address()]);
        let mut client = spillgate.connect();
        client.send(&request);
        let (link, seen) = first.accept_exchange();
        assert_eq!(seen.get("spillgate-attempt"), said, "what is believed passes as it came");
        link.close();
        assert_eq!(client.receive_response().status(), 200, "{request}");
        assert_eq!(attempts(&second), [Some("2".to_owned())]);
    }
}

#[test]
fn a_try_that_no_worker_has_begun_does_not_count() {
    let (first, second) = (Worker::start(), Echo::start());
    let spillgate = in_front_of(&[first.address(), second.address()]);
    let mut client = spillgate.connect();
    client.send(attempt("/", "3"));
    let (mut link, _) = first.accept_exchange();
    link.send("HTTP/1.1 503 Busy\r\nSpillgate-Refusal: full\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive_response().status(), 200, "a refusal is free, whichever try it is");
    assert_eq!(attempts(&second), [Some("3".to_owned())]);
}

#[test]
fn what_somebody_in_front_repeats_is_not_repeated() {
    let (first, second) = (Worker::start(), Echo::start());
    let spillgate = in_front_of(&[first.address(), second.address()]);
    let mut client = spillgate.connect();
    client.send(attempt("/lost", "2"));
    let (link, _) = first.accept_exchange();
    link.close();
    let response = client.receive_response();
    assert_eq!((response.status(), response.get("spillgate-retry")), (502, Some("no")));
    assert_eq!(spillgate.record("/lost")["reason"], "worker_failed");

    let (alone, well) = (Echo::start(), Echo::start());
    alone.answers("503 Busy");
    let spillgate = in_front_of(&[alone.address(), well.address()]);
    let response = spillgate.ask(attempt("/busy", "2"));
    assert_eq!((response.status(), response.get("spillgate-retry")), (503, None));
    assert!(second.seen().is_empty() && well.seen().is_empty());
}

#[test]
fn a_stranger_does_not_say_which_try_it_is() {
    let (first, second) = (Worker::start(), Echo::start());
    let addresses = [first.address(), second.address()];
    let spillgate = start(&addresses, |config| config.top("trusted_from = []"));
    let mut client = spillgate.connect();
    let request = attempt("/", "7").replace("\r\n\r\n", "\r\nSpillgate_Attempt: 8\r\n\r\n");
    client.send(request);
    let (link, seen) = first.accept_exchange();
    for name in ["spillgate-attempt", "spillgate_attempt"] {
        assert_eq!(seen.get(name), None, "{name}");
    }
    link.close();
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(attempts(&second), [Some("2".to_owned())]);
}

#[test]
fn an_answer_that_says_do_not_retry_is_passed_on() {
    for fields in [
        "Spillgate-Retry: no",
        "Spillgate-Retry: No\r\nRetry-After: 9",
        "Spillgate-Retry: no\r\nSpillgate-Refusal: full",
    ] {
        let (first, second) = (Worker::start(), Echo::start());
        let spillgate = in_front_of(&[first.address(), second.address()]);
        let mut client = spillgate.connect();
        client.send(get("/"));
        let (mut link, _) = first.accept_exchange();
        link.send(format!("HTTP/1.1 503 Busy\r\n{fields}\r\nContent-Length: 4\r\n\r\nbusy"));
        let response = client.receive_response();
        assert_eq!((response.status(), response.text().as_str()), (503, "busy"), "{fields}");
        let said = response.get("spillgate-retry").expect("it goes on to who is in front");
        assert!(said.eq_ignore_ascii_case("no"), "{said}");
        assert_eq!(response.get("spillgate-refusal"), None);
        assert!(second.seen().is_empty(), "{fields}");
    }
}

#[test]
fn any_other_word_leaves_it_to_us() {
    let (first, second) = (Worker::start(), Echo::start());
    let spillgate = in_front_of(&[first.address(), second.address()]);
    let mut client = spillgate.connect();
    client.send(get("/"));
    let (mut link, _) = first.accept_exchange();
    link.send("HTTP/1.1 503 Busy\r\nSpillgate-Retry: yes\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(attempts(&second), [Some("2".to_owned())]);
}

#[test]
fn our_own_replies_say_where_another_try_would_not_help() {
    let worker = Worker::start();
    let spillgate = start(&[worker.address()], |config| {
        config
            .pool("queue_len_max = 0")
            .section("[[route]]\npath = \"/\"\npool = \"app\"\nhost = \"a.example\"\n")
    });
    let mut inside = spillgate.connect();
    inside.send(get("/inside"));
    let mut link = worker.accept();
    link.receive_request();
    let check = |request: &[u8], status, expected| {
        let reply = spillgate.ask(request);
        assert_eq!((reply.status(), reply.get("spillgate-retry")), (status, expected));
    };
    check(get("/full").as_bytes(), 503, Some("no"));
    check(get("/").replace("a.example", "b.example").as_bytes(), 404, None);
    link.send(ok("done"));
    assert_eq!(inside.receive_response().get("spillgate-retry"), None);
    let mut client = spillgate.connect();
    client.send(post("/unsafe", "1"));
    link.receive_request();
    link.close();
    let reply = client.receive_response();
    assert_eq!((reply.status(), reply.get("spillgate-retry")), (502, Some("no")));
}

/// Two Spillgates behind a third, each with these workers.
struct Tiers {
    front: Spillgate,
    behind: [Spillgate; 2],
}

impl Tiers {
    fn start(first: &[&Echo], second: &[&Echo], change: fn(Config) -> Config) -> Tiers {
        let behind = [first, second].map(|workers| {
            let addresses: Vec<_> = workers.iter().map(|worker| worker.address()).collect();
            start(&addresses, |config| change(config.top("trusted_from = [\"127.0.0.1\"]")))
        });
        let front = in_front_of(&[behind[0].address(), behind[1].address()]);
        Tiers { front, behind }
    }
}

#[test]
fn a_request_that_kills_is_tried_by_one_tier_alone() {
    let (first, second) = (Echo::start(), Echo::start());
    let tiers = Tiers::start(&[&first], &[&second], |config| config);
    let response = tiers.front.ask(get("/die"));
    assert_eq!((response.status(), response.get("spillgate-retry")), (502, Some("no")));
    assert_eq!(attempts(&first), [None, Some("2".to_owned())], "by the tier next to it");
    assert!(second.seen().is_empty());
}

#[test]
fn a_busy_application_is_asked_by_one_tier_alone() {
    let echoes: Vec<Echo> = (0..4).map(|_| Echo::start()).collect();
    echoes.iter().for_each(|echo| echo.answers("503 Busy"));
    let [one, two, three, four] = &echoes[..] else { panic!("there are four") };
    let tiers = Tiers::start(&[one, two], &[three, four], |config| config);
    let response = tiers.front.ask(get("/"));
    assert_eq!((response.status(), response.get("spillgate-retry")), (503, Some("no")));
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1));
    assert!(three.seen().is_empty() && four.seen().is_empty());
}

#[test]
fn what_one_tier_sheds_is_not_brought_to_the_next() {
    let (first, second) = (Echo::holding(), Echo::start());
    let tiers = Tiers::start(&[&first], &[&second], |config| config.pool("queue_len_max = 0"));
    let mut inside = tiers.behind[0].connect();
    inside.send(get("/inside"));
    first.wait_inside(1);
    let response = tiers.front.ask(get("/more"));
    assert_eq!((response.status(), response.get("spillgate-retry")), (503, Some("no")));
    let said = response.get("proxy-status").expect("the reason is told");
    assert!(said.contains("\"queue_full\""), "{said}");
    assert!(response.get("retry-after").is_some(), "its client may come again");
    assert!(second.seen().is_empty());
}

#[test]
fn when_a_tier_is_lost_the_next_makes_one_try() {
    let (lost, worker) = (Worker::start(), Echo::start());
    let behind = start(&[worker.address()], |config| config);
    let front = in_front_of(&[lost.address(), behind.address()]);
    let mut client = front.connect();
    client.send(get("/die"));
    let (link, _) = lost.accept_exchange();
    link.close();
    let response = client.receive_response();
    assert_eq!((response.status(), response.get("spillgate-retry")), (502, Some("no")));
    assert_eq!(attempts(&worker), [Some("2".to_owned())]);
}
