//! The rolling restart: every worker gets a new process, one worker at a time.
//!
//! The order in which nothing can fail: start the next process on the free address; once it is
//! ready, have the gate drain the worker; once no permit of it is out, switch the endpoint and tell
//! the gate Ready; only then stop the process that served before. So the queue is held by the other
//! workers and by this pause, and the old process meets SIGTERM without an exchange in it.
//!
//! A next process that ends, stalls or is late leaves everything as it was and ends the restart:
//! rolling on would take the release that does not start to every worker.

use crate::gate::Change;
use crate::id::WorkerId;
use crate::time::{Duration, Instant};

use super::ladder::Ending;
use super::machine::Supervisor;
use super::message::{Event, Output, RestartError};
use super::process::Phase;
use super::view::RestartView;
use super::worker::Role;

/// How long permits may take to come back once the process that they were for has ended. They do
/// within milliseconds, as its connections are closed; the bound is for slots that were stuck.
const RETURN_TIME_MAX: Duration = Duration::from_secs(1);

/// A restart under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roll {
    /// Whose turn it is: an index into the workers.
    index: usize,
    step: Step,
}

/// What the restart waits for at the worker whose turn it is.
///
/// ```text
///              a ready process              ready              no permit out
///  Waiting ─────────────────────▶ Starting ───────▶ Draining ─────────────────▶ Ending ─▶ next
///     │                                                │ the old one ended        ▲      worker
///     │ no process                                     ▼                          │
///     └────────▶ Fresh ─ready─▶ next worker        Returning ─── RETURN_TIME_MAX ─┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// For its present process to be ready or gone, and for what is left of others to end.
    Waiting,
    /// It had no process: for the one just started (this run) to be ready.
    Fresh { run: u32 },
    /// For the next process to be ready.
    Starting,
    /// For its running exchanges to end, until this moment (none: passed, the process is stopped).
    Draining { until: Option<Instant>, drained: bool },
    /// For the permits of the process that has ended meanwhile to come back.
    Returning { until: Instant, drained: bool },
    /// For the old process to end.
    Ending,
}

/// What one look at a restart led to.
enum Progress {
    Stay,
    To(Step),
    NextWorker,
    Fail(RestartError),
}

impl Roll {
    /// When it must be looked at even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.step {
            Step::Draining { until, .. } => until,
            Step::Returning { until, .. } => Some(until),
            Step::Waiting | Step::Fresh { .. } | Step::Starting | Step::Ending => None,
        }
    }
}

impl Supervisor {
    pub(super) fn restart(&mut self) {
        if !self.is_running() {
            return;
        }
        if self.roll.is_some() {
            self.roll_again = true;
            return;
        }
        self.push(Output::Event(Event::RestartBegan));
        self.roll = Some(Roll { index: 0, step: Step::Waiting });
    }

    pub(super) fn note_drained(&mut self, worker: WorkerId) {
        let Some(roll) = &mut self.roll else { return };
        if self.workers.get(roll.index).is_none_or(|turn| turn.id != worker) {
            return;
        }
        match &mut roll.step {
            Step::Draining { drained, .. } | Step::Returning { drained, .. } => *drained = true,
            Step::Waiting | Step::Fresh { .. } | Step::Starting | Step::Ending => {}
        }
    }

    pub(super) fn roll_view(&self, roll: &Roll) -> Option<RestartView> {
        let worker = self.workers.get(roll.index)?.id;
        Some(RestartView { worker, done: u32::try_from(roll.index).unwrap_or(u32::MAX) })
    }

    /// The pool stops: the restart ends where it is.
    pub(super) fn fail_roll_for_stop(&mut self) {
        if let Some(roll) = self.roll.take() {
            let worker = self.workers[roll.index].id;
            let error = RestartError::Stopping;
            self.push(Output::Event(Event::RestartFailed { worker, error }));
        }
        self.roll_again = false;
    }

    /// Go as far as it goes. Every turn of the loop takes the restart a step further, so it ends.
    pub(super) fn advance_roll(&mut self, now: Instant) {
        while let Some(Roll { index, step }) = self.roll {
            if index == self.workers.len() {
                self.finish_roll();
                continue;
            }
            let progress = match step {
                Step::Waiting => self.roll_waiting(index, now),
                Step::Fresh { run } => self.roll_fresh(index, run),
                Step::Starting => self.roll_starting(index, now),
                Step::Draining { until, drained } => self.roll_draining(index, until, drained, now),
                Step::Returning { until, drained } => {
                    self.roll_returning(index, drained || now >= until, now)
                }
                Step::Ending => self.roll_ending(index),
            };
            match progress {
                Progress::Stay => return,
                Progress::To(step) => self.roll = Some(Roll { index, step }),
                Progress::NextWorker => {
                    self.roll = Some(Roll { index: index + 1, step: Step::Waiting });
                }
                Progress::Fail(error) => self.fail_roll(index, error, now),
            }
        }
    }

