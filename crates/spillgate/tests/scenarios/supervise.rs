//! Workers that Spillgate starts itself, as real processes: their start, their ends, and what
//! clients notice of either.

use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::harness::{
    Answer, Config, Crowd, HeldPort, Link, Message, Program, Spillgate, expect_all_ok, get, mixed,
    post, until, workers,
};

/// What a worker said of itself.
#[track_caller]
fn told(response: &Message) -> Value {
    assert_eq!(response.status(), 200, "{}", response.text());
    serde_json::from_slice(&response.body).expect("a worker answers in JSON")
}

fn pid_of(value: &Value) -> Pid {
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.and_then(Pid::from_raw).expect("a process id")
}

/// No process, or only what is left of one until its parent has looked.
fn is_gone(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let state = stat.ok().and_then(|stat| stat.rsplit(") ").next().map(str::to_owned));
    test_kill_process(pid).is_err() || state.is_none_or(|state| state.starts_with('Z'))
}

#[test]
fn workers_are_told_who_they_are_and_where_to_listen() {
    let program = Program::new();
    for (config, key) in
        [(program.config(2), "SPILLGATE_SOCKET"), (program.config_on_ports(2), "PORT")]
    {
        let config = config.pool("environment = { GREETING = \"hello\" }");
        let spillgate = Spillgate::start(config);
        spillgate.wait_up(2);
        let said = spillgate.messages.all().join("\n");
        assert!(!said.contains("warning"), "the folder of the sockets is made: {said}");
        // While one is busy, the other is asked.
        let mark = program.mark(key);
        let mut first = spillgate.connect();
        first.send(get(&format!("/until{mark}")));
        spillgate.wait_pool("a busy worker", |pool| pool["in_flight"] == 1);
        let second = spillgate.ask(get("/"));
        std::fs::write(&mark, "").expect("a file can be written");
        let mut seen = [first.receive_response(), second].map(|response| {
            let environment = &told(&response)["environment"];
            assert_eq!(environment["GREETING"], "hello");
            let of = |name: &str| environment[name].as_str().expect("it is told").to_owned();
            assert!(!of("NOTIFY_SOCKET").is_empty() && of("WATCHDOG_USEC") == "5000000");
            (of("SPILLGATE_WORKER_ID"), of(key))
        });
        seen.sort();
        assert_eq!((seen[0].0.as_str(), seen[1].0.as_str()), ("0", "1"));
        assert_ne!(seen[0].1, seen[1].1);
    }
}

#[test]
fn what_workers_print_goes_through_with_their_names() {
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(1));
    assert_eq!(spillgate.ask(get("/say/something")).status(), 200);
    spillgate.output.wait_for("[app/0] out something");
    spillgate.messages.wait_for("[app/0] err something");
}

#[test]
fn a_crash_holds_the_queue_and_the_worker_comes_back() {
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(1).pool("restart_wait_min = \"20ms\""));
    let first = told(&spillgate.ask(get("/")))["pid"].clone();
    let mut poison = spillgate.connect();
    poison.send(post("/exit/3", ""));
    let crowd = Crowd::of(spillgate.address(), 6, 5);
    assert_eq!(poison.receive_response().status(), 502);
    expect_all_ok(&crowd.finish());
    let second = told(&spillgate.ask(get("/")))["pid"].clone();
    assert_ne!(first, second);
    spillgate.messages.wait_for("app/0 run 1 ended with code 3");
    assert_eq!(spillgate.pool()["workers"][0]["restarts"], 1);
}

#[test]
fn an_idle_worker_that_is_killed_is_replaced_and_costs_nothing() {
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(2).pool("restart_wait_min = \"20ms\""));
    spillgate.wait_up(2);
    for _ in 0..3 {
        let mut client = spillgate.connect();
        assert_eq!(client.ask(get("/")).status(), 200);
        let pids = spillgate.pids();
        let victim = Pid::from_raw(pids[0]).expect("a process id");
        kill_process(victim, Signal::KILL).expect("it runs");
        // Until it is gone, the kernel takes requests for it that nobody will read.
        until("its end", || is_gone(victim).then_some(()));
        for turn in 0..4 {
            assert_eq!(client.ask(post(&format!("/{turn}"), "x")).status(), 200);
        }
        spillgate.wait_pool("a new process", |pool| {
            workers(pool).all(|worker| worker["state"] == "up" && worker["pid"] != pids[0])
        });
    }
}

