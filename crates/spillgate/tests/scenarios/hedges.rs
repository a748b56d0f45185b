//! Second tries beside a first that is slow, as clients and workers meet them.

use std::time::Duration;

use crate::harness::{Config, Crowd, Echo, Link, Spillgate, Worker, expect_all_ok, get, ok, post};

/// Exchanges after which it is known what is slow for their kind.
const KNOWN: usize = 20;

/// Two workers, of which one has answered requests like `request` at once, so often that it is
/// known what is slow. Its connection to Spillgate is kept, and chosen first by a client's next
/// request.
struct Pair {
    spillgate: Spillgate,
    client: Link,
    link: Link,
    first: Worker,
    other: Worker,
    /// The number of `other`.
    number: usize,
}

impl Pair {
    fn warm(request: impl AsRef<[u8]>, change: impl FnOnce(Config) -> Config) -> Pair {
        let (one, two) = (Worker::start(), Worker::start());
        let config = Config::of(&[one.address(), two.address()]);
        let spillgate = Spillgate::start(change(config));
        spillgate.wait_up(2);
        let mut client = spillgate.connect();
        client.send(&request);
        let (index, mut link) = Worker::accept_of(&[&one, &two]);
        for turn in 0..KNOWN {
            if turn > 0 {
                client.send(&request);
            }
            link.receive_request();
            link.send(ok("warm"));
            assert_eq!(client.receive_response().text(), "warm");
        }
        let (first, other) = if index == 0 { (one, two) } else { (two, one) };
        Pair { spillgate, client, link, first, other, number: 1 - index }
    }

    fn hedges(&self, end: &str) -> u64 {
        self.spillgate.metrics().sum("spillgate_hedges_total", &[("end", end)])
    }
}

#[test]
fn a_worker_that_hangs_is_passed_by_and_keeps_its_slot() {
    for shards in [1, 2] {
        let mut pair = Pair::warm(get("/page"), |config| config.top(&format!("shards = {shards}")));
        pair.client.send(get("/page"));
        pair.link.receive_request();
        let mut second = pair.other.accept();
        assert_eq!(second.receive_request().head.target(), "/page");
        pair.client.expect_silence();
        second.send(ok("second"));
        assert_eq!(pair.client.receive_response().text(), "second");
        let record = pair.spillgate.record_where("two tries", |record| record["tries"] == 2);
        assert_eq!((&record["hedge"], &record["end"]), (&"won".into(), &"success".into()));
        assert_eq!(record["worker"], pair.number);
        assert_eq!((pair.hedges("won"), pair.hedges("lost")), (1, 0));

        // Nothing goes to the first before it has answered, and nobody gets that.
        assert_eq!(pair.spillgate.pool()["in_flight"], 1);
        pair.client.send(get("/next"));
        assert_eq!(second.receive_request().head.target(), "/next");
        pair.first.expect_nobody();
        pair.link.send(ok("late"));
        pair.spillgate.wait_pool("one slot is free", |pool| pool["in_flight"] == 1);
        pair.client.expect_silence();
        second.send(ok("next"));
        assert_eq!(pair.client.receive_response().text(), "next");
        pair.spillgate.wait_pool("all slots free", |pool| pool["in_flight"] == 0);
        let view = pair.spillgate.pool();
        let states = [0, 1].map(|worker| view["workers"][worker]["state"].clone());
        assert_eq!(states, ["up", "up"]);
        pair.other.expect_nobody();
    }
}

/// As with any worker that does not answer.
#[test]
fn a_worker_that_hangs_for_good_is_out_when_its_time_is_over() {
    let short = |config: Config| {
        config.pool("exchange_time_max = \"300ms\"").pool("probe_interval = \"1h\"")
    };
    let mut pair = Pair::warm(get("/page"), short);
    pair.client.send(get("/page"));
    pair.link.receive_request();
    let mut second = pair.other.accept();
    second.receive_request();
    second.send(ok("second"));
    assert_eq!(pair.client.receive_response().text(), "second");
    pair.spillgate.wait_state(1 - pair.number, "out: stuck");
    let view = pair.spillgate.pool();
    assert_eq!((&view["in_flight"], &view["queue_len"]), (&1.into(), &0.into()));
}

