//! Little by little: how much a worker gets that has just come, or come back.
//!
//! A process that has just begun has cold caches and code that is not compiled; given its full
//! share at once it answers late, and looks broken. For the ramp's time both its weight and its
//! slots grow in proportion to the time that has passed, as HAProxy's `slowstart` has it. Ours
//! differs: one slot and a hundredth of the weight are there from the beginning, so that there is
//! something to measure it by.

use crate::time::{Duration, Instant};

/// Full weight, in parts.
pub(crate) const FULL: u64 = 1000;
/// The least part of its weight that a worker has.
const LEAST: u64 = FULL / 100;

/// The climb of one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    began: Instant,
    time: Duration,
    /// The slots that it may use as yet.
    limit: u32,
}

impl Ramp {
    /// It begins now, with one slot.
    pub(crate) fn new(time: Duration, now: Instant) -> Ramp {
        Ramp { began: now, time, limit: 1 }
    }

    /// The slots that it may use as yet.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// The part of its weight that it has, of [`FULL`].
    pub(crate) fn part(&self, now: Instant) -> u64 {
        self.of(FULL, now).max(LEAST)
    }

    /// Let it have the slots, of `slots`, that are due now; is it at the top?
    pub(crate) fn climb(&mut self, slots: u32, now: Instant) -> bool {
        self.limit = (self.of(u64::from(slots), now) as u32).max(1);
        now.since(self.began) >= self.time
    }

    /// When the next of `slots` is due.
    pub(crate) fn next(&self, slots: u32) -> Instant {
        let steps = u128::from(self.limit.min(slots) + 1).min(u128::from(slots));
        let nanos = (self.time.as_nanos() * steps).div_ceil(u128::from(slots));
        self.began + Duration::from_nanos(nanos as u64)
    }

    /// What is due of `whole`.
    fn of(&self, whole: u64, now: Instant) -> u64 {
        let passed = now.since(self.began).min(self.time);
        (u128::from(whole) * passed.as_nanos() / self.time.as_nanos().max(1)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_and_slots_grow_with_the_time() {
        let began = Instant::from_millis(500);
        let mut ramp = Ramp::new(Duration::from_secs(10), began);
        for (percent, slots, next) in
            [(0, 1, 20), (19, 1, 20), (20, 2, 30), (25, 2, 30), (50, 5, 60), (99, 9, 100)]
        {
            let now = began + Duration::from_millis(percent * 100);
            assert!(!ramp.climb(10, now), "{percent} %");
            assert_eq!(ramp.limit(), slots, "{percent} %");
            assert_eq!(ramp.part(now), (percent * 10).max(10), "{percent} %");
            assert_eq!(ramp.next(10), began + Duration::from_millis(next * 100), "{percent} %");
        }
        let end = began + Duration::from_secs(10);
        assert!(ramp.climb(10, end) && ramp.limit() == 10 && ramp.part(end) == FULL);
    }

    #[test]
    fn a_single_slot_is_there_from_the_beginning() {
        let mut ramp = Ramp::new(Duration::from_secs(1), Instant::ZERO);
        assert_eq!(ramp.next(1), Instant::from_millis(1000));
        assert!(!ramp.climb(1, Instant::from_millis(999)) && ramp.climb(1, ramp.next(1)));
    }
}
