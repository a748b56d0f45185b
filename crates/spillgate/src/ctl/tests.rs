//! Both ends over a real socket.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use spillgate_runtime::drive::{Control, Notify, Task};
use spillgate_runtime::net::control_socket::ControlSocket;

use super::serve::Commands;
use super::*;
use crate::admin::status::{
    AgentStatus, BudgetStatus, DoingStatus, EndStatus, PoolStatus, QuantileStatus, RestartStatus,
    SignStatus, WorkerStatus,
};

fn worker(id: u32) -> WorkerStatus {
    WorkerStatus {
        id,
        endpoint: format!("127.0.0.1:{}", 9000 + id),
        state: "up".to_owned(),
        state_for_s: 75.0,
        signs: SignStatus::default(),
        agent: (id == 1).then(|| AgentStatus {
            admin: "drain".to_owned(),
            weight_percent: 50,
            health: "stopped: db\u{1b} lost".to_owned(),
            ..AgentStatus::default()
        }),
        in_flight: 1,
        slots: 1,
        slots_max: 1,
        granted: 1,
        learned: None,
        weight: 1,
        weight_percent: 100,
        pace_ms: None,
        stuck: u32::from(id == 1),
        connections: 1,
        grants: 5,
        failures_in_row: 0,
        process: Some("ready".to_owned()),
        pid: (id == 0).then_some(4711),
        restarts: Some(0),
        last_end: None,
        memory: Some(40 << 20),
        doing: vec![DoingStatus {
            id: 1,
            method: "GET".to_owned(),
            path: "/page\u{1b}[2J".to_owned(),
            stage: "dispatch".to_owned(),
            for_ms: 1250.0,
        }],
    }
}

fn status(restart: Option<RestartStatus>) -> Status {
    let ends = EndStatus {
        arrivals: 9,
        in_progress: 2,
        successes: [("2xx".to_owned(), 4)].into(),
        shed: [("queue_full".to_owned(), 2), ("draining".to_owned(), 1)].into(),
        ..EndStatus::default()
    };
    let pool = PoolStatus {
        name: "app".to_owned(),
        queue_len: 3,
        queue_len_max: 100,
        waiting_by_class: BTreeMap::new(),
        shed_ratio: 0.0,
        youngest_first: false,
        slots: 2,
        in_flight: 2,
        wait: QuantileStatus { p50_ms: 1.2, p90_ms: 30.0, p99_ms: 1500.0, samples: 9 },
        service: QuantileStatus::default(),
        retries: 0,
        ends: ends.clone(),
        waiting: Vec::new(),
        restart,
        workers: vec![worker(0), worker(1)],
    };
    Status {
        version: "1.2.3".to_owned(),
        uptime_s: 90_061.0,
        listeners: Vec::new(),
        shards: Vec::new(),
        budget: BudgetStatus {
            memory_used: 3 << 20,
            memory_max: 256 << 20,
            spill_used: 0,
            spill_max: 0,
            sockets: 0,
            waiting: 0,
        },
        pools: vec![pool],
        poolless: EndStatus::default(),
    }
}

struct Served {
    _folder: tempfile::TempDir,
    _control: Control,
    _task: Task<std::io::Result<()>>,
    path: PathBuf,
    stopped: Arc<AtomicU32>,
}

/// Serves commands whose restart goes through two workers, one look at it after the other.
fn start() -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control.sock");
    let control = Control::start().expect("it starts");
    let socket = ControlSocket::bind(&path).expect("it listens");
    let (looks, over) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let stopped = Arc::new(AtomicU32::new(0));
    let (drained, ended, finish) = (Arc::clone(&stopped), Arc::clone(&stopped), Arc::clone(&over));
    let commands = Commands {
        status: Box::new(move || {
            let done = looks.fetch_add(1, Relaxed);
            if done == 2 {
                finish.notify_one();
            }
            let restart = RestartStatus { worker: done, done };
            Box::pin(async move { status(Some(restart)) })
        }),
        restart: Box::new(move |pool| {
            let over = Arc::clone(&over);
            match pool {
                "app" => Ok(Box::pin(async move {
                    over.notified().await;
                    Ok(())
                })),
                "broken" => Ok(Box::pin(async { Err("it ended".to_owned()) })),
                _ => Err(format!("no pool {pool}")),
            }
        }),
        drain: Box::new(move || {
            drained.fetch_add(1, Relaxed);
        }),
        stop: Box::new(move || {
            ended.fetch_add(10, Relaxed);
        }),
    };
    let task = control.spawn(serve::serve(socket, Arc::new(commands)));
    Served { _folder: folder, _control: control, _task: task, path, stopped }
}

