//! The only place where the machine's clock is read.
//!
//! Everything else takes `now` as an argument or asks here. The moment counts from the first
//! reading in this process, so that it is small, monotone, and means nothing outside of it.
//! The time of day is for records that people read; no decision may use it, since it jumps.

#![allow(clippy::disallowed_methods, reason = "the one file that reads the machine's clocks")]

use std::sync::OnceLock;

use spillgate_core::time::Instant;

static START: OnceLock<std::time::Instant> = OnceLock::new();

/// The present moment: nanoseconds since this process first asked. Monotone over all threads.
pub fn now() -> Instant {
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back() {
        let earlier = now();
        assert!(now() >= earlier);
    }
}
