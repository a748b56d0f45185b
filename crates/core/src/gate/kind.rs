//! What each kind of exchange takes: service times learned by kind.
//!
//! One expectation for a whole pool is wrong for all of it as soon as cheap and expensive pages
//! share it: the cheap ones are turned away too early, and the expensive ones too late. The proxy
//! tells kinds apart (by route, method and the shape of the path); here the recent times of each
//! are kept.
//!
//! A fixed table of 64 rows of four, as a processor's cache is built: looking up is four
//! comparisons, nothing is allocated, and a client that invents paths can only displace what was
//! learned least recently. Absent: what follows from an expectation.
//!
//! Source: expected service times by request type are what cost-aware shedders use (Uber's QALM
//! measures by endpoint, 2018); ours differs in that the kinds are found and not configured.

use crate::id::Kind;
use crate::stats::octave::Octaves;
use crate::time::{Duration, Instant};
use crate::units::Ratio;

/// Rows of the table; a power of two.
const ROWS: usize = 64;
/// Kinds in a row.
const WAYS: usize = 4;
/// Times that are kept of a kind: three of them lie beyond the 90 % quantile.
const TIMES: usize = 32;
/// Times from which an expectation is made; with fewer the pool's holds.
const TIMES_MIN: u8 = 8;
/// How long a kind that is not seen is believed: as long as a sample of the pool.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Times after which the quantile is looked for anew once there are enough: it costs some hundred
/// nanoseconds, and moves little.
const STRIDE: u8 = 8;
/// An exchange is slow beyond this quantile of its kind: what "The Tail at Scale" hedges after
/// (Dean and Barroso, 2013).
const SLOW_QUANTILE: Ratio = Ratio::from_percent(95);
/// And not before it has taken so many times the median: of times that are all alike one in twenty
/// is beyond the quantile, too, and nothing is wrong with it.
const SLOW_MEDIANS: u32 = 2;
/// And not before this, in microseconds: what timers tell apart.
const SLOW_MIN: u32 = 1000;
/// Times from which that is known: with fewer none of them lies beyond the quantile.
const SLOW_TIMES_MIN: u8 = 20;

/// Times of which the usual one of a kind is the mean, once so many are known.
const USUAL_OF: i32 = 256;

/// The recent times of up to 256 kinds. Memory: 48 KiB.
#[derive(Debug)]
pub(super) struct Kinds {
    entries: Box<[Entry]>,
    /// What those take together of which nothing else is known.
    unknown: Usual,
    quantile: Ratio,
    /// Whether anybody asks what is slow.
    hedge: bool,
}

/// What a kind takes a worker that is not slowed down. It moves by and by only: what slows down
/// everything in a worker is taken out of it.
#[derive(Clone, Copy, Debug)]
struct Usual {
    octaves: Octaves,
    times: i32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: Kind,
    /// When a time of it was learned last.
    learned: Instant,
    /// Microseconds; the first `len` are filled.
    times: [u32; TIMES],
    len: u8,
    next: u8,
    sum: u64,
    /// The quantile, in microseconds.
    expected: u32,
    usual: Usual,
    /// What is slow, in microseconds; none: the greatest number.
    slow: u32,
}

const EMPTY: Entry = Entry {
    kind: Kind(0),
    learned: Instant::ZERO,
    times: [0; TIMES],
    len: 0,
    next: 0,
    sum: 0,
    expected: 0,
    usual: Usual::NONE,
    slow: u32::MAX,
};

impl Kinds {
    pub(super) fn new(quantile: Ratio, hedge: bool) -> Self {
        let entries = vec![EMPTY; ROWS * WAYS].into_boxed_slice();
        Kinds { entries, unknown: Usual::NONE, quantile, hedge }
    }

