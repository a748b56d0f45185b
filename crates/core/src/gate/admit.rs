//! Admission: a grant, a wait, or a shed.
//!
//! The rules, in order: a gate that drains sheds; a charged retry must be within its limits; who
//! cannot be answered in time is shed; a free slot serves; who is too much is shed, or somebody in
//! its place (`shed/`); a full queue sheds the least important; the rest wait.
//!
//! Absent: what becomes of those who wait (`line.rs`).

use crate::id::{Kind, ShardId, Tenant, Ticket};
use crate::pool::{Choice, Seeker, Way};
use crate::time::{Duration, Instant};

use super::answer::Due;
use super::permits::Held;
use super::queue::{Place, Waiter};
use super::{Arrival, Attempt, Claim, Class, Cohort, Connection, Gate, Grant, Output, Priority};
use super::{Reason, Shed};

/// An exchange that gets a permit.
pub(super) struct Recipient {
    pub(super) ticket: Ticket,
    pub(super) shard: ShardId,
    pub(super) kind: Kind,
    pub(super) class: Class,
    pub(super) tenant: Tenant,
    /// What its tenant was charged.
    pub(super) charged: Duration,
    /// When it entered the queue this time.
    pub(super) queued: Instant,
    pub(super) trial: bool,
    /// It is a second try.
    pub(super) hedge: bool,
}

impl Recipient {
    /// One that has waited, and was charged so much.
    pub(super) fn of_line(waiter: &Waiter, charged: Duration) -> Self {
        let Waiter { ticket, shard, kind, class, tenant, queued, trial, .. } = *waiter;
        Recipient { ticket, shard, kind, class, tenant, charged, queued, trial, hedge: false }
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
        self.weigh(arrival);
        let latest = self.latest_grant(arrival.received, &arrival.claim);
        let late = latest < now;
        if late && !self.is_trial_due(arrival) {
            return self.shed(arrival.ticket, arrival.shard, Reason::DeadlineUnmeetable);
        }
        let (shard, key) = (arrival.shard, arrival.claim.key);
        let seeker = Seeker { shard, key, tried: arrival.attempt.tried() };
        if !self.is_kept_from(self.lane_of(arrival.claim.class))
            && let Some(choice) = self.choose(&seeker)
        {
            return self.admit(arrival, choice, late);
        }
        if late {
            return self.shed(arrival.ticket, arrival.shard, Reason::DeadlineUnmeetable);
        }
        match self.make_room(arrival) {
            Ok(()) => {
                self.queue.push(self.waiter(arrival, false));
            }
            Err(reason) => self.shed(arrival.ticket, arrival.shard, reason),
        }
    }

    /// Give the recipient a slot of the worker at `index`.
    pub(super) fn grant(&mut self, to: Recipient, index: usize, connection: Connection) {
        let worker = self.pool.worker_mut(index);
        match connection {
            Connection::Idle => worker.connections.take_idle(to.shard),
            Connection::Moved(from) => worker.connections.take_idle(from),
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
            kind: to.kind,
            class: to.class,
            tenant: to.tenant,
            charged: to.charged,
            trial: to.trial,
        };
        self.pool.refresh(index);
        self.pool.pass_turn(index);
        self.pool.charge(index, self.now);
        let permit = self.permits.grant(held);
        let wait = self.now.since(to.queued);
        self.waits.push(wait, self.now);
        self.totals.grants += 1;
        self.load.granted(self.now);
        let hedge_after = if to.hedge { None } else { self.hedge_after(to.kind) };
        let Recipient { ticket, shard, .. } = to;
        let grant = Grant { ticket, shard, permit, connection, wait, hedge_after };
        self.outputs.push_back(Output::Grant(grant));
    }

    pub(super) fn choose(&self, seeker: &Seeker) -> Option<Choice> {
        if self.pool.has_free() { self.pool.choose(seeker, self.now) } else { None }
    }

    /// The class in whose lane an exchange of `class` waits.
    pub(super) fn lane_of(&self, class: Class) -> Class {
        if self.settings.order.is_by_class() { class } else { Class::default() }
    }

    /// Is a free slot kept for somebody more important than this class?
    pub(super) fn is_kept_from(&self, class: Class) -> bool {
        self.kept_until(class) > self.now
    }

    /// Until when that is so.
    pub(super) fn kept_until(&self, class: Class) -> Instant {
        if !self.load.is_excess() {
            return Instant::ZERO;
        }
        let (mean, expected) = self.answers.mean_and_quantile();
        self.load.kept_until(class, (mean, expected), self.slots())
    }

    /// Exchanges that the workers that are up may hold now. Cost: a look at each worker.
    pub fn slots(&self) -> u32 {
        self.pool.slots_up()
    }

