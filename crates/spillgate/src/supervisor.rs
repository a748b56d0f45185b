//! The supervisor's shell: one task for each pool whose workers we start.
//!
//! It carries what `core::supervise` decides to real processes (`runtime::process`) and to the
//! pool, and what happens to them back. The pool is known only by the three things of
//! [`PoolHooks`]; whoever joins the parts fills them in.
//!
//! Absent: every decision (when to start, stop, switch, give up), and the proxy.

mod address;
mod shell;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use spillgate_core::gate::Change;
use spillgate_core::id::WorkerId;
use spillgate_core::supervise::{RestartError, Supervisor, View};
use spillgate_core::time::Instant;
use spillgate_proxy::settings::CommandSettings;
use spillgate_runtime::drive::{ControlHandle, Notify, Sender, channel, oneshot};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::process::{Guard, Processes, WorkerOutput};

use address::Addresses;
use shell::{Command, Shell};
pub(crate) use words::{ending, reason};

/// Commands that may wait; whoever gives one more waits.
const COMMANDS_MAX: usize = 16;

/// How a supervisor speaks to its pool. Called on the control runtime, never blocked upon for long,
/// and in the order of what happens.
pub(crate) struct PoolHooks {
    /// Tell the gate. The change holds when the call returns.
    pub(crate) member: Box<dyn Fn(WorkerId, Change) + Send + Sync>,
    /// The worker is reached here from now on. Idle connections to where it was before are not to
    /// be used again. Always before the [`Change::Ready`] that belongs to it.
    pub(crate) endpoint: Box<dyn Fn(WorkerId, Endpoint) + Send + Sync>,
    /// Permits of this worker that are out now. Asked every few milliseconds while it is drained.
    pub(crate) in_flight: Box<dyn Fn(WorkerId) -> u32 + Send + Sync>,
}

/// What the supervisors of all pools share.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// Where their tasks run.
    pub(crate) control: ControlHandle,
    /// Where the lines of workers go.
    pub(crate) output: WorkerOutput,
    /// What kills workers when we are killed. Started early, before much memory is in use.
    pub(crate) guard: Guard,
}

/// Start the workers of `pool`, and keep them running.
///
/// Errors: no thread for starting processes, no folder for their sockets, or addresses that cannot
/// be.
pub(crate) fn start(
    pool: &str,
    settings: CommandSettings,
    surroundings: &Surroundings,
    hooks: PoolHooks,
) -> io::Result<SupervisorHandle> {
    let Surroundings { control, output, guard } = surroundings;
    let addresses = Addresses::new(pool, &settings.listen, settings.workers)?;
    let (processes, events) = Processes::start(control, output.clone(), guard.clone())?;
    let machine = Supervisor::new(settings.supervise.clone(), settings.workers);
    let (commands, received) = channel(COMMANDS_MAX);
    let shared = Arc::new(Shared {
        view: Mutex::new(machine.view()),
        seen: Mutex::default(),
        seen_more: Notify::new(),
    });
    let shell = Shell {
        pool: pool.to_string(),
        settings,
        machine,
        processes,
        addresses,
        hooks,
        output: output.clone(),
        control: control.clone(),
        shared: shared.clone(),
        draining: BTreeSet::new(),
        restarts: shell::Waiting::default(),
        not_before: Instant::ZERO,
        stops: Vec::new(),
    };
    drop(control.spawn(shell.run(events, received)));
    Ok(SupervisorHandle { commands, shared })
}

/// What the task and its handles share. Each lock is held for a copy or an insertion.
#[derive(Debug)]
struct Shared {
    view: Mutex<View>,
    /// What the pool has seen of its workers, until the task looks.
    seen: Mutex<Seen>,
    seen_more: Notify,
}

/// What others have seen of workers. Sets, so that nobody ever waits and nothing is lost.
#[derive(Debug, Default)]
struct Seen {
    stalled: BTreeSet<WorkerId>,
    /// Whether they take connections: the newest word of each.
    reached: BTreeMap<WorkerId, bool>,
}

impl Shared {
    fn publish(&self, view: View) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    fn see(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        self.seen_more.notify_one();
    }

    fn take_seen(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The way to one pool's supervisor. When the last is dropped, the pool stops.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorHandle {
    commands: Sender<Command>,
    shared: Arc<Shared>,
}

impl SupervisorHandle {
    /// Replace all processes, one worker at a time, and wait until that is done. During such a
    /// restart: once more after it.
    ///
    /// Errors: it ended early, and why; the pool goes on with the processes it has.
    pub(crate) async fn restart(&self) -> Result<(), RestartError> {
        let (done, wait) = oneshot::channel();
        // Without its task, or an answer of it, the pool has stopped.
        if self.commands.send(Command::Restart(done)).await.is_err() {
            return Err(RestartError::Stopping);
        }
        wait.await.unwrap_or(Err(RestartError::Stopping))
    }

    /// An exchange in this worker has no response head for too long, or no progress. From any
    /// thread; never blocks.
    pub(crate) fn stalled(&self, worker: WorkerId) {
        self.shared.see(|seen| _ = seen.stalled.insert(worker));
    }

    /// This worker takes no connections, or takes them again. From any thread; never blocks.
    pub(crate) fn reached(&self, worker: WorkerId, reached: bool) {
        self.shared.see(|seen| _ = seen.reached.insert(worker, reached));
    }

    /// Stop all processes and wait until they have ended. Said again meanwhile: kill them at once.
    /// Returns how many outlived even that; normally 0.
    pub(crate) async fn stop(&self) -> u32 {
        let (done, wait) = oneshot::channel();
        if self.commands.send(Command::Stop(done)).await.is_err() {
            return 0;
        }
        wait.await.unwrap_or(0)
    }

    /// Kill all processes and wait until they have ended.
    pub(crate) async fn kill(&self) {
        let (asked, _) = oneshot::channel();
        if self.commands.send(Command::Stop(asked)).await.is_ok() {
            // Said for the second time, it means at once.
            self.stop().await;
        }
    }

    /// The machine's own picture, with the restart under way.
    pub(crate) fn view(&self) -> View {
        self.shared.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
