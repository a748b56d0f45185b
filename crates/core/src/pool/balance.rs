//! Which worker an exchange gets.
//!
//! The order of preference: a worker with an idle connection on the asking shard, one with room for
//! a new connection, one whose idle connection on another shard is handed over, one of which a
//! connection has to come back or be closed first. Among equals
//! the one with the fewest exchanges in it, then the next in turn. Only workers that are up and
//! have a slot left are looked at, by way of a set of bits, so a thousand busy workers cost sixteen
//! words.
//!
//! Join-shortest-queue with turns, like HAProxy's `leastconn`; unlike there no worker has a queue
//! of its own, and workers that an exchange has tried are left out while any other is up.

use crate::gate::Tried;
use crate::id::ShardId;

use super::{Pool, State, Worker};

/// How a connection to the chosen worker comes about. In order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// An idle connection lies on the asking shard.
    Idle,
    /// There is room for a new one.
    Room,
    /// An idle one on another shard is handed over.
    Moved,
    /// All that it may see are in use, or being closed.
    Full,
}

/// A worker that can take an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) index: usize,
    pub(crate) way: Way,
}

impl Pool {
    /// The best worker for an exchange of `shard`; none when no free worker may take it.
    pub(crate) fn choose(&self, shard: ShardId, tried: &Tried) -> Option<Choice> {
        let avoid = self.is_avoiding(tried);
        let mut best: Option<((Way, u32), Choice)> = None;
        let mut from = self.turn;
        for end in [self.workers.len(), self.turn] {
            while let Some(index) = self.free.next(from, end) {
                from = index + 1;
                let worker = &self.workers[index];
                if avoid && tried.contains(worker.id) {
                    continue;
                }
                let way = self.way(worker, shard);
                let rank = (way, worker.in_flight);
                if best.is_none_or(|(least, _)| rank < least) {
                    best = Some((rank, Choice { index, way }));
                }
                if rank == (Way::Idle, 0) {
                    return best.map(|(_, choice)| choice);
                }
            }
            from = 0;
        }
        best.map(|(_, choice)| choice)
    }

    /// The worker at `index` was chosen: the next search begins after it.
    pub(crate) fn pass_turn(&mut self, index: usize) {
        self.turn = index + 1;
    }

    /// May an exchange that has tried these workers take the worker at `index`?
    pub(crate) fn may_take(&self, index: usize, tried: &Tried) -> bool {
        !(tried.contains(self.workers[index].id) && self.is_avoiding(tried))
    }

    /// Is any worker up that was not tried? Then those tried are left out, and a busy one is
    /// waited for.
    fn is_avoiding(&self, tried: &Tried) -> bool {
        if tried.is_empty() {
            return false;
        }
        let is_up = |index: usize| self.workers[index].state == State::Up;
        let tried_up = tried.iter().filter_map(|id| self.find(id)).filter(|index| is_up(*index));
        self.up as usize > tried_up.count()
    }

    fn way(&self, worker: &Worker, shard: ShardId) -> Way {
        if worker.connections.idle_on(shard) > 0 {
            Way::Idle
        } else if worker.connections.open() < self.connections_max {
            Way::Room
        } else if worker.connections.idle() > 0 {
            Way::Moved
        } else {
            Way::Full
        }
    }
}

/// A set of places among the workers, as bits.
#[derive(Debug, Default)]
pub(super) struct FreeSet {
    words: Vec<u64>,
    len: u32,
}

