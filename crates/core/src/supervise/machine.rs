//! The machine itself: what each input and each passed moment leads to.
//!
//! The rolling restart is told in `roll.rs`; here is what concerns one process at a time.

use std::collections::VecDeque;

use crate::gate::Change;
use crate::id::WorkerId;
use crate::time::{Duration, Instant};

use super::ladder::Ending;
use super::message::{Event, Exit, Input, Output, ProcessId, StallReason};
use super::process::{Phase, Process};
use super::roll::Roll;
use super::settings::Settings;
use super::view::{View, WorkerView};
use super::worker::{Role, Worker};

/// The supervisor of one pool. See the module for what it does and does not decide.
#[derive(Debug)]
pub struct Supervisor {
    pub(super) settings: Settings,
    pub(super) workers: Vec<Worker>,
    pub(super) roll: Option<Roll>,
    /// A restart was asked for while one was running.
    pub(super) roll_again: bool,
    pub(super) mode: Mode,
    outputs: VecDeque<Output>,
    /// The latest moment heard of: time never goes back here.
    now: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Before [`Input::Start`].
    New,
    Running,
    /// After [`Input::Stop`]; what still lives at this moment is given up.
    Stopping {
        until: Instant,
    },
    Stopped,
}

impl Supervisor {
    /// A supervisor of `workers` workers with the ids from 0 on. Nothing runs before
    /// [`Input::Start`].
    pub fn new(settings: Settings, workers: u32) -> Supervisor {
        let now = Instant::ZERO;
        let workers = (0..workers).map(|id| Worker::new(WorkerId(id), &settings, now)).collect();
        Supervisor {
            settings,
            workers,
            roll: None,
            roll_again: false,
            mode: Mode::New,
            outputs: VecDeque::new(),
            now,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, input: Input, now: Instant) {
        let now = self.advance(now);
        match input {
            Input::Start => self.start(now),
            Input::Spawned { process, pid } => self.with(process, |this| this.pid = Some(pid)),
            Input::SpawnFailed(process) => self.ended(process, None, now),
            Input::Ready(process) => self.ready(process, now),
            Input::Heartbeat(process) => self.with(process, |this| this.beat = Some(now)),
            Input::Leaving(process) => self.leaving(process, now),
            Input::Exited { process, exit } => self.ended(process, Some(exit), now),
            Input::Stalled(worker) => self.exchange_stalled(worker, now),
            Input::Reached { worker, reached } => self.note_reached(worker, reached, now),
            Input::Drained(worker) => self.note_drained(worker),
            Input::Restart => self.restart(),
            Input::Stop => self.stop(now),
        }
        self.settle(now);
    }

    /// The moment of [`Supervisor::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        for index in 0..self.workers.len() {
            for role in Role::ALL {
                self.check_due(index, role, now);
            }
        }
        self.settle(now);
    }

    /// The next thing to do; none: nothing is left to do until something happens.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Supervisor::handle_timeout`] if nothing happens before; none: never.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let workers = self.workers.iter().filter_map(|worker| worker.deadline(&self.settings));
        let roll = self.roll.as_ref().and_then(Roll::deadline);
        let stop = match self.mode {
            Mode::Stopping { until } => Some(until),
            Mode::New | Mode::Running | Mode::Stopped => None,
        };
        if self.mode == Mode::Stopped { None } else { workers.chain(roll).chain(stop).min() }
    }

    /// A cheap copy of the numbers.
    pub fn view(&self) -> View {
        View {
            workers: self.workers.iter().map(WorkerView::of).collect(),
            restart: self.roll.as_ref().and_then(|roll| self.roll_view(roll)),
            stopping: !self.is_running() && self.mode != Mode::New,
        }
    }

    /// Panics when an invariant of the module is broken. Looks at everything.
    pub fn check_invariants(&self) {
        for worker in &self.workers {
            self.check_worker(worker);
        }
        if !self.is_running() {
            assert!(self.roll.is_none(), "a pool that does not run is not restarted");
        }
        let beside = self.workers.iter().filter(|worker| worker.next_has_hope()).count();
        assert!(beside <= 1, "one worker at a time is replaced, not {beside}");
    }

    fn check_worker(&self, worker: &Worker) {
        let id = worker.id;
        let mut sides: Vec<_> = worker.processes().map(|process| process.side).collect();
        sides.dedup();
        let count = worker.processes().count();
        assert_eq!(sides.len(), count, "processes of {id:?} share an address");
        assert!(count <= 2, "{id:?} has {count} processes");
        if worker.told == Change::Ready {
            assert!(worker.main_is_ready(), "{id:?} is said to be ready and is not");
        }
        if let Some(old) = worker.old {
            assert!(old.is_stopping(), "the old process of {id:?} is not stopped");
        }
        if self.is_running() {
            let provided =
                worker.main.is_some() || worker.next_has_hope() || worker.start_at.is_some();
            assert!(provided, "{id:?} is forgotten");
        } else {
            assert!(worker.start_at.is_none(), "{id:?} would start in a pool that stops");
        }
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    pub(super) fn is_running(&self) -> bool {
        self.mode == Mode::Running
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Change the record of a process, unless it is gone.
    fn with(&mut self, id: ProcessId, change: impl FnOnce(&mut Process)) {
        if let Some((index, role)) = self.find(id)
            && let Some(process) = self.workers[index].place(role)
        {
            change(process);
        }
    }

    fn find(&self, id: ProcessId) -> Option<(usize, Role)> {
        let index = self.index(id.worker)?;
        Some((index, self.workers[index].role_of(id)?))
    }

    fn index(&self, worker: WorkerId) -> Option<usize> {
        let index = usize::try_from(worker.0).ok()?;
        (index < self.workers.len()).then_some(index)
    }

    fn start(&mut self, now: Instant) {
        if self.mode != Mode::New {
            return;
        }
        self.mode = Mode::Running;
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            worker.start_at = Some(now);
            worker.idle_since = now;
            let member = Output::Member { worker: worker.id, change: Change::JoinSupervised };
            self.push(member);
        }
    }

    fn ready(&mut self, id: ProcessId, now: Instant) {
        let Some((index, role)) = self.find(id) else { return };
        let Some(process) = self.workers[index].place(role) else { return };
        if !matches!(process.phase, Phase::Starting { .. }) {
            return;
        }
        process.enter(Phase::Ready, now);
        process.ready = Some(now);
        let after = now.since(process.started);
        self.push(Output::Event(Event::Ready { process: id, after }));
        if role == Role::Main {
            self.push(Output::Endpoint(id));
            self.tell(index, Change::Ready);
        }
    }

    /// A process says that it will end. Its gate gets it no new exchanges, so that it can do so
    /// without harm.
    fn leaving(&mut self, id: ProcessId, now: Instant) {
        let until = now + self.settings.drain_time_max;
        let Some((index, role)) = self.find(id) else { return };
        let Some(process) = self.workers[index].place(role) else { return };
        if !process.is_ready() {
            return;
        }
        process.enter(Phase::Leaving { until }, now);
        if role == Role::Main {
            self.tell(index, Change::Drain);
        }
    }

    /// A process is gone. A worker that ends by itself with code 0 is replaced like any other
    /// (pool-hall does not): the pool was asked to have this many, many programs end that way on
    /// purpose to be renewed, and who wants fewer stops the pool.
    fn ended(&mut self, id: ProcessId, exit: Option<Exit>, now: Instant) {
        let Some((index, role)) = self.find(id) else { return };
        let running = self.is_running();
        let worker = &mut self.workers[index];
        let Some(process) = worker.place(role).take() else { return };
        worker.last_exit = exit;
        if process.asked {
            worker.restart_wait = Duration::ZERO;
        } else {
            worker.ends += 1;
            worker.note_end(&process, &self.settings, now);
        }
        if role == Role::Main {
            worker.idle_since = now;
            if running && !worker.next_has_hope() {
                worker.start_at = Some(now + worker.restart_wait);
            }
            self.tell(index, Change::Down);
        }
        let again_in = self.workers[index].start_at.map(|at| at.since(now));
        let asked = process.asked;
        self.push(Output::Event(Event::Ended { process: id, exit, asked, again_in }));
    }

    fn exchange_stalled(&mut self, worker: WorkerId, now: Instant) {
        if let Some(index) = self.index(worker) {
            self.stalled(index, Role::Main, StallReason::Exchange, now);
        }
    }

    fn note_reached(&mut self, worker: WorkerId, reached: bool, now: Instant) {
        let Some(index) = self.index(worker) else { return };
        let Some(main) = &mut self.workers[index].main else { return };
        if reached {
            main.unreached = None;
        } else if main.is_ready() {
            main.unreached.get_or_insert(now);
        }
    }

    fn stalled(&mut self, index: usize, role: Role, reason: StallReason, now: Instant) {
        let Some(process) = *self.workers[index].place(role) else { return };
        if !matches!(process.phase, Phase::Ready | Phase::Leaving { .. }) {
            return;
        }
        self.push(Output::Event(Event::Stalled { process: process.id, reason }));
        if role == Role::Main {
            self.tell(index, Change::Down);
        }
        self.end(index, role, Ending::unasked(self.settings.stall_stop_time_max), now);
    }

    /// Look at one process, whose moment may have come.
    fn check_due(&mut self, index: usize, role: Role, now: Instant) {
        let Some(process) = *self.workers[index].place(role) else { return };
        if process.deadline(&self.settings).is_none_or(|deadline| deadline > now) {
            return;
        }
        match process.phase {
            Phase::Starting { .. } => {
                self.push(Output::Event(Event::ReadyLate(process.id)));
                self.end(index, role, Ending::unasked(self.settings.stop_time_max), now);
            }
            Phase::Ready => {
                let reason = match process.unreached {
                    Some(since) if process.reach_deadline(&self.settings) <= Some(now) => {
                        StallReason::Unreached(now.since(since))
                    }
                    _ => StallReason::Heartbeat(process.beat_age(now)),
                };
                self.stalled(index, role, reason, now);
            }
            Phase::Leaving { .. } => {
                if role == Role::Main {
                    self.tell(index, Change::Down);
                }
                self.end(index, role, Ending::unasked(self.settings.stop_time_max), now);
            }
            Phase::Stopping { .. } => self.kill(index, role, now),
        }
    }

    /// Tell the gate, unless it knows.
    pub(super) fn tell(&mut self, index: usize, change: Change) {
        let worker = &mut self.workers[index];
        if worker.told == change {
            return;
        }
        worker.told = change;
        let output = Output::Member { worker: worker.id, change };
        self.push(output);
    }

    /// Do what has become due: go on with a restart, start what is to be started, and say when all
    /// has stopped.
    fn settle(&mut self, now: Instant) {
        self.advance_roll(now);
        match self.mode {
            Mode::Running => self.start_due(now),
            Mode::Stopping { until } => self.finish_stop(now >= until),
            Mode::New | Mode::Stopped => {}
        }
    }

    fn start_due(&mut self, now: Instant) {
        for worker in &mut self.workers {
            if worker.main.is_some() || worker.next_has_hope() {
                continue;
            }
            // Without a moment to start at: a next process has just lost its hope.
            let start_at = *worker.start_at.get_or_insert(now + worker.restart_wait);
            if start_at > now {
                continue;
            }
            worker.start_at = None;
            let process = worker.begin(Role::Main, &self.settings, now);
            self.outputs.push_back(Output::Spawn { process: process.id, side: process.side });
        }
    }
}
