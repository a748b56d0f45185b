//! Durations, counted by how long they were.
//!
//! One bucket for each doubling: a percentile is read to within a factor of two, which tells a slow
//! stage from a fast one, and a cell is small enough for one per stage, pool and shard. A bucket
//! holds what is above its lower and at most its upper bound, as OpenMetrics counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Durations at most 2^13 ns (8.2 us) long share the first bucket.
const LOW_BITS: u32 = 13;
/// Durations longer than 2^40 ns (1,100 s) share the last bucket.
const HIGH_BITS: u32 = 40;
/// One bucket for each octave between them, and the two at the ends.
const BUCKETS: usize = (HIGH_BITS - LOW_BITS) as usize + 2;

/// How many durations fell where, from 8 us to 1,100 s. One writer; 240 bytes.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = &self.buckets[bucket_of(nanos)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum_nanos.store(self.sum_nanos.load(Relaxed).wrapping_add(nanos), Relaxed);
    }

    /// Adds what was counted here to `total`.
    pub fn add_to(&self, total: &mut Distribution) {
        for (into, from) in total.buckets.iter_mut().zip(&self.buckets) {
            *into += from.load(Relaxed);
        }
        let sum = total.sum_nanos.wrapping_add(self.sum_nanos.load(Relaxed));
        total.sum_nanos = sum;
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_nanos: AtomicU64::new(0),
        }
    }
}

/// Where `nanos` is counted.
fn bucket_of(nanos: u64) -> usize {
    let octave = nanos.saturating_sub(1).checked_ilog2().unwrap_or(0);
    (octave + 1).clamp(LOW_BITS, HIGH_BITS + 1) as usize - LOW_BITS as usize
}

/// The longest duration that bucket `index` holds, in nanoseconds; none for the last, open one.
fn bound_of(index: usize) -> Option<u64> {
    (index + 1 < BUCKETS).then(|| 1 << (LOW_BITS as usize + index))
}

/// A sum of histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    buckets: [u64; BUCKETS],
    sum_nanos: u64,
}

impl Distribution {
    /// Nothing counted.
    pub const fn new() -> Self {
        Distribution { buckets: [0; BUCKETS], sum_nanos: 0 }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All counted durations together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos)
    }

    /// The upper bound of each bucket with how many durations are at or below it, and last `None`
    /// with all of them: the buckets of the text format (28 and the open one).
    pub fn octaves(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let mut seen = 0;
        self.buckets.iter().enumerate().map(move |(index, bucket)| {
            seen += bucket;
            (bound_of(index).map(Duration::from_nanos), seen)
        })
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_bucket(nanos: u64) {
        let index = bucket_of(nanos);
        if let Some(bound) = bound_of(index) {
            assert!(nanos <= bound, "{nanos} lies above its bucket {index}, which ends at {bound}");
        }
        let below = if index == 0 { None } else { bound_of(index - 1) };
        assert!(below.is_none_or(|below| nanos > below), "{nanos} lies below its bucket {index}");
    }

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for nanos in [0, 1, 2, 8_191, 8_192, 8_193, 16_384, 16_385, 1 << 40, (1 << 40) + 1] {
            check_bucket(nanos);
        }
        for octave in 0..64 {
            for part in 0..16 {
                let nanos = (1u64 << octave) + (1u64 << octave) / 16 * part;
                check_bucket(nanos);
                check_bucket(nanos + 1);
            }
        }
        check_bucket(u64::MAX);
    }

    #[test]
    fn histograms_of_several_shards_add_up() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.observe(Duration::from_millis(1));
        two.observe(Duration::from_secs(5000));
        let mut total = Distribution::new();
        one.add_to(&mut total);
        two.add_to(&mut total);
        assert_eq!((total.count(), total.sum()), (2, Duration::from_millis(5_000_001)));
        let told: Vec<_> = total.octaves().collect();
        assert_eq!(told.len(), BUCKETS);
        assert_eq!(told[0], (Some(Duration::from_nanos(8192)), 0));
        assert_eq!(told[BUCKETS - 2], (Some(Duration::from_nanos(1 << 40)), 1));
        assert_eq!(told[BUCKETS - 1], (None, 2));
    }
}
