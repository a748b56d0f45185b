//! Keeping the slots of a pool out of step.
//!
//! Workers that take equally long and began together end together, round after round: all slots
//! come free at once, and somebody important who comes a moment later waits for a whole service
//! time although a slot comes free, on the average, eight times within it. Nothing of chance breaks
//! that up where service times are constant.
//!
//! So under excess the classes that are shed anyhow get slots no closer after one another than
//! two thirds of the time between two ends, *service time ÷ slots*: once, at the beginning, the
//! slots are spread over two thirds of a service time, and from then on they come free that far
//! apart, so nothing is held back any more. Whoever is more important takes any free slot at once.
//! It costs a third of a service time of each slot, once for each excess. A third of the time is
//! left as play, so that a worker that is late now and then holds up nobody else.
//!
//! Where service times vary they put themselves out of step, and where all are of one class nobody
//! would gain: there it does nothing.
//!
//! Source: our own. The effect is that of a vacation that is spread, as staggered shifts are.

use crate::time::{Duration, Instant};

/// Slots are given no closer than this part of the time between two ends.
const PARTS: (u32, u32) = (2, 3);
/// Service times vary little when their quantile is at most so many percent of their mean.
const STEADY_PERCENT: u32 = 115;

/// When the classes that are shed got their last slot.
#[derive(Debug, Default)]
pub(super) struct Phases {
    last: Option<Instant>,
}

impl Phases {
    /// A slot was given.
    pub(super) fn granted(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// Until when the next one is kept for the more important; the past: it is not. `mean` and
    /// `expected` are the mean and a high quantile of the service times.
    pub(super) fn kept_until(&self, mean: Duration, expected: Duration, slots: u32) -> Instant {
        let is_steady = expected <= mean.saturating_mul(STEADY_PERCENT) / 100;
        match self.last {
            Some(last) if is_steady => last + mean.saturating_mul(PARTS.0) / PARTS.1 / slots.max(1),
            _ => Instant::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_kept_for_two_thirds_of_the_time_between_two_ends() {
        let millis = Duration::from_millis;
        let mut phases = Phases::default();
        assert_eq!(phases.kept_until(millis(60), millis(60), 8), Instant::ZERO);
        phases.granted(Instant::from_millis(100));
        assert_eq!(phases.kept_until(millis(60), millis(62), 8), Instant::from_millis(105));
        assert_eq!(phases.kept_until(millis(60), millis(80), 8), Instant::ZERO);
    }
}
