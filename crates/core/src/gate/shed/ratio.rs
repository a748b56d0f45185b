//! What share of the arrivals is too much, and whom it takes.
//!
//! The rejector of Uber's Cinnamon (2023; ported in failsafe-go): a PI controller gives the share
//! to be turned away, and the priority at that quantile of the recent arrivals is the threshold, so
//! that the least important go. Ours differs in four things.
//! - The port adds a windowed integral to a ratio that is itself accumulated, and so integrates
//!   twice. Here the ratio is proportional part plus integral, which is kept within 0 and 1
//!   (position form with anti-windup).
//! - The error is the share that the measured arrivals and grants call for, less the present ratio.
//!   Divided by the arrivals and not by the grants, its gain is the same at 1.1 times the capacity
//!   and at ten times; and it needs no knowledge of whether the threshold could split the arrivals
//!   (it cannot when all come from one user).
//! - Cinnamon begins when its queue was not empty once in ten seconds, and ends when it is empty.
//!   Here the caller says when it is certain that not everybody can be served, and it ends when the
//!   arrivals call for nothing any more and either the ratio has followed or the line was empty: a
//!   short line is empty by chance now and then, but hardly when few come for a whole step as well.
//!   In front of few slots a step is long, and the ratio would follow for many seconds.
//! - The ratio also says how long a line is needed.

use crate::time::{Duration, Instant};
use crate::units::Ratio;

use super::super::{Class, Cohort, Priority};

/// Least time between two steps of the controller. Cinnamon's is 500 ms; the answer to a spike
/// should not take seconds, and a step is some additions.
const PERIOD_MIN: Duration = Duration::from_millis(100);
/// The longest, where few come.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// Arrivals and grants that a step should rest on.
const OFFERED_MIN: u32 = 20;
const SERVED_MIN: u32 = 4;
/// The gain of the error itself: a tenth, as in the port.
const GAIN_DIVISOR: i64 = 10;
/// The gain of its sum, for each step: three tenths. Four steps take it three quarters of the way,
/// and what chance does to 40 arrivals in a step moves it by 6 %, not by 15 %.
const SUM_GAIN_PERCENT: i64 = 30;
/// Recent arrivals whose priorities are remembered; then all counts are halved.
const RECENT: u32 = 1000;
/// Waiting exchanges beyond the slots, times the ratio. A line of k in front of workers that get
/// 1/(1 - ratio) times what they can do is empty with a probability that falls with k times the
/// ratio; at four, for service times that vary little, it is 0.1 %.
const LINE: u64 = 4_000_000;

/// The ratio below which it is over: what chance does to the arrivals is more.
const OVER: Ratio = Ratio::from_percent(2);

const ONE: i64 = 1_000_000;

/// What a step of the controller found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Too much comes, or it is not time for a step.
    GoesOn,
    /// Everybody can be served.
    Over,
}

/// The controller, in parts per million.
#[derive(Debug)]
pub(super) struct Rejector {
    sum: i64,
    ratio: Ratio,
    offered: u32,
    served: u32,
    /// Nobody waited at some moment of this step.
    emptied: bool,
    period_began: Instant,
    /// Arrivals by priority.
    recent: Box<[u16; Priority::COUNT]>,
    recent_total: u32,
    /// The last priority that is let in.
    threshold: usize,
    /// Somebody came who is of a more important class than that.
    any_above: bool,
}

impl Rejector {
    pub(super) fn new() -> Self {
        Rejector {
            sum: 0,
            ratio: Ratio::from_ppm(0),
            offered: 0,
            served: 0,
            emptied: false,
            period_began: Instant::ZERO,
            recent: Box::new([0; Priority::COUNT]),
            recent_total: 0,
            threshold: Priority::COUNT,
            any_above: false,
        }
    }

    /// Begin to measure.
    pub(super) fn begin(&mut self, now: Instant) {
        self.clear();
        self.period_began = now;
    }

    /// Forget what was measured.
    pub(super) fn clear(&mut self) {
        (self.sum, self.ratio) = (0, Ratio::from_ppm(0));
        (self.offered, self.served, self.emptied) = (0, 0, false);
        (self.threshold, self.any_above) = (Priority::COUNT, false);
        self.recent.fill(0);
        self.recent_total = 0;
    }

    /// An exchange came.
    pub(super) fn offered(&mut self, priority: Priority, mean: Duration, now: Instant) -> Course {
        self.offered += 1;
        if self.recent_total >= RECENT {
            self.recent.iter_mut().for_each(|count| *count /= 2);
            self.recent_total = self.recent.iter().map(|count| u32::from(*count)).sum();
        }
        self.recent[priority.number()] += 1;
        self.recent_total += 1;
        let period = now.since(self.period_began);
        let enough = self.offered >= OFFERED_MIN && self.served >= SERVED_MIN;
        if period >= PERIOD_MAX.max(mean * 2) || (period >= PERIOD_MIN && enough) {
            self.period_began = now;
            return self.step(period > PERIOD_MAX * 2);
        }
        Course::GoesOn
    }

    /// An exchange got a slot.
    pub(super) fn served(&mut self) {
        self.served += 1;
    }

    /// Nobody waits.
    pub(super) fn emptied(&mut self) {
        self.emptied = true;
    }

