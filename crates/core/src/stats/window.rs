//! The recent samples of a duration: the last so many, and none older than so long.
//!
//! Both bounds are needed. The count makes the picture follow a change within a known number of
//! samples however fast they come; the age makes it follow when they hardly come at all.

use std::collections::VecDeque;

use crate::time::{Duration, Instant};
use crate::units::Ratio;

use super::quantile::Buckets;

/// Recent samples of a duration. Memory: 16 bytes for each sample and 7.5 KiB; allocated at once.
#[derive(Clone, Debug)]
pub struct Window {
    samples: VecDeque<Sample>,
    len_max: usize,
    age_max: Duration,
    sum: u64,
    buckets: Buckets,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    nanos: u64,
}

/// Longest duration that counts as itself; a longer one counts as this. Keeps the sum of a full
/// window far from overflow.
const SAMPLE_MAX: Duration = Duration::from_secs(24 * 3600);

impl Window {
    /// An empty window of at most `len_max` samples (at least 1), each at most `age_max` old.
    pub fn new(len_max: u16, age_max: Duration, followed: Ratio) -> Self {
        let len_max = usize::from(len_max.max(1));
        let samples = VecDeque::with_capacity(len_max);
        Window { samples, len_max, age_max, sum: 0, buckets: Buckets::new(followed) }
    }

    /// Add a sample.
    pub fn push(&mut self, duration: Duration, now: Instant) {
        if self.samples.len() == self.len_max {
            self.forget_oldest();
        }
        let nanos = duration.min(SAMPLE_MAX).as_nanos() as u64;
        self.samples.push_back(Sample { at: now, nanos });
        self.sum += nanos;
        self.buckets.insert(nanos);
    }

    /// Forget what is too old at `now`; whether anything was.
    #[inline]
    pub fn forget_old(&mut self, now: Instant) -> bool {
        let is_any = self.is_oldest_old(now);
        if is_any {
            self.forget_all_old(now);
        }
        is_any
    }

    #[inline]
    fn is_oldest_old(&self, now: Instant) -> bool {
        self.samples.front().is_some_and(|oldest| now.since(oldest.at) > self.age_max)
    }

    #[cold]
    fn forget_all_old(&mut self, now: Instant) {
        while self.is_oldest_old(now) {
            self.forget_oldest();
        }
    }

    /// Forget everything.
    pub fn clear(&mut self) {
        while !self.samples.is_empty() {
            self.forget_oldest();
        }
    }

    /// How many samples there are.
    pub fn len(&self) -> u32 {
        self.buckets.total()
    }

    /// Is there no sample?
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The mean; none without samples.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.samples.len() as u64;
        self.sum.checked_div(count).map(Duration::from_nanos)
    }

    /// The followed quantile; none without samples.
    pub fn followed(&mut self) -> Option<Duration> {
        self.buckets.followed()
    }

    /// Any quantile, by a sweep; none without samples.
    pub fn quantile(&self, quantile: Ratio) -> Option<Duration> {
        self.buckets.quantile(quantile)
    }

    fn forget_oldest(&mut self) {
        if let Some(sample) = self.samples.pop_front() {
            self.sum -= sample.nanos;
            self.buckets.remove(sample.nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn filled(len_max: u16, samples: u64) -> Window {
        let mut window = Window::new(len_max, Duration::from_secs(60), Ratio::from_percent(50));
        for sample in 1..=samples {
            window.push(millis(sample), Instant::from_millis(sample * 1000));
        }
        window
    }

    #[test]
    fn the_count_is_bounded() {
        let window = filled(4, 10);
        assert_eq!(window.len(), 4);
        assert_eq!(window.mean(), Some(Duration::from_micros(8500)));
    }

    #[test]
    fn old_samples_are_forgotten() {
        let mut window = filled(100, 10);
        window.forget_old(Instant::from_millis(68_000));
        assert_eq!(window.len(), 3);
        window.forget_old(Instant::from_millis(71_000));
        assert!(window.is_empty());
        assert_eq!((window.mean(), window.followed()), (None, None));
    }

    #[test]
    fn a_day_is_the_longest_sample() {
        let mut window = Window::new(3, Duration::MAX, Ratio::from_percent(50));
        for _ in 0..5 {
            window.push(Duration::MAX, Instant::ZERO);
        }
        assert_eq!(window.mean(), Some(SAMPLE_MAX));
    }
}
