//! Deadlines: who cannot be answered in time any more.
//!
//! A limit on the time in the queue that equals the time allowed for the answer serves everybody
//! just too late, and goes on doing so after the overload. So an exchange is turned away as soon as
//! now plus the service time passes its deadline. That time is a quantile of what was measured of
//! its kind, or of the whole pool while too little is known of the kind.
//!
//! Were everybody turned away, nobody would be measured and the gate would stay shut for ever. So
//! when not even an exchange that comes this instant could be answered in time, trials are let
//! through into slots that would be empty otherwise, one at a time; when [`TRIALS`] in a row are in
//! time, what was measured before is forgotten.

use crate::id::Kind;
use crate::stats::octave::Octaves;
use crate::stats::window::Window;
use crate::time::{Duration, Instant};

use super::kind::Kinds;
use super::settings::Settings;
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
    kinds: Kinds,
    /// The service time of the pool to reckon with; none while too little is known.
    expected: Option<Duration>,
    trial: Trial,
}

/// When the answer to an exchange is of no use any more; the far future: never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// By `answer_within`.
    pub(super) promised: Instant,
    /// By what the client said.
    pub(super) deadline: Instant,
}

impl Due {
    /// Is it of use whenever it comes?
    pub(super) fn is_open(self) -> bool {
        self.promised == Instant::FAR_FUTURE && self.deadline == Instant::FAR_FUTURE
    }
}

fn before(end: Instant, expected: Duration) -> Instant {
    if end == Instant::FAR_FUTURE { end } else { end - expected }
}

#[derive(Debug)]
struct Trial {
    running: bool,
    next: Instant,
    in_time: u32,
}

impl Answers {
    pub(super) fn new(settings: &Settings) -> Self {
        let (within, quantile) = (settings.answer_within, settings.answer_quantile);
        let service = Window::new(SAMPLES_MAX, SAMPLE_AGE_MAX, quantile);
        let trial = Trial { running: false, next: Instant::ZERO, in_time: 0 };
        let kinds = Kinds::new(quantile, settings.hedge);
        Answers { within, service, kinds, expected: None, trial }
    }

    /// An exchange of this kind took `time` to be answered.
    pub(super) fn served(&mut self, kind: Kind, time: Duration, now: Instant) {
        self.service.push(time, now);
        self.kinds.learn(kind, time, now);
        self.service.forget_old(now);
        self.reckon();
    }

    /// By how much longer an exchange of this kind took than usual, in a worker that is slowed down
    /// by `level` as a whole; none while too little is known.
    pub(super) fn beside_usual(
        &mut self,
        kind: Kind,
        time: Duration,
        level: Octaves,
    ) -> Option<Octaves> {
        self.kinds.beside_usual(kind, time, level)
    }

    /// Is an answer that took so long too late, even if nobody waited?
    pub(super) fn is_too_late(&self, time: Duration) -> bool {
        self.within.is_some_and(|within| time > within)
    }

    /// Forget what is too old. Called with each input, so that it must cost nothing where nothing
    /// is.
    #[inline]
    pub(super) fn refresh(&mut self, now: Instant) {
        if self.service.forget_old(now) {
            self.reckon();
        }
    }

    fn reckon(&mut self) {
        let enough = self.service.len() >= SAMPLES_MIN;
        self.expected = if enough { self.service.followed() } else { None };
    }

    /// Is enough known for anybody to be turned away?
    pub(super) fn is_enough_known(&self) -> bool {
        self.expected.is_some()
    }

    /// The time that an exchange of this kind takes, to reckon with; none while too little is
    /// known.
    pub(super) fn expected(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let of_pool = self.expected?;
        Some(self.kinds.expected(kind, now).unwrap_or(of_pool))
    }

    /// The time that an exchange of this kind takes in the mean; zero while nothing is known.
    pub(super) fn mean_of(&self, kind: Kind, now: Instant) -> Duration {
        self.kinds.mean(kind, now).or(self.mean()).unwrap_or_default()
    }

    /// The time after which an exchange of this kind is slow; none while too little is known.
    pub(super) fn slow_after(&self, kind: Kind, now: Instant) -> Option<Duration> {
        self.kinds.slow_after(kind, now)
    }

    /// Until when an exchange whose request was whole at `received` should be answered.
    pub(super) fn promised(&self, received: Instant) -> Instant {
        self.within.map_or(Instant::FAR_FUTURE, |within| received + within)
    }

    /// The last moment at which an exchange of this kind can be given to a worker; the far future
    /// where any moment will do. Before enough is known nobody is held to what we promised, only to
    /// what the client said.
    pub(super) fn latest_grant(&self, due: Due, kind: Kind, now: Instant) -> Instant {
        if due.is_open() {
            return Instant::FAR_FUTURE;
        }
        let end = match self.expected(kind, now) {
            Some(expected) => return before(due.promised.min(due.deadline), expected),
            None => due.deadline,
        };
        before(end, Duration::ZERO)
    }

