//! What the proxy counts: cells of one shard, and how an exchange ends in them.
//!
//! Each shard owns one [`ShardMetrics`] and is its only writer; the control side reads all of them
//! at scrape time ([`scrape`]). What each cell means is said in [`table`], the closed sets of label
//! values are in [`label`]. Absent on purpose: names, sums and text in this file, and any decision.
//!
//! Invariant: every exchange is counted by one [`PoolMetrics::arrive`] and, when it ends, by one
//! [`PoolMetrics::end`] of the same pool and shard. So at any moment, for each pool,
//! `arrivals = successes + shed + refused + failed + abandoned + in progress`.

pub mod label;
pub mod scrape;
pub mod sums;
pub mod table;

use spillgate_runtime::metrics::{Counter, Counters, Histogram, LabelSet, SharedCounter};

use label::{
    AgentOutcome, ClassLabel, CloseReason, ConnectKind, FailReason, HedgeEnd, IdleEnd, PauseReason,
    RefuseReason, RelayReason, RetryKind, ShedReason, Stage, StatusClass,
};

/// The cells of one shard. Shared with the scrape by `Arc`; written by that shard alone.
///
/// Aligned to two cache lines so that no two shards ever write to one.
#[derive(Debug)]
#[repr(align(128))]
pub struct ShardMetrics {
    /// By listener, in the order of the settings.
    pub listeners: Vec<ListenerMetrics>,
    /// By pool, in the order of the settings.
    pub pools: Vec<PoolMetrics>,
    /// Exchanges that belong to no pool: refused before their route was known, or answered by a
    /// reply of our own. Shown with an empty `pool` label.
    pub poolless: PoolMetrics,
}

/// Cells of one listener on one shard.
#[derive(Debug, Default)]
pub struct ListenerMetrics {
    /// Client connections accepted. Those open now are these less the closed ones.
    pub accepted: Counter,
    /// Times that accepting paused for a moment, by what was short.
    pub pauses: Counters<PauseReason>,
    /// Client connections closed, by reason.
    pub closed: Counters<CloseReason>,
}

/// Cells of one pool on one shard.
#[derive(Debug, Default)]
pub struct PoolMetrics {
    /// Exchanges that came.
    pub arrivals: Counter,
    /// Exchanges answered by a worker (or, without a pool, by a reply of the configuration).
    pub successes: Counters<StatusClass>,
    /// Exchanges turned away because of load.
    pub shed: Counters<ShedReason>,
    /// Exchanges turned away because a rule says so.
    pub refused: Counters<RefuseReason>,
    /// Exchanges that were tried and did not work.
    pub failed: Counters<FailReason>,
    /// Exchanges whose client left first, by the stage they were in.
    pub abandoned: Counters<Stage>,
    /// Exchanges that came to a pool, by class.
    pub class_arrivals: Counters<ClassLabel>,
    /// Those of them that were answered.
    pub class_successes: Counters<ClassLabel>,
    /// Those of them that were turned away because of load.
    pub class_shed: Counters<ClassLabel>,
    /// Successes that ended later than `answer_within` after the last request byte.
    pub late: Counter,
    /// Tries after the first, by what the worker before had seen of the request.
    pub retries: Counters<RetryKind>,
    /// Second tries that were asked for, by what became of them.
    pub hedges: Counters<HedgeEnd>,
    /// Exchanges that left buffering for a relay, by cause.
    pub relayed: Counters<RelayReason>,
    /// Connections to workers used for an exchange, by how they were got.
    pub connects: Counters<ConnectKind>,
    /// Idle connections to workers that were closed, by cause.
    pub idle_ends: Counters<IdleEnd>,
    /// Bytes of request bodies received from clients.
    pub request_body_bytes: Counter,
    /// Bytes of response bodies collected from workers.
    pub response_body_bytes: Counter,
    /// Those of them that went to the client without being copied.
    pub spliced_bytes: Counter,
    /// Time spent in each stage by exchanges that finished it.
    pub stages: StageTimes,
    /// Time from the first byte of the request to the end of the exchange, however it ended.
    pub total: Histogram,
}

/// Time by stage. `route` and `record` take no time worth a cell.
#[derive(Debug, Default)]
pub struct StageTimes {
    /// Whole request body received.
    pub intake: Histogram,
    /// Wait for a permit: the time in the queue, zero when a slot was free.
    pub admit: Histogram,
    /// From the permit to the whole response head: connect, send, and the worker's thinking.
    pub dispatch: Histogram,
    /// From the response head to the worker's last byte, when the permit returns.
    pub collect: Histogram,
    /// From the first to the last byte written to the client.
    pub deliver: Histogram,
}

