//! Real processes: started, heard, signalled, killed, and taken along.
//!
//! Where a shell is too poor for what a worker has to do, the worker is this very test program in a
//! role: started again with the name of a role in its environment, it runs [`a_role`] only. Nothing
//! here waits for time to pass; everything waits for an event, with one generous deadline.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use spillgate_core::id::WorkerId;
use spillgate_core::supervise::{Exit, ProcessId, Signal};
use spillgate_runtime::clock;
use spillgate_runtime::drive::{self, Control};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::process::{Guard, ProcessEvent, Processes, Spec, WorkerOutput, free_port};

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// Which role this program has; unset in an ordinary test run.
const ROLE: &str = "SPILLGATE_TEST_ROLE";

/// A pool's processes with everything around them.
struct World {
    control: Control,
    processes: Processes,
    events: drive::Receiver<ProcessEvent>,
    lines: Receiver<String>,
    runs: u32,
}

impl World {
    fn new() -> World {
        let control = Control::start().expect("the control runtime starts");
        let (said, lines) = sync_channel(1024);
        let output = WorkerOutput::to(Box::new(Said(said.clone())), Box::new(Said(said)));
        let output = output.expect("threads start");
        let guard = Guard::start().expect("it can be forked");
        let (processes, events) =
            Processes::start(&control.handle(), output, guard).expect("a thread starts");
        World { control, processes, events, lines, runs: 0 }
    }

    fn spawn(&mut self, endpoint: Endpoint, command: &[&str], role: Option<&str>) -> ProcessId {
        self.runs += 1;
        let id = ProcessId { worker: WorkerId(3), run: self.runs };
        let role = role.map(|role| (ROLE.to_string(), role.to_string()));
        let spec = Spec {
            id,
            pool: "app".to_string(),
            command: command.iter().map(ToString::to_string).collect(),
            directory: None,
            environment: role.into_iter().collect(),
            endpoint,
            heartbeat_time_max: Some(Duration::from_secs(5)),
        };
        self.processes.spawn(spec).expect("the thread takes it");
        id
    }

    fn shell(&mut self, script: &str) -> ProcessId {
        self.spawn(nowhere(), &["sh", "-c", script], None)
    }

    fn role(&mut self, endpoint: Endpoint, role: &str) -> ProcessId {
        let program = std::env::current_exe().expect("this program has a path");
        let program = program.to_str().expect("it is text");
        self.spawn(endpoint, &[program, "--exact", "a_role", "--nocapture"], Some(role))
    }

    #[track_caller]
    fn event(&mut self) -> ProcessEvent {
        let next = drive::until(clock::now() + DEADLINE, self.events.recv());
        self.control.block_on(next).expect("it happens in time").expect("the pool lives")
    }

    #[track_caller]
    fn spawned(&mut self, wanted: ProcessId) -> u32 {
        match self.event() {
            ProcessEvent::Spawned { id, pid } if id == wanted => pid,
            other => panic!("{wanted:?} is not spawned but {other:?}"),
        }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line comes in time")
    }

    /// The number in the next line, which is all of it but the prefix.
    #[track_caller]
    fn number_line(&self) -> i32 {
        let line = self.line();
        let number = line.strip_prefix("[app/3] ").expect("it has the prefix");
        number.trim().parse().expect("it is a number")
    }
}

