//! Probes: when each worker is asked, what the question takes, and what the answer changes.
//!
//! A question that is an exchange takes a slot and a connection like one, so that a worker is never
//! asked while it is busy. Two kinds take none: a connect to a worker that is out (it has nothing
//! else to do), and the question to a worker with stuck slots, which comes in the place of what the
//! worker may still be busy with, whose connection is closed.

use crate::id::WorkerId;
use crate::pool::{self, OutReason, State};
use crate::time::{Duration, Instant};

use super::permits::Held;
use super::{Gate, Heard, Late, Output, Permit, Probe, ProbeKind, Probed};

impl Gate {
    /// Ask every worker that is due.
    pub(super) fn ask_due(&mut self) {
        if self.now < self.probe_at {
            return;
        }
        for index in 0..self.pool.workers().len() {
            if self.pool.worker(index).probing.due <= self.now {
                self.ask(index);
            }
        }
        self.find_next_probe();
    }

    /// Ask the worker at `index` if a question to it waited for what has come free.
    pub(super) fn ask_waiting(&mut self, index: usize) {
        if self.pool.worker(index).probing.waiting {
            self.ask(index);
            self.find_next_probe();
        }
    }

    pub(super) fn probed(&mut self, probed: Probed) {
        if let Some(permit) = probed.permit {
            self.take_back_probe(permit);
        }
        let Some(index) = self.pool.find(probed.worker) else {
            return;
        };
        let worker = self.pool.worker_mut(index);
        let counts = worker.probing.finish();
        if counts {
            self.learn_heard(index, probed.heard);
        }
        self.schedule(index);
        self.judge_probes();
        self.after(index);
    }

    /// A question has ended that was given up before: its slot comes back, or is stuck.
    pub(super) fn late(&mut self, late: Late) {
        let Some((index, present)) = self.take_back_probe(late.permit) else {
            return;
        };
        if late.heard == Heard::Nothing && present {
            let worker = self.pool.worker_mut(index);
            worker.in_flight += 1;
            worker.cut(self.now);
            self.pool.refresh(index);
            self.take_out(index, OutReason::Stuck);
            self.ask_stuck(index);
        }
        self.after(index);
    }

    /// The question to the worker at `index` ended without an answer of any kind.
    pub(super) fn probe_lost(&mut self, index: usize) {
        self.pool.worker_mut(index).probing.finish();
        self.schedule(index);
    }

    /// Set when the worker at `index` is asked next.
    pub(super) fn schedule(&mut self, index: usize) {
        let now = self.now;
        let interval = self.interval(index);
        let probing = &mut self.pool.worker_mut(index).probing;
        probing.due = match interval {
            Some(interval) if !probing.is_running() => (now + interval).max(probing.not_before),
            _ => Instant::FAR_FUTURE,
        };
        self.find_next_probe();
    }

    /// Have the worker at `index` asked at once.
    pub(super) fn hasten(&mut self, index: usize) {
        self.pool.worker_mut(index).probing.recall(self.now);
        self.find_next_probe();
    }

    /// Find when the next question to anybody is due.
    pub(super) fn find_next_probe(&mut self) {
        let due = self.pool.workers().iter().map(|worker| worker.probing.due).min();
        self.probe_at = due.unwrap_or(Instant::FAR_FUTURE);
    }

    /// Let probes that fail, or fail no more, take workers out or back.
    fn judge_probes(&mut self) {
        let broken = pool::is_asking_broken(self.pool.workers());
        for index in 0..self.pool.workers().len() {
            if let Some(state) = pool::verdict(self.pool.worker(index), broken) {
                self.enter(index, state);
            }
        }
    }

    /// Ask the worker at `index` about a slot that was cut just now. One that went out for it is
    /// asked after the usual time: it has a reason to be silent.
    pub(super) fn ask_stuck(&mut self, index: usize) {
        if self.pool.worker(index).base == State::Up {
            self.hasten(index);
        } else {
            self.schedule(index);
        }
    }