    /// An exchange of this kind took a worker so long.
    pub(super) fn learn(&mut self, kind: Kind, time: Duration, now: Instant) {
        if kind == Kind::default() {
            return;
        }
        let (quantile, hedge) = (self.quantile, self.hedge);
        let entry = self.entry(kind, now);
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let place = usize::from(entry.next);
        if usize::from(entry.len) == TIMES {
            entry.sum -= u64::from(entry.times[place]);
        } else {
            entry.len += 1;
        }
        entry.times[place] = micros;
        entry.sum += u64::from(micros);
        entry.next = (entry.next + 1) % TIMES as u8;
        entry.learned = now;
        if usize::from(entry.len) < TIMES || entry.next.is_multiple_of(STRIDE) {
            entry.look(quantile);
            if hedge {
                entry.look_for_slow();
            }
        }
    }

    /// The time to reckon with: the quantile of the recent ones; none while too little is known.
    pub(super) fn expected(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let entry = self.find(kind, now)?;
        Some(Duration::from_micros(u64::from(entry.expected)))
    }

    /// By how much longer one of this kind took than usual, in a worker that is slowed down by
    /// `level` as a whole; none while too little is known. Is learned from.
    pub(super) fn beside_usual(
        &mut self,
        kind: Kind,
        time: Duration,
        level: Octaves,
    ) -> Option<Octaves> {
        let known = row_mut(&mut self.entries, kind).iter_mut().find(|entry| entry.kind == kind);
        let usual = match known {
            Some(entry) if kind != Kind::default() => &mut entry.usual,
            _ => &mut self.unknown,
        };
        usual.learn(Octaves::of(time), level)
    }

    /// The time after which one of this kind is slow: it is beyond the 95 % quantile, and twice
    /// the median. None while too little is known.
    pub(super) fn slow_after(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let entry = self.find(kind, now).filter(|entry| entry.slow < u32::MAX)?;
        Some(Duration::from_micros(u64::from(entry.slow)))
    }

    /// The mean of the recent times; none while too little is known.
    pub(super) fn mean(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let entry = self.find(kind, now)?;
        Some(Duration::from_micros(entry.sum / u64::from(entry.len)))
    }

    /// Forget what was learned of this kind.
    pub(super) fn forget(&mut self, kind: Kind) {
        for entry in row_mut(&mut self.entries, kind).iter_mut().filter(|at| at.kind == kind) {
            *entry = EMPTY;
        }
    }

    fn find(&self, kind: Kind, now: Instant) -> Option<&Entry> {
        let from = row(kind);
        self.entries[from..from + WAYS].iter().find(|entry| {
            let fresh = now.since(entry.learned) <= AGE_MAX;
            entry.kind == kind && entry.len >= TIMES_MIN && fresh
        })
    }

    /// The entry of `kind`, begun anew where it is too old, or in place of the oldest.
    fn entry(&mut self, kind: Kind, now: Instant) -> &mut Entry {
        let entries = row_mut(&mut self.entries, kind);
        let known = entries.iter().position(|entry| entry.kind == kind);
        let oldest = || (0..WAYS).min_by_key(|way| (entries[*way].learned, *way));
        let way = known.or_else(oldest).expect("a row has four ways");
        let entry = &mut entries[way];
        if entry.kind != kind || now.since(entry.learned) > AGE_MAX {
            *entry = Entry { kind, ..EMPTY };
        }
        entry
    }
}

impl Usual {
    const NONE: Usual = Usual { octaves: Octaves::from_parts(0), times: 0 };

    fn learn(&mut self, time: Octaves, level: Octaves) -> Option<Octaves> {
        let slowdown = time - self.octaves;
        let is_known = self.times >= i32::from(TIMES_MIN);
        self.times = (self.times + 1).min(USUAL_OF);
        self.octaves = self.octaves + Octaves::from_parts((slowdown - level).parts() / self.times);
        is_known.then_some(slowdown)
    }
}

impl Entry {
    fn look(&mut self, quantile: Ratio) {
        let mut times = self.times;
        self.expected = at_quantile(&mut times[..usize::from(self.len)], quantile);
    }

    fn look_for_slow(&mut self) {
        if self.len < SLOW_TIMES_MIN {
            return;
        }
        let mut times = self.times;
        let times = &mut times[..usize::from(self.len)];
        let median = at_quantile(times, Ratio::from_percent(50));
        let high = at_quantile(times, SLOW_QUANTILE);
        self.slow = high.max(median.saturating_mul(SLOW_MEDIANS)).max(SLOW_MIN);
    }
}

