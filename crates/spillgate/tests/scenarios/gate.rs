//! Admission: slots, the one queue of a pool and its limits, as clients and workers meet them.

use std::time::Duration;

use crate::harness::{
    Config, Crowd, Echo, HeldPort, Link, Message, Spillgate, Worker, expect_all_ok, get, mixed, ok,
    post, until,
};

/// The pool `app` with these workers, in front of them two shards.
fn two_shards(workers: &[&Echo]) -> Config {
    let addresses: Vec<_> = workers.iter().map(|worker| worker.address()).collect();
    Config::of(&addresses).top("shards = 2")
}

/// A 503 of our own for this reason.
#[track_caller]
fn expect_shed(response: &Message, reason: &str) {
    assert_eq!(response.status(), 503, "{}", response.text());
    let said = response.get("proxy-status").expect("the reason is told");
    assert!(said.ends_with(&format!("details=\"{reason}\"")), "{said}");
    assert!(response.text().contains(reason), "{}", response.text());
}

/// Clients that wait in the queue, in this order.
#[track_caller]
fn queue_up(spillgate: &Spillgate, targets: &[&str]) -> Vec<Link> {
    let join = |(index, target): (usize, &&str)| {
        let mut client = spillgate.connect();
        client.send(get(target));
        spillgate.wait_queue(index + 1);
        client
    };
    targets.iter().enumerate().map(join).collect()
}

#[test]
fn a_worker_never_holds_more_than_its_slots() {
    for slots in [1, 2] {
        let (one, other) = (Echo::start(), Echo::start());
        let config = two_shards(&[&one, &other]).pool(&format!("slots = {slots}"));
        let spillgate = Spillgate::start(config);
        spillgate.wait_up(2);
        for worker in [&one, &other] {
            worker.takes(Duration::from_millis(1));
        }
        expect_all_ok(&Crowd::of(spillgate.address(), 16, 20).finish());
        for worker in [&one, &other] {
            assert_eq!(worker.most_inside(), slots, "inside at once");
            // Two more: a probe may still be open, and a connection whose end is under way.
            assert!(worker.most_connected() <= slots + 2, "{}", worker.most_connected());
        }
        assert_eq!(one.seen().len() + other.seen().len(), 320);
    }
}

#[test]
fn a_worker_with_one_connection_at_a_time_is_never_blocked() {
    let worker = Echo::serial();
    let spillgate = Spillgate::start(two_shards(&[&worker]));
    let crowd = Crowd::of(spillgate.address(), 16, 25);
    expect_all_ok(&crowd.finish());
    assert_eq!((worker.seen().len(), worker.most_inside()), (400, 1));
    let shards = spillgate.status()["shards"].as_array().map(Vec::len);
    assert_eq!(shards, Some(2), "the clients were spread over two");
    let connects =
        |kind| spillgate.metrics().sum("spillgate_worker_connects_total", &[("kind", kind)]);
    assert!(connects("moved") > 0, "the shards hand it over");
    assert!(connects("new") < 10, "and do not open it anew: {}", connects("new"));
}

