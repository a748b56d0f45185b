//! Sums over shards, read while the shards go on counting.
//!
//! Of two cells whose difference is shown, the one that is subtracted is read first, so that no
//! difference is ever negative. Absent: names of metrics (`table.rs`).

use std::sync::Arc;

use spillgate_runtime::metrics::{Counters, LabelSet};

use super::label::{FailReason, RefuseReason, ShedReason, Stage, StatusClass};
use super::{ListenerMetrics, PoolMetrics, ShardMetrics};

/// The ends of one pool's exchanges, summed over shards. Names are label values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSums {
    /// Exchanges that came.
    pub arrivals: u64,
    /// Answered, by status class.
    pub successes: Vec<(&'static str, u64)>,
    /// Turned away because of load, by reason.
    pub shed: Vec<(&'static str, u64)>,
    /// Turned away by a rule, by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Tried in vain, by reason.
    pub failed: Vec<(&'static str, u64)>,
    /// Client left first, by stage.
    pub abandoned: Vec<(&'static str, u64)>,
    /// Not ended yet.
    pub in_progress: u64,
}

/// The ends of the exchanges of `pool` (its index in the settings; none: those of no pool).
pub fn pool_sums(shards: &[Arc<ShardMetrics>], pool: Option<usize>) -> PoolSums {
    let cells: Vec<&PoolMetrics> = shards.iter().map(|shard| shard.pool(pool)).collect();
    // The ends before the arrivals: an exchange that ends in between is then still in progress.
    let successes = by_member::<StatusClass>(cells.iter().map(|cells| &cells.successes));
    let shed = by_member::<ShedReason>(cells.iter().map(|cells| &cells.shed));
    let refused = by_member::<RefuseReason>(cells.iter().map(|cells| &cells.refused));
    let failed = by_member::<FailReason>(cells.iter().map(|cells| &cells.failed));
    let abandoned = by_member::<Stage>(cells.iter().map(|cells| &cells.abandoned));
    let ends: u64 = [&successes, &shed, &refused, &failed, &abandoned]
        .into_iter()
        .flatten()
        .map(|(_, count)| count)
        .sum();
    let arrivals: u64 = cells.iter().map(|cells| cells.arrivals.value()).sum();
    let in_progress = arrivals.saturating_sub(ends);
    PoolSums { arrivals, successes, shed, refused, failed, abandoned, in_progress }
}

/// Client connections open now on one shard.
pub fn connections_of(shard: &ShardMetrics) -> u64 {
    shard.listeners.iter().map(open_of).sum()
}

/// Open connections: the closed ones are read first, so that the difference is never negative.
pub(super) fn open_of(cells: &ListenerMetrics) -> u64 {
    let closed = cells.closed.sum();
    cells.accepted.value().saturating_sub(closed)
}

/// A set of counters, summed over shards.
pub(super) fn by_member<'a, S: LabelSet>(
    shards: impl Iterator<Item = &'a Counters<S>>,
) -> Vec<(&'static str, u64)> {
    let mut sums: Vec<_> = S::ALL.iter().map(|member| (member.name(), 0)).collect();
    for cells in shards {
        for (member, sum) in S::ALL.iter().zip(&mut sums) {
            sum.1 += cells.value(*member);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::{End, Sizes};
    use super::*;

    #[test]
    fn shards_add_up() {
        let sizes = Sizes { listeners: 1, pools: 1 };
        let shards = [(); 2].map(|()| Arc::new(ShardMetrics::new(sizes)));
        for shard in &shards {
            shard.pools[0].arrive();
            shard.pools[0].end(End::Shed(ShedReason::QueueFull));
            shard.pools[0].arrive();
            shard.listeners[0].accepted.increment();
        }
        let sums = pool_sums(&shards, Some(0));
        assert_eq!((sums.arrivals, sums.in_progress), (4, 2));
        assert_eq!(sums.shed[0], ("queue_full", 2));
        assert_eq!(connections_of(&shards[0]), 1);
    }
}
