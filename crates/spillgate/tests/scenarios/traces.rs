//! What a gate decided while it served is decided once more by the same gate in the simulator; and
//! a plan is made of what was served.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Crowd, Program, Spillgate, get, mixed};

/// Workers that are killed while they are busy.
const KILLS: usize = 4;

fn spillgate(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spillgate"));
    command.args(arguments).arg(file).output().expect("the binary can be started")
}

#[test]
fn what_a_gate_decided_is_decided_once_more() {
    let program = Program::new();
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (trace, log) = (folder.path().join("app.trace"), folder.path().join("access.log"));
    let keys = format!("restart_wait_min = \"10ms\"\ntrace_path = {trace:?}");
    let config = program.config(3).top("shards = 2").pool(&keys);
    let mut running = Spillgate::start(config);
    running.wait_up(3);
    // One leaves while it waits.
    let mark = program.mark("free");
    let mut busy: Vec<_> = (0..3).map(|_| running.connect()).collect();
    busy.iter_mut().for_each(|client| client.send(get(&format!("/until{mark}"))));
    running.wait_pool("busy workers", |pool| pool["in_flight"] == 3);
    let mut leaving = running.connect();
    leaving.send(get("/left"));
    running.wait_queue(1);
    leaving.close();
    running.wait_queue(0);
    std::fs::write(&mark, "").expect("a file can be written");
    busy.iter_mut().for_each(|client| assert_eq!(client.receive_response().status(), 200));
    let crowd = Crowd::start(running.address(), 8, |client, turn| Some(mixed(client, turn)));
    for round in 0..KILLS {
        crowd.wait_more(60);
        let pids = running.pids();
        let victim = Pid::from_raw(pids[round % pids.len()]).expect("a process id");
        kill_process(victim, Signal::KILL).expect("it runs");
        running.wait_up(3);
    }
    crowd.wait_more(60);
    crowd.stop();
    running.signal(Signal::TERM);
    assert!(running.ended().success());

    let recorded = std::fs::read_to_string(&trace).expect("the trace is there");
    let outputs: Vec<_> = recorded.lines().filter_map(|line| line.strip_prefix("out ")).collect();
    for present in [" abandon ", " down\n", " view\n"] {
        assert!(recorded.contains(present), "nothing of '{present}' in the trace");
    }
    let shards = recorded.lines().filter_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields.get(2) == Some(&"arrive")).then(|| fields[4])
    });
    assert_eq!(shards.collect::<BTreeSet<_>>().len(), 2, "both shards took part");
    let replayed = spillgate(&["sim", "--replay"], &trace);
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    let replayed = String::from_utf8(replayed.stdout).expect("text");
    assert!(replayed.lines().eq(outputs), "the outputs are printed");

    let other = recorded.replacen("set queue_wait_max 5", "set queue_wait_max 0", 1);
    assert_ne!(other, recorded);
    std::fs::write(&trace, other).expect("a file can be written");
    let replayed = spillgate(&["sim", "--replay"], &trace);
    let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
    assert!(!replayed.status.success() && said.contains("was '"), "{said}");

    let lines: String = running.records().iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(&log, lines).expect("a file can be written");
    let planned = spillgate(&["plan", "--slo", "2s"], &log);
    let said = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    assert!(said.contains("slots = 1 ") && said.contains("workers: 3"), "{said}");
}