    /// Is it time to let one of this kind through that would be turned away?
    pub(super) fn is_trial_due(&self, kind: Kind, now: Instant) -> bool {
        let (Some(within), Some(expected)) = (self.within, self.expected(kind, now)) else {
            return false;
        };
        expected > within && !self.trial.running && now >= self.trial.next
    }

    /// A trial is let through.
    pub(super) fn start_trial(&mut self) {
        self.trial.running = true;
    }

    /// A trial of this kind ended, after `time` if it was answered.
    pub(super) fn end_trial(&mut self, kind: Kind, time: Option<Duration>, now: Instant) {
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
            self.kinds.forget(kind);
            self.reckon();
        }
    }

    /// The mean service time; none before the first sample.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.service.mean()
    }

    /// The mean and the quantile of the service times of the pool; the quantile is without end
    /// while too little is known.
    pub(super) fn mean_and_quantile(&self) -> (Duration, Duration) {
        (self.mean().unwrap_or_default(), self.expected.unwrap_or(Duration::MAX))
    }

    /// Is it known what exchanges of this kind take?
    pub(super) fn is_known(&self, kind: Kind, now: Instant) -> bool {
        self.kinds.expected(kind, now).is_some()
    }

    /// The picture for the view.
    pub(super) fn quantiles(&self) -> Quantiles {
        Quantiles::of(&self.service)
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::settings;

    use super::*;

    const KIND: Kind = Kind(7);

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn answers(within: u64, samples: u32, service: u64) -> Answers {
        let answer_within = Some(millis(within));
        let mut answers = Answers::new(&Settings { answer_within, ..settings() });
        for _ in 0..samples {
            answers.served(KIND, millis(service), Instant::ZERO);
        }
        answers
    }

    /// The last moment at which an exchange that was whole at the beginning can be granted.
    fn latest(answers: &Answers, kind: Kind, deadline: Option<u64>, now: Instant) -> Instant {
        let deadline = deadline.map_or(Instant::FAR_FUTURE, Instant::from_millis);
        let due = Due { promised: answers.promised(Instant::ZERO), deadline };
        answers.latest_grant(due, kind, now)
    }

    #[test]
    fn nobody_is_late_before_enough_is_known_but_by_its_own_word() {
        let now = Instant::from_millis(1000);
        let few = answers(100, SAMPLES_MIN - 1, 50);
        assert_eq!(latest(&few, KIND, None, now), Instant::FAR_FUTURE);
        assert_eq!(latest(&few, KIND, Some(70), now), Instant::from_millis(70));
        assert!(latest(&answers(100, SAMPLES_MIN, 50), KIND, None, now) < now);
    }

    #[test]
    fn the_earlier_of_promise_and_word_counts_less_what_the_kind_takes() {
        let mut answers = answers(200, SAMPLES_MIN, 50);
        (0..8).for_each(|_| answers.served(Kind(8), millis(10), Instant::ZERO));
        let latest = |kind, deadline| latest(&answers, kind, deadline, Instant::ZERO);
        assert_eq!(latest(KIND, None), Instant::from_millis(150));
        assert_eq!(latest(KIND, Some(180)), Instant::from_millis(130));
        assert_eq!(latest(KIND, Some(500)), Instant::from_millis(150));
        assert_eq!(latest(Kind(8), None), Instant::from_millis(190));
        let unknown = latest(Kind(9), None);
        assert!(unknown <= Instant::from_millis(150) && unknown >= Instant::from_millis(148));
    }

    #[test]
    fn samples_of_a_minute_ago_are_not_believed() {
        let mut answers = answers(100, SAMPLES_MIN, 500);
        assert!(answers.is_enough_known());
        answers.refresh(Instant::ZERO + SAMPLE_AGE_MAX + millis(1));
        assert!(!answers.is_enough_known());
    }

    #[test]
    fn trials_run_one_at_a_time_and_open_the_gate_again() {
        let now = Instant::from_millis(1000);
        let mut answers = answers(100, SAMPLES_MIN, 500);
        assert!(answers.is_trial_due(KIND, now));
        answers.start_trial();
        assert!(!answers.is_trial_due(KIND, now));
        answers.end_trial(KIND, Some(millis(500)), now);
        assert!(!answers.is_trial_due(KIND, now), "a late one is not followed at once");
        let later = now + TRIAL_INTERVAL;
        for _ in 0..TRIALS {
            assert!(answers.is_trial_due(KIND, later));
            answers.start_trial();
            answers.end_trial(KIND, Some(millis(20)), later);
        }
        assert!(!answers.is_enough_known() && !answers.is_trial_due(KIND, later));
    }
}