/// Hands on what is written; whole lines, as they come.
struct Said(SyncSender<String>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        // A test that has ended reads no more.
        let _ = self.0.try_send(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn at_port(port: u16) -> Endpoint {
    Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn somewhere() -> Endpoint {
    at_port(free_port(&[]).expect("a port is free"))
}

/// For processes that do not listen.
fn nowhere() -> Endpoint {
    somewhere()
}

/// Something that tells of the end of `pid`, which lives.
fn watch(pid: i32) -> OwnedFd {
    let pid = Pid::from_raw(pid).expect("a pid is not zero");
    pidfd_open(pid, PidfdFlags::empty()).expect("the process lives")
}

#[track_caller]
fn wait_for_end(process: &OwnedFd) {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let deadline = Timespec { tv_sec: DEADLINE.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(poll(&mut polled, Some(&deadline)), Ok(1), "the process ends in time");
}

#[test]
fn ready_heartbeat_and_leaving_are_heard_on_the_socket() {
    let mut world = World::new();
    let id = world.role(nowhere(), "notify");
    world.spawned(id);
    assert_eq!(world.event(), ProcessEvent::Ready(id));
    assert_eq!(world.event(), ProcessEvent::Heartbeat(id));
    assert_eq!(world.event(), ProcessEvent::Leaving(id));
    world.processes.signal(id, Signal::Term);
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Signal(15) });
}

#[test]
fn a_process_that_takes_connections_is_ready() {
    let mut world = World::new();
    let id = world.role(somewhere(), "listen");
    world.spawned(id);
    assert_eq!(world.event(), ProcessEvent::Ready(id));
}

#[test]
fn a_unix_socket_that_was_left_behind_is_used_again_and_goes_with_its_process() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("3-a.sock");
    let left = UnixListener::bind(&path).expect("it binds");
    // Shut down, too: a process that another test is just forking may hold a copy of it.
    rustix::net::shutdown(&left, rustix::net::Shutdown::Both).expect("it listens");
    drop(left);
    let mut world = World::new();
    let id = world.role(Endpoint::Unix(path.clone()), "listen");
    world.spawned(id);
    assert_eq!(world.event(), ProcessEvent::Ready(id));
    assert!(path.exists());
    world.processes.signal(id, Signal::Kill);
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Signal(9) });
    assert!(!path.exists());
    let stranger = UnixListener::bind(folder.path().join("taken.sock")).expect("it binds");
    let id = world.role(Endpoint::Unix(folder.path().join("taken.sock")), "listen");
    let ProcessEvent::SpawnFailed { id: failed, error } = world.event() else {
        panic!("a socket that somebody listens on is not taken away")
    };
    assert_eq!(failed, id);
    assert!(error.contains("taken.sock"), "{error}");
    drop(stranger);
}

#[test]
fn a_stranger_on_the_port_does_not_make_a_worker_ready() {
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = stranger.local_addr().expect("it is bound").port();
    let mut world = World::new();
    let id = world.role(at_port(port), "listen-when-free");
    world.spawned(id);
    let ProcessEvent::Taken { id: taken, owner } = world.event() else {
        panic!("the stranger is seen first")
    };
    assert_eq!(taken, id);
    assert!(owner.contains(&std::process::id().to_string()), "{owner}");
    drop(stranger);
    assert_eq!(world.event(), ProcessEvent::Ready(id));
}

#[test]
fn an_end_comes_with_its_code_after_the_last_words() {
    let mut world = World::new();
    let id = world.shell("echo $SPILLGATE_WORKER_ID $WATCHDOG_USEC; printf last >&2; exit 3");
    world.spawned(id);
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Code(3) });
    let mut lines = [world.line(), world.line()];
    lines.sort();
    assert_eq!(lines, ["[app/3] 3 5000000\n", "[app/3] last\n"]);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut world = World::new();
    let id = world.spawn(nowhere(), &["/no/such/program"], None);
    let ProcessEvent::SpawnFailed { id: failed, error } = world.event() else {
        panic!("it cannot be spawned")
    };
    assert_eq!(failed, id);
    assert!(error.contains("/no/such/program"), "{error}");
}

#[test]
fn a_program_begins_with_no_signal_blocked_or_ignored_and_three_descriptors() {
    let mut world = World::new();
    // The Rust runtime ignores SIGPIPE, so there is something to take back. One more descriptor is
    // that of the folder which is being listed.
    world.shell(
        "grep SigBlk /proc/self/status; grep SigIgn /proc/self/status; ls /proc/self/fd | wc -l",
    );
    // The C library keeps some signals above 31 to itself.
    const CLASSIC: u64 = (1 << 31) - 1;
    for name in ["SigBlk", "SigIgn"] {
        let line = world.line();
        let set = line.trim().strip_prefix(&format!("[app/3] {name}:\t")).expect("it is named");
        let set = u64::from_str_radix(set, 16).expect("it is a set of bits");
        assert_eq!(set & CLASSIC, 0, "{line}");
    }
    assert_eq!(world.number_line(), 4);
}

#[test]
fn who_ignores_sigterm_meets_sigkill() {
    let mut world = World::new();
    let id = world.shell("trap '' TERM; echo deaf; exec sleep 600");
    world.spawned(id);
    assert_eq!(world.line(), "[app/3] deaf\n");
    world.processes.signal(id, Signal::Term);
    world.processes.signal(id, Signal::Kill);
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Signal(9) });
}

