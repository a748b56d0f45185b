//! Scripts: each line is a moment in milliseconds, an input, and the outputs that must follow.
//!
//! `tick` is the moment that the machine asked for; the harness checks that it did ask for it.
//! Events are shown in brackets. Invariants are checked after each step.

use proptest::prelude::*;

use super::*;
use crate::gate::Change;
use crate::id::WorkerId;
use crate::time::{Duration, Instant};

fn settings() -> Settings {
    let ms = Duration::from_millis;
    Settings {
        ready_time_max: ms(1000),
        heartbeat_time_max: Some(ms(500)),
        drain_time_max: ms(300),
        stop_time_max: ms(50),
        stall_stop_time_max: ms(20),
        restart_wait_min: ms(10),
        restart_wait_max: ms(35),
        restart_calm: ms(200),
    }
}

#[track_caller]
fn check(workers: u32, script: &str) {
    let mut supervisor = Supervisor::new(settings(), workers);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, wanted) = line.split_once("->").expect("a line is `STEP -> OUTPUTS`");
        let mut words = step.split_whitespace();
        let at = words.next().and_then(|word| word.parse().ok()).expect("a line has a moment");
        let now = Instant::from_millis(at);
        let words: Vec<&str> = words.collect();
        if words == ["tick"] {
            assert_eq!(supervisor.poll_timeout(), Some(now), "the moment asked for, at: {line}");
            supervisor.handle_timeout(now);
        } else {
            supervisor.handle(parse(&words), now);
        }
        supervisor.check_invariants();
        let outputs: Vec<String> =
            std::iter::from_fn(|| supervisor.poll_output()).map(|output| show(&output)).collect();
        assert_eq!(outputs.join(", "), wanted.trim(), "at: {line}");
    }
}

fn parse(words: &[&str]) -> Input {
    let process = |word: &str| {
        let (worker, run) = word.split_once('.').expect("a process is WORKER.RUN");
        let number = |part: &str| part.parse().expect("it is numbers");
        ProcessId { worker: WorkerId(number(worker)), run: number(run) }
    };
    let worker = |word: &str| WorkerId(word.parse().expect("a worker is a number"));
    match *words {
        ["start"] => Input::Start,
        ["spawned", id] => Input::Spawned { process: process(id), pid: 1 },
        ["unspawned", id] => Input::SpawnFailed(process(id)),
        ["ready", id] => Input::Ready(process(id)),
        ["beat", id] => Input::Heartbeat(process(id)),
        ["leaving", id] => Input::Leaving(process(id)),
        ["exited", id, code] => Input::Exited {
            process: process(id),
            exit: Exit::Code(code.parse().expect("a code is a number")),
        },
        ["stalled", id] => Input::Stalled(worker(id)),
        ["reached", id] => Input::Reached { worker: worker(id), reached: true },
        ["unreached", id] => Input::Reached { worker: worker(id), reached: false },
        ["drained", id] => Input::Drained(worker(id)),
        ["restart"] => Input::Restart,
        ["stop"] => Input::Stop,
        _ => panic!("unknown input {words:?}"),
    }
}

fn show(output: &Output) -> String {
    let name = |id: &ProcessId| format!("{}.{}", id.worker.0, id.run);
    match output {
        Output::Spawn { process, side } => format!("spawn {} {side:?}", name(process)),
        Output::Signal { process, signal } => format!("{signal:?} {}", name(process)),
        Output::Endpoint(process) => format!("endpoint {}", name(process)),
        Output::Member { worker, change } => format!("{change:?} {}", worker.0),
        Output::AwaitDrained(worker) => format!("await {}", worker.0),
        Output::AllStopped { left } => format!("stopped {left}"),
        Output::Event(event) => match event {
            Event::Ready { process, after } => {
                format!("[up {} {}]", name(process), after.as_millis())
            }
            Event::ReadyLate(process) => format!("[late {}]", name(process)),
            Event::Stalled { process, reason: StallReason::Heartbeat(age) } => {
                format!("[mute {} {}]", name(process), age.as_millis())
            }
            Event::Stalled { process, reason: StallReason::Exchange } => {
                format!("[stuck {}]", name(process))
            }
            Event::Stalled { process, reason: StallReason::Unreached(time) } => {
                format!("[deaf {} {}]", name(process), time.as_millis())
            }
            Event::Ended { process, again_in: Some(wait), .. } => {
                format!("[ended {} again {}]", name(process), wait.as_millis())
            }
            Event::Ended { process, again_in: None, .. } => format!("[ended {}]", name(process)),
            Event::StopLate(process) => format!("[unstopped {}]", name(process)),
            Event::DrainLate(worker) => format!("[undrained {}]", worker.0),
            Event::RestartBegan => "[restart]".to_string(),
            Event::RestartSwitched(worker) => format!("[switched {}]", worker.0),
            Event::RestartDone => "[restarted]".to_string(),
            Event::RestartFailed { worker, error } => format!("[failed {} {error:?}]", worker.0),
        },
    }
}

