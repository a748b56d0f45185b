//! Quantiles of durations, from counts in buckets.
//!
//! Buckets are log-linear: 32 to each power of two, as in HdrHistogram (Tene), so a quantile is at
//! most 3.2 % too high and never too low. Unlike there, samples are also taken out again (a window
//! forgets), and one quantile is followed by a cursor, so reading it costs a few steps and not a
//! sweep over all buckets.

use crate::time::Duration;
use crate::units::Ratio;

/// Linear buckets within one power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Buckets for every `u64` of nanoseconds.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of durations, with one quantile followed. Memory: 7.5 KiB.
#[derive(Clone, Debug)]
pub struct Buckets {
    counts: Box<[u32]>,
    total: u32,
    followed: Ratio,
    /// The bucket in which the followed quantile was found last.
    cursor: usize,
    /// How many samples lie in buckets before `cursor`.
    below: u32,
}

impl Buckets {
    /// No samples; `followed` is the quantile that [`Buckets::followed`] reads.
    pub fn new(followed: Ratio) -> Self {
        let counts = vec![0; BUCKETS].into_boxed_slice();
        Buckets { counts, total: 0, followed, cursor: 0, below: 0 }
    }

    /// How many samples there are.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Count a sample.
    pub fn insert(&mut self, nanos: u64) {
        let bucket = bucket_of(nanos);
        self.counts[bucket] += 1;
        self.total += 1;
        self.below += u32::from(bucket < self.cursor);
    }

    /// Take a sample out that was counted before.
    pub fn remove(&mut self, nanos: u64) {
        let bucket = bucket_of(nanos);
        self.counts[bucket] -= 1;
        self.total -= 1;
        self.below -= u32::from(bucket < self.cursor);
    }

    /// The followed quantile: the upper end of its bucket; none without samples.
    pub fn followed(&mut self) -> Option<Duration> {
        let rank = rank(self.followed, self.total)?;
        while self.below >= rank {
            self.cursor -= 1;
            self.below -= self.counts[self.cursor];
        }
        while self.below + self.counts[self.cursor] < rank {
            self.below += self.counts[self.cursor];
            self.cursor += 1;
        }
        Some(Duration::from_nanos(upper_end(self.cursor)))
    }

    /// Any quantile, by a sweep over the buckets; none without samples.
    pub fn quantile(&self, quantile: Ratio) -> Option<Duration> {
        let rank = rank(quantile, self.total)?;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bucket.map(|bucket| Duration::from_nanos(upper_end(bucket)))
    }
}

/// The place of a quantile among `total` sorted samples, from 1; none without samples.
fn rank(quantile: Ratio, total: u32) -> Option<u32> {
    let scaled = u64::from(total) * u64::from(quantile.as_ppm());
    let rank = scaled.div_ceil(1_000_000).max(1) as u32;
    (total > 0).then_some(rank)
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < SUB as u64 {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - SUB_BITS;
    let sub = (nanos >> shift) as usize & (SUB - 1);
    (shift as usize + 1) * SUB + sub
}

fn upper_end(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = (bucket / SUB - 1) as u32;
    let lower = ((SUB + bucket % SUB) as u64) << shift;
    lower + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for bucket in 1..BUCKETS {
            let first = upper_end(bucket - 1) + 1;
            assert_eq!(bucket_of(first), bucket);
            assert_eq!(bucket_of(upper_end(bucket)), bucket);
        }
        assert_eq!(upper_end(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn without_samples_there_is_no_quantile() {
        let mut buckets = Buckets::new(Ratio::from_percent(90));
        assert_eq!(buckets.followed(), None);
        buckets.insert(7);
        assert_eq!(buckets.followed(), Some(Duration::from_nanos(7)));
        buckets.remove(7);
        assert_eq!(buckets.followed(), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_never_too_low_and_at_most_one_bucket_too_high(
            samples in prop::collection::vec(1u64..100_000_000_000, 1..200),
            keep in 1usize..100,
            percent in 0u32..=100,
        ) {
            let followed = Ratio::from_percent(percent);
            let mut buckets = Buckets::new(followed);
            for (index, sample) in samples.iter().enumerate() {
                buckets.insert(*sample);
                if index >= keep {
                    buckets.remove(samples[index - keep]);
                }
                buckets.followed();
            }
            let mut kept = samples[samples.len().saturating_sub(keep)..].to_vec();
            kept.sort_unstable();
            let rank = (kept.len() * percent as usize).div_ceil(100).max(1);
            let exact = kept[rank - 1];
            let found = buckets.followed().expect("samples are kept").as_nanos() as u64;
            prop_assert!(found >= exact && found - exact <= exact / 31);
            prop_assert_eq!(buckets.quantile(followed), buckets.followed());
        }
    }
}