#[test]
fn a_kill_under_load_costs_at_most_the_unsafe_exchange_that_it_hits() {
    const KILLS: usize = 5;
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(3).pool("restart_wait_min = \"10ms\""));
    spillgate.wait_up(3);
    let crowd = Crowd::start(spillgate.address(), 6, |client, turn| Some(mixed(client, turn)));
    for round in 0..KILLS {
        crowd.wait_more(10);
        let pids = spillgate.pids();
        let victim = Pid::from_raw(pids[round % pids.len()]).expect("a process id");
        kill_process(victim, Signal::KILL).expect("it runs");
        until("its end", || is_gone(victim).then_some(()));
        spillgate.wait_up(3);
    }
    crowd.wait_more(10);
    let answers = crowd.stop();
    let (lost, good): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(|answer| {
        let response = answer.response.as_ref();
        answer.line.starts_with("POST") && response.is_some_and(|one| one.status() == 502)
    });
    expect_all_ok(&good);
    assert!(lost.len() <= KILLS, "{} lost: {lost:?}", lost.len());
}

#[test]
fn a_rolling_restart_loses_no_request() {
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(3));
    spillgate.wait_up(3);
    let before = spillgate.pids();
    let crowd = Crowd::start(spillgate.address(), 4, |client, turn| Some(mixed(client, turn)));
    crowd.wait_more(20);
    let restart = spillgate.ctl(&["restart", "app", "--wait"]);
    assert!(restart.status.success(), "{}", String::from_utf8_lossy(&restart.stderr));
    let said = String::from_utf8_lossy(&restart.stdout).into_owned();
    assert!(said.contains("all workers of app replaced"), "{said}");
    crowd.wait_more(20);
    let answers = crowd.stop();
    expect_all_ok(&answers);
    let after = spillgate.pids();
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} and {after:?}");
    let metrics = spillgate.metrics();
    assert_eq!(metrics.sum("spillgate_exchange_arrivals_total", &[]), answers.len() as u64);
    assert_eq!(metrics.sum("spillgate_retries_total", &[("kind", "sent")]), 0);
}

#[test]
fn a_rolling_restart_waits_for_what_runs() {
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(2));
    spillgate.wait_up(2);
    let before = spillgate.pids();
    let mark = program.mark("go");
    let mut client = spillgate.connect();
    client.send(post(&format!("/until{mark}"), ""));
    let pool = spillgate.wait_pool("a busy worker", |pool| pool["in_flight"] == 1);
    let busy = workers(&pool).position(|worker| worker["in_flight"] == 1).expect("one is");
    let mut restart = spillgate
        .ctl_command(&["restart", "app", "--wait"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary can be started");
    spillgate.messages.wait_for(&format!("app/{busy} run 2 is ready"));
    // What comes meanwhile is not given to the process that is to go.
    expect_all_ok(&Crowd::of(spillgate.address(), 3, 4).finish());
    client.expect_silence();
    std::fs::write(&mark, "").expect("a file can be written");
    assert_eq!(told(&client.receive_response())["pid"], before[busy]);
    assert!(restart.wait().expect("our child").success());
    let after = spillgate.pids();
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} and {after:?}");
}

#[test]
fn a_release_that_does_not_start_is_not_rolled_out() {
    let program = Program::new();
    let mark = program.mark("broken");
    let config = program.config(2).pool(&format!("environment = {{ BROKEN_IF = {mark:?} }}"));
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(2);
    let before = spillgate.pids();
    std::fs::write(&mark, "").expect("a file can be written");
    let crowd = Crowd::start(spillgate.address(), 4, |client, turn| Some(mixed(client, turn)));
    let restart = spillgate.ctl(&["restart", "app", "--wait"]);
    assert_eq!(restart.status.code(), Some(1));
    let said = String::from_utf8_lossy(&restart.stderr).into_owned();
    assert!(said.contains("the next process ended, the one before it serves on"), "{said}");
    spillgate.messages.wait_for("[app/0] this release does not start");
    crowd.wait_more(10);
    expect_all_ok(&crowd.stop());
    assert_eq!(spillgate.pids(), before);
}