#[test]
fn starts_every_worker_and_makes_it_a_member_when_it_is_ready() {
    check(
        2,
        "0 start       -> JoinSupervised 0, JoinSupervised 1, spawn 0.1 A, spawn 1.1 A
         1 spawned 0.1 ->
         5 ready 1.1   -> [up 1.1 5], endpoint 1.1, Ready 1
         9 ready 0.1   -> [up 0.1 9], endpoint 0.1, Ready 0
         9 ready 0.1   ->
         9 start       ->",
    );
}

#[test]
fn an_end_is_told_at_once_and_the_wait_doubles_up_to_its_bound() {
    check(
        1,
        "0 start        -> JoinSupervised 0, spawn 0.1 A
         5 ready 0.1    -> [up 0.1 5], endpoint 0.1, Ready 0
         9 exited 0.1 1 -> Down 0, [ended 0.1 again 10]
         9 exited 0.1 1 ->
         19 tick        -> spawn 0.2 B
         20 exited 0.2 1 -> [ended 0.2 again 20]",
    );
    check(
        1,
        "0 start          -> JoinSupervised 0, spawn 0.1 A
         0 unspawned 0.1  -> Down 0, [ended 0.1 again 10]
         10 tick          -> spawn 0.2 B
         10 unspawned 0.2 -> [ended 0.2 again 20]
         30 tick          -> spawn 0.3 A
         30 unspawned 0.3 -> [ended 0.3 again 35]
         65 tick          -> spawn 0.4 B
         65 unspawned 0.4 -> [ended 0.4 again 35]",
    );
}

#[test]
fn a_calm_life_ends_the_doubling() {
    check(
        1,
        "0 start          -> JoinSupervised 0, spawn 0.1 A
         0 exited 0.1 1   -> Down 0, [ended 0.1 again 10]
         10 tick          -> spawn 0.2 B
         20 ready 0.2     -> [up 0.2 10], endpoint 0.2, Ready 0
         220 exited 0.2 0 -> Down 0, [ended 0.2 again 0], spawn 0.3 A
         221 exited 0.3 0 -> [ended 0.3 again 10]",
    );
}

#[test]
fn a_worker_that_is_never_ready_is_stopped_and_started_again() {
    check(
        1,
        "0 start           -> JoinSupervised 0, spawn 0.1 A
         900 beat 0.1      ->
         1000 tick         -> [late 0.1], Term 0.1
         1001 ready 0.1    ->
         1050 tick         -> [unstopped 0.1], Kill 0.1
         1051 exited 0.1 9 -> Down 0, [ended 0.1 again 10]
         1061 tick         -> spawn 0.2 B",
    );
}

#[test]
fn a_missing_heartbeat_is_a_stall_from_ready_on() {
    check(
        1,
        "0 start          -> JoinSupervised 0, spawn 0.1 A
         1 beat 0.1       ->
         600 ready 0.1    -> [up 0.1 600], endpoint 0.1, Ready 0
         900 beat 0.1     ->
         1400 tick        -> [mute 0.1 500], Down 0, Term 0.1
         1420 tick        -> [unstopped 0.1], Kill 0.1
         1421 stalled 0   ->
         1421 exited 0.1 9 -> [ended 0.1 again 0], spawn 0.2 B",
    );
}

