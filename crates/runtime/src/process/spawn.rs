//! The thread that starts processes, and the handle to it.
//!
//! The kernel kills a worker when the thread that started it ends, so there is one thread for it
//! that lives as long as its [`Processes`]: dropping the handle kills what still runs, group by
//! group.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use spillgate_core::supervise::{ProcessId, Signal};
use tokio::sync::mpsc;

use super::address::clear_stale_socket;
use super::group::Group;
use super::guard::Guard;
use super::notify::NotifySocket;
use super::output::WorkerOutput;
use super::watch::{Born, watch};
use super::{ProcessEvent, Spec};
use crate::drive::ControlHandle;
use crate::http::settings::Endpoint;
use crate::sys::process::tie_to_this_thread;

/// Processes that may wait to be started. A supervisor wants at most two for each worker at once.
const ORDERS_MAX: usize = 1024;
/// Events that may wait to be taken; whoever has more to say waits.
const EVENTS_MAX: usize = 256;
/// What others may have told us of ourselves in the environment, and no worker is to take for its
/// own: notifications and descriptors of a service manager.
const NOT_INHERITED: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// The processes of one pool. Dropping it kills them.
#[derive(Debug)]
pub struct Processes {
    orders: SyncSender<Spec>,
    living: Living,
}

/// A process cannot be asked for.
#[derive(Debug, thiserror::Error)]
#[error("the thread that starts processes is stuck")]
pub struct SpawnError;

impl Processes {
    /// Start the thread. What happens to the processes comes out of the receiver, in order for each
    /// of them.
    ///
    /// Errors: the thread cannot be started.
    pub fn start(
        control: &ControlHandle,
        output: WorkerOutput,
        guard: Guard,
    ) -> io::Result<(Processes, mpsc::Receiver<ProcessEvent>)> {
        let (orders, waiting) = sync_channel(ORDERS_MAX);
        let (events, happened) = mpsc::channel(EVENTS_MAX);
        let living = Living::default();
        let spawner =
            Spawner { control: control.clone(), output, guard, events, living: living.clone() };
        std::thread::Builder::new()
            .name("spawn".to_string())
            .spawn(move || spawner.run(&waiting))?;
        Ok((Processes { orders, living }, happened))
    }

    /// Start a process. Never blocks; that it is there, or could not be made, is an event.
    ///
    /// Errors: too many wait already, because starting one takes for ever.
    pub fn spawn(&self, spec: Spec) -> Result<(), SpawnError> {
        let id = spec.id;
        self.living.expect(id);
        self.orders.try_send(spec).map_err(|_| {
            self.living.remove(id);
            SpawnError
        })
    }

    /// Send `signal` to the process and its group; as soon as it is there, when it is still to be
    /// made; to nobody, when it is gone.
    pub fn signal(&self, id: ProcessId, signal: Signal) {
        self.living.signal(id, signal);
    }
}

/// The processes that live or are about to. One lock, held for no longer than a signal takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Living(Arc<Mutex<BTreeMap<ProcessId, Life>>>);

#[derive(Debug)]
enum Life {
    /// To be made, then sent this.
    Expected(Option<Signal>),
    Born(Arc<Group>),
}

impl Living {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<ProcessId, Life>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn expect(&self, id: ProcessId) {
        self.with(|living| living.insert(id, Life::Expected(None)));
    }

    fn signal(&self, id: ProcessId, signal: Signal) {
        self.with(|living| match living.get_mut(&id) {
            Some(Life::Born(group)) => group.signal(number(signal)),
            Some(Life::Expected(pending)) => *pending = Some(signal),
            None => {}
        });
    }

    fn born(&self, id: ProcessId, group: Arc<Group>) {
        self.with(|living| {
            if let Some(Life::Expected(Some(signal))) = living.get(&id) {
                group.signal(number(*signal));
            }
            living.insert(id, Life::Born(group));
        });
    }

    fn kill(&self) {
        self.with(|living| {
            for life in living.values() {
                if let Life::Born(group) = life {
                    group.signal(rustix::process::Signal::KILL);
                }
            }
        });
    }

    pub(super) fn remove(&self, id: ProcessId) {
        self.with(|living| living.remove(&id));
    }
}

fn number(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    }
}

struct Spawner {
    control: ControlHandle,
    output: WorkerOutput,
    guard: Guard,
    events: mpsc::Sender<ProcessEvent>,
    living: Living,
}

impl Spawner {
    fn run(&self, orders: &Receiver<Spec>) {
        while let Ok(spec) = orders.recv() {
            let id = spec.id;
            match spawn(spec, &self.guard) {
                Ok(born) => {
                    self.living.born(id, born.group.clone());
                    let (events, living) = (self.events.clone(), self.living.clone());
                    let task = watch(born, events, living, self.output.clone());
                    drop(self.control.spawn(task));
                }
                Err(error) => {
                    self.living.remove(id);
                    let error = error.to_string();
                    // Without a receiver nobody wants to know.
                    let _ = self.events.blocking_send(ProcessEvent::SpawnFailed { id, error });
                }
            }
        }
        self.living.kill();
    }
}

fn spawn(spec: Spec, guard: &Guard) -> io::Result<Born> {
    if let Endpoint::Unix(path) = &spec.endpoint {
        clear_stale_socket(path)?;
    }
    let notify = NotifySocket::bind()?;
    let mut process = command(&spec, &notify.address)?.spawn().map_err(|error| {
        let program = &spec.command[0];
        io::Error::new(error.kind(), format!("cannot start {program:?}: {error}"))
    })?;
    match identify(&process, guard) {
        Ok((group, exit)) => {
            let prefix = format!("[{}/{}] ", spec.pool, spec.id.worker.0);
            Ok(Born { id: spec.id, endpoint: spec.endpoint, prefix, process, group, exit, notify })
        }
        Err(error) => {
            // Out of descriptors, most likely: what cannot be watched must not run.
            process.kill()?;
            process.wait()?;
            Err(error)
        }
    }
}

fn identify(process: &Child, guard: &Guard) -> io::Result<(Arc<Group>, OwnedFd)> {
    let pid = Pid::from_child(process);
    let exit = pidfd_open(pid, PidfdFlags::empty())?;
    guard.add(pid.as_raw_nonzero().get());
    Ok((Arc::new(Group::new(pid, guard.clone())), exit))
}

fn command(spec: &Spec, notify_socket: &str) -> io::Result<Command> {
    let Some((program, arguments)) = spec.command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(directory) = &spec.directory {
        check_directory(directory)?;
        command.current_dir(directory);
    }
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    match &spec.endpoint {
        Endpoint::Tcp(address) => command.env("PORT", address.port().to_string()),
        Endpoint::Unix(path) => command.env("SPILLGATE_SOCKET", path),
    };
    command.env("SPILLGATE_WORKER_ID", spec.id.worker.0.to_string());
    command.env("NOTIFY_SOCKET", notify_socket);
    if let Some(time) = spec.heartbeat_time_max {
        command.env("WATCHDOG_USEC", time.as_micros().to_string());
    }
    command.process_group(0);
    tie_to_this_thread(&mut command);
    Ok(command)
}

/// The system says "no such file" for a missing folder as for a missing program; say which.
fn check_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let text = format!("the working directory {} is not a folder", directory.display());
    Err(io::Error::new(io::ErrorKind::NotADirectory, text))
}