#[test]
fn the_queue_is_held_while_the_only_worker_changes_over() {
    let program = Program::new();
    let config = program.config(1).pool("queue_wait_max = \"100ms\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(1);
    let mark = program.mark("go");
    let mut running = spillgate.connect();
    running.send(post(&format!("/until{mark}"), ""));
    spillgate.wait_pool("a busy worker", |pool| pool["in_flight"] == 1);
    assert!(spillgate.ctl(&["restart", "app"]).status.success());
    spillgate.messages.wait_for("pool: app: worker 0 is draining");
    let mut waiting = spillgate.connect();
    waiting.send(post("/", "x"));
    spillgate.wait_pool("a wait longer than that in the queue", |pool| {
        pool["waiting"][0]["for_ms"].as_f64().is_some_and(|wait| wait > 200.0)
    });
    std::fs::write(&mark, "").expect("a file can be written");
    let (old, new) = (told(&running.receive_response()), told(&waiting.receive_response()));
    assert_ne!(old["pid"], new["pid"]);
}

#[test]
fn a_worker_in_an_infinite_loop_is_replaced() {
    let program = Program::new();
    let config = program
        .config(2)
        .pool("exchange_time_max = \"1s\"")
        .pool("stall_stop_time_max = \"100ms\"")
        .pool("restart_wait_min = \"20ms\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(2);
    let before = spillgate.pids();
    let mut lost = spillgate.connect();
    lost.send(get("/spin"));
    spillgate.wait_pool("a busy worker", |pool| pool["in_flight"] == 1);
    let crowd = Crowd::start(spillgate.address(), 4, |client, turn| Some(mixed(client, turn)));
    let response = lost.receive_response();
    assert_eq!(response.status(), 504, "{}", response.text());
    let replaced = |pid: &&i32| is_gone(Pid::from_raw(**pid).expect("a process id"));
    until("the end of the one that loops", || before.iter().find(replaced));
    spillgate.wait_up(2);
    crowd.wait_more(20);
    expect_all_ok(&crowd.stop());
    spillgate.messages.wait_for("stands still in an exchange, stopping it");
}

#[test]
fn a_worker_whose_heart_stops_is_replaced() {
    let program = Program::new();
    let config = program
        .config(1)
        .pool("environment = { HEART = \"beats\" }")
        .pool("heartbeat_time_max = \"1s\"")
        .pool("restart_wait_min = \"20ms\"");
    let spillgate = Spillgate::start(config);
    let first = pid_of(&told(&spillgate.ask(get("/")))["pid"]);
    assert_eq!(spillgate.ask(get("/heart")).status(), 200);
    spillgate.messages.wait_for("sent no heartbeat for");
    until("its end", || is_gone(first).then_some(()));
    let second = pid_of(&told(&spillgate.ask(get("/")))["pid"]);
    assert_ne!(first, second);
}

#[test]
fn a_killed_spillgate_leaves_no_worker_behind() {
    let program = Program::new();
    let spillgate = Spillgate::start(program.config(2));
    spillgate.wait_up(2);
    let child = pid_of(&told(&spillgate.ask(get("/child")))["child"]);
    let pids = spillgate.pids();
    assert_eq!(pids.len(), 2);
    // Not a signal that it could do anything about.
    drop(spillgate);
    let pids = pids.into_iter().filter_map(Pid::from_raw).chain([child]);
    for pid in pids {
        until("the end of every process", || is_gone(pid).then_some(()));
    }
}

#[test]
fn workers_end_with_a_spillgate_that_stops_but_not_before_their_exchanges() {
    let program = Program::new();
    let mut spillgate = Spillgate::start(program.config(2));
    spillgate.wait_up(2);
    let pids = spillgate.pids();
    let mark = program.mark("go");
    let mut running = spillgate.connect();
    running.send(post(&format!("/until{mark}"), ""));
    spillgate.wait_pool("a busy worker", |pool| pool["in_flight"] == 1);
    spillgate.signal(Signal::TERM);
    until("the end of listening", || Link::connect(spillgate.address()).is_none().then_some(()));
    running.expect_silence();
    std::fs::write(&mark, "").expect("a file can be written");
    told(&running.receive_response());
    assert!(spillgate.ended().success());
    for pid in pids.into_iter().filter_map(Pid::from_raw) {
        assert!(is_gone(pid), "{pid:?} runs on");
    }
    assert!(!program.sockets().exists(), "their sockets and the folder of those are gone, too");
}

#[test]
fn a_worker_that_does_not_heed_sigterm_is_killed() {
    let program = Program::new();
    let mut spillgate = Spillgate::start(program.config(1).pool("stop_time_max = \"50ms\""));
    let pid = pid_of(&told(&spillgate.ask(get("/deaf")))["pid"]);
    spillgate.signal(Signal::TERM);
    assert!(spillgate.ended().success());
    assert!(is_gone(pid), "it runs on");
    spillgate.messages.wait_for("app/0 run 1 does not stop, killing it");
}

#[test]
fn a_worker_that_ends_again_and_again_waits_longer_each_time() {
    let config = Config::new()
        .pool("command = [\"false\"]")
        .pool("workers = 1")
        .pool("restart_wait_min = \"10ms\"")
        .pool("restart_wait_max = \"40ms\"");
    let spillgate = Spillgate::start(config);
    for (run, wait) in [(1, 10), (2, 20), (3, 40), (4, 40)] {
        let words = format!("app/0 run {run} ended with code 1, next one in {wait} ms");
        spillgate.messages.wait_for(&words);
    }
}

#[test]
fn a_stranger_on_the_port_of_a_worker_is_named() {
    let stranger = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let port = stranger.local_addr().expect("it has one").port();
    // A worker that lives on although it cannot have its port, until the stranger is found out.
    let config = Config::new()
        .pool("command = [\"sleep\", \"1000\"]")
        .pool("workers = 1")
        .pool(&format!("port_base = {port}"));
    let spillgate = Spillgate::start(config);
    let owner = std::process::id();
    let words = format!("app/0 run 1: 127.0.0.1:{port} is taken by process {owner}");
    spillgate.messages.wait_for(&words);
    assert_eq!(spillgate.pool()["workers"][0]["state"], "starting");
}

#[test]
fn a_worker_that_cannot_start_is_told_of() {
    let config = |command: &str| {
        Config::new()
            .pool(&format!("command = {command}"))
            .pool("workers = 1")
            .pool("start_hold_max = \"200ms\"")
            .pool("ready_time_max = \"100ms\"")
    };
    for (command, message) in [
        (r#"["/nowhere/worker"]"#, "cannot start \"/nowhere/worker\": No such file or directory"),
        (r#"["false"]"#, "app/0 run 1 ended with code 1, next one in"),
        (r#"["sleep", "1000"]"#, "app/0 run 1 is not ready in time, stopping it"),
    ] {
        let spillgate = Spillgate::start(config(command));
        let response = spillgate.ask(get("/"));
        assert_eq!(response.status(), 503, "{command}");
        assert!(response.text().contains("start_hold_expired"), "{}", response.text());
        spillgate.messages.wait_for(message);
    }
}

#[test]
fn a_worker_that_listens_elsewhere_is_told_where_it_should() {
    let program = Program::new();
    let port = HeldPort::any().address().port();
    let ports = Config::new()
        .pool(r#"command = ["sleep", "1000"]"#)
        .pool("workers = 1")
        .pool("ready_time_max = \"100ms\"")
        .pool(&format!("port_base = {port}"));
    let spillgate = Spillgate::start(ports);
    let words = format!("app/0 run 1: it was told by PORT to listen on 127.0.0.1:{port}");
    spillgate.messages.wait_for(&words);
    let sockets = Config::new()
        .pool(r#"command = ["sleep", "1000"]"#)
        .pool("workers = 1")
        .pool("ready_time_max = \"100ms\"")
        .pool(&format!("socket_dir = {:?}", program.sockets()));
    let spillgate = Spillgate::start(sockets);
    spillgate.messages.wait_for("app/0 run 1: it was told by SPILLGATE_SOCKET to listen on unix:/");
}