#[test]
fn a_stuck_exchange_is_a_stall_of_a_ready_worker_only() {
    check(
        1,
        "0 start         -> JoinSupervised 0, spawn 0.1 A
         1 stalled 0     ->
         5 ready 0.1     -> [up 0.1 5], endpoint 0.1, Ready 0
         9 stalled 0     -> [stuck 0.1], Down 0, Term 0.1
         9 stalled 0     ->
         9 stalled 7     ->
         12 exited 0.1 0 -> [ended 0.1 again 10]
         22 tick         -> spawn 0.2 B",
    );
}

#[test]
fn a_worker_that_takes_no_connections_is_replaced_unless_it_does_again() {
    check(
        1,
        "0 start          -> JoinSupervised 0, spawn 0.1 A
         1 unreached 0    ->
         5 ready 0.1      -> [up 0.1 5], endpoint 0.1, Ready 0
         10 unreached 0   ->
         500 reached 0    ->
         600 unreached 0  ->
         700 unreached 0  ->
         1600 tick        -> [deaf 0.1 1000], Down 0, Term 0.1
         1601 unreached 0 ->
         1602 exited 0.1 0 -> [ended 0.1 again 0], spawn 0.2 B
         1603 unreached 7 ->
         1604 ready 0.2   -> [up 0.2 2], endpoint 0.2, Ready 0
         1605 beat 0.2    ->
         1700 unreached 0 ->
         2105 tick        -> [mute 0.2 500], Down 0, Term 0.2",
    );
}

#[test]
fn a_worker_that_says_it_leaves_is_drained_and_bounded() {
    check(
        1,
        "0 start          -> JoinSupervised 0, spawn 0.1 A
         5 ready 0.1      -> [up 0.1 5], endpoint 0.1, Ready 0
         9 leaving 0.1    -> Drain 0
         309 tick         -> Down 0, Term 0.1
         310 exited 0.1 0 -> [ended 0.1 again 0], spawn 0.2 B",
    );
}

const TWO_READY: &str = "
     0 start     -> JoinSupervised 0, JoinSupervised 1, spawn 0.1 A, spawn 1.1 A
     0 ready 0.1 -> [up 0.1 0], endpoint 0.1, Ready 0
     0 ready 1.1 -> [up 1.1 0], endpoint 1.1, Ready 1
     100 restart -> [restart], spawn 0.2 B
";

#[track_caller]
fn check_restart(script: &str) {
    check(2, &format!("{TWO_READY}{script}"));
}

#[test]
fn a_restart_replaces_one_worker_after_the_other_without_a_gap() {
    check_restart(
        "110 ready 0.2    -> [up 0.2 10], Drain 0, await 0
         111 drained 1    ->
         120 drained 0    -> endpoint 0.2, Ready 0, [switched 0], Term 0.1
         121 stalled 0    -> [stuck 0.2], Down 0, Term 0.2, [failed 0 Stalled]",
    );
    check_restart(
        "110 ready 0.2    -> [up 0.2 10], Drain 0, await 0
         120 drained 0    -> endpoint 0.2, Ready 0, [switched 0], Term 0.1
         125 exited 0.1 0 -> [ended 0.1], spawn 1.2 B
         130 ready 1.2    -> [up 1.2 5], Drain 1, await 1
         131 drained 1    -> endpoint 1.2, Ready 1, [switched 1], Term 1.1
         181 tick         -> [unstopped 1.1], Kill 1.1
         182 exited 1.1 9 -> [ended 1.1], [restarted]
         400 restart      -> [restart], spawn 0.3 A",
    );
}

#[test]
fn a_restart_asked_for_meanwhile_comes_after() {
    check(
        1,
        "0 start          -> JoinSupervised 0, spawn 0.1 A
         0 ready 0.1      -> [up 0.1 0], endpoint 0.1, Ready 0
         1 restart        -> [restart], spawn 0.2 B
         2 restart        ->
         3 ready 0.2      -> [up 0.2 2], Drain 0, await 0
         4 drained 0      -> endpoint 0.2, Ready 0, [switched 0], Term 0.1
         5 exited 0.1 0   -> [ended 0.1], [restarted], [restart], spawn 0.3 A",
    );
}

