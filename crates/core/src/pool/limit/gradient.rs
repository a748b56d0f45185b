//! As many exchanges as a worker can hold before each takes longer than it would among fewer.
//!
//! Answers are taken in rounds, a limit's worth of them or more, once those are over that were in
//! the worker when the limit changed. The mean slowdown of a round, against the worker's baseline,
//! says what follows:
//!
//! | a round | then |
//! | --- | --- |
//! | is within the tolerance | more, if the limit was used; twice as many at first |
//! | is slower | *limit ÷ slowdown*, a half at least: as many as would run at full speed |
//! | is slower, and the last cut made nothing faster | the limit stays and the baseline rises |
//!
//! Source: the gradient of Netflix's concurrency-limits (`Gradient2Limit`, 2018) and of Envoy's
//! adaptive concurrency; from those the tolerance of a quarter, the least factor of a half, the
//! root of the limit as a step, and the guard that what is not used says nothing. Ours differs:
//! - Times are compared with what their kind takes (`gate/kind.rs`), so a mix of slow and fast ones
//!   is no slowdown when it changes; and as octaves, so one in twenty that is slow is none either.
//! - Envoy finds its baseline in windows with a limit of 3, and keeps what it found there however
//!   slow that was. Here each cut is the measurement: it leads to where the worker should run at
//!   full speed. If it does, that is the baseline, however long the overload lasts; if it does not,
//!   the worker has become slower by itself, and that becomes the baseline, at a bounded rate.
//!   Gradient2's baseline is the mean of 600 samples, which learns the overload within minutes.
//! - A round that looks slow goes on until it is certain by three standard errors, so that chance
//!   does not cut. All answers of a round count, whenever they began: those that both begin and end
//!   in it are the short ones.

use crate::stats::octave::Octaves;
use crate::time::{Duration, Instant};

use super::{Answer, Bounds, Went, back_off};

/// A slowdown up to this is none, in parts of an octave: a quarter, Envoy's default buffer.
const TOLERANCE: i64 = 21_098;
/// The most that one cut takes: a half, the least gradient of both sources.
const CUT_MAX: i64 = 65_536;
/// The least time of a round: Envoy's usual update interval. A fast worker's rounds have more
/// answers than its limit.
const ROUND_MIN: Duration = Duration::from_millis(100);
/// The fewest answers of a round. Plain choice: with a limit of one it takes four.
const ANSWERS_MIN: u32 = 4;
/// The most for which it is waited.
const ANSWERS_MAX: u32 = 256;
/// Standard errors by which something must be certain. With two, one look in forty is wrong, and
/// each answer is a look.
const ERRORS: i64 = 3;
/// No round is slow on fewer answers than make the tolerance nearly three standard errors.
const CERTAIN: i64 = 8;
/// Farther than this from the level, up or down, one answer says no more: two octaves.
const FARTHEST: i32 = 131_072;
/// By how much the baseline may rise in a second while cuts are in vain: a tenth of an octave. A
/// release that takes twice as long is normal after ten seconds, one that takes eight times as long
/// after half a minute.
const RISE_IN_VAIN: i64 = 6554;
/// Rounds in vain before that begins: where another pool, or another worker, slows down the same
/// database, it has its turn at cutting meanwhile.
const IN_VAIN: u32 = 4;
/// By how much it may rise in a second otherwise, by what is within the tolerance: 2 % in a minute.
/// Less than each cut takes back while more comes than can be done.
const RISE: i64 = 31;
/// The longest time for which a single round lets the baseline rise.
const RISE_TIME_MAX: Duration = Duration::from_secs(2);
/// Cuts say something once so much less is inside: half an octave.
const FALL_MIN: i64 = 32_768;
/// Rounds that the variance is the mean of, and answers of the level.
const SPREAD_OF: i64 = 32;
const LEVEL_DIVISOR: i32 = 16;

