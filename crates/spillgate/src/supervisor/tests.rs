//! The shell with real workers: this test program in the role of one, started again by name.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use spillgate_core::supervise::{self, ProcessState};
use spillgate_core::time::Duration;
use spillgate_proxy::settings::WorkerListen;
use spillgate_runtime::drive::{Control, Task};

use super::*;

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// Set in the environment of a worker.
const ROLE: &str = "SPILLGATE_TEST_ROLE";

/// What a pool is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Member(u32, Change),
    Endpoint(u32),
}

struct World {
    control: Control,
    handle: SupervisorHandle,
    told: Receiver<Told>,
    endpoints: Arc<Mutex<Vec<Endpoint>>>,
    in_flight: Arc<AtomicU32>,
}

impl World {
    fn new(workers: u32, role: &str) -> World {
        let control = Control::start().expect("the control runtime starts");
        let sink = || Box::new(io::sink());
        let surroundings = Surroundings {
            control: control.handle(),
            output: WorkerOutput::to(sink(), sink()).expect("threads start"),
            guard: Guard::start().expect("it can be forked"),
        };
        let (tell, told) = sync_channel(256);
        let endpoints = Arc::<Mutex<Vec<Endpoint>>>::default();
        let in_flight = Arc::<AtomicU32>::default();
        let hooks = hooks(tell, endpoints.clone(), in_flight.clone());
        let handle = start("app", settings(workers, role), &surroundings, hooks);
        let handle = handle.expect("it starts");
        World { control, handle, told, endpoints, in_flight }
    }

    #[track_caller]
    fn next(&self) -> Told {
        self.told.recv_timeout(DEADLINE).expect("it happens in time")
    }

    #[track_caller]
    fn expect(&self, wanted: &[Told]) {
        for wanted in wanted {
            assert_eq!(&self.next(), wanted);
        }
    }

    fn restart(&self) -> Task<Result<(), RestartError>> {
        let handle = self.handle.clone();
        self.control.spawn(async move { handle.restart().await })
    }

    #[track_caller]
    fn wait<T>(&self, task: Task<T>) -> T {
        self.control.block_on(task).expect("it does not panic")
    }

    /// The only worker's process.
    fn pid(&self) -> u32 {
        self.handle.view().workers[0].pid.expect("it lives")
    }
}

fn hooks(
    tell: SyncSender<Told>,
    endpoints: Arc<Mutex<Vec<Endpoint>>>,
    in_flight: Arc<AtomicU32>,
) -> PoolHooks {
    let tell_member = tell.clone();
    PoolHooks {
        // A test that has ended hears no more.
        member: Box::new(move |worker, change| {
            let _ = tell_member.send(Told::Member(worker.0, change));
        }),
        endpoint: Box::new(move |worker, endpoint| {
            endpoints.lock().expect("no test panics in it").push(endpoint);
            let _ = tell.send(Told::Endpoint(worker.0));
        }),
        in_flight: Box::new(move |_| in_flight.load(Relaxed)),
    }
}

fn settings(workers: u32, role: &str) -> CommandSettings {
    let program = std::env::current_exe().expect("this program has a path");
    let words = [program.to_str().expect("it is text"), "--exact", "supervisor::tests::a_role"];
    CommandSettings {
        command: words.map(str::to_string).to_vec(),
        directory: None,
        environment: vec![(ROLE.to_string(), role.to_string())],
        workers,
        listen: WorkerListen::Port { base: 0 },
        supervise: supervise::Settings {
            ready_time_max: DEADLINE,
            heartbeat_time_max: None,
            drain_time_max: DEADLINE,
            stop_time_max: DEADLINE,
            stall_stop_time_max: DEADLINE,
            restart_wait_min: Duration::from_millis(1),
            restart_wait_max: Duration::from_millis(1),
            restart_calm: DEADLINE,
        },
    }
}

const READY: [Told; 3] =
    [Told::Member(0, Change::JoinSupervised), Told::Endpoint(0), Told::Member(0, Change::Ready)];

#[test]
fn a_restart_drains_first_and_then_switches() {
    let world = World::new(1, "listen");
    world.expect(&READY);
    let first = world.pid();
    world.in_flight.store(1, Relaxed);
    let restarted = world.restart();
    world.expect(&[Told::Member(0, Change::Drain)]);
    assert_eq!(world.pid(), first);
    assert!(world.told.try_recv().is_err(), "nothing is switched while an exchange runs");
    world.in_flight.store(0, Relaxed);
    world.expect(&[Told::Endpoint(0), Told::Member(0, Change::Ready)]);
    world.wait(restarted).expect("it works");
    assert_ne!(world.pid(), first);
    let endpoints = world.endpoints.lock().expect("nobody panics with it").clone();
    assert_ne!(endpoints[0], endpoints[1]);
    assert_eq!(world.handle.view().workers[0].ends, 0);
}

#[test]
fn a_restart_with_processes_that_cannot_start_fails_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let once = folder.path().join("once");
    let world = World::new(1, &format!("listen-once {}", once.display()));
    world.expect(&READY);
    let first = world.pid();
    assert_eq!(world.wait(world.restart()), Err(RestartError::Ended));
    assert_eq!(world.pid(), first);
    assert!(world.told.try_recv().is_err());
}

#[test]
fn a_stalled_worker_is_replaced_and_a_stop_ends_everything() {
    let world = World::new(2, "listen");
    // Two workers come in any order, each with the same three words.
    for _ in 0..6 {
        world.next();
    }
    world.handle.stalled(WorkerId(1));
    world.expect(&[
        Told::Member(1, Change::Down),
        Told::Endpoint(1),
        Told::Member(1, Change::Ready),
    ]);
    assert_eq!(world.handle.view().workers[1].ends, 1);
    let handle = world.handle.clone();
    let left = world.wait(world.control.spawn(async move { handle.stop().await }));
    assert_eq!(left, 0);
    let down = |worker: &supervise::WorkerView| worker.state == ProcessState::Down;
    assert!(world.handle.view().workers.iter().all(down));
    assert_eq!(world.wait(world.restart()), Err(RestartError::Stopping));
}

/// Not a test of its own: what this program does when it is started as somebody's worker.
#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if let Some(path) = role.strip_prefix("listen-once ") {
        // Whoever finds the mark of another is not the first, and ends.
        std::fs::File::create_new(path).expect("it is the first");
    }
    let port: u16 = std::env::var("PORT").expect("it is told").parse().expect("it is a number");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("it is free");
    for connection in listener.incoming() {
        drop(connection);
    }
}