#[test]
fn a_signal_before_the_birth_is_not_lost() {
    let mut world = World::new();
    let id = world.shell("sleep 600");
    world.processes.signal(id, Signal::Kill);
    world.spawned(id);
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Signal(9) });
    world.processes.signal(id, Signal::Kill);
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let mut world = World::new();
    let id = world.shell("sleep 600 & echo $!; wait");
    world.spawned(id);
    let second = watch(world.number_line());
    world.processes.signal(id, Signal::Term);
    wait_for_end(&second);
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Signal(15) });
}

#[test]
fn what_a_worker_leaves_behind_is_killed_with_its_end() {
    let mut world = World::new();
    let id = world.shell("sleep 600 & echo $!; exit 0");
    world.spawned(id);
    let left = Pid::from_raw(world.number_line()).expect("a pid is not zero");
    assert_eq!(world.event(), ProcessEvent::Exited { id, exit: Exit::Code(0) });
    if let Ok(left) = pidfd_open(left, PidfdFlags::empty()) {
        wait_for_end(&left);
    }
}

#[test]
fn dropping_the_processes_kills_them_and_what_they_started() {
    let mut world = World::new();
    let id = world.shell("sleep 600 & echo $!; wait");
    let first = watch(i32::try_from(world.spawned(id)).expect("a pid is small"));
    let second = watch(world.number_line());
    drop(world);
    wait_for_end(&first);
    wait_for_end(&second);
}

#[test]
fn a_killed_spillgate_takes_its_workers_along_and_what_they_started() {
    let program = std::env::current_exe().expect("this program has a path");
    let mut parent = Command::new(program)
        .args(["--exact", "a_role", "--nocapture"])
        .env(ROLE, "supervise")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts again");
    let said = BufReader::new(parent.stdout.take().expect("it is a pipe"));
    let pids = said
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("workers ")?.1.to_string()))
        .expect("it says which processes there are");
    let pids = pids.split_whitespace().map(|pid| pid.parse().expect("it is a number"));
    let workers: Vec<OwnedFd> = pids.map(watch).collect();
    assert_eq!(workers.len(), 2);
    parent.kill().expect("it lives");
    parent.wait().expect("it can be waited for");
    for worker in &workers {
        wait_for_end(worker);
    }
}

/// Not a test of its own: what this program does when it is started as somebody's worker.
#[test]
fn a_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("notify") => notify(),
        Ok("listen") => listen(),
        Ok("listen-when-free") => listen_when_free(),
        Ok("supervise") => supervise(),
        Ok(other) => panic!("unknown role {other}"),
        Err(_) => {}
    }
}

fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

fn notify() {
    let name = std::env::var("NOTIFY_SOCKET").expect("it is told");
    let name = name.strip_prefix('@').expect("it is abstract");
    let address = UnixAddress::from_abstract_name(name).expect("it is a name");
    let socket = UnixDatagram::unbound().expect("there are descriptors");
    socket.connect_addr(&address).expect("somebody listens");
    for words in ["STATUS=soon", "READY=1", "WATCHDOG=1\n", "STOPPING=1"] {
        socket.send(words.as_bytes()).expect("it is taken");
    }
    stay();
}

fn listen() {
    if let Ok(path) = std::env::var("SPILLGATE_SOCKET") {
        let listener = UnixListener::bind(Path::new(&path)).expect("it is free");
        for connection in listener.incoming() {
            drop(connection);
        }
    }
    let listener = TcpListener::bind(told_address()).expect("it is free");
    for connection in listener.incoming() {
        drop(connection);
    }
}

fn listen_when_free() {
    let listener = loop {
        match TcpListener::bind(told_address()) {
            Ok(listener) => break listener,
            Err(_) => std::thread::yield_now(),
        }
    };
    for connection in listener.incoming() {
        drop(connection);
    }
}

fn told_address() -> (Ipv4Addr, u16) {
    let port = std::env::var("PORT").expect("it is told").parse().expect("it is a number");
    (Ipv4Addr::UNSPECIFIED, port)
}

fn supervise() {
    let mut world = World::new();
    let id = world.shell("sleep 600 & echo $!; wait");
    let first = world.spawned(id);
    let second = world.number_line();
    println!("workers {first} {second}");
    stay();
}