    /// Is an exchange of this priority turned away?
    pub(super) fn rejects(&self, priority: Priority) -> bool {
        priority.number() > self.threshold
    }

    /// The class of the least important that are let in.
    pub(super) fn last_class(&self) -> Class {
        let number = self.threshold / usize::from(Cohort::COUNT);
        Class::ALL.get(number).copied().unwrap_or(Class::Bulk)
    }

    /// Did anybody come of late who is of a more important class than the last that is let in?
    pub(super) fn is_any_above(&self) -> bool {
        self.any_above
    }

    /// The most that should wait for `slots` slots.
    pub(super) fn len_max(&self, slots: u32) -> u32 {
        match LINE.checked_div(u64::from(self.ratio.as_ppm())) {
            Some(line) => slots.saturating_add(u32::try_from(line).unwrap_or(u32::MAX)),
            None => u32::MAX,
        }
    }

    pub(super) fn ratio(&self) -> Ratio {
        self.ratio
    }

    /// `idle`: hardly anybody came for a long time.
    fn step(&mut self, idle: bool) -> Course {
        let (offered, served) = (i64::from(self.offered), i64::from(self.served));
        let called_for = ((offered - served) * ONE / offered.max(1)).max(-ONE);
        let error = called_for - i64::from(self.ratio.as_ppm());
        self.sum = (self.sum + error * SUM_GAIN_PERCENT / 100).clamp(0, ONE);
        let ratio = (self.sum + error / GAIN_DIVISOR).clamp(0, ONE);
        self.ratio = Ratio::from_ppm(ratio as u32);
        let over = called_for <= 0 && (self.ratio < OVER || self.emptied);
        (self.offered, self.served, self.emptied) = (0, 0, false);
        self.threshold = self.find_threshold();
        let above = usize::from(self.last_class().number()) * usize::from(Cohort::COUNT);
        self.any_above = self.recent[..above].iter().any(|count| *count > 0);
        if over || idle { Course::Over } else { Course::GoesOn }
    }

    /// The priority up to which the share that is not too much of the recent arrivals lies.
    fn find_threshold(&self) -> usize {
        let kept = u64::from(self.recent_total) - self.ratio.of(u64::from(self.recent_total));
        let mut seen = 0;
        let found = self.recent.iter().position(|count| {
            seen += u64::from(*count);
            seen >= kept
        });
        found.unwrap_or(Priority::COUNT)
    }
}

#[cfg(test)]
mod tests {
    use crate::id::User;
    use crate::rng::Rng;

    use super::*;

    /// Arrivals at so many times what is served (100 a second), for so many milliseconds.
    fn press(rejector: &mut Rejector, times_ten: u64, from: u64, millis: u64) -> Course {
        let mut course = Course::GoesOn;
        let mut rng = Rng::new(7);
        for at in from..from + millis {
            let now = Instant::from_millis(at);
            if at % 10 == 0 {
                rejector.served();
            }
            // Up to ten tries of a chance of a tenth each, so the number varies.
            for _ in 0..10 {
                if rng.below(1000) < times_ten {
                    let class = Class::ALL[rng.below(4) as usize];
                    let cohort = Cohort::of(User(rng.next_u64()), now);
                    let priority = Priority::new(class, cohort);
                    let now = rejector.offered(priority, Duration::from_millis(20), now);
                    course = if now == Course::Over { now } else { course };
                }
            }
        }
        course
    }

    fn pressed(times_ten: u64, millis: u64) -> Rejector {
        let mut rejector = Rejector::new();
        rejector.begin(Instant::ZERO);
        assert_eq!(press(&mut rejector, times_ten, 0, millis), Course::GoesOn);
        rejector
    }

    #[test]
    fn the_ratio_is_what_is_too_much() {
        for (times_ten, percent) in [(14, 29), (20, 50), (50, 80), (100, 90)] {
            let ratio = pressed(times_ten, 3000).ratio().as_ppm();
            let wanted = percent * 10_000;
            assert!(ratio.abs_diff(wanted) < 100_000, "{times_ten}: {ratio}, not {wanted}");
        }
    }

    #[test]
    fn it_is_there_within_a_second_and_gone_soon_after() {
        let mut rejector = pressed(50, 1000);
        assert!(rejector.ratio() >= Ratio::from_percent(65), "{:?}", rejector.ratio());
        assert_eq!(press(&mut rejector, 7, 1000, 3000), Course::Over);
    }

    #[test]
    fn the_least_important_are_turned_away() {
        let rejector = pressed(14, 3000);
        for class in Class::ALL {
            let rejected = (0..1000).filter(|user| {
                let cohort = Cohort::of(User(*user), Instant::ZERO);
                rejector.rejects(Priority::new(class, cohort))
            });
            let count = rejected.count();
            match class {
                Class::Critical | Class::Normal => assert_eq!(count, 0),
                Class::Degraded => assert!(count < 500, "{count}"),
                Class::Bulk => assert_eq!(count, 1000),
            }
        }
    }

    #[test]
    fn the_line_is_the_shorter_the_more_comes() {
        assert_eq!(Rejector::new().len_max(8), u32::MAX);
        let lens = [14, 20, 100].map(|times_ten| pressed(times_ten, 3000).len_max(8));
        assert!(lens.is_sorted_by(|one, next| one > next), "{lens:?}");
        assert!((11..=13).contains(&lens[2]), "{lens:?}");
    }
}