    /// When its answer is of no use any more.
    fn due(&self, received: Instant, claim: &Claim) -> Due {
        let deadline = claim.deadline.unwrap_or(Instant::FAR_FUTURE);
        Due { promised: self.answers.promised(received), deadline }
    }

    /// The last moment at which an exchange whose request was whole at `received` can be granted.
    pub(super) fn latest_grant(&self, received: Instant, claim: &Claim) -> Instant {
        self.answers.latest_grant(self.due(received, claim), claim.kind, self.now)
    }

    /// May it be let through although it is late? Not if it says itself when it must be answered.
    fn is_trial_due(&self, arrival: &Arrival) -> bool {
        let claim = &arrival.claim;
        claim.deadline.is_none() && self.answers.is_trial_due(claim.kind, self.now)
    }

    /// A slot is free for an exchange that just came.
    fn admit(&mut self, arrival: &Arrival, choice: Choice, trial: bool) {
        if trial {
            self.answers.start_trial();
        }
        if choice.way == Way::Full {
            let place = self.queue.push(self.waiter(arrival, trial));
            return self.reserve(place, choice.index);
        }
        let claim = &arrival.claim;
        let to = Recipient {
            ticket: arrival.ticket,
            shard: arrival.shard,
            kind: claim.kind,
            class: claim.class,
            tenant: claim.tenant,
            charged: Duration::ZERO,
            queued: self.now,
            trial,
            hedge: false,
        };
        self.grant(to, choice.index, self.connection(choice));
    }

    fn waiter(&self, arrival: &Arrival, trial: bool) -> Waiter {
        let since = arrival.since.min(self.now);
        // The time that a worker took before it failed is not time in the queue. Tries of this kind
        // are counted, so the whole wait stays bounded.
        let sent = matches!(arrival.attempt, Attempt::Sent(_));
        let never = Due { promised: Instant::FAR_FUTURE, deadline: Instant::FAR_FUTURE };
        let due = if trial { never } else { self.due(arrival.received, &arrival.claim) };
        let claim = &arrival.claim;
        Waiter {
            ticket: arrival.ticket,
            shard: arrival.shard,
            class: self.lane_of(claim.class),
            tenant: claim.tenant,
            kind: claim.kind,
            flow: self.flow_of(claim.kind),
            key: claim.key,
            since,
            waits_from: if sent { self.now } else { since },
            due,
            latest: self.answers.latest_grant(due, claim.kind, self.now),
            expected: self.answers.expected(claim.kind, self.now).unwrap_or_default(),
            queued: self.now,
            tried: arrival.attempt.tried(),
            trial,
            reserved: None,
            bounded: arrival.attempt == Attempt::First,
            number: 0,
        }
    }

    /// Count a first arrival while it is measured what is too much.
    fn weigh(&mut self, arrival: &Arrival) {
        if self.load.is_excess() && arrival.attempt == Attempt::First {
            let priority = self.priority(&arrival.claim);
            self.load.offered(priority, self.answers.mean().unwrap_or_default(), self.now);
        }
    }

    fn priority(&self, claim: &Claim) -> Priority {
        Priority::new(claim.class, Cohort::of(claim.user, self.now))
    }

    /// See to it that an exchange can wait, or say why it cannot. Who comes back can always.
    fn make_room(&mut self, arrival: &Arrival) -> Result<(), Reason> {
        if arrival.attempt != Attempt::First {
            return Ok(());
        }
        let claim = &arrival.claim;
        let (waiting, slots) = (self.queue.bounded(), self.slots());
        let full = waiting >= self.settings.queue_len_max;
        let mean = self.answers.mean().unwrap_or_default();
        let grows = self.load.grows(waiting, slots, mean, self.now);
        if full || (grows && self.due(arrival.received, claim).is_open()) {
            self.exceeded();
        }
        let lane = self.lane_of(claim.class);
        let rejected = self.load.rejects(self.priority(claim), waiting, slots);
        let too_much = rejected || waiting >= self.load.len_max(slots);
        let share = (claim.tenant, self.flow_of(claim.kind));
        if !full && (!too_much || self.is_within_its_share(lane, share)) {
            return Ok(());
        }
        let (of_waiting, of_arrival) = match full {
            true => (Reason::Displaced, Reason::QueueFull),
            false => (Reason::Overload, Reason::Overload),
        };
        let victim = self.less_important(lane, share, rejected).ok_or(of_arrival)?;
        self.shed_waiting(victim, of_waiting);
        Ok(())
    }

    /// With whom an exchange of this kind shares a turn where no tenant is named. All those of
    /// which nothing is known share one, so that who invents paths gains nothing.
    fn flow_of(&self, kind: Kind) -> Tenant {
        if self.answers.is_known(kind, self.now) { Tenant(kind.0) } else { Tenant::default() }
    }

