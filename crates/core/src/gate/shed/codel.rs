//! Does the line stand?
//!
//! CoDel (Nichols and Jacobson, ACM Queue 2012) as services use it (Facebook's folly,
//! `executors/Codel`; "Fail at Scale", ACM Queue 2015): a line is good while somebody in each
//! interval waits for less than the target, however long others do, since then it empties; the
//! *minimum* tells a burst from a standing line. As in folly, who waited for more than twice the
//! target is dropped while it stands, and the first of an interval never.
//!
//! Ours differs: folly's 5 ms and 100 ms are right for services that answer within milliseconds.
//! The target is a quarter of the mean service time, from 5 to 250 ms, and the interval twice that
//! time, from 100 ms.

use crate::time::{Duration, Instant};

const TARGET_MIN: Duration = Duration::from_millis(5);
const TARGET_MAX: Duration = Duration::from_millis(250);
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The waits of the present interval, and the verdict on the last.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// When the present interval ends; none: none has begun.
    end: Option<Instant>,
    least: Duration,
    target: Duration,
    stands: bool,
}

impl Standing {
    /// Nobody waits.
    pub(super) fn clear(&mut self) {
        *self = Standing::default();
    }

    /// Somebody got a slot after this wait; `mean` is the mean service time.
    pub(super) fn sample(&mut self, wait: Duration, mean: Duration, now: Instant) {
        match self.end {
            Some(end) if now < end => self.least = self.least.min(wait),
            ended => {
                self.stands = ended.is_some() && self.least > self.target;
                self.least = wait;
                self.target = (mean / 4).clamp(TARGET_MIN, TARGET_MAX);
                self.end = Some(now + (mean * 2).max(INTERVAL_MIN));
            }
        }
    }

    /// Did the line stand throughout the last interval?
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// Has one who waited so long waited for too long?
    pub(super) fn drops(&self, wait: Duration) -> bool {
        self.stands && wait > self.target * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(40);

    /// Waits in milliseconds, one each 10 ms.
    fn after(waits: impl IntoIterator<Item = u64>) -> Standing {
        let mut standing = Standing::default();
        for (wait, at) in waits.into_iter().zip(0..) {
            standing.sample(Duration::from_millis(wait), MEAN, Instant::from_millis(at * 10));
        }
        standing
    }

    #[test]
    fn a_line_stands_when_nobody_in_an_interval_waited_for_less_than_the_target() {
        assert!(!after([50; 10]).stands(), "the interval is not over");
        assert!(after([50; 11]).stands());
        assert!(!after([50, 50, 50, 9, 50, 50, 50, 50, 50, 50, 50]).stands(), "it emptied once");
        assert!(after((0..11).map(|at| 11 + at)).stands());
        let mut standing = after([50; 11]);
        assert!(standing.drops(Duration::from_millis(21)));
        assert!(!standing.drops(Duration::from_millis(20)), "twice the target");
        standing.clear();
        assert!(!standing.drops(Duration::from_millis(21)));
    }

    #[test]
    fn the_target_follows_the_service_time() {
        let mut standing = Standing::default();
        for at in 0..3 {
            let (wait, mean) = (Duration::from_millis(200), Duration::from_secs(1));
            standing.sample(wait, mean, Instant::from_millis(at * 2000));
        }
        assert!(!standing.stands(), "a quarter of a second is the target");
    }
}
