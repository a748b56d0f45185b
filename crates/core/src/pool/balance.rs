//! Which worker an exchange gets, of those that are up and have a slot left.
//!
//! Only among them: whatever the rule, no slot stays free while somebody waits who may take it. An
//! exchange that has tried workers is given to none of them while any other is up.
//!
//! - `Turns` prefers a worker with an idle connection on the asking shard, then one with room for a
//!   new connection, then one whose idle connection on another shard is handed over, then one of
//!   which a connection has to come back or be closed first; among equals the one with the fewest
//!   exchanges in it, then the next in turn. HAProxy's `leastconn`.
//! - `LeastLoaded` prefers the one that would be done first: its exchanges, times what each takes
//!   ([`Pace`](super::pace::Pace)), by its weight.
//! - `First` fills one worker after the other, so that the last can be switched off.
//! - `Weighted` gives each its part in turn, evenly spread.
//! - `Hash` gives the same key to the same worker ([`Ring`](super::ring::Ring)), within a bound on
//!   its load.
//!
//! Unlike in the balancers these come from, no worker has a queue of its own.

use crate::gate::Tried;
use crate::id::{Key, ShardId};
use crate::time::Instant;

use super::{Balance, Pool, State, Worker};

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

/// An exchange that looks for a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeker {
    pub(crate) shard: ShardId,
    /// What it belongs to, where that decides.
    pub(crate) key: Key,
    pub(crate) tried: Tried,
}

/// Free workers that are compared at most: a bound on what a decision costs. Plain choice.
const COMPARED_MAX: usize = 16;
/// Points of the circle that a decision by key goes along at most: those of sixteen workers of
/// weight one, a few microseconds. Beyond them the place of a key is as good as any.
const POINTS_MAX: usize = 1024;

/// What a turn of a worker costs, over its weight. Weights are at most 2²⁶.
const STRIDE: u64 = 1 << 36;

impl Pool {
    /// The best worker for an exchange; none when no free worker may take it.
    pub(crate) fn choose(&self, seeker: &Seeker, now: Instant) -> Option<Choice> {
        let avoid = self.is_avoiding(&seeker.tried);
        if self.rules.balance == Balance::Turns {
            return self.in_turn(seeker, avoid);
        }
        let index = match self.rules.balance {
            Balance::LeastLoaded => self.least_loaded(seeker, avoid, now),
            Balance::First => self.candidates(seeker, avoid, 0).next(),
            Balance::Weighted => self.next_by_weight(seeker, avoid),
            Balance::Hash if seeker.key != Key::NONE => self.by_key(seeker, avoid, now),
            Balance::Hash | Balance::Turns => return self.in_turn(seeker, avoid),
        }?;
        Some(Choice { index, way: self.way(&self.workers[index], seeker.shard) })
    }

    /// The worker at `index` was chosen: the next search begins after it.
    pub(crate) fn pass_turn(&mut self, index: usize) {
        self.turn = index + 1;
    }

