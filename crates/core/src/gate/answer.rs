//! `answer_within`: who cannot be answered in time any more.
//!
//! A limit on the time in the queue that equals the time allowed for the answer serves everybody
//! just too late, and goes on doing so after the overload. So an exchange is turned away as soon as
//! now plus the service time (a quantile of what was measured) passes its deadline.
//!
//! Were everybody turned away, nobody would be measured and the gate would stay shut for ever. So
//! when not even an exchange that comes this instant could be answered in time, trials are let
//! through into slots that would be empty otherwise, one at a time; when [`TRIALS`] in a row are in
//! time, what was measured before is forgotten.

use crate::stats::window::Window;
use crate::time::{Duration, Instant};
use crate::units::Ratio;

use super::view::Quantiles;

/// Samples before anybody is turned away: with fewer, fewer than three lie beyond the 90 %
/// quantile, and one slow answer would decide.
const SAMPLES_MIN: u32 = 30;
/// Samples that are remembered: follows a change within a few seconds at 50 a second, and still has
/// 25 beyond the 90 % quantile.
const SAMPLES_MAX: u16 = 256;
/// How long a sample is believed: a pool with one slow worker (2 s an answer) keeps `SAMPLES_MIN`.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(60);
/// Trials in a row that must be in time before the past is forgotten: one alone may be a cheap
/// page.
const TRIALS: u32 = 3;
/// Time between a trial that was late and the next. Plain choice: at most two clients a second get
/// an answer that comes too late, and a pool that recovered is noticed within half a second.
const TRIAL_INTERVAL: Duration = Duration::from_millis(500);

/// What is known of the time that an answer takes.
#[derive(Debug)]
pub(super) struct Answers {
    within: Option<Duration>,
    service: Window,
    /// The service time to reckon with; none while too little is known, or nobody asks.
    expected: Option<Duration>,
    trial: Trial,
}

#[derive(Debug)]
struct Trial {
    running: bool,
    next: Instant,
    in_time: u32,
}

impl Answers {
    pub(super) fn new(within: Option<Duration>, quantile: Ratio) -> Self {
        let service = Window::new(SAMPLES_MAX, SAMPLE_AGE_MAX, quantile);
        let trial = Trial { running: false, next: Instant::ZERO, in_time: 0 };
        Answers { within, service, expected: None, trial }
    }

    /// An exchange took `time` to be answered.
    pub(super) fn served(&mut self, time: Duration, now: Instant) {
        self.service.push(time, now);
        self.refresh(now);
    }

    /// Forget what is too old.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.service.forget_old(now);
        if self.within.is_some() {
            let enough = self.service.len() >= SAMPLES_MIN;
            self.expected = if enough { self.service.followed() } else { None };
        }
    }

    /// The last moment at which an exchange whose request was whole at `received` can be given to a
    /// worker; none: any moment will do.
    pub(super) fn latest_grant(&self, received: Instant) -> Option<Instant> {
        let (within, expected) = (self.within?, self.expected?);
        Some(received + within - expected)
    }

    /// Would an exchange that is given to a worker at `now` be answered too late?
    pub(super) fn is_late(&self, received: Instant, now: Instant) -> bool {
        let (Some(within), Some(expected)) = (self.within, self.expected) else {
            return false;
        };
        now + expected > received + within
    }

    /// Is it time to let one through that would be turned away?
    pub(super) fn is_trial_due(&self, now: Instant) -> bool {
        let (Some(within), Some(expected)) = (self.within, self.expected) else {
            return false;
        };
        expected > within && !self.trial.running && now >= self.trial.next
    }

    /// A trial is let through.
    pub(super) fn start_trial(&mut self) {
        self.trial.running = true;
    }

    /// A trial ended, after `time` if it was answered.
    pub(super) fn end_trial(&mut self, time: Option<Duration>, now: Instant) {
        self.trial.running = false;
        let in_time = time.is_some_and(|time| self.within.is_none_or(|within| time <= within));
        if !in_time {
            self.trial.in_time = 0;
            self.trial.next = now + TRIAL_INTERVAL;
            return;
        }
        self.trial.in_time += 1;
        if self.trial.in_time >= TRIALS {
            self.trial.in_time = 0;
            self.service.clear();
            self.refresh(now);
        }
    }

    /// The mean service time; none before the first sample.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.service.mean()
    }

    /// The picture for the view.
    pub(super) fn quantiles(&self) -> Quantiles {
        Quantiles::of(&self.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn answers(within: u64, samples: u32, service: u64) -> Answers {
        let mut answers = Answers::new(Some(millis(within)), Ratio::from_percent(90));
        for _ in 0..samples {
            answers.served(millis(service), Instant::ZERO);
        }
        answers
    }

    #[test]
    fn nobody_is_late_before_enough_is_known() {
        let now = Instant::from_millis(1000);
        assert!(!answers(100, SAMPLES_MIN - 1, 50).is_late(Instant::ZERO, now));
        assert!(answers(100, SAMPLES_MIN, 50).is_late(Instant::ZERO, now));
    }

    #[test]
    fn late_begins_right_after_the_latest_grant() {
        let answers = answers(200, SAMPLES_MIN, 50);
        let latest = answers.latest_grant(Instant::ZERO).expect("enough is known");
        assert!(latest <= Instant::from_millis(150) && latest >= Instant::from_millis(148));
        assert!(!answers.is_late(Instant::ZERO, latest));
        assert!(answers.is_late(Instant::ZERO, latest + Duration::from_nanos(1)));
    }

    #[test]
    fn samples_of_a_minute_ago_are_not_believed() {
        let mut answers = answers(100, SAMPLES_MIN, 500);
        assert!(answers.is_late(Instant::ZERO, Instant::ZERO));
        answers.refresh(Instant::ZERO + SAMPLE_AGE_MAX + millis(1));
        assert!(!answers.is_late(Instant::ZERO, Instant::ZERO));
    }

    #[test]
    fn trials_run_one_at_a_time_and_open_the_gate_again() {
        let now = Instant::from_millis(1000);
        let mut answers = answers(100, SAMPLES_MIN, 500);
        assert!(answers.is_trial_due(now));
        answers.start_trial();
        assert!(!answers.is_trial_due(now));
        answers.end_trial(Some(millis(500)), now);
        assert!(!answers.is_trial_due(now), "a late one is not followed at once");
        let later = now + TRIAL_INTERVAL;
        for _ in 0..TRIALS {
            assert!(answers.is_trial_due(later) && answers.is_late(later, later));
            answers.start_trial();
            answers.end_trial(Some(millis(20)), later);
        }
        assert!(!answers.is_late(later, later) && !answers.is_trial_due(later));
    }
}
