//! The only place where the machine's clock is read.
//!
//! Everything else takes `now` as an argument or asks here. The moment counts from the first
//! reading in this process, so that it is small, monotone, and means nothing outside of it.
//! The time of day is for records that people read; no decision may use it, since it jumps.

#![allow(clippy::disallowed_methods, reason = "the one file that reads the machine's clocks")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spillgate_core::time::{Duration, Instant};

use crate::sys;

/// The machine's own number of the moment that counts as the beginning; zero: nobody has asked yet.
static START: AtomicU64 = AtomicU64::new(0);

/// The present moment: nanoseconds since this process first asked. Monotone over all threads.
///
/// Asked several times in each exchange, hence without the checks and conversions of the standard
/// library's clock.
#[inline]
pub fn now() -> Instant {
    let now = sys::clock::monotonic();
    let start = match START.load(Relaxed) {
        0 => begin(now),
        start => start,
    };
    Instant::from_nanos(now.saturating_sub(start))
}

/// The first to ask decides.
#[cold]
fn begin(now: u64) -> u64 {
    START.compare_exchange(0, now, Relaxed, Relaxed).map_or_else(|start| start, |_| now)
}

/// The time of day: since 1970-01-01T00:00:00Z, without leap seconds. Zero when the machine's clock
/// stands before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Whole seconds.
    pub seconds: u64,
    /// Nanoseconds beyond them; below 1,000,000,000.
    pub nanos: u32,
}

/// The time of day at this moment. May jump, in both directions.
pub fn wall() -> WallTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or_else(
        |_| WallTime::default(),
        |since| WallTime { seconds: since.as_secs(), nanos: since.subsec_nanos() },
    )
}

impl WallTime {
    /// The time of day so much later.
    pub fn after(self, time: Duration) -> WallTime {
        let nanos = self.nanos + time.subsec_nanos();
        let carry = u64::from(nanos >= 1_000_000_000);
        WallTime {
            seconds: self.seconds.saturating_add(time.as_secs()).saturating_add(carry),
            nanos: if carry == 1 { nanos - 1_000_000_000 } else { nanos },
        }
    }
}

/// Tells the time of day of moments, and reads the clock for it now and then only.
#[derive(Clone, Copy, Debug, Default)]
pub struct DayClock {
    read_at: Instant,
    wall: WallTime,
}

impl DayClock {
    /// Longest time between two readings: a clock that is set shows in records after this at last.
    const READ_INTERVAL: Duration = Duration::from_millis(100);

    /// The time of day at `moment`, which is about now.
    pub fn at(&mut self, moment: Instant) -> WallTime {
        let since = moment.since(self.read_at);
        if since < Self::READ_INTERVAL && self.wall.seconds > 0 {
            return self.wall.after(since);
        }
        *self = DayClock { read_at: moment, wall: wall() };
        self.wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_goes_on_over_the_second() {
        let wall = WallTime { seconds: 7, nanos: 999_999_999 };
        let later = wall.after(Duration::new(1, 1));
        assert_eq!(later, WallTime { seconds: 9, nanos: 0 });
        let mut clock = DayClock::default();
        let (first, now) = (clock.at(Instant::ZERO), Duration::from_millis(5));
        assert_eq!(clock.at(Instant::ZERO + now), first.after(now));
    }

    #[test]
    fn time_does_not_go_back() {
        let earlier = now();
        assert!(now() >= earlier);
    }
}