    fn learn_heard(&mut self, index: usize, heard: Heard) {
        match heard {
            Heard::Well => return self.answered_well(index),
            Heard::Badly => self.pool.worker_mut(index).free_stuck(),
            Heard::Nothing => {}
        }
        let (now, stuck_time_max) = (self.now, self.settings.stuck_time_max);
        let worker = self.pool.worker_mut(index);
        match worker.stuck_since {
            // It is busy, which is no failure before it has been for too long.
            Some(since) if now < since + stuck_time_max => {}
            Some(_) => self.take_out(index, OutReason::Stuck),
            None if worker.base == State::Up => worker.probing.failed(self.settings.probe_fall),
            None => {}
        }
    }

    fn answered_well(&mut self, index: usize) {
        let worker = self.pool.worker_mut(index);
        worker.probing.clear_fails();
        worker.probing.not_before = Instant::ZERO;
        worker.free_stuck();
        self.pool.refresh(index);
        if matches!(self.pool.worker(index).base, State::Starting | State::Out(_)) {
            self.enter(index, State::Up);
        }
    }

    /// The time between two questions to the worker at `index`; none: it is not asked.
    fn interval(&self, index: usize) -> Option<Duration> {
        let worker = self.pool.worker(index);
        if worker.state == State::Out(OutReason::Maint) {
            return None;
        }
        match worker.base {
            State::Up | State::Draining if worker.stuck > 0 => Some(self.settings.probe_interval),
            State::Starting if worker.supervised => None,
            State::Starting | State::Out(_) => Some(self.settings.probe_interval),
            State::Up => self.settings.probe_interval_up,
            State::Draining | State::Down => None,
        }
    }

    fn ask(&mut self, index: usize) {
        self.pool.worker_mut(index).probing.waiting = false;
        let base = self.pool.worker(index).base;
        let stuck = self.pool.worker(index).stuck > 0;
        let silent = stuck || base == State::Out(OutReason::Stuck);
        let exchange = self.settings.probe_exchange || silent;
        let kind = if exchange { ProbeKind::Exchange } else { ProbeKind::Connect };
        let takes_slot = !stuck && (exchange || base == State::Up);
        let id = self.pool.worker(index).id;
        if !takes_slot {
            return self.send_probe(index, Probe { worker: id, kind, permit: None });
        }
        let worker = self.pool.worker(index);
        let is_full = worker.in_flight >= self.pool.limit(index);
        if is_full && base == State::Up {
            // It is busy serving, which is answer enough.
            return self.schedule(index);
        }
        if is_full {
            return self.pool.worker_mut(index).probing.wait();
        }
        if worker.connections.open() >= self.pool.connections_max() {
            self.pool.worker_mut(index).probing.wait();
            if self.pool.worker(index).connections.closing() == 0 {
                self.close_one(index);
            }
            return;
        }
        let permit = Some(self.probe_permit(index, id));
        self.send_probe(index, Probe { worker: id, kind, permit });
    }

    /// Count the slot of a question as free: whose it was, and whether of its present process.
    fn take_back_probe(&mut self, permit: Permit) -> Option<(usize, bool)> {
        let held = self.permits.take_back(permit)?;
        let index = self.pool.find(held.worker).expect("a worker with a permit out is a member");
        let worker = self.pool.worker_mut(index);
        worker.permits -= 1;
        let present = held.incarnation == worker.incarnation;
        if present {
            worker.in_flight -= 1;
            worker.connections.close_used();
        }
        self.pool.refresh(index);
        Some((index, present))
    }

    fn probe_permit(&mut self, index: usize, worker: WorkerId) -> Permit {
        let asked = self.pool.worker_mut(index);
        asked.in_flight += 1;
        asked.permits += 1;
        asked.connections.open_one();
        let incarnation = asked.incarnation;
        self.pool.refresh(index);
        let granted = self.now;
        self.permits.grant(Held::for_probe(worker, incarnation, granted))
    }

    fn send_probe(&mut self, index: usize, probe: Probe) {
        self.pool.worker_mut(index).probing.start();
        self.totals.probes += 1;
        self.outputs.push_back(Output::Probe(probe));
    }
}
