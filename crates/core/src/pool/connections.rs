//! The connections that one worker sees from us, over all shards.
//!
//! A connection is in use (a permit runs on it), idle on a shard, or closing (a shard was asked to
//! close it). All three count as open. When the worker's process ends, its connections end with it:
//! they no longer count, but their last words may still come, and are told from those of the next
//! process by `stale`.
//!
//! Invariant: `open` is at least `idle + closing`; the difference is in use.

use crate::id::ShardId;

/// Counts of one worker's connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: u32,
    idle: u32,
    closing: u32,
    shards: Vec<OnShard>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OnShard {
    idle: u32,
    closing: u32,
    /// Connections to an earlier process of the worker, whose end is yet to be told.
    stale: u32,
}

impl Connections {
    /// All that the worker sees.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Those that are idle.
    pub(crate) fn idle(&self) -> u32 {
        self.idle
    }

    /// Those that a shard was asked to close.
    pub(crate) fn closing(&self) -> u32 {
        self.closing
    }

    /// Those in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.open - self.idle - self.closing
    }

    /// Those that are idle on `shard`.
    pub(crate) fn idle_on(&self, shard: ShardId) -> u32 {
        self.shards.get(usize::from(shard.0)).map_or(0, |on| on.idle)
    }

    /// Is there none left whose end is yet to be told?
    pub(crate) fn are_gone(&self) -> bool {
        self.open == 0 && self.shards.iter().all(|on| on.stale == 0)
    }

    /// A new one is opened, for use.
    pub(crate) fn open_one(&mut self) {
        self.open += 1;
    }

    /// An idle one on `shard` is used.
    pub(crate) fn take_idle(&mut self, shard: ShardId) {
        self.on(shard).idle -= 1;
        self.idle -= 1;
    }

    /// One in use becomes idle on `shard`.
    pub(crate) fn keep(&mut self, shard: ShardId) {
        self.on(shard).idle += 1;
        self.idle += 1;
    }

    /// One in use is closed.
    pub(crate) fn close_used(&mut self) {
        self.open -= 1;
    }

    /// The shard on which most are idle.
    pub(crate) fn most_idle(&self) -> Option<ShardId> {
        let places = self.shards.iter().enumerate().filter(|(_, on)| on.idle > 0);
        let (place, _) = places.max_by_key(|(place, on)| (on.idle, std::cmp::Reverse(*place)))?;
        Some(ShardId(place as u16))
    }

    /// Pick an idle one to be closed, on the shard that has the most; where it lies.
    pub(crate) fn start_close(&mut self) -> Option<ShardId> {
        let shard = self.most_idle()?;
        let on = self.on(shard);
        on.idle -= 1;
        on.closing += 1;
        self.idle -= 1;
        self.closing += 1;
        Some(shard)
    }

    /// An idle one on `shard` is closed, asked for or not.
    pub(crate) fn closed(&mut self, shard: ShardId) {
        let on = self.on(shard);
        if on.stale > 0 {
            on.stale -= 1;
        } else if on.closing > 0 {
            on.closing -= 1;
            self.closing -= 1;
            self.open -= 1;
        } else if on.idle > 0 {
            on.idle -= 1;
            self.idle -= 1;
            self.open -= 1;
        }
    }

    /// The process ended, and every connection with it. Those that were to be closed have been
    /// asked for already, those that were idle still have to be.
    pub(crate) fn retire(&mut self) -> Vec<ShardId> {
        let mut idle = Vec::new();
        while let Some(shard) = self.start_close() {
            idle.push(shard);
        }
        for on in &mut self.shards {
            on.stale += std::mem::take(&mut on.closing);
        }
        self.open = 0;
        self.closing = 0;
        idle
    }

    /// A connection to an earlier process became idle on `shard`: it has to be closed.
    pub(crate) fn keep_stale(&mut self, shard: ShardId) {
        self.on(shard).stale += 1;
    }

    pub(crate) fn check_invariants(&self, connections_max: u32) {
        let sum = |count: fn(&OnShard) -> u32| self.shards.iter().map(count).sum::<u32>();
        assert_eq!(self.idle, sum(|on| on.idle), "idle connections add up");
        assert_eq!(self.closing, sum(|on| on.closing), "closing connections add up");
        assert!(self.open >= self.idle + self.closing, "what is idle is open");
        assert!(self.open <= connections_max, "{} connections are too many", self.open);
    }

    fn on(&mut self, shard: ShardId) -> &mut OnShard {
        let place = usize::from(shard.0);
        if place >= self.shards.len() {
            self.shards.resize(place + 1, OnShard::default());
        }
        &mut self.shards[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(shards: &[u16]) -> Connections {
        let mut connections = Connections::default();
        for shard in shards {
            connections.open_one();
            connections.keep(ShardId(*shard));
        }
        connections
    }

    #[test]
    fn the_shard_with_the_most_is_asked_to_close() {
        let mut connections = kept(&[0, 2, 2, 1]);
        let asked: Vec<_> = std::iter::from_fn(|| connections.start_close()).collect();
        assert_eq!(asked, [2, 0, 1, 2].map(ShardId));
        assert_eq!((connections.open(), connections.closing()), (4, 4));
        connections.closed(ShardId(2));
        assert_eq!((connections.open(), connections.closing()), (3, 3));
    }

    #[test]
    fn an_end_that_nobody_recorded_is_ignored() {
        let mut connections = kept(&[1]);
        connections.take_idle(ShardId(1));
        connections.closed(ShardId(1));
        connections.closed(ShardId(7));
        assert_eq!((connections.open(), connections.in_use()), (1, 1));
    }

    #[test]
    fn last_words_of_an_earlier_process_do_not_count_against_the_next() {
        let mut connections = kept(&[0, 0]);
        assert_eq!(connections.retire(), [0, 0].map(ShardId));
        connections.keep_stale(ShardId(0));
        connections.open_one();
        connections.keep(ShardId(0));
        for _ in 0..3 {
            connections.closed(ShardId(0));
            assert_eq!(connections.open(), 1);
        }
        connections.closed(ShardId(0));
        assert_eq!(connections.open(), 0);
    }
}