/// The limit of one worker.
#[derive(Debug)]
pub(crate) struct Gradient {
    limit: u32,
    /// When it changed last, and how many answers are still to come of what was inside then.
    changed: Instant,
    old: u32,
    /// No round was slow so far.
    starting: bool,
    /// The slowdown when nothing slows it down: with another processor than the others have it is
    /// not zero. None: no round is over.
    baseline: Option<i64>,
    /// The slowdown of the last answers; none: there was none.
    level: Option<Octaves>,
    /// The variance of one answer's slowdown, and the rounds that it is from.
    spread: i64,
    rounds: i64,
    /// Answers that the baseline is the mean of, while it is starting.
    first_answers: i64,
    round: Round,
    /// The round before the last cut, until it is known what came of it.
    cut: Option<Cut>,
    /// Rounds for which it is known that the last cut made nothing faster.
    in_vain: u32,
    /// The baseline rose because cuts were in vain: the next one goes as deep as it may, to see.
    doubted: bool,
}

/// Answers since `began`.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    answers: u32,
    sum: i64,
    squares: i64,
    /// Exchanges that were in the worker: the most, and the sum over the answers.
    inside: u32,
    insides: u64,
    /// Somebody waited for a slot.
    wanted: bool,
}

/// What was seen in a round.
#[derive(Clone, Copy, Debug)]
struct Seen {
    mean: i64,
    /// Above the baseline.
    excess: i64,
    /// The standard error of both.
    error: i64,
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    mean: i64,
    /// The octaves of what was inside, in the mean.
    inside: Octaves,
}

