//! What returned permits say of their workers.
//!
//! A dead worker is not a slot: a refused connection takes it out at once, so a queue cannot be
//! poured into it while the others are busy. A reset or a refusal takes it out too. Whatever is out
//! comes back by a probe, or by the supervisor's word. An answer with a 5xx only counts towards
//! ejection. An exchange without an answer keeps its slot: the worker may be busy with it still,
//! and one more exchange would break the promise of one at a time.

use crate::id::{Kind, WorkerId};
use crate::pool::{OutReason, Report, Said, State, is_outlier, may_eject};
use crate::time::Duration;

use super::permits::Held;
use super::{Balance, Fate, Fault, Gate, Outcome, Output, Returned};

impl Gate {
    pub(super) fn returned(&mut self, returned: Returned) {
        let Returned { permit, outcome, fault, connection } = returned;
        let Some(held) = self.permits.take_back(permit) else {
            return;
        };
        // A worker that fails at once is not a fast one.
        let well = outcome == Outcome::Success && fault.is_none();
        let time = well.then(|| self.now.since(held.granted));
        if let Some(time) = time {
            self.learn_time(held.kind, time);
        }
        if self.settings.balance == Balance::LeastLoaded {
            self.learn_pace(&held, time, outcome == Outcome::Ignore && fault.is_none());
        }
        if held.trial {
            self.answers.end_trial(held.kind, time, self.now);
        }
        self.settle_charge(&held);
        let index = self.pool.find(held.worker).expect("a worker with a permit out is a member");
        let worker = self.pool.worker_mut(index);
        worker.permits -= 1;
        worker.load.lapse(self.now);
        if held.incarnation == worker.incarnation {
            self.learn_limit(index, &held, (time, outcome));
            self.give_back(index, &held, connection);
            self.learn(index, outcome, fault);
            if connection == Fate::Cut {
                self.ask_stuck(index);
            }
        } else {
            self.give_back_stale(index, &held, connection);
        }
        self.after(index);
    }

    /// An exchange of this kind took `time`.
    fn learn_time(&mut self, kind: Kind, time: Duration) {
        let known = self.answers.is_enough_known();
        self.answers.served(kind, time, self.now);
        if !known && self.answers.is_enough_known() {
            self.hold_to_deadlines();
        }
    }

    /// What an exchange says of its worker's pace. A kind that takes twice as long as the others
    /// says the half, so that who got it by chance does not look slow.
    fn learn_pace(&mut self, held: &Held, time: Option<Duration>, says_nothing: bool) {
        let now = self.now;
        let usual = self.answers.mean().unwrap_or_default();
        let of_kind = self.answers.mean_of(held.kind, now);
        let time = time.map(|time| in_proportion(time, usual, of_kind));
        let Some(index) = self.pool.find(held.worker) else { return };
        let worker = self.pool.worker_mut(index);
        match time {
            _ if held.incarnation != worker.incarnation || says_nothing => {}
            Some(time) => worker.pace.took(time, now),
            None => worker.pace.failed(usual, now),
        }
    }

    /// What its tenant was charged was a guess; the time is known now.
    fn settle_charge(&mut self, held: &Held) {
        if held.charged.is_zero() {
            return;
        }
        let took = self.now.since(held.granted);
        let tenants = self.queue.lane_mut(held.class).tenants_mut();
        tenants.refund(held.tenant, held.charged);
        tenants.charge(held.tenant, took);
    }

    /// Bring everything up to date after something of the worker at `index` came back.
    pub(super) fn after(&mut self, index: usize) {
        self.pool.refresh(index);
        if !self.pool.worker(index).reserved.is_empty() {
            self.settle(index);
        }
        self.dispatch();
        self.ask_waiting(index);
        self.forget_if_gone(index);
    }

    /// Forget the worker at `index` if it left and nothing of it is out.
    pub(super) fn forget_if_gone(&mut self, index: usize) {
        if self.pool.worker(index).is_gone() {
            self.pool.remove(index);
            self.find_next_probe();
        }
    }

    /// Change what probes, exchanges and whoever runs it have made of the worker at `index`.
    pub(super) fn enter(&mut self, index: usize, base: State) {
        let held = self.is_held();
        let worker = self.pool.worker_mut(index);
        if worker.base == base {
            return;
        }
        worker.base = base;
        worker.probing.outdate();
        self.schedule(index);
        self.judge(index, held);
    }

    /// The agent of a worker has spoken.
    pub(super) fn report(&mut self, worker: WorkerId, report: &Report) {
        let Some(index) = self.pool.find(worker) else {
            return;
        };
        let held = self.is_held();
        let worker = self.pool.worker_mut(index);
        worker.agent.get_or_insert(Said::NOTHING).hear(report);
        self.judge(index, held);
        self.after(index);
    }

    /// A worker says how busy it is.
    pub(super) fn load(&mut self, worker: WorkerId, utilization: u32) {
        let Some(index) = self.pool.find(worker) else {
            return;
        };
        let (now, slots) = (self.now, self.pool.slots());
        let worker = self.pool.worker_mut(index);
        worker.load.hear(utilization, worker.in_flight, slots, now);
        self.after(index);
    }

