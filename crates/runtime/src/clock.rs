//! The only place where the machine's clock is read.
//!
//! Everything else takes `now` as an argument or asks here. The moment counts from the first
//! reading in this process, so that it is small, monotone, and means nothing outside of it.
//! Absent: wall-clock time for logs, which is read where a record is written.

use std::sync::OnceLock;

use spillgate_core::time::Instant;

static START: OnceLock<std::time::Instant> = OnceLock::new();

/// The present moment: nanoseconds since this process first asked. Monotone over all threads.
pub fn now() -> Instant {
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
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
