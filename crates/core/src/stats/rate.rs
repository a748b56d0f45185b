//! How often something happened within the last few seconds.
//!
//! A ring of slices: adding is one increment, and the whole forgets slice by slice. The window is
//! therefore between nine and ten slices long, which is exact enough for a budget.

use crate::time::{Duration, Instant};

const SLICES: usize = 10;

/// A count over a sliding window.
#[derive(Clone, Debug)]
pub struct Rate {
    slices: [u32; SLICES],
    slice_nanos: u64,
    /// The number of the slice that counts at present, since the beginning of time.
    current: u64,
    total: u32,
}

impl Rate {
    /// Nothing happened; the window is `window` long (at least 10 ns).
    pub fn new(window: Duration, now: Instant) -> Self {
        let slice_nanos = (window.as_nanos() as u64 / SLICES as u64).max(1);
        let current = now.as_nanos() / slice_nanos;
        Rate { slices: [0; SLICES], slice_nanos, current, total: 0 }
    }

    /// It happened once more.
    pub fn count(&mut self, now: Instant) {
        self.advance(now);
        let slice = &mut self.slices[(self.current % SLICES as u64) as usize];
        *slice = slice.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// How often it happened within the window.
    pub fn total(&mut self, now: Instant) -> u32 {
        self.advance(now);
        self.total
    }

    /// How often it happened within the window, without forgetting what is older.
    pub fn peek(&self, now: Instant) -> u32 {
        let slice = now.as_nanos() / self.slice_nanos;
        let passed = slice.saturating_sub(self.current).min(SLICES as u64);
        let kept = (SLICES as u64 - passed).min(self.current + 1);
        let counts =
            (0..kept).map(|back| self.slices[((self.current - back) % SLICES as u64) as usize]);
        counts.fold(0, u32::saturating_add)
    }

    fn advance(&mut self, now: Instant) {
        let slice = now.as_nanos() / self.slice_nanos;
        if slice <= self.current {
            return;
        }
        if slice - self.current >= SLICES as u64 {
            self.slices = [0; SLICES];
        } else {
            for passed in self.current + 1..=slice {
                self.slices[(passed % SLICES as u64) as usize] = 0;
            }
        }
        self.current = slice;
        self.total = self.slices.iter().fold(0, |sum, count| sum.saturating_add(*count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut rate = Rate::new(Duration::from_secs(10), Instant::ZERO);
        for second in 0..20 {
            rate.count(Instant::from_millis(second * 1000 + 500));
        }
        for (millis, total) in [(19_600, 10), (20_100, 9), (25_000, 4), (28_999, 1), (29_000, 0)] {
            assert_eq!(rate.peek(Instant::from_millis(millis)), total, "at {millis} ms");
            assert_eq!(rate.total(Instant::from_millis(millis)), total, "at {millis} ms");
        }
    }

    #[test]
    fn time_that_stands_still_or_leaps_is_no_trouble() {
        let mut rate = Rate::new(Duration::from_secs(10), Instant::from_millis(5000));
        rate.count(Instant::ZERO);
        assert_eq!(rate.total(Instant::from_millis(5000)), 1);
        assert_eq!(rate.total(Instant::FAR_FUTURE), 0);
    }
}
