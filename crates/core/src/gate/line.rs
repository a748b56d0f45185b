//! Those who wait: who is served next, and who is told that its wait was in vain.
//!
//! A slot goes to the most important class in which somebody may take it. Within the class, who
//! comes back is served before everybody younger; the others by tenant in turn, and of a tenant by
//! age or youth. Who waits leaves by a grant, by abandoning, by giving its place to somebody more
//! important, or by the first of two limits: `queue_wait_max` (or `start_hold_max`), and the last
//! moment that still meets its deadline. That moment is reckoned again when it comes and before a
//! grant, since what is known of service times changes.
//!
//! Absent: who may wait at all (`admit.rs`).

use crate::id::{Tenant, Ticket};
use crate::pool::{Choice, State, Way, Worker};
use crate::time::{Duration, Instant};

use super::admit::Recipient;
use super::queue::{Place, Waiter};
use super::{Class, Gate, Reason, Settings};

/// What a turn of a tenant is worth while no service time is known.
const QUANTUM_UNKNOWN: Duration = Duration::from_millis(10);

impl Gate {
    pub(super) fn abandon(&mut self, ticket: Ticket) {
        if let Some(place) = self.queue.find(ticket) {
            self.take_from_queue(place);
            self.dispatch();
        }
    }

    /// Shed everybody that waits, and from here on everybody that comes.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        while let Some(place) = self.queue.any() {
            self.shed_waiting(place, Reason::Draining);
        }
    }

    /// Serve those who wait as far as there are slots that they may take.
    pub(super) fn dispatch(&mut self) {
        if self.queue.is_empty() {
            return self.load.calm();
        }
        self.expire();
        while self.pool.has_free()
            && let Some((place, choice)) = self.find_next()
        {
            self.serve(place, choice);
        }
        if self.queue.is_empty() {
            self.load.calm();
        }
    }

    /// Serve the exchange at `place`, unless that is of no use any more.
    fn serve(&mut self, place: Place, choice: Choice) {
        let waiter = *self.queue.get(place);
        let latest = self.answers.latest_grant(waiter.due, waiter.kind, self.now);
        if latest < self.now {
            self.exceeded();
            return self.shed_waiting(place, Reason::DeadlineUnmeetable);
        }
        let wait = self.now.since(waiter.queued);
        let too_long = waiter.bounded && self.load.drops(wait);
        let share = (waiter.tenant, waiter.flow);
        if too_long && !self.is_within_its_share(waiter.class, share) {
            return self.shed_waiting(place, Reason::Overload);
        }
        self.load.waited(wait, self.answers.mean().unwrap_or_default(), self.now);
        if choice.way == Way::Full {
            return self.reserve(place, choice.index);
        }
        let time = self.answers.mean_of(waiter.kind, self.now);
        let tenants = self.queue.lane_mut(waiter.class).tenants_mut();
        let charged = tenants.charge(waiter.tenant, time);
        if waiter.bounded && waiter.tenant == Tenant::default() {
            self.queue.lane_mut(waiter.class).kinds_mut().charge(waiter.flow, time);
        }
        self.queue.remove(place);
        let to = Recipient::of_line(&waiter, if charged { time } else { Duration::ZERO });
        self.grant(to, choice.index, self.connection(choice));
    }

    /// Who is served next, and by whom.
    fn find_next(&mut self) -> Option<(Place, Choice)> {
        Class::ALL.into_iter().find_map(|class| self.find_next_of(class))
    }

    fn find_next_of(&mut self, class: Class) -> Option<(Place, Choice)> {
        if self.is_kept_from(class) {
            return None;
        }
        let quantum = self.answers.mean().unwrap_or(QUANTUM_UNKNOWN);
        let youngest_first = self.load.is_youngest_first(class);
        let first_time = self.find_first_time(class, youngest_first, quantum);
        let returned = self
            .queue
            .lane(class)
            .returned()
            .find_map(|place| Some((place, self.choose(&self.queue.get(place).seeker())?)));
        let since = |place: Place| self.queue.get(place).since;
        match (returned, first_time) {
            (Some((place, choice)), other) if other.is_none_or(|o| since(place) <= since(o)) => {
                Some((place, choice))
            }
            (_, Some(place)) => {
                let choice = self.choose(&self.queue.get(place).seeker())?;
                Some((place, choice))
            }
            (_, None) => None,
        }
    }

    /// Who is served next of those of a class who wait for the first time. While more comes than
    /// can be served, kinds take turns as tenants do, so that one that is flooded holds up none of
    /// the others.
    fn find_first_time(
        &mut self,
        class: Class,
        youngest_first: bool,
        quantum: Duration,
    ) -> Option<Place> {
        let by_kind = self.load.isolates();
        let lane = self.queue.lane_mut(class);
        let tenant = lane.turn(quantum)?;
        let is_unnamed = tenant == Tenant::default();
        let kind = if by_kind && is_unnamed { lane.turn_of_kind(quantum) } else { None };
        let mut places = self.queue.lane(class).in_order(tenant, youngest_first);
        places.find(|place| kind.is_none_or(|kind| self.queue.get(*place).flow == kind))
    }

    /// More comes than can be served. While there is no worker at all that says nothing.
    pub(super) fn exceeded(&mut self) {
        if self.pool.up() > 0 {
            self.load.exceeded(self.now);
        }
    }

    /// Enough is known of service times from here on: reckon when each must be granted.
    pub(super) fn hold_to_deadlines(&mut self) {
        for place in self.queue.places() {
            self.reckon_latest(place);
        }
    }

    /// Reckon anew until when the exchange at `place` can be granted.
    fn reckon_latest(&mut self, place: Place) -> Instant {
        let waiter = self.queue.get(place);
        let latest = self.answers.latest_grant(waiter.due, waiter.kind, self.now);
        self.queue.set_latest(place, latest);
        latest
    }

    /// When somebody who waits reaches a limit next.
    pub(super) fn next_expiry(&self) -> Instant {
        let never = Instant::FAR_FUTURE;
        let by_wait = self.queue.first_by_wait_limit().map(|place| self.wait_end(place));
        let by_deadline = self.queue.first_by_latest().map(|place| self.queue.get(place).latest);
        let by_deadline = by_deadline.map(|latest| latest + Duration::from_nanos(1));
        let by_limit = by_wait.unwrap_or(never).min(by_deadline.unwrap_or(never));
        by_limit.min(self.next_given().unwrap_or(never))
    }

    /// When a free slot that is kept for the more important is given to whoever waits; none: none
    /// is kept from anybody.
    fn next_given(&self) -> Option<Instant> {
        if !self.load.is_excess() || !self.pool.has_free() {
            return None;
        }
        let waits = |class: &Class| self.queue.lane(*class).iter().next().is_some();
        let waiting = Class::ALL.into_iter().filter(waits);
        waiting.map(|class| self.kept_until(class)).filter(|until| *until > self.now).min()
    }

    /// Shed everybody who has reached a limit.
    fn expire(&mut self) {
        while let Some(place) = self.queue.first_by_wait_limit()
            && self.wait_end(place) <= self.now
        {
            let reason = self.wait_reason(place);
            if reason == Reason::QueueTimeout {
                self.exceeded();
            }
            self.shed_waiting(place, reason);
        }
        while let Some(place) = self.queue.first_by_latest()
            && self.queue.get(place).latest < self.now
        {
            if self.reckon_latest(place) < self.now {
                self.exceeded();
                self.shed_waiting(place, Reason::DeadlineUnmeetable);
            }
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

    pub(super) fn shed_waiting(&mut self, place: Place, reason: Reason) {
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
            self.answers.end_trial(waiter.kind, None, self.now);
        }
        waiter
    }
}