impl FreeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, index: usize, member: bool) {
        if self.contains(index) == member {
            return;
        }
        self.words[index / 64] ^= 1 << (index % 64);
        self.len = if member { self.len + 1 } else { self.len - 1 };
    }

    /// Empty the set; make room for places below `count`.
    pub(super) fn clear(&mut self, count: usize) {
        self.words.clear();
        self.words.resize(count.div_ceil(64), 0);
        self.len = 0;
    }

    /// The first member at or after `from`, before `end`.
    fn next(&self, from: usize, end: usize) -> Option<usize> {
        if from >= end {
            return None;
        }
        let mut word = from / 64;
        let mut bits = self.words[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            if word * 64 >= end {
                return None;
            }
            bits = self.words[word];
        }
        let index = word * 64 + bits.trailing_zeros() as usize;
        (index < end).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use crate::id::WorkerId;
    use crate::time::Instant;

    use super::*;

    const HERE: ShardId = ShardId(0);
    const THERE: ShardId = ShardId(1);

    /// A pool of workers that are up, each with (exchanges, idle connections here, idle there).
    fn pool(slots: u32, workers: &[(u32, u32, u32)]) -> Pool {
        let mut pool = Pool::new(slots, slots);
        for (id, (in_flight, here, there)) in workers.iter().enumerate() {
            let index = pool.insert(WorkerId(id as u32), false, Instant::ZERO);
            let worker = pool.worker_mut(index);
            worker.state = State::Up;
            worker.in_flight = *in_flight;
            for _ in 0..*in_flight {
                worker.connections.open_one();
            }
            for (shard, count) in [(HERE, here), (THERE, there)] {
                for _ in 0..*count {
                    worker.connections.open_one();
                    worker.connections.keep(shard);
                }
            }
            pool.refresh(index);
        }
        pool
    }

    #[test]
    fn preference_goes_by_connection_then_by_load_then_by_turn() {
        let check = |slots, workers: &[_], expected| {
            let chosen = pool(slots, workers).choose(HERE, &Tried::default());
            assert_eq!(chosen.map(|choice| (choice.index, choice.way)), expected, "{workers:?}");
        };
        check(1, &[], None);
        check(1, &[(1, 0, 0), (1, 0, 0)], None);
        check(1, &[(0, 0, 0), (0, 0, 0)], Some((0, Way::Room)));
        check(1, &[(0, 0, 1), (0, 0, 0), (0, 1, 0)], Some((2, Way::Idle)));
        check(1, &[(0, 0, 1), (0, 0, 0)], Some((1, Way::Room)));
        check(1, &[(0, 0, 1), (1, 0, 0)], Some((0, Way::Moved)));
        check(4, &[(2, 1, 0), (1, 1, 0), (0, 0, 0)], Some((1, Way::Idle)));
        check(4, &[(2, 0, 0), (1, 0, 0), (1, 0, 0)], Some((1, Way::Room)));
    }

    #[test]
    fn equals_take_turns() {
        let mut pool = pool(1, &[(0, 0, 0), (0, 0, 0), (0, 0, 0)]);
        let mut chosen = Vec::new();
        for _ in 0..5 {
            let choice = pool.choose(HERE, &Tried::default()).expect("all are free");
            pool.pass_turn(choice.index);
            chosen.push(choice.index);
        }
        assert_eq!(chosen, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_tried_worker_is_left_out_while_another_is_up() {
        let mut tried = Tried::default();
        tried.insert(WorkerId(0));
        let mut pool = pool(1, &[(0, 0, 0), (1, 0, 0)]);
        assert_eq!(pool.choose(HERE, &tried), None, "the other is busy: wait for it");
        pool.worker_mut(1).state = State::Down;
        pool.refresh(1);
        assert_eq!(pool.choose(HERE, &tried).map(|choice| choice.index), Some(0));
    }

    #[test]
    fn the_only_free_one_of_a_thousand_is_found() {
        for free in [0, 63, 64, 500, 999] {
            let workers: Vec<_> = (0..1000).map(|id| (u32::from(id != free), 0, 0)).collect();
            let mut pool = pool(1, &workers);
            for turn in [0, free as usize, free as usize + 1, 1000] {
                pool.turn = turn;
                let chosen = pool.choose(HERE, &Tried::default());
                assert_eq!(chosen.map(|choice| choice.index), Some(free as usize));
            }
        }
    }
}