/// All answers to one line.
fn ask(path: &PathBuf, line: &str) -> Vec<Answer> {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path).expect("it listens");
    stream.write_all(line.as_bytes()).expect("sent");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("whole"));
    lines.map(|line| serde_json::from_str(&line).expect("an answer")).collect()
}

#[test]
fn a_restart_tells_its_progress_and_its_end() {
    let served = start();
    let answers = ask(&served.path, "{\"command\":\"restart\",\"pool\":\"app\",\"wait\":true}\n");
    let progress = |done| Answer::Progress { worker: done, done, total: 2 };
    assert_eq!(answers[..2], [progress(0), progress(1)]);
    assert_eq!(answers.last(), Some(&Answer::Done));
}

#[test]
fn what_does_not_work_is_said() {
    let served = start();
    for (line, reason) in [
        ("{\"command\":\"restart\",\"pool\":\"other\"}\n", "no pool other"),
        ("{\"command\":\"restart\",\"pool\":\"broken\",\"wait\":true}\n", "it ended"),
        ("{\"command\":\"reboot\"}\n", "not a command: unknown variant `reboot`"),
        ("GET / HTTP/1.1\n", "not a command: "),
    ] {
        let answers = ask(&served.path, line);
        let [Answer::Failed { reason: found }] = answers.as_slice() else {
            panic!("{line} was answered {answers:?}");
        };
        assert!(found.starts_with(reason), "{found}");
    }
}

#[test]
fn each_command_is_answered_and_done() {
    let served = start();
    assert_eq!(ask(&served.path, "{\"command\":\"drain\"}\n"), [Answer::Done]);
    assert_eq!(ask(&served.path, "{\"command\":\"stop\"}\n"), [Answer::Done]);
    let begun = ask(&served.path, "{\"command\":\"restart\",\"pool\":\"app\"}\n");
    assert_eq!(begun, [Answer::Done]);
    let answers = ask(&served.path, "{\"command\":\"status\"}\n");
    assert!(matches!(answers.as_slice(), [Answer::Status { .. }]));
    while served.stopped.load(Relaxed) != 11 {
        std::thread::yield_now();
    }
}

#[test]
fn restarts_that_run_keep_nobody_from_asking() {
    let served = start();
    for _ in 0..40 {
        let begun = ask(&served.path, "{\"command\":\"restart\",\"pool\":\"app\"}\n");
        assert_eq!(begun, [Answer::Done]);
    }
    let answers = ask(&served.path, "{\"command\":\"status\"}\n");
    assert!(matches!(answers.as_slice(), [Answer::Status { .. }]));
}

#[test]
fn the_asking_end_says_how_it_went() {
    let served = start();
    let run = |command: Command| ask::run(&served.path, &command, ask::Shown::Json);
    let code = |command| format!("{:?}", run(command).expect("it is answered"));
    let success = format!("{:?}", std::process::ExitCode::SUCCESS);
    assert_eq!(code(Command::Drain), success);
    let unknown = Command::Restart { pool: "other".to_owned(), wait: false };
    assert_ne!(code(unknown), success);
    let nowhere = served.path.with_extension("missing");
    let error =
        ask::run(&nowhere, &Command::Drain, ask::Shown::Table).expect_err("nobody is there");
    assert!(error.to_string().contains("--socket"), "{error}");
}

#[test]
fn the_table_shows_pools_and_workers() {
    let shown = table::of(&status(Some(RestartStatus { worker: 1, done: 1 })));
    let expected = "\
spillgate 1.2.3, up 1 d 1 h, 0 client connections, 3MiB of 256MiB buffered

pool app: 2 of 2 slots taken, 3 waiting, room for 100
  rolling restart: 1 of 2 done, now worker 1
  wait     p50 1.2 ms, p90 30 ms, p99 1.5 s
  9 arrivals = 4 answered + 3 shed + 0 refused + 0 failed + 0 abandoned + 2 in progress
    answered: 2xx 4
    shed: draining 1, queue full 2
  worker  endpoint            pid  state                  for  doing
       0  127.0.0.1:9000     4711  up              1 min 15 s  GET /page?[2J (dispatch 1.2 s)
       1  127.0.0.1:9001        -  1 stuck         1 min 15 s  GET /page?[2J (dispatch 1.2 s)
          its agent says: drain, stopped: db? lost, 50 % of its weight
";
    assert_eq!(shown, expected);
}

#[test]
fn the_table_says_how_the_processes_of_a_worker_end() {
    let mut status = status(None);
    let worker = &mut status.pools[0].workers[1];
    (worker.doing, worker.agent) = (Vec::new(), None);
    worker.restarts = Some(8);
    worker.last_end = Some("ended with code 3".to_owned());
    let shown = table::of(&status);
    assert!(shown.ends_with("  8 crashes, the last one ended with code 3\n"), "{shown}");
}