    fn finish_roll(&mut self) {
        self.roll = None;
        self.push(Output::Event(Event::RestartDone));
        if std::mem::take(&mut self.roll_again) {
            self.restart();
        }
    }

    fn fail_roll(&mut self, index: usize, error: RestartError, now: Instant) {
        self.roll = None;
        self.roll_again = false;
        let worker = self.workers[index].id;
        let serves = self.workers[index].main_is_ready();
        let error = match error {
            RestartError::Ended if !serves => RestartError::EndedAlone,
            error => error,
        };
        self.push(Output::Event(Event::RestartFailed { worker, error }));
        self.end(index, Role::Next, Ending::asked(self.settings.stop_time_max), now);
        if serves {
            self.tell(index, Change::Ready);
        }
    }

    fn roll_waiting(&mut self, index: usize, now: Instant) -> Progress {
        let worker = &mut self.workers[index];
        if worker.next.is_some() || worker.old.is_some() {
            return Progress::Stay;
        }
        let role = match worker.main {
            None => Role::Main,
            Some(main) if main.is_ready() => Role::Next,
            Some(_) => return Progress::Stay,
        };
        worker.start_at = None;
        let process = worker.begin(role, &self.settings, now);
        self.push(Output::Spawn { process: process.id, side: process.side });
        Progress::To(match role {
            Role::Main => Step::Fresh { run: process.id.run },
            Role::Next | Role::Old => Step::Starting,
        })
    }

    fn roll_fresh(&self, index: usize, run: u32) -> Progress {
        match self.workers[index].main {
            Some(main) if main.id.run != run => Progress::Fail(RestartError::Ended),
            Some(main) if main.is_ready() => Progress::NextWorker,
            Some(main) if main.is_stopping() => Progress::Fail(RestartError::ReadyLate),
            Some(_) => Progress::Stay,
            None => Progress::Fail(RestartError::Ended),
        }
    }

    fn roll_starting(&mut self, index: usize, now: Instant) -> Progress {
        if let Some(error) = self.next_error(index) {
            return Progress::Fail(error);
        }
        let worker = &self.workers[index];
        if worker.next.is_none_or(|next| !next.is_ready()) {
            return Progress::Stay;
        }
        let id = worker.id;
        if worker.told == Change::Ready {
            self.tell(index, Change::Drain);
        }
        self.push(Output::AwaitDrained(id));
        let until = Some(now + self.settings.drain_time_max);
        Progress::To(Step::Draining { until, drained: false })
    }

    fn roll_draining(
        &mut self,
        index: usize,
        until: Option<Instant>,
        drained: bool,
        now: Instant,
    ) -> Progress {
        if let Some(error) = self.next_error(index) {
            return Progress::Fail(error);
        }
        if drained {
            self.switch(index, now);
            return Progress::To(Step::Ending);
        }
        if self.workers[index].main.is_none() {
            return Progress::To(Step::Returning { until: now + RETURN_TIME_MAX, drained });
        }
        if until.is_none_or(|until| now < until) {
            return Progress::Stay;
        }
        let worker = self.workers[index].id;
        self.push(Output::Event(Event::DrainLate(worker)));
        self.end(index, Role::Main, Ending::asked(self.settings.stop_time_max), now);
        Progress::To(Step::Draining { until: None, drained })
    }

    fn roll_returning(&mut self, index: usize, returned: bool, now: Instant) -> Progress {
        if let Some(error) = self.next_error(index) {
            return Progress::Fail(error);
        }
        if !returned {
            return Progress::Stay;
        }
        self.switch(index, now);
        Progress::To(Step::Ending)
    }

    fn roll_ending(&self, index: usize) -> Progress {
        let worker = &self.workers[index];
        match worker.main {
            None => Progress::Fail(RestartError::Ended),
            Some(main) if !main.is_ready() => Progress::Fail(RestartError::Stalled),
            Some(_) if worker.old.is_some() => Progress::Stay,
            Some(_) => Progress::NextWorker,
        }
    }

    /// Why the next process cannot take over; none: it still may.
    fn next_error(&self, index: usize) -> Option<RestartError> {
        let Some(next) = self.workers[index].next else {
            return Some(RestartError::Ended);
        };
        match next.phase {
            Phase::Starting { .. } | Phase::Ready => None,
            Phase::Stopping { .. } if next.ready.is_none() => Some(RestartError::ReadyLate),
            Phase::Stopping { .. } | Phase::Leaving { .. } => Some(RestartError::Stalled),
        }
    }

    /// The next process takes over; the one before is stopped, if it has not ended.
    fn switch(&mut self, index: usize, now: Instant) {
        let worker = &mut self.workers[index];
        let Some(next) = worker.next.take() else { return };
        debug_assert!(worker.old.is_none(), "one old process at a time");
        worker.old = worker.main.replace(next);
        let id = worker.id;
        self.push(Output::Endpoint(next.id));
        self.tell(index, Change::Ready);
        self.push(Output::Event(Event::RestartSwitched(id)));
        self.end(index, Role::Old, Ending::asked(self.settings.stop_time_max), now);
    }
}
