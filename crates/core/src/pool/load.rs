//! Fewer slots for a worker that reports on its answers that it has more than it can do.
//!
//! A worker that holds `k` exchanges and is at 125 % of what it can do well can do `k / 1.25` of
//! them. So is its limit set, and raised by one when it reports that it is not too busy. Once a
//! second at most, the period of Envoy's client-side weighted round robin, for the reports that
//! follow a cut are of exchanges from before it.
//!
//! Ours differs from that: there the utilisation is turned into a weight for choosing among
//! workers. With one queue for all, whoever has a free slot is given the next exchange, so it is
//! the number of slots that says how much a worker gets. A worker with one slot keeps it.
//!
//! Absent: a fast way to more than the configured slots. That number is never passed.

use crate::time::{Duration, Instant};

/// Time between two changes: Envoy's `weight_update_period`.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// A worker that has reported nothing for so long is no longer cut: ORCA's default period of
/// reports out of band.
const REPORT_AGE_MAX: Duration = Duration::from_secs(10);
/// All that a worker can do well, in parts per million.
const FULL: u64 = 1_000_000;

/// What the reports of one worker have made of its slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// The slots that it may use; none: all.
    limit: Option<u32>,
    heard: Instant,
    changed: Instant,
}

impl Load {
    /// The worker, with `in_flight` exchanges in it and at most `slots`, reports that it is at
    /// `utilization` parts per million.
    pub(crate) fn hear(&mut self, utilization: u32, in_flight: u32, slots: u32, now: Instant) {
        self.heard = now;
        let is_due = self.limit.is_none() || now >= self.changed + CHANGE_INTERVAL;
        if !is_due {
            return;
        }
        let before = self.limit;
        self.limit = if u64::from(utilization) > FULL {
            let can = u64::from(in_flight) * FULL / u64::from(utilization);
            Some((can as u32).clamp(1, slots))
        } else {
            before.map(|limit| limit + 1).filter(|limit| *limit < slots)
        };
        if self.limit != before {
            self.changed = now;
        }
    }

    /// Forget what was reported too long ago.
    pub(crate) fn lapse(&mut self, now: Instant) {
        if now > self.heard + REPORT_AGE_MAX {
            self.limit = None;
        }
    }

    /// How many of `slots` it may use.
    pub(crate) fn limit(&self, slots: u32) -> u32 {
        self.limit.unwrap_or(slots).min(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports at moments (in milliseconds), with what is in the worker; then its limit of 8.
    #[track_caller]
    fn check(reports: &[(u64, u32, u32)], expected: u32) {
        let mut load = Load::default();
        for (millis, percent, in_flight) in reports {
            load.hear(percent * 10_000, *in_flight, 8, Instant::from_millis(*millis));
        }
        assert_eq!(load.limit(8), expected, "{reports:?}");
    }

    #[test]
    fn too_busy_means_fewer_and_well_means_one_more() {
        check(&[], 8);
        check(&[(0, 90, 8)], 8);
        check(&[(0, 200, 8)], 4);
        check(&[(0, 101, 1)], 1);
        check(&[(0, 10_000, 8)], 1);
        // What is reported right after a cut is of before it.
        check(&[(0, 200, 8), (5, 200, 7), (999, 50, 4)], 4);
        check(&[(0, 200, 8), (1000, 200, 4)], 2);
        check(&[(0, 200, 8), (1000, 90, 4)], 5);
        check(&[(0, 125, 8), (1000, 90, 6), (2000, 90, 7)], 8);
    }

    #[test]
    fn silence_takes_a_cut_back() {
        let mut load = Load::default();
        load.hear(2_000_000, 8, 8, Instant::ZERO);
        load.lapse(Instant::ZERO + REPORT_AGE_MAX);
        assert_eq!(load.limit(8), 4);
        load.lapse(Instant::ZERO + REPORT_AGE_MAX + Duration::from_millis(1));
        assert_eq!(load.limit(8), 8);
    }
}