#[test]
fn a_restart_whose_next_process_fails_changes_nothing_and_ends() {
    check_restart(
        "110 exited 0.2 1 -> [ended 0.2], [failed 0 Ended]
         500 stalled 1    -> [stuck 1.1], Down 1, Term 1.1",
    );
    check_restart("110 unspawned 0.2 -> [ended 0.2], [failed 0 Ended]");
    check_restart(
        "1100 tick         -> [late 0.2], Term 0.2, [failed 0 ReadyLate]
         1101 restart      -> [restart]
         1102 exited 0.2 0 -> [ended 0.2], spawn 0.3 B",
    );
    check_restart(
        "110 ready 0.2    -> [up 0.2 10], Drain 0, await 0
         120 exited 0.2 1 -> [ended 0.2], [failed 0 Ended], Ready 0
         121 drained 0    ->",
    );
    check_restart(
        "110 ready 0.2    -> [up 0.2 10], Drain 0, await 0
         120 leaving 0.2  -> [failed 0 Stalled], Term 0.2, Ready 0",
    );
}

#[test]
fn a_restart_bounds_the_drain_and_waits_for_the_permits() {
    check_restart(
        "110 ready 0.2     -> [up 0.2 10], Drain 0, await 0
         410 tick          -> [undrained 0], Term 0.1
         460 tick          -> [unstopped 0.1], Kill 0.1
         461 exited 0.1 9  -> Down 0, [ended 0.1]
         462 drained 0     -> endpoint 0.2, Ready 0, [switched 0], spawn 1.2 B",
    );
    check_restart(
        "110 ready 0.2     -> [up 0.2 10], Drain 0, await 0
         410 tick          -> [undrained 0], Term 0.1
         411 exited 0.1 0  -> Down 0, [ended 0.1]
         1411 tick         -> endpoint 0.2, Ready 0, [switched 0], spawn 1.2 B",
    );
    check_restart(
        "110 ready 0.2     -> [up 0.2 10], Drain 0, await 0
         410 tick          -> [undrained 0], Term 0.1
         412 drained 0     -> endpoint 0.2, Ready 0, [switched 0]
         413 exited 0.1 0  -> [ended 0.1], spawn 1.2 B",
    );
}

#[test]
fn a_crash_during_a_restart_waits_for_the_next_process() {
    check_restart(
        "105 exited 0.1 1 -> Down 0, [ended 0.1]
         110 ready 0.2    -> [up 0.2 10], await 0
         111 drained 0    -> endpoint 0.2, Ready 0, [switched 0], spawn 1.2 B",
    );
    check_restart(
        "105 exited 0.1 1 -> Down 0, [ended 0.1]
         110 exited 0.2 1 -> [ended 0.2], [failed 0 EndedAlone]
         130 tick         -> spawn 0.3 A",
    );
}

#[test]
fn a_restart_starts_a_worker_that_waits_and_takes_its_end_as_a_failure() {
    let down = "
         0 start        -> JoinSupervised 0, spawn 0.1 A
         0 exited 0.1 1 -> Down 0, [ended 0.1 again 10]
         1 restart      -> [restart], spawn 0.2 B
    ";
    check(1, &format!("{down} 2 ready 0.2 -> [up 0.2 1], endpoint 0.2, Ready 0, [restarted]"));
    check(1, &format!("{down} 2 exited 0.2 1 -> [ended 0.2 again 20], [failed 0 EndedAlone]"));
}

#[test]
fn a_stop_takes_the_ladder_for_everything_and_says_when_it_is_done() {
    check_restart(
        "110 stop         -> [failed 0 Stopping], Drain 0, Term 0.1, Term 0.2, Drain 1, Term 1.1
         111 restart      ->
         112 exited 0.1 0 -> Down 0, [ended 0.1]
         113 exited 1.1 1 -> Down 1, [ended 1.1]
         160 tick         -> [unstopped 0.2], Kill 0.2
         161 exited 0.2 9 -> [ended 0.2], stopped 0
         170 stop         ->",
    );
    check_restart(
        "110 stop         -> [failed 0 Stopping], Drain 0, Term 0.1, Term 0.2, Drain 1, Term 1.1
         112 exited 0.1 0 -> Down 0, [ended 0.1]
         113 exited 1.1 1 -> Down 1, [ended 1.1]
         114 stop         -> [unstopped 0.2], Kill 0.2
         210 tick         -> stopped 1",
    );
    check(1, "0 stop -> stopped 0");
}

