//! Workers that die, hang, refuse and come back, and what clients notice of it.

use spillgate_runtime::clock;

use crate::harness::{
    Config, Crowd, Echo, HeldPort, Message, Spillgate, Worker, expect_all_ok, get, mixed, ok, post,
    until,
};

/// The pool `app` with these workers.
fn pool_of(workers: &[&Echo]) -> Config {
    let addresses: Vec<_> = workers.iter().map(|worker| worker.address()).collect();
    Config::of(&addresses).top("shards = 2")
}

/// So many clients with one request each.
fn crowd(spillgate: &Spillgate, clients: usize) -> Crowd {
    Crowd::of(spillgate.address(), clients, 1)
}

#[track_caller]
fn expect_failed(response: &Message, status: u16, reason: &str) {
    assert_eq!(response.status(), status, "{}", response.text());
    let said = response.get("proxy-status").expect("the reason is told");
    assert!(said.ends_with(&format!("details=\"{reason}\"")), "{said}");
}

#[test]
fn a_worker_that_dies_with_a_long_queue_costs_nothing() {
    let (mortal, other) = (Echo::holding(), Echo::holding());
    let spillgate = Spillgate::start(pool_of(&[&mortal, &other]));
    spillgate.wait_up(2);
    let mut inside = [(); 2].map(|()| spillgate.connect());
    for client in &mut inside {
        client.send(get("/inside"));
    }
    mortal.wait_inside(1);
    other.wait_inside(1);
    let waiting = crowd(&spillgate, 24);
    spillgate.wait_queue(24);

    mortal.kill();
    spillgate.wait_state(0, "out: reset");
    other.let_all_go();
    expect_all_ok(&waiting.finish());
    for mut client in inside {
        assert_eq!(client.receive_response().status(), 200);
    }
    assert_eq!((other.seen().len(), other.most_inside()), (26, 1));
}

#[test]
fn an_idle_worker_that_is_killed_costs_no_method_anything() {
    let (port, other) = (HeldPort::any(), Echo::start());
    let mut mortal = Echo::on(&port);
    let spillgate = Spillgate::start(pool_of(&[&mortal, &other]));
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        spillgate.wait_up(2);
        // Both have answered, so each has a connection that is idle now.
        let mut clients = [(); 2].map(|()| spillgate.connect());
        mortal.hold();
        other.hold();
        for client in &mut clients {
            client.send(get("/warm"));
        }
        mortal.wait_inside(1);
        other.wait_inside(1);
        mortal.let_all_go();
        other.let_all_go();
        for client in &mut clients {
            assert_eq!(client.receive_response().status(), 200);
        }
        let [mut client, _] = clients;
        mortal.kill();
        for turn in 0..4 {
            let request = format!("{method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
            assert_eq!(client.ask(request).status(), 200, "{method}, turn {turn}");
        }
        mortal = Echo::on(&port);
    }
    assert_eq!(spillgate.metrics().sum("spillgate_exchange_failed_total", &[]), 0);
}

#[test]
fn a_busy_worker_that_is_killed_fails_only_the_unsafe_exchange_in_it() {
    let workers = [Echo::holding(), Echo::holding()];
    let spillgate = Spillgate::start(pool_of(&workers.each_ref()));
    spillgate.wait_up(2);
    let mut unsafe_client = spillgate.connect();
    unsafe_client.send(post("/unsafe", "1"));
    let victim = until("a worker has it", || workers.iter().position(|one| !one.seen().is_empty()));
    let mut workers = Vec::from(workers);
    let victim = workers.remove(victim);
    let other = workers.remove(0);
    let waiting = crowd(&spillgate, 12);
    spillgate.wait_queue(11);

    victim.kill();
    expect_failed(&unsafe_client.receive_response(), 502, "worker_failed");
    other.let_all_go();
    expect_all_ok(&waiting.finish());
    assert!(!other.targets().contains(&"/unsafe".to_owned()));
}

