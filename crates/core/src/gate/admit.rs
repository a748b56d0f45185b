//! Admission: a grant, a wait, or a shed.
//!
//! The rules, in order: a gate that drains sheds; a charged retry must be within its limits; who
//! cannot be answered in time is shed; a free slot serves; a full queue sheds; the rest wait. Who
//! waits leaves by a grant, by abandoning, or by the first of two limits: `queue_wait_max` (or
//! `start_hold_max`) and the last moment that still meets `answer_within`.

use crate::id::{ShardId, Ticket};
use crate::pool::{Choice, State, Way, Worker};
use crate::time::{Duration, Instant};

use super::permits::Held;
use super::queue::{Place, Waiter};
use super::{Arrival, Attempt, Connection, Gate, Grant, Output, Reason, Settings, Shed, Tried};

/// An exchange that gets a permit.
pub(super) struct Recipient {
    pub(super) ticket: Ticket,
    pub(super) shard: ShardId,
    /// When it entered the queue this time.
    pub(super) queued: Instant,
    pub(super) trial: bool,
}

impl From<&Waiter> for Recipient {
    fn from(waiter: &Waiter) -> Self {
        let Waiter { ticket, shard, queued, trial, .. } = *waiter;
        Recipient { ticket, shard, queued, trial }
    }
}

impl Gate {
    pub(super) fn arrive(&mut self, arrival: &Arrival) {
        let now = self.now;
        if self.queue.find(arrival.ticket).is_some() {
            return;
        }
        if arrival.attempt == Attempt::First {
            self.totals.arrivals += 1;
            self.retry_budget.arrived(now);
        }
        if self.draining {
            return self.shed(arrival.ticket, arrival.shard, Reason::Draining);
        }
        if let Err(reason) = self.retry_budget.charge(arrival.attempt, &self.settings, now) {
            return self.shed(arrival.ticket, arrival.shard, reason);
        }
        self.totals.retries += u64::from(matches!(arrival.attempt, Attempt::Sent(_)));
        self.dispatch();
        let late = self.answers.is_late(arrival.received, now);
        if late && !self.answers.is_trial_due(now) {
            return self.shed(arrival.ticket, arrival.shard, Reason::DeadlineUnmeetable);
        }
        let tried = arrival.attempt.tried();
        if let Some(choice) = self.choose(arrival.shard, &tried) {
            return self.admit(arrival, choice, late);
        }
        let first = arrival.attempt == Attempt::First;
        if late {
            self.shed(arrival.ticket, arrival.shard, Reason::DeadlineUnmeetable);
        } else if first && self.queue.bounded() >= self.settings.queue_len_max {
            self.shed(arrival.ticket, arrival.shard, Reason::QueueFull);
        } else {
            self.queue.push(self.waiter(arrival, false));
        }
    }

    pub(super) fn abandon(&mut self, ticket: Ticket) {
        if let Some(place) = self.queue.find(ticket) {
            self.take_from_queue(place);
            self.dispatch();
        }
    }