/// The quantile of these times, of which there is at least one; their order changes.
fn at_quantile(times: &mut [u32], quantile: Ratio) -> u32 {
    let len = times.len() as u64;
    let rank = quantile.of(len * 2).div_ceil(2).clamp(1, len);
    let (_, found, _) = times.select_nth_unstable(rank as usize - 1);
    *found
}

/// Where the row of `kind` begins. Kinds are hashes, so any of their bits will do.
fn row(kind: Kind) -> usize {
    (kind.0 as usize % ROWS) * WAYS
}

fn row_mut(entries: &mut [Entry], kind: Kind) -> &mut [Entry] {
    let from = row(kind);
    &mut entries[from..from + WAYS]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn learned(kind: u64, times: impl IntoIterator<Item = u64>) -> Kinds {
        let mut kinds = Kinds::new(Ratio::from_percent(90), true);
        for time in times {
            kinds.learn(Kind(kind), millis(time), Instant::ZERO);
        }
        kinds
    }

    #[test]
    fn an_expectation_needs_some_times_and_is_their_quantile() {
        let now = Instant::ZERO;
        assert_eq!(learned(1, [10; 7]).expected(Kind(1), now), None);
        assert_eq!(learned(1, [10; 8]).expected(Kind(1), now), Some(millis(10)));
        let spread = learned(1, (1..=10).map(|time| time * 10));
        assert_eq!(spread.expected(Kind(1), now), Some(millis(90)));
        assert_eq!(spread.mean(Kind(1), now), Some(millis(55)));
        assert_eq!(spread.expected(Kind(2), now), None);
    }

    #[test]
    fn it_follows_what_changes_and_forgets_what_is_old() {
        let mut kinds = learned(1, [10; 100]);
        for _ in 0..40 {
            kinds.learn(Kind(1), millis(300), Instant::ZERO);
        }
        assert_eq!(kinds.expected(Kind(1), Instant::ZERO), Some(millis(300)));
        let later = Instant::ZERO + AGE_MAX + millis(1);
        assert_eq!(kinds.expected(Kind(1), later), None);
        kinds.learn(Kind(1), millis(20), later);
        assert_eq!(kinds.expected(Kind(1), later), None, "it began anew");
        kinds.forget(Kind(1));
        (0..8).for_each(|_| kinds.learn(Kind(1), millis(20), later));
        assert_eq!(kinds.expected(Kind(1), later), Some(millis(20)));
    }

    #[test]
    fn what_was_learned_least_recently_makes_room() {
        let mut kinds = Kinds::new(Ratio::from_percent(50), true);
        // All of one row.
        let kind = |number: u64| Kind(1 + number * ROWS as u64);
        for number in 0..5 {
            for _ in 0..8 {
                kinds.learn(kind(number), millis(number), Instant::from_millis(number));
            }
        }
        let now = Instant::from_millis(9);
        assert_eq!(kinds.expected(kind(0), now), None);
        for number in 1..5 {
            assert_eq!(kinds.expected(kind(number), now), Some(millis(number)));
        }
    }

    #[test]
    fn slow_is_what_is_beyond_the_quantile_and_twice_the_median() {
        let slow = |kinds: &Kinds| kinds.slow_after(Kind(1), Instant::ZERO);
        assert_eq!(slow(&learned(1, [10; 19])), None);
        assert_eq!(slow(&learned(1, [10; 20])), Some(millis(20)));
        assert_eq!(slow(&learned(1, [0; 20])), Some(millis(1)));
        assert_eq!(slow(&learned(1, (1..=20).map(|time| time * 10))), Some(millis(200)));
        let spread = (1..=18).chain([100, 200]);
        assert_eq!(slow(&learned(1, spread)), Some(millis(100)));
        let mut unasked = Kinds::new(Ratio::from_percent(90), false);
        (0..32).for_each(|_| unasked.learn(Kind(1), millis(10), Instant::ZERO));
        assert_eq!(slow(&unasked), None);
    }

    #[test]
    fn an_unknown_kind_is_not_learned() {
        assert_eq!(learned(0, [10; 40]).expected(Kind(0), Instant::ZERO), None);
    }
}