    /// Has a tenant, or where none is named a kind, about an even share of the line at most, or
    /// nobody in it? Then it asks for no more than it gets.
    pub(super) fn is_within_its_share(
        &self,
        lane: Class,
        (tenant, kind): (Tenant, Tenant),
    ) -> bool {
        let lane = self.queue.lane(lane);
        let named = tenant != Tenant::default();
        let (flows, flow) = if named { (lane.tenants(), tenant) } else { (lane.kinds(), kind) };
        if flow == Tenant::default() || !(named || self.load.isolates()) {
            return false;
        }
        let (own, count) = (flows.len(flow), flows.count());
        // Of the line as it should be: were it of the line as it is, all would be within an even
        // share of whatever it grew to.
        let line = self.queue.bounded().min(self.load.len_max(self.slots()));
        own == 0 || (count > 1 && own.saturating_mul(count) < line)
    }

    /// Who should go rather than an exchange of this lane and tenant that just came: somebody of a
    /// less important class; or, unless the arrival is itself among the least important of its
    /// class, one of a tenant with more in the line, or where the youngest are served first, the
    /// oldest.
    fn less_important(
        &self,
        class: Class,
        (tenant, kind): (Tenant, Tenant),
        rejected: bool,
    ) -> Option<Place> {
        let last = |class| {
            let lane = self.queue.lane(class);
            let (longest, _) = lane.tenants().longest()?;
            lane.in_reverse(longest, self.load.is_youngest_first(class)).next()
        };
        let below = Class::ALL.into_iter().rev().take_while(|other| *other > class);
        if let Some(place) = below.filter_map(last).next() {
            return Some(place);
        }
        let lane = self.queue.lane(class);
        let tenants = lane.tenants();
        let (longest, most) = tenants.longest()?;
        if most > tenants.len(tenant) + 1 && longest != tenant {
            return last(class);
        }
        if tenant == Tenant::default()
            && let Some(place) = self.last_of_longest_kind(class, kind)
        {
            return Some(place);
        }
        let oldest = self.load.is_youngest_first(class) && !rejected;
        let apart = tenant == Tenant::default() && self.load.isolates();
        let mut own = lane.in_reverse(tenant, true);
        oldest.then(|| own.find(|place| !apart || self.queue.get(*place).flow == kind)).flatten()
    }

    /// Who of the kind of which most wait would be served last; none: it is about as many as of
    /// `kind`, or kinds are not kept apart.
    fn last_of_longest_kind(&self, class: Class, kind: Tenant) -> Option<Place> {
        let lane = self.queue.lane(class);
        let (longest, most) = lane.kinds().longest().filter(|_| self.load.isolates())?;
        if kind == Tenant::default() || longest == kind || most <= lane.kinds().len(kind) + 1 {
            return None;
        }
        let mut places = lane.in_reverse(Tenant::default(), self.load.is_youngest_first(class));
        places.find(|place| self.queue.get(*place).flow == longest)
    }

    /// Does anybody wait who is less important than this class?
    pub(super) fn is_any_below(&self, class: Class) -> bool {
        let class = self.lane_of(class);
        let below = Class::ALL.into_iter().filter(|other| *other > class);
        below.into_iter().any(|other| self.queue.lane(other).tenants().longest().is_some())
    }

    pub(super) fn shed(&mut self, ticket: Ticket, shard: ShardId, reason: Reason) {
        let retry_after = self.retry_after(reason);
        self.outputs.push_back(Output::Shed(Shed { ticket, shard, reason, retry_after }));
    }

    /// When asking again could help somebody who is turned away for this reason.
    pub(super) fn retry_after(&self, reason: Reason) -> Option<Duration> {
        match reason {
            Reason::QueueFull
            | Reason::QueueTimeout
            | Reason::DeadlineUnmeetable
            | Reason::Overload
            | Reason::Displaced => Some(self.expected_wait()),
            Reason::NoWorker
            | Reason::StartHoldExpired
            | Reason::WorkerFailed
            | Reason::RetryBudget
            | Reason::Draining => None,
        }
    }

    /// The time in which the queue, and one more, will have been served: zero where no service time
    /// is known. Where only one in n can be served it is n times that, so that those who come again
    /// come at the rate at which they can be.
    fn expected_wait(&self) -> Duration {
        let mean = self.answers.mean().unwrap_or_default();
        let exchanges = (self.queue.len() as u32).saturating_add(1);
        let drained = mean.saturating_mul(exchanges) / self.slots().max(self.pool.slots());
        let served_ppm = 1_000_000 - self.load.ratio().as_ppm().min(SURE_PPM);
        drained.saturating_mul(1_000_000 / served_ppm)
    }
}

/// However great the excess, nobody is told to stay away for more than twenty times the line.
const SURE_PPM: u32 = 950_000;
