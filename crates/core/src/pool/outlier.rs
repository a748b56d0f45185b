//! When a worker is ejected for failing, and for how long.
//!
//! Two signs, as in Envoy's outlier detection. Failures in a row (5 by default) find a worker that
//! has broken. A share of failures (half, by default) finds one that fails now and then and is
//! never bad five times in a row: it must be had by at least [`ANSWERS_MIN`] answers of the last
//! [`WINDOW`], and by this worker alone, for what fails everywhere is the application. A floor of
//! workers always stays.
//!
//! Ours differs: the share is compared with that of all other workers together, and not with a
//! deviation from the mean, which means little among three workers; the n-th ejection in a row
//! lasts n times as long without an upper end other than a thousandfold, and a probe, not the
//! passing of time, readmits.

use crate::gate::Settings;
use crate::stats::rate::Rate;
use crate::time::{Duration, Instant};

use super::Worker;

/// Ejections in a row beyond which the time grows no more: a plain choice, hours at the default.
const IN_A_ROW_MAX: u32 = 1000;
/// Answers and failures are counted over this time: Envoy's interval.
const WINDOW: Duration = Duration::from_secs(10);
/// Answers before a share means something. Plain choice: at a true share of a fifth, half of 20
/// are failures once in 400 looks.
const ANSWERS_MIN: u32 = 20;

/// Failures and ejections of one worker.
#[derive(Debug)]
pub(crate) struct Ejection {
    /// Failures since the last success.
    failures: u32,
    /// Ejections since the last success.
    in_a_row: u32,
    /// Successes and failures of late.
    answered: Rate,
    failed: Rate,
}

impl Ejection {
    pub(crate) fn new(now: Instant) -> Self {
        let (answered, failed) = (Rate::new(WINDOW, now), Rate::new(WINDOW, now));
        Ejection { failures: 0, in_a_row: 0, answered, failed }
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// The worker answered well.
    pub(crate) fn succeeded(&mut self, now: Instant) {
        self.failures = 0;
        self.in_a_row = 0;
        self.answered.count(now);
    }

    /// The worker failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.answered.count(now);
        self.failed.count(now);
    }

    /// It is ejected: for how long.
    pub(crate) fn eject(&mut self, settings: &Settings, now: Instant) -> Duration {
        let in_a_row = (self.in_a_row + 1).min(IN_A_ROW_MAX);
        *self = Ejection { in_a_row, ..Ejection::new(now) };
        settings.eject_time.saturating_mul(self.in_a_row)
    }
}

/// Has the worker at `index` failed often enough to be ejected?
pub(crate) fn is_outlier(
    workers: &[Worker],
    index: usize,
    settings: &Settings,
    now: Instant,
) -> bool {
    let own = &workers[index].ejection;
    if settings.eject_after > 0 && own.failures >= settings.eject_after {
        return true;
    }
    let share = u64::from(settings.eject_error_share.as_ppm());
    let (answered, failed) = (own.answered.peek(now), own.failed.peek(now));
    if share == 0 || answered < ANSWERS_MIN || below(failed, answered, share) {
        return false;
    }
    let others = workers.iter().enumerate().filter(|(other, _)| *other != index);
    let (answered, failed) = others.fold((0u32, 0u32), |(answered, failed), (_, worker)| {
        let theirs = &worker.ejection;
        let answered = answered.saturating_add(theirs.answered.peek(now));
        (answered, failed.saturating_add(theirs.failed.peek(now)))
    });
    below(failed, answered, share / 2)
}

/// Are `failed` of `answered` less than `share` parts per million? Not so where nobody answered.
fn below(failed: u32, answered: u32, share: u64) -> bool {
    u64::from(failed) * 1_000_000 < u64::from(answered) * share
}

/// May one more of `up` workers that are up be ejected, out of `members`?
pub(crate) fn may_eject(settings: &Settings, up: u32, members: u32) -> bool {
    let parts = u64::from(members) * u64::from(settings.eject_keep_min.as_ppm());
    let keep = parts.div_ceil(1_000_000).max(1);
    u64::from(up) > keep
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::settings;
    use crate::id::WorkerId;
    use crate::units::Ratio;

    use super::*;

    #[test]
    fn the_floor_is_rounded_up_and_never_below_one() {
        let check = |percent, members, up, expected| {
            let settings = Settings { eject_keep_min: Ratio::from_percent(percent), ..settings() };
            let found = may_eject(&settings, up, members);
            assert_eq!(found, expected, "{percent} % of {members}, {up} up");
        };
        check(50, 1, 1, false);
        check(50, 2, 2, true);
        check(50, 3, 3, true);
        check(50, 3, 2, false);
        check(0, 3, 2, true);
        check(0, 3, 1, false);
        check(100, 3, 3, false);
    }

    #[test]
    fn ejections_in_a_row_last_longer_until_a_success() {
        let (settings, now) = (settings(), Instant::ZERO);
        let mut ejection = Ejection::new(now);
        let times = [1, 2, 3].map(|times| settings.eject_time * times);
        assert_eq!([(); 3].map(|()| ejection.eject(&settings, now)), times);
        ejection.succeeded(now);
        assert_eq!(ejection.eject(&settings, now), settings.eject_time);
    }

    /// Workers that had so many failures among so many answers, evenly mixed, all at once.
    #[track_caller]
    fn check(workers: &[(u32, u32)], percent: u32, later: u64, expected: bool) {
        let share = Ratio::from_percent(percent);
        let settings = Settings { eject_after: 1000, eject_error_share: share, ..settings() };
        let worker = |(id, (failed, answered)): (usize, &(u32, u32))| {
            let mut worker = Worker::new(WorkerId(id as u32), false, Instant::ZERO);
            (0..*failed).for_each(|_| worker.ejection.failed(Instant::ZERO));
            (*failed..*answered).for_each(|_| worker.ejection.succeeded(Instant::ZERO));
            worker
        };
        let made: Vec<_> = workers.iter().enumerate().map(worker).collect();
        let now = Instant::from_millis(later);
        assert_eq!(is_outlier(&made, 0, &settings, now), expected, "{workers:?}, {percent} %");
    }

    #[test]
    fn a_share_of_failures_that_the_others_do_not_have_is_an_outlier() {
        check(&[(10, 20), (0, 50), (1, 50)], 50, 0, true);
        check(&[(9, 20), (0, 50), (1, 50)], 50, 0, false);
        check(&[(10, 19), (0, 50), (1, 50)], 50, 0, false);
        check(&[(10, 20), (13, 50), (12, 50)], 50, 0, false);
        check(&[(10, 20), (12, 50), (12, 50)], 50, 0, true);
        check(&[(10, 20), (0, 50)], 0, 0, false);
        // Nobody knows whether others fare better.
        check(&[(10, 20), (0, 0)], 50, 0, false);
        // What is older than the window is forgotten.
        check(&[(10, 20), (0, 50)], 50, 10_000, false);
    }
}