#[test]
fn a_refused_connect_is_free_for_every_method() {
    let (mortal, other) = (Echo::start(), Echo::start());
    let config = pool_of(&[&mortal, &other])
        .pool("keep_alive_time_max = \"0s\"")
        .pool("retry_budget = \"0%\"")
        .pool("retry_budget_min = 0");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(2);
    mortal.kill();
    for turn in 0..4 {
        assert_eq!(spillgate.ask(post(&format!("/{turn}"), "x")).status(), 200);
    }
    spillgate.wait_state(0, "out: refused");
    let metrics = spillgate.metrics();
    assert_eq!(metrics.sum("spillgate_retries_total", &[("kind", "unsent")]), 1);
    assert_eq!(metrics.sum("spillgate_retries_total", &[("kind", "sent")]), 0);
}

#[test]
fn who_reset_or_refused_is_out_until_it_is_asked() {
    let refusal = "HTTP/1.1 503 Busy\r\nSpillgate-Refusal: full\r\nContent-Length: 0\r\n\r\n";
    for (answer, state) in [(None, "out: reset"), (Some(refusal), "out: refusal")] {
        let (worker, echo) = (Worker::start(), Echo::holding());
        let config = Config::of(&[worker.address(), echo.address()]).top("shards = 2");
        let spillgate = Spillgate::start(config.pool("probe_interval = \"1h\""));
        spillgate.wait_up(2);
        let mut clients = [(); 2].map(|()| spillgate.connect());
        for client in &mut clients {
            client.send(get("/first"));
        }
        let mut link = worker.accept();
        link.receive_request();
        echo.wait_inside(1);
        match answer {
            Some(answer) => link.send(answer),
            None => link.reset(),
        }
        spillgate.wait_state(0, state);
        echo.let_all_go();
        for mut client in clients {
            assert_eq!(client.receive_response().status(), 200);
        }
        expect_all_ok(&crowd(&spillgate, 10).finish());
        assert_eq!(echo.seen().len(), 12, "{state}");
        worker.expect_nobody();
    }
}