/// How an exchange ended. The four words that are not a success, each with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was answered.
    Success(StatusClass),
    /// Turned away because of load.
    Shed(ShedReason),
    /// Turned away because a rule says so.
    Refused(RefuseReason),
    /// It was tried and did not work.
    Failed(FailReason),
    /// Its client left first, while it was in this stage.
    Abandoned(Stage),
}

/// Cells of the control side, for what no shard does. Any number of writers.
#[derive(Debug)]
pub struct ControlMetrics {
    /// By pool, in the order of the settings.
    pub pools: Vec<ProbeMetrics>,
}

/// Probes and agents of one pool.
#[derive(Debug, Default)]
pub struct ProbeMetrics {
    /// Probes that the worker answered as it should.
    pub succeeded: SharedCounter,
    /// Probes that it did not.
    pub failed: SharedCounter,
    /// Questions to agents, by what came of them.
    pub agents: [SharedCounter; AgentOutcome::ALL.len()],
}

/// How many cells of each sort there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Listeners in the settings.
    pub listeners: usize,
    /// Pools in the settings.
    pub pools: usize,
}

impl ShardMetrics {
    /// All at zero. About 2 KiB for each pool.
    pub fn new(sizes: Sizes) -> Self {
        ShardMetrics {
            listeners: (0..sizes.listeners).map(|_| ListenerMetrics::default()).collect(),
            pools: (0..sizes.pools).map(|_| PoolMetrics::default()).collect(),
            poolless: PoolMetrics::default(),
        }
    }

    /// The cells of the pool with this index in the settings; none: those of no pool.
    pub fn pool(&self, pool: Option<usize>) -> &PoolMetrics {
        pool.and_then(|index| self.pools.get(index)).unwrap_or(&self.poolless)
    }
}

impl PoolMetrics {
    /// An exchange came: its route is known, or it was refused before.
    pub fn arrive(&self) {
        self.arrivals.increment();
    }

    /// It ended. Once for each arrival, on the same shard and pool.
    pub fn end(&self, end: End) {
        match end {
            End::Success(class) => self.successes.increment(class),
            End::Shed(reason) => self.shed.increment(reason),
            End::Refused(reason) => self.refused.increment(reason),
            End::Failed(reason) => self.failed.increment(reason),
            End::Abandoned(stage) => self.abandoned.increment(stage),
        }
    }

    /// Exchanges that ended, in any way.
    pub fn ends(&self) -> u64 {
        let turned_away = self.shed.sum() + self.refused.sum();
        self.successes.sum() + turned_away + self.failed.sum() + self.abandoned.sum()
    }

    /// Exchanges that came and have not ended. Exact when the shard is quiet; else never negative,
    /// because the ends are read first.
    pub fn in_progress(&self) -> u64 {
        let ends = self.ends();
        self.arrivals.value().saturating_sub(ends)
    }
}

impl ControlMetrics {
    /// All at zero.
    pub fn new(pools: usize) -> Self {
        ControlMetrics { pools: (0..pools).map(|_| ProbeMetrics::default()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use spillgate_runtime::metrics::LabelSet;

    use super::*;

    #[test]
    fn every_arrival_ends_in_one_count() {
        let shard = ShardMetrics::new(Sizes { listeners: 1, pools: 1 });
        let pool = shard.pool(Some(0));
        let ends: Vec<End> = StatusClass::ALL
            .iter()
            .map(|class| End::Success(*class))
            .chain(ShedReason::ALL.iter().map(|reason| End::Shed(*reason)))
            .chain(RefuseReason::ALL.iter().map(|reason| End::Refused(*reason)))
            .chain(FailReason::ALL.iter().map(|reason| End::Failed(*reason)))
            .chain(Stage::ALL.iter().map(|stage| End::Abandoned(*stage)))
            .collect();
        for _ in &ends {
            pool.arrive();
        }
        for (done, end) in ends.iter().enumerate() {
            assert_eq!(pool.in_progress() as usize, ends.len() - done);
            pool.end(*end);
        }
        assert_eq!(pool.in_progress(), 0);
        assert_eq!(shard.pool(None).arrivals.value(), 0);
    }
}
