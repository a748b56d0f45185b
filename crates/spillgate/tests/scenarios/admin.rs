//! What operators see and say: the page, the metrics, the commands, the access log.

use std::net::SocketAddr;
use std::process::Output;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::harness::{
    Config, Crowd, Echo, HeldPort, Link, Spillgate, Worker, ctl_command, expect_all_ok, get, ok,
    post, until,
};

/// A Spillgate whose one worker holds one exchange, a client for which it does, and one that waits.
fn busy() -> (Echo, Spillgate, [Link; 2]) {
    let worker = Echo::holding();
    let spillgate = Spillgate::start(Config::of(&[worker.address()]).top("shards = 2"));
    let mut running = spillgate.connect();
    running.send(post("/running?a=b", "x"));
    worker.wait_inside(1);
    let mut waiting = spillgate.connect();
    waiting.send(get("/waiting"));
    spillgate.wait_queue(1);
    (worker, spillgate, [running, waiting])
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn metrics_are_open_metrics_and_move() {
    let worker = Echo::start();
    let spillgate = Spillgate::start(Config::of(&[worker.address()]).top("shards = 2"));
    spillgate.wait_up(1);
    let before = spillgate.metrics();
    assert_eq!(before.sum("spillgate_worker_up", &[("pool", "app"), ("worker", "0")]), 1);
    assert_eq!(before.sum("spillgate_slots", &[("pool", "app")]), 1);
    expect_all_ok(&Crowd::of(spillgate.address(), 3, 4).finish());
    assert_eq!(spillgate.ask(get("/status/404")).status(), 404);
    // The end of an exchange is counted after its answer has gone out.
    spillgate.record("/status/404");
    let after = spillgate.metrics();
    assert_eq!(before.families(), after.families(), "families do not come and go");
    let moved = |name: &str, labels: &[(&str, &str)]| {
        let labels = [&[("pool", "app")], labels].concat();
        after.sum(name, &labels) - before.sum(name, &labels)
    };
    assert_eq!(moved("spillgate_exchange_arrivals_total", &[]), 13);
    assert_eq!(moved("spillgate_exchange_successes_total", &[("status", "2xx")]), 12);
    assert_eq!(moved("spillgate_exchange_successes_total", &[("status", "4xx")]), 1);
    assert_eq!(moved("spillgate_grants_total", &[("worker", "0")]), 13);
    assert_eq!(moved("spillgate_request_body_bytes_total", &[]), 6 * 4);
    assert_eq!(moved("spillgate_exchange_duration_seconds_count", &[]), 13);
    assert_eq!(moved("spillgate_stage_duration_seconds_count", &[("stage", "admit")]), 13);
    let accepted = ("spillgate_connections_accepted_total", [("listener", "main")]);
    assert!(after.sum(accepted.0, &accepted.1) - before.sum(accepted.0, &accepted.1) >= 4);
}

#[test]
fn the_end_of_an_idle_connection_is_counted_by_its_cause() {
    let (worker, spillgate) =
        Worker::behind(|config| config.top("shards = 1").pool("keep_alive_time_max = \"1s\""));
    let ends = |reason: &str| {
        let name = "spillgate_idle_connections_closed_total";
        spillgate.metrics().sum(name, &[("pool", "app"), ("reason", reason)])
    };
    let mut client = spillgate.connect();
    let mut answer = |target: &str| {
        client.send(get(target));
        let mut link = worker.accept();
        link.receive_request();
        link.send(ok("x"));
        assert_eq!(client.receive_response().status(), 200);
        link
    };
    answer("/1").close();
    until("the worker's end is counted", || (ends("worker") == 1).then_some(()));
    let _kept = answer("/2");
    until("the end by age is counted", || (ends("age") == 1).then_some(()));
    assert_eq!(ends("worker"), 1);
}

#[test]
fn an_idle_connection_that_is_unfit_for_a_post_is_closed_for_a_new_one() {
    // A second before its worker's end of it, and so at once: too late for what cannot be repeated.
    let (worker, spillgate) =
        Worker::behind(|config| config.top("shards = 1").pool("keep_alive_time_max = \"1s\""));
    let mut client = spillgate.connect();
    let mut answer = |request: Vec<u8>, answer: Vec<u8>| {
        client.send(request);
        let mut link = worker.accept();
        link.receive_request();
        link.send(answer);
        assert_eq!(client.receive_response().status(), 200);
        link
    };
    until("an idle connection that is unfit", || {
        let mut kept = answer(get("/").into_bytes(), ok("x"));
        let close = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        answer(post("/", "x"), close.into());
        kept.expect_end();
        let name = "spillgate_idle_connections_closed_total";
        let count = |reason| spillgate.metrics().sum(name, &[("pool", "app"), ("reason", reason)]);
        // On a machine that stands still for a second it may have been closed by age before.
        (count("unfit") > 0).then_some(())
    });
}

#[test]
fn the_status_shows_what_a_worker_does_and_for_how_long() {
    let (worker, spillgate, clients) = busy();
    let doing = |pool: &Value| pool["workers"][0]["doing"][0].clone();
    let first = doing(&spillgate.pool());
    assert_eq!(first["method"], "POST");
    assert_eq!(first["path"], "/running?a=b");
    assert_eq!(first["stage"], "dispatch");
    let since = first["for_ms"].as_f64().expect("a number");
    let pool = spillgate.wait_pool("a longer time", |pool| {
        doing(pool)["for_ms"].as_f64().is_some_and(|time| time > since)
    });
    assert_eq!((&pool["queue_len"], &pool["in_flight"]), (&1.into(), &1.into()));
    assert_eq!(pool["waiting"][0]["path"], "/waiting");
    assert_eq!(pool["in_progress"], 2);
    worker.let_all_go();
    for mut client in clients {
        assert_eq!(client.receive_response().status(), 200);
    }
    let pool = spillgate.wait_pool("quiet", |pool| pool["in_progress"] == 0);
    assert_eq!(pool["workers"][0]["doing"], Value::Array(Vec::new()));
    assert_eq!(pool["successes"]["2xx"], 2);
}

#[test]
fn the_page_is_read_only_and_knows_its_names() {
    let (port, echo) = (HeldPort::any(), Echo::start());
    let folder = tempfile::TempDir::new().expect("a folder can be made");
    let control = folder.path().join("control.sock");
    let admin = format!("[admin]\naddress = \"{}\"\ncontrol = {control:?}", port.address());
    let spillgate = Spillgate::start(Config::of(&[echo.address()]).section(&admin));
    spillgate.messages.wait_for("page, /status, /metrics and /ready on");
    let ask = |request: &str, host: &str| {
        let mut link = Link::connect(port.address()).expect("the page is served");
        link.ask(format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    let ours = port.address().to_string();
    for path in ["/", "/page.js", "/page.css", "/status", "/metrics"] {
        let answer = ask(&format!("GET {path}"), &ours);
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.get("cache-control"), Some("no-store"), "{path}");
        assert!(answer.get("content-security-policy").is_some(), "{path}");
        assert_eq!(ask(&format!("GET {path}"), "evil.example").status(), 421, "{path}");
    }
    assert_eq!(ask("GET /ready", "balancer.example").status(), 200);
    assert_eq!(ask("GET /nothing", &ours).status(), 404);
    for request in ["POST /status", "DELETE /", "PUT /ready"] {
        let answer = ask(request, &ours);
        assert_eq!((answer.status(), answer.get("allow")), (405, Some("GET, HEAD")), "{request}");
    }
    // No path of the page is a path of the listener.
    assert_eq!(spillgate.ask(get("/metrics")).status(), 200);
    assert_eq!(echo.targets(), ["/metrics"]);
}

#[test]
fn a_fixed_reply_is_given_while_every_worker_is_stuck() {
    let worker = Echo::holding();
    let route = "[[route]]\npath_exact = \"/ping\"\nreply = { status = 200, body = \"PONG\\n\" }";
    let config = Config::of(&[worker.address()]).pool("queue_len_max = 1").section(route);
    let spillgate = Spillgate::start(config);
    let mut clients = [(); 2].map(|()| spillgate.connect());
    clients[0].send(get("/stuck"));
    worker.wait_inside(1);
    clients[1].send(get("/waiting"));
    spillgate.wait_queue(1);
    assert_eq!(spillgate.ask(get("/shed")).status(), 503);
    for _ in 0..3 {
        let answer = spillgate.ask(get("/ping"));
        assert_eq!((answer.status(), answer.text().as_str()), (200, "PONG\n"));
    }
    let record = spillgate.record("/ping");
    assert_eq!((&record["end"], &record["pool"]), (&"success".into(), &Value::Null));
}

#[test]
fn silent_connections_keep_nobody_from_the_admin_side() {
    let (_echo, spillgate) = Echo::behind(|config| config);
    let silent = |socket: &str, count: usize| -> Vec<Link> {
        let path = spillgate.folder().join(socket);
        let connect = || until("somebody listens", || Link::connect_unix(&path));
        (0..count).map(|_| connect()).collect()
    };
    let (mut page, mut control) = (silent("admin.sock", 80), silent("control.sock", 40));
    assert_eq!(spillgate.page("/ready").status(), 200);
    assert!(spillgate.ctl(&["status"]).status.success());
    // The oldest made room, and no more of them than had to.
    for silent in [&mut page, &mut control] {
        silent[0].expect_end();
        silent.last_mut().expect("there are some").expect_open();
    }
}

#[test]
fn commands_tell_and_refuse() {
    let (_worker, spillgate, _clients) = busy();
    let status = spillgate.ctl(&["status"]);
    assert!(status.status.success(), "{}", stderr(&status));
    for words in ["pool app: 1 of 1 slot taken, 1 waiting", "POST /running?a=b (dispatch "] {
        assert!(stdout(&status).contains(words), "{}", stdout(&status));
    }
    let json = spillgate.ctl(&["status", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(json["pools"][0]["workers"][0]["state"], "up");

    for (pool, words) in
        [("app", "started by others"), ("nothing", "there is no pool nothing, only app")]
    {
        for wait in [&[][..], &["--wait"]] {
            let refused = spillgate.ctl(&[&["restart", pool], wait].concat());
            assert_eq!(refused.status.code(), Some(1));
            assert!(stderr(&refused).contains(words), "{}", stderr(&refused));
        }
    }
    let socket = spillgate.folder().join("other.sock");
    let nobody = ctl_command(&socket, &["status"]).output().expect("the binary can be started");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("no Spillgate listens on"), "{}", stderr(&nobody));
}

/// Asks with a long target, so that few records fill every buffer of the log.
fn long_asks(address: SocketAddr) -> Crowd {
    let target = format!("/x/{}", "x".repeat(7_000));
    Crowd::start(address, 4, move |_, turn| (turn < 500).then(|| get(&target)))
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let worker = Echo::start();
    let folder = tempfile::TempDir::new().expect("a folder can be made");
    let pipe = folder.path().join("access.pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe can be made");
    let route = "[[route]]\npath = \"/x\"\nreply = { status = 200 }\n[[route]]\npool = \"app\"";
    let config = Config::of(&[worker.address()])
        .top("shards = 2")
        .section(&format!("[access_log]\npath = {pipe:?}\n{route}"));
    let spillgate = Spillgate::start(config);
    let dropped = || spillgate.metrics().sum("spillgate_access_records_dropped_total", &[]);
    let mut rounds = 0;
    while dropped() == 0 {
        expect_all_ok(&long_asks(spillgate.address()).finish());
        rounds += 1;
        assert!(rounds < 10, "the log takes records that nobody reads");
    }
    assert_eq!(spillgate.ask(get("/")).status(), 200);
}
