//! What a supervisor is told, and what it wants done.
//!
//! These types are the whole border between the machine and the shell that starts real processes.
//! A process is named by worker and run, never by its pid: a pid can be used again by the system.

use crate::gate::Change;
use crate::id::WorkerId;
use crate::time::Duration;

/// One process of a worker. `run` counts the processes of that worker, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// Whose process it is.
    pub worker: WorkerId,
    /// The how-manieth of that worker it is.
    pub run: u32,
}

/// Which of the two addresses of a worker a process listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What a supervisor can have sent to a process with its whole group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: stop when you can.
    Term,
    /// SIGKILL: stop.
    Kill,
}

/// Something happened that the supervisor has to know. What concerns a process that is gone, or
/// does not fit its state, is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Start the pool. Once.
    Start,
    /// The process exists.
    Spawned {
        /// Which.
        process: ProcessId,
        /// Its process id, for the view.
        pid: u32,
    },
    /// The process could not be made. It counts as an end before it was ready.
    SpawnFailed(ProcessId),
    /// The process can serve.
    Ready(ProcessId),
    /// The process lives (`WATCHDOG=1`).
    Heartbeat(ProcessId),
    /// The process is about to end by itself (`STOPPING=1`).
    Leaving(ProcessId),
    /// The process ended, and whatever was left of its group is killed.
    Exited {
        /// Which.
        process: ProcessId,
        /// How.
        exit: Exit,
    },
    /// An exchange in this worker has no response head for too long, or no progress.
    Stalled(WorkerId),
    /// The gate has found out whether this worker can be reached: not since a connection to it
    /// failed, again since a probe did not.
    Reached {
        /// Which.
        worker: WorkerId,
        /// Whether it takes connections.
        reached: bool,
    },
    /// No permit of this worker is out any more; the answer to [`Output::AwaitDrained`].
    Drained(WorkerId),
    /// Replace all processes, one worker at a time. During such a restart: once more after it.
    Restart,
    /// Stop all processes. Said again: kill them at once.
    Stop,
}

/// What the supervisor wants done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make a process that listens on this side of its worker.
    Spawn {
        /// Which.
        process: ProcessId,
        /// Where it is to listen.
        side: Side,
    },
    /// Send a signal to the process and its whole group. May follow a spawn that is not done yet.
    Signal {
        /// Which.
        process: ProcessId,
        /// What.
        signal: Signal,
    },
    /// From here on the worker is reached where this process listens; connections to where it was
    /// reached before are not to be used again. Always before the Ready that belongs to it.
    Endpoint(ProcessId),
    /// Tell the gate.
    Member {
        /// Of whom.
        worker: WorkerId,
        /// What.
        change: Change,
    },
    /// Say [`Input::Drained`] as soon as no permit of this worker is out. The gate gives it none
    /// until it hears of [`Change::Ready`].
    AwaitDrained(WorkerId),
    /// Something worth a line in the log.
    Event(Event),
    /// Everything has ended, after [`Input::Stop`]. The last output.
    AllStopped {
        /// Processes that outlived SIGKILL (stuck in the kernel); normally 0.
        left: u32,
    },
}

/// Something worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process can serve.
    Ready {
        /// Which.
        process: ProcessId,
        /// How long it took from its start.
        after: Duration,
    },
    /// A process was not ready within `ready_time_max`; it is stopped.
    ReadyLate(ProcessId),
    /// A process stands still; it is stopped.
    Stalled {
        /// Which.
        process: ProcessId,
        /// How that was seen.
        reason: StallReason,
    },
    /// A process ended, or could not be made.
    Ended {
        /// Which.
        process: ProcessId,
        /// How; none: it could not be made.
        exit: Option<Exit>,
        /// Whether we had asked it to.
        asked: bool,
        /// When the worker starts again; none: it has another process already, or it is not to.
        again_in: Option<Duration>,
    },
    /// A process did not stop on SIGTERM and is killed.
    StopLate(ProcessId),
    /// The exchanges of this worker did not end within `drain_time_max`; its process is stopped all
    /// the same.
    DrainLate(WorkerId),
    /// A restart of the whole pool began.
    RestartBegan,
    /// This worker's next process serves in place of the one before.
    RestartSwitched(WorkerId),
    /// All workers have been restarted.
    RestartDone,
    /// The restart ended at this worker; it and those after it keep the processes they have.
    RestartFailed {
        /// Where.
        worker: WorkerId,
        /// Why.
        error: RestartError,
    },
}

/// How a stall was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// The last heartbeat is this old.
    Heartbeat(Duration),
    /// An exchange had no response head for `exchange_time_max`, or no progress.
    Exchange,
    /// It has taken no connection for this long.
    Unreached(Duration),
}

/// Why a rolling restart ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartError {
    /// The next process ended before it could take over, or could not be made; the one before it
    /// serves on.
    Ended,
    /// The same, and no process of the worker serves: there was none before, or it is ending.
    EndedAlone,
    /// The next process was not ready within `ready_time_max`.
    ReadyLate,
    /// The next process stood still or left just after it had become ready.
    Stalled,
    /// The pool is stopping.
    Stopping,
}
