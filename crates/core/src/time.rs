//! The one clock reading of the whole product, as a plain number.
//!
//! A machine gets it as `now`. Only `runtime::clock` makes one from the machine's clock, and the
//! simulator makes them up. Nothing here reads a clock.

use std::ops::{Add, Sub};

pub use std::time::Duration;

/// A moment: nanoseconds since the process (or the simulated world) began.
///
/// Monotone. Range: 584 years. Arithmetic saturates instead of wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The beginning of time.
    pub const ZERO: Instant = Instant(0);
    /// Later than any moment that happens: "never".
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The moment `nanos` nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The moment `millis` milliseconds after the beginning.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The nanoseconds of `duration`; 584 years for a longer one.
#[inline]
const fn nanos_of(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

impl Add<Duration> for Instant {
    type Output = Instant;

    #[inline]
    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos_of(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    #[inline]
    fn sub(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos_of(rhs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::from_millis(1).since(Instant::from_millis(3)), Duration::ZERO);
        assert_eq!(Instant::from_millis(3).since(Instant::from_millis(1)).as_millis(), 2);
    }
}