#[test]
fn the_first_try_may_win_yet() {
    let mut pair = Pair::warm(get("/page"), |config| config);
    pair.client.send(get("/page"));
    pair.link.receive_request();
    let mut second = pair.other.accept();
    second.receive_request();
    pair.link.send(ok("first"));
    assert_eq!(pair.client.receive_response().text(), "first");
    let record = pair.spillgate.record_where("two tries", |record| record["tries"] == 2);
    assert_eq!((&record["hedge"], &record["worker"]), (&"lost".into(), &(1 - pair.number).into()));
    assert_eq!(pair.hedges("lost"), 1);
    pair.client.send(get("/next"));
    assert_eq!(pair.link.receive_request().head.target(), "/next");
    assert_eq!(pair.spillgate.pool()["in_flight"], 2);
    second.send(ok("late"));
    pair.spillgate.wait_pool("one slot is free", |pool| pool["in_flight"] == 1);
    pair.client.expect_silence();
}

#[test]
fn a_try_that_fails_leaves_the_other() {
    // The second.
    let mut pair = Pair::warm(get("/page"), |config| config);
    pair.client.send(get("/page"));
    pair.link.receive_request();
    let mut second = pair.other.accept();
    second.receive_request();
    second.reset();
    pair.spillgate.wait_state(pair.number, "out: reset");
    pair.client.expect_silence();
    pair.link.send(ok("first"));
    assert_eq!(pair.client.receive_response().text(), "first");
    assert_eq!(pair.hedges("failed"), 1);
    // The first.
    let mut pair = Pair::warm(get("/page"), |config| config);
    pair.client.send(get("/page"));
    pair.link.receive_request();
    let mut second = pair.other.accept();
    second.receive_request();
    let Pair { link, spillgate, mut client, .. } = pair;
    link.reset();
    spillgate.wait_pool("one try is left", |pool| pool["in_flight"] == 1);
    client.expect_silence();
    second.send(ok("second"));
    assert_eq!(client.receive_response().text(), "second");
    assert_eq!(spillgate.metrics().sum("spillgate_hedges_total", &[("end", "won")]), 1);
}

#[test]
fn two_workers_that_die_of_it_are_enough() {
    let pair = Pair::warm(get("/page"), |config| config);
    let Pair { spillgate, mut client, mut link, other, .. } = pair;
    client.send(get("/page"));
    link.receive_request();
    let mut second = other.accept();
    second.receive_request();
    link.reset();
    second.reset();
    assert_eq!(client.receive_response().status(), 502);
    let record = spillgate.record_where("a failure", |record| record["end"] == "failed");
    assert_eq!((&record["reason"], &record["hedge"]), (&"worker_failed".into(), &"failed".into()));
    assert_eq!(record["tries"], 2);
}

#[test]
fn an_unsafe_method_is_hedged_only_where_that_is_asked_for() {
    let short = |config: Config| config.pool("exchange_time_max = \"300ms\"");
    let mut pair = Pair::warm(post("/pay", "1"), short);
    pair.client.send(post("/pay", "1"));
    pair.link.receive_request();
    assert_eq!(pair.client.receive_response().status(), 504);
    pair.other.expect_nobody();
    assert_eq!(pair.spillgate.metrics().sum("spillgate_hedges_total", &[]), 0);

    let all = |config: Config| config.pool("hedge = \"all\"");
    let mut pair = Pair::warm(post("/pay", "1"), all);
    pair.client.send(post("/pay", "once more"));
    pair.link.receive_request();
    let mut second = pair.other.accept();
    assert_eq!(second.receive_request().text(), "once more");
    second.send(ok("second"));
    assert_eq!(pair.client.receive_response().text(), "second");
}

/// Why a request that hangs at its first worker has no second try, when it has none.
fn withheld(change: impl FnOnce(Config) -> Config) -> serde_json::Value {
    let mut pair =
        Pair::warm(get("/page"), |config| change(config.pool("exchange_time_max = \"300ms\"")));
    pair.client.send(get("/page"));
    pair.link.receive_request();
    assert_eq!(pair.client.receive_response().status(), 504);
    pair.other.expect_nobody();
    let record = pair.spillgate.record_where("a failure", |record| record["end"] == "failed");
    record["hedge"].clone()
}

