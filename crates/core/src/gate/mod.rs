//! The admission machine of one pool.
//!
//! An exchange asks ([`Input::Arrive`]) and gets a permit for one slot of one worker, waits in the
//! pool's one queue, or is shed with a reason. Which worker and the permit for it are one decision,
//! so the workers' states live here too: what exchanges and probes met decides who is in.
//!
//! Absent on purpose: threads, locks, clocks, sockets, headers. The shell that owns a gate puts a
//! lock around it, hands in the time, and carries out what [`Gate::poll_output`] says.
//!
//! What holds after every step ([`Gate::check_invariants`] sweeps over it):
//! - work conserving: no slot of a worker that is up is free while an exchange waits that may take
//!   it, but for the moments in which one is kept for the more important (`shed/phase.rs`);
//! - a worker never holds more exchanges than `slots`, nor sees more connections than
//!   `connections_max`, over all shards;
//! - nobody of a less important class gets a slot that one of a more important class who waits
//!   may take, nor within a class before somebody who is to be served first;
//! - nobody is given to a worker whose answer is expected after its deadline, but for trials;
//! - every permit is out, or its slot is free, or its slot is known to be stuck.

mod admit;
mod answer;
mod check;
mod class;
mod climb;
mod connect;
mod health;
mod hedge;
mod kind;
mod lane;
mod limit;
mod line;
mod member;
mod message;
mod permit;
mod permits;
mod probing;
mod queue;
mod retry;
mod settings;
mod shed;
mod tenant;
#[cfg(test)]
pub(crate) mod tests;
pub mod trace;
mod view;

pub use class::{Claim, Class, Cohort, Priority};
pub use message::*;
pub use permit::Permit;
pub use settings::{Balance, Limit, Order, Settings, Shedding};
pub use view::{Quantiles, View, WorkerView};

use std::collections::VecDeque;

use crate::id::{Ticket, WorkerId};
use crate::pool::{Pool, State};
use crate::stats::window::Window;
use crate::time::{Duration, Instant};
use crate::units::Ratio;

use answer::Answers;
use permits::Permits;
use queue::Queue;
use retry::RetryBudget;
use shed::Load;

/// Grants whose time in the queue the view shows: its 99 % quantile rests on five of them.
const WAITS_MAX: u16 = 512;
/// How long such a time is shown.
const WAIT_AGE_MAX: Duration = Duration::from_secs(60);

/// The admission machine of one pool.
///
/// Memory: some 80 KiB, and some 400 bytes for each worker and each exchange that waits. A decision
/// that finds a free slot allocates nothing.
#[derive(Debug)]
pub struct Gate {
    settings: Settings,
    /// The latest moment it was told. Shards cache clocks, so inputs may come with an earlier one.
    now: Instant,
    pool: Pool,
    queue: Queue,
    permits: Permits,
    answers: Answers,
    waits: Window,
    retry_budget: RetryBudget,
    load: Load,
    /// When a worker that climbs its ramp gets more.
    climb_at: Instant,
    /// When the next probe is due.
    probe_at: Instant,
    /// Since when waiting is waiting for a slot, and not for the pool to start or to change over;
    /// none: it has never been ready.
    served_since: Option<Instant>,
    /// Since when no worker is up.
    none_up_since: Option<Instant>,
    draining: bool,
    totals: Totals,
    outputs: VecDeque<Output>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    arrivals: u64,
    grants: u64,
    retries: u64,
    hedges: u64,
    probes: u64,
}

impl Gate {
    /// A gate without workers: they join by [`Input::Member`].
    pub fn new(settings: Settings, now: Instant) -> Self {
        Gate {
            now,
            pool: Pool::new(&settings),
            queue: Queue::default(),
            permits: Permits::default(),
            answers: Answers::new(&settings),
            waits: Window::new(WAITS_MAX, WAIT_AGE_MAX, Ratio::from_percent(50)),
            retry_budget: RetryBudget::new(now),
            load: Load::new(settings.shedding, settings.order),
            climb_at: Instant::FAR_FUTURE,
            probe_at: Instant::FAR_FUTURE,
            served_since: None,
            none_up_since: Some(now),
            draining: false,
            totals: Totals::default(),
            outputs: VecDeque::with_capacity(16),
            settings,
        }
    }

    /// Something happened. What is to be done about it is in [`Gate::poll_output`] right after.
    pub fn handle(&mut self, input: Input, now: Instant) {
        self.advance(now);
        self.climb_due();
        match input {
            Input::Arrive(arrival) => self.arrive(&arrival),
            Input::Hedge(hedge) => self.hedge(&hedge),
            Input::Abandon(ticket) => self.abandon(ticket),
            Input::Return(returned) => self.returned(returned),
            Input::Closed { worker, shard } => self.closed(worker, shard),
            Input::Probed(probed) => self.probed(probed),
            Input::Late(late) => self.late(late),
            Input::Member { worker, change } => self.member(worker, change),
            Input::Weight { worker, weight } => self.weigh_worker(worker, weight),
            Input::Report { worker, report } => self.report(worker, &report),
            Input::Load { worker, utilization } => self.load(worker, utilization),
            Input::Drain => self.drain(),
        }
    }

    /// The next thing to do; none when all is done. Outputs come in the order of the decisions.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Gate::handle_timeout`] has to be called even if nothing happens; none: never. May lie
    /// in the past, then at once. Changes with every input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let at = self.probe_at.min(self.climb_at).min(self.next_expiry());
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    /// The moment that [`Gate::poll_timeout`] named has come. Harmless at any other.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.climb_due();
        self.dispatch();
        self.ask_due();
    }

    /// Does this exchange wait for a slot? Not so when it has one and waits only for a connection
    /// there to be closed, nor when it was decided about.
    pub fn is_in_line(&self, ticket: Ticket) -> bool {
        self.queue.find(ticket).is_some_and(|place| self.queue.get(place).reserved.is_none())
    }

    /// Why a first arrival of this class would be turned away at once if it came now, and when
    /// asking again could help: there is neither a free slot nor a place in the queue, nor anybody
    /// less important in it, or the gate drains. Lets the shell turn a long body away early.
    pub fn shut(&self, class: Class) -> Option<(Reason, Option<Duration>)> {
        let full = self.queue.bounded() >= self.settings.queue_len_max;
        let reason = match self.draining {
            true => Reason::Draining,
            false if full && !self.pool.has_free() && !self.is_any_below(class) => {
                Reason::QueueFull
            }
            false => return None,
        };
        Some((reason, self.retry_after(reason)))
    }

    /// Is an exchange that `worker` has answered with an error better tried elsewhere? So it is
    /// when that worker stands nearly alone: at least half of the workers that are up have no
    /// failure in a row, and are not among those that it has `tried`. And its try could be charged
    /// now.
    pub fn is_better_elsewhere(&self, worker: WorkerId, tried: &Tried) -> bool {
        let mut next = *tried;
        next.insert(worker);
        next.charged = next.charged.saturating_add(1);
        let workers = self.pool.workers().iter().filter(|one| one.state == State::Up);
        let well = workers.filter(|one| one.ejection.failures() == 0 && !next.contains(one.id));
        let well = well.count() as u32;
        let stands_out = well > 0 && well.saturating_mul(2) >= self.pool.up();
        stands_out && self.retry_budget.look(next, &self.settings, self.now).is_ok()
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.answers.refresh(self.now);
    }
}
