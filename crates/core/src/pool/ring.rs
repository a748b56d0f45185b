//! Which workers a key belongs to: consistent hashing with bounded load.
//!
//! Each worker has points on a circle of numbers, a key belongs to the worker of the next point,
//! and where that one has its share already, to the next worker along the circle. So a key mostly
//! finds the worker that has seen it before, and a worker that comes or goes moves only the keys
//! that were, or become, its own. Nobody gets more than a fixed excess over the mean.
//!
//! Sources: Karger et al., STOC 1997, for the circle; Mirrokni, Thorup and Zadimoghaddam, SODA
//! 2018, for the bound. Ours differs: the bound is taken over those exchanges that are in the
//! workers, of which the gate knows each; where everybody with a free slot has its share already
//! the first of them is taken, for no slot stays free while somebody waits.
//!
//! Points are made of a worker's id, so the order of the workers in the file matters.
//!
//! Absent: who is free (`balance`).

use crate::id::{Key, WorkerId};
use crate::rng::mix;
use crate::units::Weight;

/// Points of a worker with a weight of one. With so many the largest of ten equal shares is some
/// 20 % above the mean, less than the bound allows anyway.
const POINTS: u64 = 64;

/// The circle. Memory: 16 bytes a point.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// By position: whose it is.
    points: Vec<(u64, u32)>,
}

impl Ring {
    /// The circle of these workers, with their places among the workers.
    pub(super) fn of(workers: impl Iterator<Item = (u32, WorkerId, Weight)>) -> Ring {
        let mut points = Vec::new();
        for (place, id, weight) in workers {
            let own = 0..POINTS * u64::from(weight.count());
            points.extend(own.map(|number| (mix(!(u64::from(id.0) << 32 | number)), place)));
        }
        points.sort_unstable();
        Ring { points }
    }

    /// The places of the workers from `key` on, once around. A worker comes as often as it has
    /// points.
    pub(super) fn from(&self, key: Key) -> impl Iterator<Item = usize> + '_ {
        let first = self.points.partition_point(|(position, _)| *position < mix(key.0));
        let (before, after) = self.points.split_at(first);
        after.iter().chain(before).map(|(_, place)| *place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 20_000;

    fn ring(ids: impl Iterator<Item = u32>, weight: u32) -> Ring {
        let weight = Weight::new(weight).expect("a weight");
        Ring::of(ids.map(|id| (id, WorkerId(id), weight)))
    }

    fn owner(ring: &Ring, key: u64) -> Option<usize> {
        ring.from(Key(key)).next()
    }

    #[test]
    fn who_comes_or_goes_moves_its_own_keys_and_no_others() {
        let (ten, nine) = (ring(0..10, 1), ring(0..9, 1));
        let moved = (0..KEYS).filter(|key| owner(&ten, *key) != owner(&nine, *key));
        let moved: Vec<_> = moved.collect();
        assert!(moved.iter().all(|key| owner(&ten, *key) == Some(9)));
        let share = moved.len() as u64 * 100 / KEYS;
        assert!((8..=12).contains(&share), "{share} % moved");
    }

    #[test]
    fn shares_are_about_even_or_go_by_weight() {
        let mut counts = [0u64; 10];
        let even = ring(0..10, 1);
        (0..KEYS).for_each(|key| counts[owner(&even, key).expect("there are points")] += 1);
        assert!(counts.iter().all(|count| (1400..2600).contains(count)), "{counts:?}");

        let weights = [(0, 1), (1, 3)]
            .map(|(id, weight)| (id, WorkerId(id), Weight::new(weight).expect("a weight")));
        let uneven = Ring::of(weights.into_iter());
        let second = (0..KEYS).filter(|key| owner(&uneven, *key) == Some(1)).count() as u64;
        assert!((70..80).contains(&(second * 100 / KEYS)), "{second}");
    }

    #[test]
    fn everybody_comes_once_around() {
        let ring = ring(0..5, 1);
        let mut seen: Vec<_> = ring.from(Key(7)).collect();
        assert_eq!(seen.len(), 5 * POINTS as usize);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(Ring::default().from(Key(7)).next(), None);
    }
}
