//! Does a line grow that nobody set a bound in time to?
//!
//! Where answers are promised within a time, the promise says when a line is too long. Without one
//! a hundred places in front of eight workers of half a second take half a minute to fill at 1.2
//! times the capacity, and whoever comes meanwhile waits the longer the later. So there excess also
//! begins when a line that has been long for a while has become longer by as many as there are
//! slots.
//!
//! A crowd makes a line that is as long, but it comes within that while, and from then on the line
//! shrinks: nobody is shed for it. What begins by mistake finds that nothing is too much, and ends.
//!
//! Source: our own; a cumulative sum against its least value, as Page's test (1954) has it, of the
//! arrivals less the grants. Absent: waits, which those who are more important or short do not have
//! however long the line is.

use crate::time::{Duration, Instant};

/// A wait that nobody notices (Miller, "Response time in man-computer conversational
/// transactions", 1968: a tenth of a second seems to be no time at all).
const WAIT_MIN: Duration = Duration::from_millis(100);
/// A wait that is long beside what is waited for: so many times the mean service time.
const WAIT_TIMES: u32 = 2;
/// The while within which a crowd comes: so many service times, or the least.
const CROWD_TIMES: u32 = 4;
const CROWD_MIN: Duration = Duration::from_millis(200);
/// The least growth that is no chance, in front of few slots. At 0.7 times the capacity one line in
/// a thousand grows so much before it shrinks.
const GROWTH_MIN: u32 = 8;

/// A line since it is long.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Since when; none: it is not long.
    since: Option<Instant>,
    /// How short it was since then, the while of a crowd left out.
    least: u32,
}

impl Growth {
    /// So many wait for `slots` slots while one comes, and the mean service time is `mean`: does
    /// the line grow although it has been long for a while?
    pub(super) fn grows(&mut self, waiting: u32, slots: u32, mean: Duration, now: Instant) -> bool {
        let wait = mean.saturating_mul(waiting) / slots.max(1);
        if wait <= WAIT_MIN.max(mean.saturating_mul(WAIT_TIMES)) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) <= CROWD_MIN.max(mean.saturating_mul(CROWD_TIMES)) {
            self.least = waiting;
            return false;
        }
        self.least = self.least.min(waiting);
        waiting - self.least >= slots.max(GROWTH_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After these lengths of a line for so many slots of so many milliseconds, one each 10 ms.
    fn grows(slots: u32, mean: u64, lens: impl IntoIterator<Item = u32>) -> bool {
        let mut growth = Growth::default();
        let mean = Duration::from_millis(mean);
        let lens = lens.into_iter().zip(0u64..);
        let each = |(len, at)| growth.grows(len, slots, mean, Instant::from_millis(10 * at));
        lens.map(each).last().unwrap_or_default()
    }

    #[test]
    fn a_long_line_that_becomes_longer_grows() {
        let crowd = || [0].into_iter().chain([80; 21]);
        assert!(grows(10, 50, crowd().chain(80..=90)), "by ten");
        assert!(!grows(10, 50, crowd().chain(80..90)));
        assert!(!grows(10, 50, (0..210).step_by(10)), "a crowd comes");
        assert!(grows(10, 50, (0..270).step_by(10)), "it comes for too long");
        assert!(!grows(10, 50, crowd().chain((21..80).rev())), "it shrinks");
        assert!(grows(10, 50, crowd().chain((40..80).rev()).chain(40..=50)), "it grows again");
        assert!(!grows(10, 50, crowd().chain([20]).chain(80..100)), "it was short meanwhile");
    }

    #[test]
    fn what_is_long_follows_the_service_time() {
        let steps = |to| (0..=to).flat_map(|len| [len; 8]);
        assert!(!grows(10, 5, steps(200)), "a wait of a tenth of a second");
        assert!(grows(10, 5, steps(220)));
        assert!(!grows(1, 50, steps(10)), "few slots");
        assert!(grows(1, 50, steps(14)));
        assert!(!grows(10, 0, steps(500)), "nothing is known");
    }
}