    /// The worker at `index` was given an exchange.
    pub(crate) fn charge(&mut self, index: usize, now: Instant) {
        if self.rules.balance == Balance::Weighted {
            let worker = &mut self.workers[index];
            self.passed = worker.passed.max(self.passed);
            worker.passed = self.passed + STRIDE / worker.weight(now);
        }
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

    /// The free workers that it may take, from this place on and then from the beginning.
    fn candidates(
        &self,
        seeker: &Seeker,
        avoid: bool,
        from: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let tried = seeker.tried;
        let may = move |index: &usize| !avoid || !tried.contains(self.workers[*index].id);
        self.free.range(from, self.workers.len()).chain(self.free.range(0, from)).filter(may)
    }

    fn in_turn(&self, seeker: &Seeker, avoid: bool) -> Option<Choice> {
        let mut best: Option<((Way, u32), Choice)> = None;
        let mut from = self.turn;
        for end in [self.workers.len(), self.turn] {
            while let Some(index) = self.free.next(from, end) {
                from = index + 1;
                let worker = &self.workers[index];
                if avoid && seeker.tried.contains(worker.id) {
                    continue;
                }
                let way = self.way(worker, seeker.shard);
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

    /// The next few are compared, beginning after the last that was chosen. Two that are drawn
    /// (Mitzenmacher 1996) are enough for who knows loads only by hearsay; this gate knows each,
    /// and with two among 40 workers half of the answers take half as long again.
    fn least_loaded(&self, seeker: &Seeker, avoid: bool, now: Instant) -> Option<usize> {
        let some = self.candidates(seeker, avoid, self.turn).take(COMPARED_MAX);
        some.reduce(|one, other| self.lighter(one, other, seeker.shard, now))
    }

    /// Which of two would be done first with one more; `one` where both would.
    fn lighter(&self, one: usize, other: usize, shard: ShardId, now: Instant) -> usize {
        let [first, second] = [one, other].map(|index| &self.workers[index]);
        let (first_cost, second_cost) =
            (self.cost(first, shard, now), self.cost(second, shard, now));
        let first_cost = first_cost * u128::from(second.weight(now));
        let second_cost = second_cost * u128::from(first.weight(now));
        let ranks = [(first_cost, self.way(first, shard)), (second_cost, self.way(second, shard))];
        if ranks[0] <= ranks[1] { one } else { other }
    }

    /// What one more exchange would cost at a worker with a weight of one. Where a connection has
    /// to come back first that is as an exchange more. Of a new worker nothing is known, so it gets
    /// the next, but no second one before that is answered.
    fn cost(&self, worker: &Worker, shard: ShardId, now: Instant) -> u128 {
        let full = self.way(worker, shard) == Way::Full;
        let many = u128::from(worker.in_flight) + u128::from(full);
        match worker.pace.micros(now) {
            Some(micros) => u128::from(micros) * (many + 1),
            None => many << 40,
        }
    }

    /// Stride scheduling (Waldspurger and Weihl 1995): each has passed so far, in steps that are
    /// the shorter the greater its weight, and the hindmost is next. Who was away goes on from
    /// where the others are.
    fn next_by_weight(&self, seeker: &Seeker, avoid: bool) -> Option<usize> {
        let passed = |index: &usize| self.workers[*index].passed.max(self.passed);
        self.candidates(seeker, avoid, 0).min_by_key(passed)
    }

    /// The first along the circle that has less than its share, with the excess; else the first
    /// that is free there, or anywhere.
    fn by_key(&self, seeker: &Seeker, avoid: bool, now: Instant) -> Option<usize> {
        let mut free = self.candidates(seeker, avoid, 0);
        let (first, others) = (free.next()?, free.next());
        if others.is_none() {
            return Some(first);
        }
        let up = self.workers.iter().filter(|worker| worker.state == State::Up);
        let (load, weights) = up.fold((1, 0), |(load, weights), worker| {
            (load + u128::from(worker.in_flight), weights + u128::from(worker.weight(now)))
        });
        let excess = u128::from(self.rules.hash_excess_max.as_ppm());
        let is_below = |worker: &Worker| {
            let share = load * u128::from(worker.weight(now)) * (1_000_000 + excess);
            u128::from(worker.in_flight) * weights * 1_000_000 < share
        };
        let may = |index: &usize| {
            let tried = avoid && seeker.tried.contains(self.workers[*index].id);
            self.free.contains(*index) && !tried
        };
        let mut along = self.ring().from(seeker.key).take(POINTS_MAX).filter(may);
        let first = along.next().unwrap_or(first);
        let below = std::iter::once(first).chain(along).find(|at| is_below(&self.workers[*at]));
        below.or(Some(first))
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

#[cfg(test)]
mod tests {
    use crate::gate::Settings;
    use crate::gate::tests::with_slots;
    use crate::id::WorkerId;
    use crate::units::Weight;

    use super::*;

    const HERE: ShardId = ShardId(0);
    const THERE: ShardId = ShardId(1);
    const NOW: Instant = Instant::ZERO;

    fn anybody() -> Seeker {
        Seeker { shard: HERE, key: Key::NONE, tried: Tried::default() }
    }

    /// A pool of workers that are up, each with (exchanges, idle connections here, idle there).
    fn pool(slots: u32, workers: &[(u32, u32, u32)]) -> Pool {
        let mut pool = Pool::new(&with_slots(slots));
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
            let chosen = pool(slots, workers).choose(&anybody(), NOW);
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
    fn a_free_worker_is_found_beyond_all_points_that_are_looked_at() {
        let settings = Settings { balance: Balance::Hash, ..with_slots(1) };
        let mut pool = Pool::new(&settings);
        for id in 0..7 {
            let index = pool.insert(WorkerId(id), false, NOW);
            let worker = pool.worker_mut(index);
            worker.state = State::Up;
            if id < 5 {
                worker.share = Weight::new(256).expect("a weight");
                worker.in_flight = 1;
                worker.connections.open_one();
            }
            pool.refresh(index);
        }
        pool.redraw();
        for key in 1..200 {
            let seeker = Seeker { key: Key(key), ..anybody() };
            let chosen = pool.choose(&seeker, NOW).expect("two are free");
            assert!(chosen.index >= 5, "{chosen:?}");
        }
    }

    #[test]
    fn equals_take_turns() {
        let mut pool = pool(1, &[(0, 0, 0), (0, 0, 0), (0, 0, 0)]);
        let mut chosen = Vec::new();
        for _ in 0..5 {
            let choice = pool.choose(&anybody(), NOW).expect("all are free");
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
        assert_eq!(
            pool.choose(&Seeker { tried, ..anybody() }, NOW),
            None,
            "the other is busy: wait for it"
        );
        pool.worker_mut(1).state = State::Down;
        pool.refresh(1);
        assert_eq!(
            pool.choose(&Seeker { tried, ..anybody() }, NOW).map(|choice| choice.index),
            Some(0)
        );
    }

    #[test]
    fn the_only_free_one_of_a_thousand_is_found() {
        for free in [0, 63, 64, 500, 999] {
            let workers: Vec<_> = (0..1000).map(|id| (u32::from(id != free), 0, 0)).collect();
            let mut pool = pool(1, &workers);
            for turn in [0, free as usize, free as usize + 1, 1000] {
                pool.turn = turn;
                let chosen = pool.choose(&anybody(), NOW);
                assert_eq!(chosen.map(|choice| choice.index), Some(free as usize));
            }
        }
    }
}
