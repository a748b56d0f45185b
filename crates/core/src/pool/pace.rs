//! How long a worker takes, as far as it matters for choosing among workers.
//!
//! Peak EWMA (Finagle, Twitter 2014): the mean of the recent times, weighted by age, but a time
//! above the mean becomes the mean at once, so that a worker that slows down is left alone at once
//! and is given more only little by little. While nothing is heard it decays, so that a worker that
//! was slow once is tried again.
//!
//! Ours differs: the decay is hyperbolic (`t / (t + age)`) instead of exponential, for integers;
//! and a failure, however fast, counts as a slow answer, so that who fails at once does not look
//! fast.

use crate::time::{Duration, Instant};

/// After so long a time counts half. Finagle's default.
const DECAY: Duration = Duration::from_secs(10);
/// The slowest that a worker can look: a minute.
const MICROS_MAX: u64 = 60_000_000;

/// The pace of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Microseconds; none: nothing was measured.
    micros: Option<u64>,
    at: Instant,
}

impl Pace {
    /// An exchange took so long.
    pub(crate) fn took(&mut self, time: Duration, now: Instant) {
        let time = (time.as_micros() as u64).clamp(1, MICROS_MAX);
        let mean = self.micros.unwrap_or(0);
        let mean = if time >= mean { time } else { weighted(mean, time, now.since(self.at)) };
        (self.micros, self.at) = (Some(mean), now);
    }

    /// An exchange failed. `usual` is what they take in the pool.
    pub(crate) fn failed(&mut self, usual: Duration, now: Instant) {
        let usual = (usual.as_micros() as u64).max(1);
        let as_slow = self.micros(now).unwrap_or(0).max(usual).saturating_mul(2);
        (self.micros, self.at) = (Some(as_slow.min(MICROS_MAX)), now);
    }

    /// Microseconds that an exchange takes; none: nobody knows.
    pub(crate) fn micros(&self, now: Instant) -> Option<u64> {
        Some(weighted(self.micros?, 0, now.since(self.at)).max(1))
    }
}

/// `old` and `new` together, `new` with the more weight the longer `old` is ago.
fn weighted(old: u64, new: u64, age: Duration) -> u64 {
    let (decay, age) = (DECAY.as_micros() as u64, (age.as_micros() as u64).min(1 << 36));
    let sum = u128::from(old) * u128::from(decay) + u128::from(new) * u128::from(age);
    (sum / u128::from(decay + age)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Times in milliseconds with their moments; then the pace at a moment, in milliseconds.
    #[track_caller]
    fn check(times: &[(u64, u64)], at: u64, expected: Option<u64>) {
        let mut pace = Pace::default();
        for (moment, time) in times {
            pace.took(millis(*time), Instant::from_millis(*moment));
        }
        let micros = pace.micros(Instant::from_millis(at));
        assert_eq!(micros.map(|micros| micros / 1000), expected, "{times:?} at {at}");
    }

    #[test]
    fn it_rises_at_once_and_falls_by_and_by() {
        check(&[], 0, None);
        check(&[(0, 20)], 0, Some(20));
        check(&[(0, 20), (1, 300)], 1, Some(300));
        // After ten seconds both count half: (300 + 20) / 2.
        check(&[(0, 300), (10_000, 20)], 10_000, Some(160));
        // Nothing is heard for ten seconds, then for thirty more.
        check(&[(0, 300)], 10_000, Some(150));
        check(&[(0, 300)], 40_000, Some(60));
        check(&[(0, 300_000)], 0, Some(60_000));
    }

    #[test]
    fn who_fails_fast_looks_slow() {
        let mut pace = Pace::default();
        pace.failed(millis(50), Instant::ZERO);
        assert_eq!(pace.micros(Instant::ZERO), Some(100_000));
        pace.failed(millis(50), Instant::ZERO);
        assert_eq!(pace.micros(Instant::ZERO), Some(200_000));
        (0..100).for_each(|_| pace.failed(millis(50), Instant::ZERO));
        assert_eq!(pace.micros(Instant::ZERO), Some(MICROS_MAX));
    }
}
