//! The numbers of a gate, copied out for the dashboard, the metrics and the tests.

use crate::id::WorkerId;
use crate::pool::State;
use crate::time::{Duration, Instant};

/// A picture of one gate at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Exchanges that wait now.
    pub queue_len: u32,
    /// The most that may.
    pub queue_len_max: u32,
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

/// One worker in a [`View`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Its id.
    pub id: WorkerId,
    /// Whether it gets exchanges.
    pub state: State,
    /// Since when.
    pub state_since: Instant,
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