#[test]
fn there_is_none_without_a_budget_or_where_it_is_off() {
    let poor = |config: Config| config.pool("retry_budget = \"0%\"").pool("retry_budget_min = 0");
    assert_eq!(withheld(poor), "retry_budget");
    assert_eq!(withheld(|config| config.pool("retry_max = 0")), "retry_budget");
    assert_eq!(withheld(|config| config.pool("hedge = \"off\"")), serde_json::Value::Null);
}

#[test]
fn who_was_told_something_by_the_first_worker_is_not_sent_to_another() {
    let short = |config: Config| config.pool("exchange_time_max = \"300ms\"");
    let mut pair = Pair::warm(get("/page"), short);
    pair.client.send(get("/page"));
    pair.link.receive_request();
    pair.link.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
    pair.client.receive_until(b"\r\n\r\n");
    assert_eq!(pair.client.receive_response().status(), 504);
    pair.other.expect_nobody();
}

#[test]
fn nobody_who_waits_is_passed_over() {
    let workers = [Echo::start(), Echo::start()];
    let addresses = workers.each_ref().map(Echo::address);
    let config = Config::of(&addresses).top("shards = 1");
    let spillgate = Spillgate::start(config.pool("exchange_time_max = \"1200ms\""));
    spillgate.wait_up(2);
    // What is slow is the second longest of twenty.
    let mut client = spillgate.connect();
    for turn in 0..KNOWN {
        let time = if turn < 2 { 500 } else { 0 };
        workers.iter().for_each(|worker| worker.takes(Duration::from_millis(time)));
        assert_eq!(client.ask(get("/page")).status(), 200);
    }
    workers.iter().for_each(Echo::hold);
    client.send(get("/page"));
    let mut others = [(); 2].map(|()| spillgate.connect());
    others[0].send(get("/busy"));
    workers.iter().for_each(|worker| worker.wait_inside(1));
    others[1].send(get("/waits"));
    spillgate.wait_queue(1);
    assert_eq!(client.receive_response().status(), 504);
    let record = spillgate.record_where("its end", |record| record["end"] == "failed");
    assert_eq!((&record["hedge"], &record["tries"]), (&"waiting".into(), &1.into()));
}

#[test]
fn both_slots_come_back_when_the_client_leaves_meanwhile() {
    let pair = Pair::warm(get("/page"), |config| config);
    let Pair { spillgate, mut client, mut link, other, .. } = pair;
    client.send(get("/page"));
    link.receive_request();
    let mut second = other.accept();
    second.receive_request();
    client.reset();
    second.send(ok("for nobody"));
    spillgate.wait_pool("one slot is free", |pool| pool["in_flight"] == 1);
    link.send(ok("for nobody either"));
    spillgate.wait_pool("all slots free", |pool| pool["in_flight"] == 0);
    let record = spillgate.record_where("two tries", |record| record["tries"] == 2);
    assert_eq!((&record["end"], &record["hedge"]), (&"abandoned".into(), &"won".into()));
}

#[test]
fn a_crowd_is_served_past_a_worker_that_hangs() {
    let workers = [Echo::start(), Echo::start(), Echo::start()];
    let addresses = workers.each_ref().map(Echo::address);
    let spillgate = Spillgate::start(Config::of(&addresses).top("shards = 2"));
    spillgate.wait_up(3);
    workers.iter().for_each(|worker| worker.takes(Duration::from_millis(2)));
    let crowd = Crowd::start(spillgate.address(), 2, |_, _| Some(get("/page")));
    crowd.wait_more(200);
    workers[0].hold();
    crowd.wait_more(200);
    workers[0].let_all_go();
    crowd.wait_more(100);
    expect_all_ok(&crowd.stop());
    assert_eq!((workers[1].most_inside(), workers[2].most_inside()), (1, 1));
    spillgate.wait_pool("all slots free", |pool| pool["in_flight"] == 0);
    let metrics = spillgate.metrics();
    let ran = ["won", "lost", "failed"];
    let ran = ran.map(|end| metrics.sum("spillgate_hedges_total", &[("end", end)]));
    let pages = |worker: &Echo| worker.targets().iter().filter(|one| *one == "/page").count();
    let sent: usize = workers.iter().map(pages).sum();
    let answers = metrics.sum("spillgate_exchange_successes_total", &[]);
    assert_eq!(
        sent as u64,
        answers + ran.iter().sum::<u64>(),
        "one request more for each: {ran:?}"
    );
    assert!(ran[0] >= 1, "{ran:?}");
}