    /// Treat the worker at `index` as the worst of those who have a say; `held` is whether the
    /// queue was held before.
    fn judge(&mut self, index: usize, held: bool) {
        let worker = self.pool.worker_mut(index);
        let state = worker.signs().worst();
        let before = std::mem::replace(&mut worker.state, state);
        if before == state {
            return;
        }
        worker.climbs |= before == State::Up;
        worker.state_since = self.now;
        self.outputs.push_back(Output::State { worker: worker.id, state });
        self.pool.refresh(index);
        if [before, state].contains(&State::Out(OutReason::Maint)) {
            self.pool.worker_mut(index).probing.outdate();
            self.schedule(index);
        }
        if state == State::Up {
            self.start_climb(index);
            self.served_since = self.served_since.filter(|_| !held).or(Some(self.now));
        } else {
            self.unreserve_all(index);
            self.close_all(index);
        }
        if self.pool.up() > 0 {
            self.none_up_since = None;
        } else if self.none_up_since.is_none() {
            self.none_up_since = Some(self.now);
            self.recall_ejected();
        }
    }

    /// Count the slot and the connection of a permit of the present process.
    fn give_back(&mut self, index: usize, held: &Held, connection: Fate) {
        let worker = self.pool.worker_mut(index);
        match held.shard {
            Some(shard) if connection == Fate::Kept => worker.connections.keep(shard),
            _ => worker.connections.close_used(),
        }
        if connection == Fate::Cut {
            worker.cut(self.now);
        } else {
            worker.in_flight -= 1;
        }
        let is_probe = held.shard.is_none();
        if worker.state != State::Up {
            self.close_all(index);
        }
        if is_probe {
            self.probe_lost(index);
        }
    }

    /// A permit of a process that has ended changes no count; a connection kept to it is useless.
    fn give_back_stale(&mut self, index: usize, held: &Held, connection: Fate) {
        let worker = self.pool.worker_mut(index);
        match held.shard {
            Some(shard) if connection == Fate::Kept => {
                worker.connections.keep_stale(shard);
                self.outputs.push_back(Output::CloseIdle { worker: worker.id, shard });
            }
            Some(_) => {}
            None => self.probe_lost(index),
        }
    }

    fn learn(&mut self, index: usize, outcome: Outcome, fault: Option<Fault>) {
        match fault {
            None if outcome == Outcome::Success => {
                let now = self.now;
                self.pool.worker_mut(index).ejection.succeeded(now);
            }
            None => {}
            Some(Fault::Refused) => self.take_out(index, OutReason::Refused),
            Some(Fault::Refusal) => self.take_out(index, OutReason::Refusal),
            Some(Fault::Stuck) => self.take_out(index, OutReason::Stuck),
            Some(Fault::Error) => {
                self.count_failure(index);
            }
            Some(Fault::Reset) => {
                // A connect probe cannot see a worker that accepts and breaks off, again and again.
                let ejected = self.count_failure(index);
                if !ejected {
                    self.take_out(index, OutReason::Reset);
                }
            }
        }
    }

    /// Only what was up, or out for a lesser reason than a stuck slot, changes.
    pub(super) fn take_out(&mut self, index: usize, reason: OutReason) {
        match self.pool.worker(index).base {
            State::Up => self.enter(index, State::Out(reason)),
            State::Out(_) if reason == OutReason::Stuck => self.enter(index, State::Out(reason)),
            _ => {}
        }
    }

    /// Count a failure; was the worker ejected for it?
    fn count_failure(&mut self, index: usize) -> bool {
        let up = self.pool.up();
        let members = self.pool.workers().iter().filter(|worker| !worker.leaving).count() as u32;
        let (now, settings) = (self.now, &self.settings);
        let worker = self.pool.worker_mut(index);
        worker.ejection.failed(now);
        let may = worker.base == State::Up && may_eject(settings, up, members);
        if !(may && is_outlier(self.pool.workers(), index, settings, now)) {
            return false;
        }
        let worker = self.pool.worker_mut(index);
        let time = worker.ejection.eject(settings, now);
        worker.probing.not_before = now + time;
        self.enter(index, State::Out(OutReason::Ejected));
        true
    }

    /// Nobody is up: a worker that is out only for its failures is better than none.
    fn recall_ejected(&mut self) {
        for index in 0..self.pool.workers().len() {
            let worker = self.pool.worker_mut(index);
            if worker.base == State::Out(OutReason::Ejected) {
                worker.probing.recall(self.now);
            }
        }
        self.find_next_probe();
    }
}

/// `time` × `usual` ÷ `of_kind`; `time` itself where one of them is not known.
fn in_proportion(time: Duration, usual: Duration, of_kind: Duration) -> Duration {
    if usual.is_zero() || of_kind.is_zero() {
        return time;
    }
    let nanos = time.as_nanos().saturating_mul(usual.as_nanos()) / of_kind.as_nanos();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_one_of_the_usual_kind() {
        let check = |time, usual, of_kind, expected| {
            let [time, usual, of_kind] = [time, usual, of_kind].map(Duration::from_millis);
            assert_eq!(in_proportion(time, usual, of_kind), expected);
        };
        check(30, 10, 20, Duration::from_millis(15));
        check(30, 0, 20, Duration::from_millis(30));
        check(30, 10, 0, Duration::from_millis(30));
        check(u64::MAX, u64::MAX, 1, Duration::from_nanos(u64::MAX));
    }
}