impl Gradient {
    pub(super) fn new(min: u32, now: Instant) -> Self {
        Gradient {
            limit: min,
            changed: now,
            old: 0,
            starting: true,
            baseline: None,
            level: None,
            spread: 0,
            rounds: 0,
            first_answers: 0,
            round: Round::begin(now),
            cut: None,
            in_vain: 0,
            doubted: false,
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn level(&self) -> Octaves {
        self.level.unwrap_or_default()
    }

    pub(super) fn hear(&mut self, answer: Answer, bounds: Bounds, now: Instant) {
        match answer.went {
            Went::Overload if answer.granted >= self.changed => {
                self.starting = false;
                self.change(back_off(self.limit, bounds.min), answer.inside, bounds, now);
            }
            Went::Overload | Went::Well(None) => {}
            Went::Well(Some(slowdown)) => self.answered(slowdown, &answer, bounds, now),
        }
    }

    fn answered(&mut self, slowdown: Octaves, answer: &Answer, bounds: Bounds, now: Instant) {
        let level = self.level.unwrap_or(slowdown);
        let off = (slowdown - level).parts();
        let near = level + Octaves::from_parts(off.clamp(-FARTHEST, FARTHEST));
        self.level = Some(level + Octaves::from_parts(off / LEVEL_DIVISOR));
        if self.old > 0 {
            self.old -= 1;
            self.round = Round::begin(now);
            return;
        }
        self.round.add(near, answer);
        self.judge(answer.inside, bounds, now);
    }

    /// Decide what follows from the round, if it has enough.
    fn judge(&mut self, inside: u32, bounds: Bounds, now: Instant) {
        let Round { began, answers, .. } = self.round;
        if answers < self.limit.max(ANSWERS_MIN) || now < began + ROUND_MIN {
            return;
        }
        let (mean, variance) = self.round.mean_and_variance();
        let rounds = (self.rounds + 1).min(SPREAD_OF);
        let spread = self.spread + (variance - self.spread) / rounds;
        let error = (spread / i64::from(answers)).isqrt();
        let excess = mean - *self.baseline.get_or_insert(mean);
        let seen = Seen { mean, excess, error };
        let Some(limit) = self.next_limit(seen, spread, bounds, now) else { return };
        (self.spread, self.rounds) = (spread, rounds);
        self.change(limit, inside, bounds, now);
    }

    /// The limit that follows from a round in which this was seen; none: it has to go on.
    fn next_limit(&mut self, seen: Seen, spread: i64, bounds: Bounds, now: Instant) -> Option<u32> {
        let Seen { excess, error, .. } = seen;
        let answers = self.round.answers;
        let enough = CERTAIN * spread <= i64::from(answers) * TOLERANCE * TOLERANCE;
        let is_last = answers >= ANSWERS_MAX;
        let is_slow = (enough || is_last) && excess - ERRORS * error > TOLERANCE;
        // A baseline that rises does so until it is about there.
        let well = if self.in_vain > 0 { (TOLERANCE - error).max(0) } else { TOLERANCE };
        // Nothing can be cut, so certainty changes nothing.
        let is_held = self.in_vain > 0 || self.limit <= bounds.min;
        if self.starting && excess <= TOLERANCE + ERRORS * error {
            self.average(excess);
            Some(self.raised())
        } else if excess <= well || (self.starting && !is_slow) {
            self.follow(seen, now);
            Some(self.raised())
        } else if is_slow || is_held {
            Some(self.slow(seen, bounds, now))
        } else if is_last {
            self.raise_baseline(RISE, i64::MAX, now);
            Some(self.limit)
        } else {
            None
        }
    }

    /// The baseline is the mean of all that was seen at the beginning.
    fn average(&mut self, excess: i64) {
        let answers = i64::from(self.round.answers);
        self.first_answers += answers;
        let step = excess * answers / self.first_answers;
        self.baseline = self.baseline.map(|baseline| baseline + step);
    }

    /// The worker ran at its speed.
    fn follow(&mut self, seen: Seen, now: Instant) {
        (self.cut, self.in_vain) = (None, 0);
        self.raise_baseline(RISE, seen.mean, now);
        // What is surely faster than the baseline is the speed at which it can run.
        let most = seen.mean + ERRORS * seen.error;
        let lowered = |baseline: i64| baseline + (most - baseline).min(0) / 2;
        self.baseline = self.baseline.map(lowered);
    }

    /// A limit that is higher, if this one was used.
    fn raised(&self) -> u32 {
        let step = match self.is_used() {
            false => 0,
            true if self.starting => self.limit,
            true if self.round.wanted => self.limit.isqrt(),
            true => 1,
        };
        self.limit.saturating_add(step)
    }

    /// The worker was slowed down: the next limit.
    fn slow(&mut self, seen: Seen, bounds: Bounds, now: Instant) -> u32 {
        self.starting = false;
        let verdict = self.verdict(seen);
        if self.in_vain > 0 || self.limit <= bounds.min || verdict == Some(false) {
            self.in_vain = self.in_vain.saturating_add(1);
            if self.in_vain > IN_VAIN {
                self.raise_baseline(RISE_IN_VAIN, seen.mean, now);
                self.doubted = true;
            }
            return self.limit;
        }
        // What is not used is not what slows it down.
        if !self.is_used() {
            return self.limit;
        }
        // Several small cuts are judged together.
        let cut = Cut { mean: seen.mean, inside: self.round.mean_inside() };
        self.cut = self.cut.filter(|_| verdict.is_none()).or(Some(cut));
        let least = if std::mem::take(&mut self.doubted) { CUT_MAX } else { TOLERANCE };
        let less = (seen.excess - seen.error).clamp(least, CUT_MAX);
        let less = Octaves::from_parts(less as i32);
        less.divide(self.round.inside.min(self.limit)).min(self.limit - 1)
    }

    /// Was half of the limit used? If not, it is not what keeps more from coming.
    fn is_used(&self) -> bool {
        self.round.inside.saturating_mul(2) >= self.limit
    }

    /// Did the cut help: by a quarter of the fall of what is inside, as far as is certain? None:
    /// too little changed to say.
    fn verdict(&self, seen: Seen) -> Option<bool> {
        let cut = self.cut?;
        let fall = i64::from((cut.inside - self.round.mean_inside()).parts());
        (fall >= FALL_MIN).then_some((cut.mean - seen.mean - seen.error) * 4 >= fall)
    }

    /// Let the baseline rise by what it may in this round, up to `most`.
    fn raise_baseline(&mut self, in_a_second: i64, most: i64, now: Instant) {
        let time = now.since(self.round.began).min(RISE_TIME_MAX);
        let rise = in_a_second * time.as_millis() as i64 / 1000;
        let raised = |baseline: i64| (baseline + rise).min(most.max(baseline));
        self.baseline = self.baseline.map(raised);
    }

    /// Let it be `limit` from here on, with `inside` exchanges of before.
    fn change(&mut self, limit: u32, inside: u32, bounds: Bounds, now: Instant) {
        let limit = limit.clamp(bounds.min, bounds.max);
        self.starting &= limit < bounds.max;
        if limit != self.limit {
            self.limit = limit;
            self.changed = now;
            self.old = if self.starting { 0 } else { inside.max(limit) };
        }
        self.round = Round::begin(now);
    }
}

impl Round {
    fn begin(now: Instant) -> Round {
        Round { began: now, answers: 0, sum: 0, squares: 0, inside: 0, insides: 0, wanted: false }
    }

    fn add(&mut self, slowdown: Octaves, answer: &Answer) {
        let parts = i64::from(slowdown.parts());
        self.answers += 1;
        self.sum += parts;
        self.squares += parts * parts;
        self.inside = self.inside.max(answer.inside);
        self.insides += u64::from(answer.inside);
        self.wanted |= answer.wanted;
    }

    fn mean_inside(&self) -> Octaves {
        Octaves::of_count(self.insides) - Octaves::of_count(self.answers.into())
    }

    /// What one answer says, and how far it is from that, squared.
    fn mean_and_variance(&self) -> (i64, i64) {
        let answers = i64::from(self.answers);
        let mean = self.sum / answers;
        (mean, (self.squares / answers - mean * mean).max(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::Limit;

    use super::*;

    const BOUNDS: Bounds = Bounds { by: Limit::Gradient, min: 1, max: 16 };

    /// A worker that always has as many exchanges as it may, each of which takes so many tenths of
    /// a millisecond; they come back evenly.
    struct Worker {
        gradient: Gradient,
        now: Instant,
    }

    impl Worker {
        fn new() -> Self {
            let now = Instant::ZERO;
            Worker { gradient: Gradient::new(BOUNDS.min, now), now }
        }

        /// For some seconds; the least limit and the most after the first half of them.
        fn run(&mut self, seconds: u64, tenths: fn(u64) -> u64) -> (u32, u32) {
            let end = self.now + Duration::from_secs(seconds);
            let half = self.now + Duration::from_secs(seconds) / 2;
            let (mut least, mut most) = (u32::MAX, 0);
            while self.now < end {
                let inside = self.gradient.limit();
                let time = Duration::from_micros(tenths(inside.into()) * 100);
                self.now = self.now + time / inside;
                let granted = self.now - time;
                // What is usual are 20 ms.
                let slowdown = Octaves::of(time) - Octaves::of(Duration::from_millis(20));
                let went = Went::Well(Some(slowdown));
                let answer = Answer { granted, inside, wanted: true, went };
                self.gradient.hear(answer, BOUNDS, self.now);
                let limit = self.gradient.limit();
                assert!((BOUNDS.min..=BOUNDS.max).contains(&limit));
                if self.now > half {
                    (least, most) = (least.min(limit), most.max(limit));
                }
            }
            (least, most)
        }
    }

    #[test]
    fn it_finds_how_many_run_at_full_speed() {
        assert_eq!(Worker::new().run(4, |_| 200), (16, 16));
        assert_eq!(Worker::new().run(20, |inside| 200.max(50 * inside)), (4, 6));
        assert_eq!(Worker::new().run(20, |inside| 200 * inside), (1, 2));
        let mut worker = Worker::new();
        assert_eq!(worker.run(4, |_| 200), (16, 16));
        let (least, most) = worker.run(600, |inside| 200.max(50 * inside));
        assert!(least >= 4 && most <= 6, "from {least} to {most} after ten minutes");
        assert_eq!(worker.run(8, |_| 200), (16, 16), "back within four seconds");
    }

    #[test]
    fn what_is_slower_by_itself_is_normal_after_a_while() {
        let mut worker = Worker::new();
        worker.run(4, |_| 200);
        let (least, most) = worker.run(4, |_| 400);
        assert_eq!((least, most), (8, 8), "one cut, which changed nothing");
        assert_eq!(worker.run(40, |_| 400), (16, 16));
    }

    #[test]
    fn an_overload_cuts_once_for_all_that_were_inside_together() {
        let mut worker = Worker::new();
        worker.run(4, |_| 200);
        let overload = |gradient: &mut Gradient, granted, now| {
            let [granted, now] = [granted, now].map(Instant::from_millis);
            let answer = Answer { granted, inside: 16, wanted: true, went: Went::Overload };
            gradient.hear(answer, BOUNDS, now);
            gradient.limit()
        };
        let gradient = &mut worker.gradient;
        assert_eq!(overload(gradient, 3990, 5000), 14);
        assert_eq!(overload(gradient, 4999, 5001), 14);
        assert_eq!(overload(gradient, 5000, 5002), 12);
    }
}