    /// Shed everybody that waits, and from here on everybody that comes.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        while let Some(place) = self.queue.first() {
            self.shed_waiting(place, Reason::Draining);
        }
    }

    /// Serve those who wait, oldest first, as far as there are slots that they may take.
    pub(super) fn dispatch(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        self.expire();
        let mut next = self.queue.first();
        while let Some(place) = next
            && self.pool.has_free()
        {
            next = self.queue.next(place);
            let waiter = self.queue.get(place);
            if waiter.reserved.is_some() {
                continue;
            }
            let (shard, tried) = (waiter.shard, waiter.tried);
            match self.choose(shard, &tried) {
                Some(Choice { index, way: Way::Elsewhere }) => self.reserve(place, index),
                Some(choice) => {
                    let waiter = self.queue.remove(place);
                    self.grant(Recipient::from(&waiter), choice.index, connection(choice.way));
                }
                None => {}
            }
        }
    }

    /// When somebody who waits reaches a limit next.
    pub(super) fn next_expiry(&self) -> Instant {
        let by_wait = self.queue.first_by_wait_limit().map(|place| self.wait_end(place));
        let by_deadline = self.queue.first_by_deadline().and_then(|place| {
            let latest = self.answers.latest_grant(self.queue.get(place).received)?;
            Some(latest + Duration::from_nanos(1))
        });
        let never = Instant::FAR_FUTURE;
        by_wait.unwrap_or(never).min(by_deadline.unwrap_or(never))
    }

    /// Give the recipient a slot of the worker at `index`.
    pub(super) fn grant(&mut self, to: Recipient, index: usize, connection: Connection) {
        let worker = self.pool.worker_mut(index);
        match connection {
            Connection::Idle => worker.connections.take_idle(to.shard),
            Connection::New => worker.connections.open_one(),
        }
        worker.in_flight += 1;
        worker.permits += 1;
        worker.grants += 1;
        let held = Held {
            worker: worker.id,
            incarnation: worker.incarnation,
            shard: Some(to.shard),
            granted: self.now,
            trial: to.trial,
        };
        self.pool.refresh(index);
        self.pool.pass_turn(index);
        let permit = self.permits.grant(held);
        let wait = self.now.since(to.queued);
        self.waits.push(wait, self.now);
        self.totals.grants += 1;
        let Recipient { ticket, shard, .. } = to;
        self.outputs.push_back(Output::Grant(Grant { ticket, shard, permit, connection, wait }));
    }

    fn choose(&self, shard: ShardId, tried: &Tried) -> Option<Choice> {
        if self.pool.has_free() { self.pool.choose(shard, tried) } else { None }
    }

    /// A slot is free for an exchange that just came.
    fn admit(&mut self, arrival: &Arrival, choice: Choice, trial: bool) {
        if trial {
            self.answers.start_trial();
        }
        if choice.way == Way::Elsewhere {
            let place = self.queue.push(self.waiter(arrival, trial));
            return self.reserve(place, choice.index);
        }
        let (ticket, shard) = (arrival.ticket, arrival.shard);
        let to = Recipient { ticket, shard, queued: self.now, trial };
        self.grant(to, choice.index, connection(choice.way));
    }

    fn waiter(&self, arrival: &Arrival, trial: bool) -> Waiter {
        let since = arrival.since.min(self.now);
        // The time that a worker took before it failed is not time in the queue. Tries of this kind
        // are counted, so the whole wait stays bounded.
        let sent = matches!(arrival.attempt, Attempt::Sent(_));
        let first = arrival.attempt == Attempt::First;
        Waiter {
            ticket: arrival.ticket,
            shard: arrival.shard,
            since,
            waits_from: if sent { self.now } else { since },
            received: if trial { Instant::FAR_FUTURE } else { arrival.received },
            queued: self.now,
            tried: arrival.attempt.tried(),
            retry: !first,
            trial,
            reserved: None,
            bounded: first,
        }
    }

    /// Shed everybody who has reached a limit.
    fn expire(&mut self) {
        while let Some(place) = self.queue.first_by_wait_limit()
            && self.wait_end(place) <= self.now
        {
            self.shed_waiting(place, self.wait_reason(place));
        }
        while let Some(place) = self.queue.first_by_deadline()
            && self.answers.is_late(self.queue.get(place).received, self.now)
        {
            self.shed_waiting(place, Reason::DeadlineUnmeetable);
        }
    }

    /// When the wait of the exchange at `place` is over. Who came while the pool started or changed
    /// over was held for that; its time in the queue begins with the worker that is ready then.
    fn wait_end(&self, place: Place) -> Instant {
        let from = self.queue.get(place).waits_from;
        let Settings { start_hold_max, queue_wait_max, .. } = self.settings;
        match self.served_since {
            None => from + start_hold_max,
            Some(_) if self.is_held() => from + start_hold_max.max(queue_wait_max),
            Some(since) => from.max(since) + queue_wait_max,
        }
    }

    /// Is the queue held: until the first worker is ready, or while nobody is left but workers that
    /// end their last exchanges and whose next process is about to take over?
    pub(super) fn is_held(&self) -> bool {
        let changes_over = |worker: &Worker| worker.base == State::Draining && !worker.leaving;
        let is_changing = || self.pool.workers().iter().any(changes_over);
        self.served_since.is_none() || (self.none_up_since.is_some() && is_changing())
    }

    /// Why the exchange at `place` got no slot: there was none at all while it was in the queue, or
    /// the others were served first.
    fn wait_reason(&self, place: Place) -> Reason {
        let queued = self.queue.get(place).queued;
        match self.none_up_since {
            _ if self.served_since.is_none() => Reason::StartHoldExpired,
            Some(since) if since <= queued => Reason::NoWorker,
            _ => Reason::QueueTimeout,
        }
    }

    fn shed_waiting(&mut self, place: Place, reason: Reason) {
        let waiter = self.take_from_queue(place);
        self.shed(waiter.ticket, waiter.shard, reason);
    }

    /// Take an exchange out of the queue, and the slot that it may have had from it.
    fn take_from_queue(&mut self, place: Place) -> Waiter {
        let waiter = self.queue.remove(place);
        if let Some(worker) = waiter.reserved {
            self.unreserve(worker, waiter.ticket);
        }
        if waiter.trial {
            self.answers.end_trial(None, self.now);
        }
        waiter
    }

    fn shed(&mut self, ticket: Ticket, shard: ShardId, reason: Reason) {
        let retry_after = self.retry_after(reason);
        self.outputs.push_back(Output::Shed(Shed { ticket, shard, reason, retry_after }));
    }

    /// When asking again could help somebody who is turned away for this reason.
    pub(super) fn retry_after(&self, reason: Reason) -> Option<Duration> {
        match reason {
            Reason::QueueFull | Reason::QueueTimeout | Reason::DeadlineUnmeetable => {
                Some(self.drain_time())
            }
            Reason::NoWorker
            | Reason::StartHoldExpired
            | Reason::WorkerFailed
            | Reason::RetryBudget
            | Reason::Draining => None,
        }
    }

    /// The time in which the queue, and one more, will have been served: zero where no service time
    /// is known.
    fn drain_time(&self) -> Duration {
        let mean = self.answers.mean().unwrap_or_default();
        let slots = self.pool.slots_up().max(self.pool.slots());
        let exchanges = (self.queue.len() as u32).saturating_add(1);
        mean.saturating_mul(exchanges) / slots
    }
}

fn connection(way: Way) -> Connection {
    match way {
        Way::Idle => Connection::Idle,
        Way::Room | Way::Elsewhere => Connection::New,
    }
}