#[test]
fn a_probe_that_is_an_exchange_takes_a_slot_like_one() {
    let worker = Echo::start();
    let config = two_shards(&[&worker])
        .pool("probe_path = \"/health\"")
        .pool("probe_interval_up = \"10ms\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(1);
    worker.takes(Duration::from_millis(1));
    let probes = || spillgate.metrics().sum("spillgate_probes_total", &[]);
    let before = probes();
    // One client, so that probes find the slot free now and then.
    let crowd = Crowd::start(spillgate.address(), 1, |client, turn| Some(mixed(client, turn)));
    until("probes of a worker that serves", || (probes() >= before + 5).then_some(()));
    expect_all_ok(&crowd.stop());
    assert_eq!(worker.most_inside(), 1);
    assert!(worker.targets().iter().filter(|target| *target == "/health").count() >= 5);
}

#[test]
fn a_probe_that_was_too_slow_keeps_its_slot_until_the_worker_speaks() {
    let (worker, spillgate) = Worker::behind(|config| {
        config
            .top("shards = 1")
            .pool("probe_path = \"/health\"")
            .pool("probe_interval_up = \"10ms\"")
            .pool("probe_time_max = \"50ms\"")
    });
    let healthy = "HTTP/1.1 204 Fine\r\nConnection: close\r\n\r\n";
    let mut link = worker.accept();
    link.receive_request();
    link.send(healthy);
    let mut slow = worker.accept();
    assert_eq!(slow.receive_request().head.target(), "/health");
    let failed = || spillgate.metrics().sum("spillgate_probes_total", &[("outcome", "failed")]);
    until("a probe that failed", || (failed() > 0).then_some(()));
    let mut client = spillgate.connect();
    client.send(get("/held"));
    spillgate.wait_queue(1);
    worker.expect_nobody();
    slow.send(healthy);
    let mut link = worker.accept();
    while link.receive_request().head.target() != "/held" {
        link.send(healthy);
        link = worker.accept();
    }
    link.send(ok("served"));
    assert_eq!(client.receive_response().text(), "served");
}

#[test]
fn no_worker_is_starved_or_overrun_at_saturation() {
    let workers = [Echo::start(), Echo::start(), Echo::start()];
    let spillgate = Spillgate::start(two_shards(&workers.each_ref()));
    spillgate.wait_up(3);
    for worker in &workers {
        worker.takes(Duration::from_millis(2));
    }
    expect_all_ok(&Crowd::of(spillgate.address(), 12, 40).finish());
    let shares = workers.each_ref().map(|worker| worker.seen().len());
    let largest = shares.iter().max().copied().unwrap_or_default();
    assert!(largest * 10 <= 13 * 480 / 3, "at most 1.3 times the mean: {shares:?}");
}

#[test]
fn a_full_queue_sheds_at_once() {
    let worker = Echo::holding();
    let spillgate = Spillgate::start(two_shards(&[&worker]).pool("queue_len_max = 2"));
    let mut inside = spillgate.connect();
    inside.send(get("/inside"));
    worker.wait_inside(1);
    let waiting = queue_up(&spillgate, &["/first", "/second"]);

    let turned_away = spillgate.ask(post("/third", "body"));
    expect_shed(&turned_away, "queue_full");
    assert!(turned_away.get("retry-after").is_some(), "{:?}", turned_away.head);
    let record = spillgate.record("/third");
    assert_eq!((&record["end"], &record["reason"]), (&"shed".into(), &"queue_full".into()));

    worker.let_all_go();
    for mut client in waiting.into_iter().chain([inside]) {
        assert_eq!(client.receive_response().status(), 200);
    }
    assert!(!worker.targets().contains(&"/third".to_owned()));
}

#[test]
fn a_wait_ends_with_the_limit_of_the_queue() {
    let worker = Echo::holding();
    let spillgate = Spillgate::start(two_shards(&[&worker]).pool("queue_wait_max = \"50ms\""));
    let mut inside = spillgate.connect();
    inside.send(get("/inside"));
    worker.wait_inside(1);

    expect_shed(&spillgate.ask(get("/late")), "queue_timeout");
    let record = spillgate.record("/late");
    assert!(record["total_ms"].as_f64().is_some_and(|total| total >= 50.0), "{record}");

    worker.let_all_go();
    assert_eq!(inside.receive_response().status(), 200);
    assert_eq!(worker.targets(), ["/inside"]);
}

#[test]
fn without_a_queue_a_free_slot_still_serves() {
    let worker = Echo::start();
    let spillgate = Spillgate::start(two_shards(&[&worker]).pool("queue_len_max = 0"));
    spillgate.wait_up(1);
    for _ in 0..3 {
        assert_eq!(spillgate.ask(get("/free")).status(), 200);
    }
    worker.hold();
    let mut inside = spillgate.connect();
    inside.send(get("/inside"));
    worker.wait_inside(1);
    expect_shed(&spillgate.ask(get("/busy")), "queue_full");
    worker.let_all_go();
    assert_eq!(inside.receive_response().status(), 200);
}

#[test]
fn who_came_first_is_served_first() {
    let worker = Echo::holding();
    let spillgate = Spillgate::start(two_shards(&[&worker]));
    let mut inside = spillgate.connect();
    inside.send(get("/0"));
    worker.wait_inside(1);
    let targets = ["/1", "/2", "/3", "/4", "/5", "/6"];
    for mut client in [inside].into_iter().chain(queue_up(&spillgate, &targets)) {
        worker.let_one_go();
        assert_eq!(client.receive_response().status(), 200);
    }
    assert_eq!(worker.targets()[1..], targets);
}

#[test]
fn an_unmeetable_deadline_sheds_once_enough_is_known() {
    let worker = Echo::holding();
    let config =
        two_shards(&[&worker]).pool("answer_within = \"400ms\"").pool("answer_quantile = \"50%\"");
    let spillgate = Spillgate::start(config);
    let hold_one = || {
        let mut client = spillgate.connect();
        client.send(get("/inside"));
        worker.wait_inside(1);
        client
    };

    // Nothing is known of the service time: who waits is served, however late.
    let inside = hold_one();
    let early = queue_up(&spillgate, &["/early"]);
    spillgate.wait_pool("a wait longer than the deadline", |pool| {
        pool["waiting"][0]["for_ms"].as_f64().is_some_and(|wait| wait > 400.0)
    });
    worker.let_all_go();
    for mut client in early.into_iter().chain([inside]) {
        assert_eq!(client.receive_response().status(), 200);
    }
    for target in ["/inside", "/early"] {
        spillgate.record(target);
    }
    let late = spillgate.metrics().sum("spillgate_exchange_late_total", &[]);
    assert_eq!(late, 2, "late answers are counted");

    // Many fast answers later it is known, and far below the deadline.
    expect_all_ok(&Crowd::of(spillgate.address(), 4, 25).finish());
    worker.hold();
    let mut inside = hold_one();
    expect_shed(&spillgate.ask(get("/unmeetable")), "deadline_unmeetable");
    worker.let_all_go();
    assert_eq!(inside.receive_response().status(), 200);
    assert!(!worker.targets().contains(&"/unmeetable".to_owned()));
}

#[test]
fn requests_are_held_until_the_first_worker_is_there() {
    let port = HeldPort::any();
    let config = Config::of(&[port.address()]).pool("queue_wait_max = \"50ms\"");
    let spillgate = Spillgate::start(config);
    let mut client = spillgate.connect();
    client.send(get("/held"));
    spillgate.wait_pool("a wait longer than that in the queue", |pool| {
        pool["waiting"][0]["for_ms"].as_f64().is_some_and(|wait| wait > 50.0)
    });
    let worker = Echo::on(&port);
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(worker.targets(), ["/held"]);
}

#[test]
fn a_worker_that_never_comes_is_waited_for_within_a_bound() {
    let port = HeldPort::any();
    let config = Config::of(&[port.address()]).pool("start_hold_max = \"100ms\"");
    let spillgate = Spillgate::start(config);
    expect_shed(&spillgate.ask(get("/")), "start_hold_expired");
    let record = spillgate.record("/");
    assert_eq!(record["reason"], "start_hold_expired");
    assert!(record["total_ms"].as_f64().is_some_and(|total| total >= 100.0), "{record}");
}

#[test]
fn a_pool_that_lost_its_workers_says_so() {
    let worker = Echo::start();
    let config = two_shards(&[&worker]).pool("queue_wait_max = \"100ms\"");
    let spillgate = Spillgate::start(config);
    assert_eq!(spillgate.ask(get("/")).status(), 200);
    worker.kill();
    let refused = spillgate.ask(get("/gone"));
    expect_shed(&refused, "no_worker");
}
