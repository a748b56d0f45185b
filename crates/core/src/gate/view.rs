//! The numbers of a gate, copied out for the dashboard, the metrics and the tests.
//!
//! A copy, so that whoever shows it holds no lock and no reference into the gate. Absent: how
//! exchanges ended, which the shards count.

use crate::id::WorkerId;
use crate::pool::{Said, Signs, State};
use crate::stats::window::Window;
use crate::time::{Duration, Instant};
use crate::units::{Ratio, Weight};

use super::{Class, Gate};

/// A picture of one gate at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Exchanges that wait now.
    pub queue_len: u32,
    /// The most that may.
    pub queue_len_max: u32,
    /// Those who wait, by class.
    pub waiting: [u32; Class::COUNT],
    /// The share of the arrivals that is too much, by which the least important are shed.
    pub shed_ratio: Ratio,
    /// Are the youngest served first?
    pub youngest_first: bool,
    /// Permits that are out now, stuck slots included.
    pub in_flight: u32,
    /// Slots of all workers that are up.
    pub slots: u32,
    /// Quantiles of the time in the queue over the recent grants.
    pub wait: Quantiles,
    /// Quantiles of the service time over the recent successes.
    pub service: Quantiles,
    /// First arrivals so far.
    pub arrivals: u64,
    /// Grants so far, retries included.
    pub grants: u64,
    /// Retries so far (charged ones).
    pub retries: u64,
    /// Second tries so far that ran beside a first.
    pub hedges: u64,
    /// Probes asked for so far.
    pub probes: u64,
    /// The workers, by id.
    pub workers: Vec<WorkerView>,
}

/// Three quantiles of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Half are at or below it.
    pub p50: Duration,
    /// Nine in ten are at or below it.
    pub p90: Duration,
    /// Ninety-nine in a hundred are at or below it.
    pub p99: Duration,
    /// How many samples they come from.
    pub samples: u64,
}

impl Quantiles {
    /// Those of the samples in `window`; zero where there are none.
    pub(super) fn of(window: &Window) -> Self {
        let at = |percent| window.quantile(Ratio::from_percent(percent)).unwrap_or_default();
        Quantiles { p50: at(50), p90: at(90), p99: at(99), samples: window.len().into() }
    }
}

/// One worker in a [`View`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Its id.
    pub id: WorkerId,
    /// Whether it gets exchanges.
    pub state: State,
    /// Since when.
    pub state_since: Instant,
    /// What each of those says who have a say in it; `state` is the worst.
    pub signs: Signs,
    /// What its agent said and holds; none: no agent has spoken.
    pub said: Option<Said>,
    /// Exchanges that it may hold now.
    pub slots: u32,
    /// Exchanges that it may ever hold.
    pub slots_max: u32,
    /// How many of those it and its agent want.
    pub granted: u32,
    /// How many it can hold well, by what was learned; none: its limit is fixed.
    pub learned: Option<u32>,
    /// Its weight in the file.
    pub weight: Weight,
    /// What its agent and its ramp leave of that, in percent.
    pub weight_percent: u32,
    /// What an exchange takes it, where `balance` goes by that and it is known.
    pub pace: Option<Duration>,
    /// Exchanges in it now, stuck ones included.
    pub in_flight: u32,
    /// Slots held by exchanges that were given up while the worker may still be busy.
    pub stuck: u32,
    /// Connections open to it, over all shards.
    pub open: u32,
    /// Those of them that are idle.
    pub idle: u32,
    /// Grants so far.
    pub grants: u64,
    /// Failures in a row.
    pub failures: u32,
}

impl Gate {
    /// The numbers at `now`. Cost: some microseconds, and an allocation for the workers.
    pub fn view(&mut self, now: Instant) -> View {
        self.advance(now);
        self.waits.forget_old(self.now);
        let stuck: u32 = self.pool.workers().iter().map(|worker| worker.stuck).sum();
        View {
            queue_len: self.queue.len() as u32,
            queue_len_max: self.settings.queue_len_max,
            waiting: self.waiting(),
            shed_ratio: self.load.ratio(),
            youngest_first: self.load.is_youngest_first(Class::Bulk),
            in_flight: self.permits.len() as u32 + stuck,
            slots: self.slots(),
            wait: Quantiles::of(&self.waits),
            service: self.answers.quantiles(),
            arrivals: self.totals.arrivals,
            grants: self.totals.grants,
            retries: self.totals.retries,
            hedges: self.totals.hedges,
            probes: self.totals.probes,
            workers: (0..self.pool.workers().len()).map(|index| self.worker_view(index)).collect(),
        }
    }

    fn waiting(&self) -> [u32; Class::COUNT] {
        let mut waiting = [0; Class::COUNT];
        for waiter in self.queue.iter() {
            waiting[usize::from(waiter.class.number())] += 1;
        }
        waiting
    }
}

impl Gate {
    fn worker_view(&self, index: usize) -> WorkerView {
        let worker = self.pool.worker(index);
        WorkerView {
            id: worker.id,
            state: worker.state,
            state_since: worker.state_since,
            signs: worker.signs(),
            said: worker.agent,
            slots: self.pool.limit(index),
            slots_max: self.pool.slots(),
            granted: worker.granted(self.pool.slots()),
            learned: worker.learned.as_ref().map(|learned| learned.limit()),
            weight: worker.share,
            weight_percent: worker.weight_percent(self.now),
            pace: worker.pace.micros(self.now).map(Duration::from_micros),
            in_flight: worker.in_flight - worker.reserved.len() as u32,
            stuck: worker.stuck,
            open: worker.connections.open(),
            idle: worker.connections.idle(),
            grants: worker.grants,
            failures: worker.ejection.failures(),
        }
    }
}