#[test]
fn probes_ask_the_path_and_believe_the_answer() {
    let worker = Worker::start();
    let config = Config::of(&[worker.address()])
        .pool("probe_path = \"/health\"")
        .pool("probe_interval = \"20ms\"");
    let spillgate = Spillgate::start(config);
    let mut client = spillgate.connect();
    client.send(get("/held"));
    let answers = ["503 Not Yet", "404 What", "503 Not Yet", "200 OK"];
    for answer in answers {
        let mut link = worker.accept();
        assert_eq!(link.receive_request().head.line, "GET /health HTTP/1.1");
        link.send(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    }
    let mut link = worker.accept();
    assert_eq!(link.receive_request().head.target(), "/held");
    link.send(ok("at last"));
    assert_eq!(client.receive_response().text(), "at last");
    let metrics = spillgate.metrics();
    assert_eq!(metrics.sum("spillgate_probes_total", &[("outcome", "failed")]), 3);
}

#[test]
fn bare_errors_pass_and_eject_but_never_everybody() {
    let (one, other) = (Echo::start(), Echo::start());
    let config = pool_of(&[&one, &other])
        .pool("eject_after = 5")
        .pool("eject_time = \"1h\"")
        .pool("eject_keep_min = \"50%\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(2);
    for _ in 0..2 {
        let answer = spillgate.ask(get("/status/500"));
        assert_eq!((answer.status(), answer.get("proxy-status")), (500, None));
        assert_eq!(spillgate.ask(post("/status/503", "x")).status(), 503);
    }
    spillgate.wait_up(2);
    for _ in 0..16 {
        assert_eq!(spillgate.ask(get("/status/500")).status(), 500);
    }
    let pool = spillgate.pool();
    let mut states = [&pool["workers"][0]["state"], &pool["workers"][1]["state"]];
    states.sort_by_key(|state| state.to_string());
    assert_eq!(states, ["out: ejected", "up"]);
    assert_eq!(spillgate.metrics().sum("spillgate_retries_total", &[]), 0);
}

#[test]
fn a_worker_that_does_not_answer_keeps_its_slot_until_it_is_well() {
    let worker = Worker::start();
    let config = Config::of(&[worker.address()])
        .pool("exchange_time_max = \"100ms\"")
        .pool("probe_interval = \"20ms\"")
        .pool("probe_time_max = \"50ms\"");
    let spillgate = Spillgate::start(config);
    let mut stuck = spillgate.connect();
    stuck.send(get("/stuck"));
    let mut held = worker.accept();
    held.receive_request();
    expect_failed(&stuck.receive_response(), 504, "worker_timeout");

    let mut next = spillgate.connect();
    next.send(get("/next"));
    let pool = spillgate.wait_pool("a stuck slot", |pool| pool["workers"][0]["stuck"] == 1);
    assert_eq!(
        (&pool["workers"][0]["state"], &pool["in_flight"]),
        (&"out: stuck".into(), &1.into())
    );
    // Probes that get no answer change nothing; the first answer frees the slot.
    let mut probes = [(); 3].map(|()| worker.accept());
    for probe in &mut probes {
        assert_eq!(probe.receive_request().head.line, "OPTIONS * HTTP/1.1");
    }
    assert_eq!(spillgate.pool()["queue_len"], 1);
    let mut probe = worker.accept();
    assert_eq!(probe.receive_request().head.method(), "OPTIONS");
    probe.send("HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    probe.close();
    let mut link = worker.accept();
    while link.receive_request().head.method() == "OPTIONS" {
        link = worker.accept();
    }
    link.send(ok("well"));
    assert_eq!(next.receive_response().text(), "well");
}

/// Nothing tells when a worker ends whose answer nobody can read.
#[test]
fn a_worker_whose_answer_is_broken_keeps_its_slot_until_it_says_something() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(get("/broken"));
    let mut broken = worker.accept();
    broken.receive_request();
    broken.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
    expect_failed(&client.receive_response(), 502, "bad_response");
    let mut next = spillgate.connect();
    next.send(get("/next"));
    let mut question = worker.accept();
    assert_eq!(question.receive_request().head.method(), "OPTIONS");
    let pool = spillgate.wait_pool("who waits", |pool| pool["queue_len"] == 1);
    let worker_view = &pool["workers"][0];
    assert_eq!((&worker_view["stuck"], &worker_view["state"]), (&1.into(), &"up".into()));
    // Whatever it says will do, also that it does not know the method and hangs up.
    question.close();
    let (mut link, request) = worker.accept_exchange();
    assert_eq!(request.head.target(), "/next");
    link.send(ok("well"));
    assert_eq!(next.receive_response().text(), "well");
}

#[test]
fn a_worker_that_comes_back_is_used_within_a_second() {
    let port = HeldPort::any();
    let worker = Echo::on(&port);
    let spillgate = Spillgate::start(pool_of(&[&worker]));
    assert_eq!(spillgate.ask(get("/before")).status(), 200);
    worker.kill();
    let mut clients = [(); 3].map(|()| spillgate.connect());
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(mixed(number, 0));
    }
    spillgate.wait_queue(3);
    let back = clock::now();
    let worker = Echo::on(&port);
    for client in &mut clients {
        assert_eq!(client.receive_response().status(), 200);
    }
    let took = clock::now().since(back);
    assert!(took.as_millis() < 1000, "{} ms", took.as_millis());
    assert_eq!(worker.seen().len(), 3);
}

#[test]
fn retries_stay_within_their_budget() {
    let workers = [Echo::start(), Echo::start(), Echo::start()];
    let config =
        pool_of(&workers.each_ref()).pool("retry_budget = \"0%\"").pool("retry_budget_min = 1");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(3);
    let deaths = || workers.iter().map(|worker| worker.seen().len()).sum::<usize>();
    expect_failed(&spillgate.ask(get("/die")), 502, "worker_failed");
    assert_eq!(deaths(), 2, "it is never tried a third time");
    expect_failed(&spillgate.ask(get("/die")), 502, "retry_budget");
    assert_eq!(deaths(), 3);
    assert_eq!(spillgate.ask(get("/")).status(), 200);
}

/// Three echoes that take turns and have answered for a while, so that there is a retry budget;
/// from then on the first answers with this head.
fn one_of_three(head: &str) -> ([Echo; 3], Spillgate) {
    let echoes = [Echo::start(), Echo::start(), Echo::start()];
    let config = pool_of(&echoes.each_ref()).pool("keep_alive_time_max = \"0s\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(3);
    expect_all_ok(&Crowd::of(spillgate.address(), 6, 10).finish());
    echoes[0].answers(head);
    (echoes, spillgate)
}

#[test]
fn a_worker_that_alone_says_503_costs_nobody_an_answer() {
    let (echoes, spillgate) = one_of_three("503 Busy");
    let before = echoes[0].seen().len();
    let safe = |_, turn| (turn < 20).then(|| get("/"));
    expect_all_ok(&Crowd::start(spillgate.address(), 6, safe).finish());
    spillgate.wait_state(0, "out: ejected");
    assert_eq!(echoes[0].seen().len() - before, 5, "it is ejected after five");
    assert_eq!(spillgate.metrics().sum("spillgate_retries_total", &[("kind", "sent")]), 5);
}

#[test]
fn a_503_passes_where_it_may_not_be_repeated_or_is_not_one_worker_s_alone() {
    // An unsafe method.
    let (echoes, spillgate) = one_of_three("503 Busy");
    let seen = || echoes.each_ref().map(|echo| echo.seen().len());
    let before = seen();
    let answers: Vec<_> = (0..3).map(|_| spillgate.ask(post("/", "x")).status()).collect();
    // Whom each goes to depends on where idle connections lie; none goes on to another.
    let after = seen();
    let busy = answers.iter().filter(|status| **status == 503).count();
    assert_eq!(busy, after[0] - before[0], "{answers:?}");
    assert_eq!(after.iter().sum::<usize>(), before.iter().sum::<usize>() + 3, "{answers:?}");
    assert_eq!(spillgate.metrics().sum("spillgate_retries_total", &[]), 0);
    // All of them, as in maintenance: the worker's own answer reaches the client.
    let (echoes, spillgate) = one_of_three("503 Busy\r\nRetry-After: 7");
    echoes[1].answers("503 Busy\r\nRetry-After: 7");
    echoes[2].answers("503 Busy\r\nRetry-After: 7");
    for _ in 0..4 {
        let answer = spillgate.ask(get("/"));
        assert_eq!((answer.status(), answer.get("retry-after")), (503, Some("7")));
    }
    assert!(spillgate.metrics().sum("spillgate_retries_total", &[]) <= 2);
}

#[test]
fn refusals_are_free_and_bounded_by_the_time_in_the_queue() {
    let refusal = "503 Busy\r\nSpillgate-Refusal: full, maxconn:1";
    let echoes = [Echo::start(), Echo::start(), Echo::start(), Echo::start()];
    echoes[..3].iter().for_each(|echo| echo.answers(refusal));
    let config = pool_of(&echoes.each_ref())
        .pool("retry_budget = \"0%\"")
        .pool("retry_budget_min = 0")
        .pool("retry_max = 0")
        .pool("probe_interval = \"1h\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(4);
    for _ in 0..4 {
        assert_eq!(spillgate.ask(post("/", "x")).status(), 200);
    }
    let refused: usize = echoes[..3].iter().map(|echo| echo.seen().len()).sum();
    assert_eq!((refused, echoes[3].seen().len()), (3, 4), "three were tried in vain");
    // Where everybody refuses, it waits, and is turned away like everybody who waits too long.
    let alone = Echo::start();
    alone.answers(refusal);
    let config = pool_of(&[&alone]).pool("queue_wait_max = \"300ms\"");
    let spillgate = Spillgate::start(config);
    let answer = spillgate.ask(get("/"));
    assert_eq!(answer.status(), 503);
    let said = answer.get("proxy-status").expect("the reason is told");
    assert!(said.contains("queue_timeout") || said.contains("no_worker"), "{said}");
}
