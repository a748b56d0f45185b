//! The numbers of a supervisor, copied out for the dashboard, `ctl status` and the tests.
//!
//! A copy, so that whoever shows it holds no lock. Absent: whether a worker gets exchanges, which
//! is the gate's to say; both are shown beside each other.

use crate::id::WorkerId;
use crate::time::Instant;

use super::message::Exit;
use super::process::{Phase, Process};
use super::worker::Worker;
use crate::gate::Change;

/// A picture of one supervisor at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The workers, by id.
    pub workers: Vec<WorkerView>,
    /// The rolling restart that runs.
    pub restart: Option<RestartView>,
    /// Whether the pool is stopping or has stopped.
    pub stopping: bool,
}

/// How far a rolling restart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartView {
    /// The worker whose turn it is.
    pub worker: WorkerId,
    /// Workers that are done.
    pub done: u32,
}

/// One worker in a [`View`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Its id.
    pub id: WorkerId,
    /// The state of its process in use.
    pub state: ProcessState,
    /// Since when.
    pub since: Instant,
    /// The process id of the process in use; none: there is none, or it is just being made.
    pub pid: Option<u32>,
    /// The process id of the one that is to take over, or was taken over from.
    pub pid_beside: Option<u32>,
    /// Ends that nobody had asked for, failed starts included.
    pub ends: u32,
    /// How its last process ended.
    pub last_exit: Option<Exit>,
    /// When the next one starts, while there is none.
    pub start_at: Option<Instant>,
    /// Its newest heartbeat.
    pub heartbeat: Option<Instant>,
}

/// What a worker's process is doing, as far as its supervisor knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessState {
    /// There is none.
    Down,
    /// It runs and is not ready.
    Starting,
    /// It can serve.
    Ready,
    /// It can serve, and gets no new exchanges because it is about to stop.
    Draining,
    /// It was told to stop.
    Stopping,
}

impl ProcessState {
    /// The word of the dashboard and of `ctl status`.
    pub const fn word(self) -> &'static str {
        match self {
            ProcessState::Down => "down",
            ProcessState::Starting => "starting",
            ProcessState::Ready => "ready",
            ProcessState::Draining => "draining",
            ProcessState::Stopping => "stopping",
        }
    }
}

impl WorkerView {
    pub(super) fn of(worker: &Worker) -> WorkerView {
        let main = worker.main.as_ref();
        let beside = worker.next.as_ref().or(worker.old.as_ref());
        WorkerView {
            id: worker.id,
            state: main.map_or(ProcessState::Down, |main| state_of(main, worker.told)),
            since: main.map_or(worker.idle_since, |main| main.phase_since),
            pid: main.and_then(|main| main.pid),
            pid_beside: beside.and_then(|process| process.pid),
            ends: worker.ends,
            last_exit: worker.last_exit,
            start_at: worker.start_at,
            heartbeat: main.and_then(|main| main.beat),
        }
    }
}

fn state_of(process: &Process, told: Change) -> ProcessState {
    match process.phase {
        Phase::Starting { .. } => ProcessState::Starting,
        Phase::Ready if told == Change::Drain => ProcessState::Draining,
        Phase::Ready => ProcessState::Ready,
        Phase::Leaving { .. } => ProcessState::Draining,
        Phase::Stopping { .. } => ProcessState::Stopping,
    }
}
