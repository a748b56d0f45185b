//! How processes are made to end: the ladder from SIGTERM to SIGKILL, and the stop of the pool.
//!
//! Every rung has a bound, so a pool that is told to stop has stopped after twice `stop_time_max`,
//! whatever its workers do.

use crate::gate::Change;
use crate::time::{Duration, Instant};

use super::machine::{Mode, Supervisor};
use super::message::{Event, Output, Signal};
use super::process::Phase;
use super::worker::Role;

/// How a process is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// Time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Whether we want it gone, rather than having found it unfit; only the latter counts towards
    /// the wait before its worker starts again.
    pub(super) asked: bool,
}

impl Ending {
    pub(super) fn asked(grace: Duration) -> Ending {
        Ending { grace, asked: true }
    }

    pub(super) fn unasked(grace: Duration) -> Ending {
        Ending { grace, asked: false }
    }
}

impl Supervisor {
    /// Begin the ladder: SIGTERM here, SIGKILL after `grace`. A ladder that has begun goes on, at
    /// most hastened.
    pub(super) fn end(&mut self, index: usize, role: Role, ending: Ending, now: Instant) {
        let Some(process) = self.workers[index].place(role) else { return };
        process.asked |= ending.asked;
        if let Phase::Stopping { kill_at } = &mut process.phase {
            *kill_at = kill_at.map(|at| at.min(now + ending.grace));
            return;
        }
        process.enter(Phase::Stopping { kill_at: Some(now + ending.grace) }, now);
        let id = process.id;
        self.push(Output::Signal { process: id, signal: Signal::Term });
    }

    /// The end of the ladder.
    pub(super) fn kill(&mut self, index: usize, role: Role, now: Instant) {
        let Some(process) = self.workers[index].place(role) else { return };
        process.enter(Phase::Stopping { kill_at: None }, now);
        let id = process.id;
        self.push(Output::Event(Event::StopLate(id)));
        self.push(Output::Signal { process: id, signal: Signal::Kill });
    }

    pub(super) fn stop(&mut self, now: Instant) {
        match self.mode {
            Mode::New | Mode::Running => self.stop_first(now),
            Mode::Stopping { .. } => self.stop_again(now),
            Mode::Stopped => {}
        }
    }

    fn stop_first(&mut self, now: Instant) {
        self.fail_roll_for_stop();
        let grace = self.settings.stop_time_max;
        // The ladder, and as long again for the kernel to clear away what was killed.
        self.mode = Mode::Stopping { until: now + grace.saturating_mul(2) };
        for index in 0..self.workers.len() {
            self.workers[index].start_at = None;
            if self.workers[index].told == Change::Ready {
                self.tell(index, Change::Drain);
            }
            for role in Role::ALL {
                self.end(index, role, Ending::asked(grace), now);
            }
        }
    }

    fn stop_again(&mut self, now: Instant) {
        for index in 0..self.workers.len() {
            for role in Role::ALL {
                let process = *self.workers[index].place(role);
                if process.is_some_and(|process| process.phase != Phase::Stopping { kill_at: None })
                {
                    self.kill(index, role, now);
                }
            }
        }
    }

    pub(super) fn finish_stop(&mut self, overdue: bool) {
        let left: usize = self.workers.iter().map(|worker| worker.processes().count()).sum();
        if left > 0 && !overdue {
            return;
        }
        self.mode = Mode::Stopped;
        self.push(Output::AllStopped { left: u32::try_from(left).unwrap_or(u32::MAX) });
    }
}