#[test]
fn a_stop_ends_the_waiting_for_a_start() {
    check(
        1,
        "0 start        -> JoinSupervised 0, spawn 0.1 A
         0 exited 0.1 1 -> Down 0, [ended 0.1 again 10]
         1 stop         -> stopped 0",
    );
}

#[test]
fn the_view_shows_both_processes_of_a_worker_that_is_restarted() {
    let mut supervisor = Supervisor::new(settings(), 1);
    let id = |run| ProcessId { worker: WorkerId(0), run };
    let inputs = [
        Input::Start,
        Input::Spawned { process: id(1), pid: 11 },
        Input::Ready(id(1)),
        Input::Restart,
        Input::Spawned { process: id(2), pid: 12 },
        Input::Ready(id(2)),
    ];
    for input in inputs {
        supervisor.handle(input, Instant::from_millis(3));
    }
    let view = supervisor.view();
    assert_eq!(view.restart, Some(RestartView { worker: WorkerId(0), done: 0 }));
    let worker = view.workers[0];
    assert_eq!((worker.pid, worker.pid_beside), (Some(11), Some(12)));
    assert_eq!(worker.state, ProcessState::Draining);
}

/// A world of processes as the shell keeps it, which answers at random.
#[derive(Default)]
struct World {
    living: Vec<ProcessId>,
    awaited: Vec<WorkerId>,
    told: Vec<(WorkerId, Change)>,
    all_stopped: bool,
}

impl World {
    fn take(&mut self, supervisor: &mut Supervisor) {
        while let Some(output) = supervisor.poll_output() {
            assert!(!self.all_stopped, "nothing comes after the end: {output:?}");
            match output {
                Output::Spawn { process, .. } => self.living.push(process),
                Output::Signal { process, .. } => assert!(self.living.contains(&process)),
                Output::AwaitDrained(worker) => self.awaited.push(worker),
                Output::Member { worker, change } => self.told.push((worker, change)),
                Output::AllStopped { .. } => self.all_stopped = true,
                Output::Endpoint(_) | Output::Event(_) => {}
            }
        }
    }

    /// The input that number `choice` of kind `kind` stands for, if the world could say it.
    fn input(&mut self, kind: u8, choice: usize) -> Option<Input> {
        let process = self.living.get(choice % self.living.len().max(1)).copied();
        Some(match kind {
            0..=3 => Input::Ready(process?),
            4 => Input::Heartbeat(process?),
            5 => Input::Leaving(process?),
            6 | 7 => {
                let process = process?;
                self.living.retain(|living| *living != process);
                Input::Exited { process, exit: Exit::Code(0) }
            }
            8 => Input::Stalled(process?.worker),
            9..=11 => Input::Drained(self.awaited.pop()?),
            12 => Input::Restart,
            13 => Input::Spawned { process: process?, pid: 1 },
            14 => Input::Reached { worker: process?.worker, reached: choice > 5 },
            _ => return None,
        })
    }
}

proptest! {
    #[test]
    fn any_story_keeps_the_invariants_and_can_be_stopped(
        steps in proptest::collection::vec((0u8..19, 0usize..8, 0u64..400), 0..200),
    ) {
        let mut supervisor = Supervisor::new(settings(), 3);
        let mut world = World::default();
        let mut now = 0;
        supervisor.handle(Input::Start, Instant::ZERO);
        world.take(&mut supervisor);
        for (kind, choice, pause) in steps {
            now += pause;
            match world.input(kind, choice) {
                Some(input) => supervisor.handle(input, Instant::from_millis(now)),
                None => supervisor.handle_timeout(Instant::from_millis(now)),
            }
            supervisor.check_invariants();
            world.take(&mut supervisor);
        }
        supervisor.handle(Input::Stop, Instant::from_millis(now));
        world.take(&mut supervisor);
        for process in std::mem::take(&mut world.living) {
            let exit = Exit::Signal(15);
            supervisor.handle(Input::Exited { process, exit }, Instant::from_millis(now));
            supervisor.check_invariants();
            world.take(&mut supervisor);
        }
        prop_assert!(world.all_stopped);
        prop_assert_eq!(supervisor.poll_timeout(), None);
    }
}
