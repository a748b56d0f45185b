//! Cells that a shard counts in, and the words with which a scrape tells what it found there.
//!
//! Every cell of this file but [`SharedCounter`] has **one writer**, the shard that owns it, and
//! any number of readers. So a count is a relaxed load and a relaxed store, which costs what a
//! plain addition costs; readers see every cell whole, but not several cells of one moment.
//!
//! Absent on purpose: names in the cells, registries, locks, lookups by label. What a cell means is
//! said once, by a [`Described`] record of the crate that counts, and put beside the sums at scrape
//! time only. The text format is written by the admin page of the binary.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use spillgate_core::units::Ratio;

/// A count that only grows. One writer; wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `count` more. Loses counts when two threads call it on one cell.
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// The count.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A count that only grows, with any number of writers. For the control side, where no thread owns
/// a cell; about ten times the cost of a [`Counter`].
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `count` more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// The count.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that goes up and down. One writer; never below zero.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Makes it `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Makes it larger by `amount`.
    pub fn add(&self, amount: u64) {
        self.set(self.value().saturating_add(amount));
    }

    /// Makes it smaller by `amount`, at least zero.
    pub fn subtract(&self, amount: u64) {
        self.set(self.value().saturating_sub(amount));
    }

    /// The number.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A closed set of label values, such as the reasons for shedding.
pub trait LabelSet: Copy + 'static {
    /// All members, each at the place that [`LabelSet::index`] names.
    const ALL: &'static [Self];

    /// The place of this member in [`LabelSet::ALL`].
    fn index(self) -> usize;

    /// The label value: lower case, underscores.
    fn name(self) -> &'static str;
}

/// The label values of a set, in order.
pub fn names<S: LabelSet>() -> Vec<&'static str> {
    S::ALL.iter().map(|member| member.name()).collect()
}

/// One [`Counter`] for each member of a closed set.
#[derive(Debug)]
pub struct Counters<S> {
    cells: Box<[Counter]>,
    set: PhantomData<fn(S)>,
}

impl<S: LabelSet> Counters<S> {
    /// All at zero.
    pub fn new() -> Self {
        Counters { cells: S::ALL.iter().map(|_| Counter::default()).collect(), set: PhantomData }
    }

    /// Counts one more of `member`.
    pub fn increment(&self, member: S) {
        self.cells[member.index()].increment();
    }

    /// Counts `count` more of `member`.
    pub fn add(&self, member: S, count: u64) {
        self.cells[member.index()].add(count);
    }

    /// The count of `member`.
    pub fn value(&self, member: S) -> u64 {
        self.cells[member.index()].value()
    }

    /// The count of all members.
    pub fn sum(&self) -> u64 {
        self.cells.iter().map(Counter::value).sum()
    }
}

impl<S: LabelSet> Default for Counters<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// Durations at most 2^13 ns (8.2 us) long share the first bucket.
const LOW_BITS: u32 = 13;
/// Durations longer than 2^40 ns (1,100 s) share the last bucket.
const HIGH_BITS: u32 = 40;
/// Each octave between them has four buckets of equal width: a bucket is at most 25 % wide.
const SPLIT_BITS: u32 = 2;
const SPLIT: usize = 1 << SPLIT_BITS;
const OCTAVES: usize = (HIGH_BITS - LOW_BITS) as usize;
const BUCKETS: usize = OCTAVES * SPLIT + 2;

/// How many durations fell where, from 8 us to 1,100 s. One writer; 888 bytes.
///
/// Log-linear buckets as in HdrHistogram (Gil Tene, 2012) with two significant bits: enough for a
/// percentile that is at most 25 % too high, small enough for one per stage, pool and shard. A
/// bucket holds what is above its lower and at most its upper bound, as OpenMetrics counts.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = &self.buckets[bucket_of(nanos)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum_nanos.store(self.sum_nanos.load(Relaxed).wrapping_add(nanos), Relaxed);
    }

    /// Adds what was counted here to `total`.
    pub fn add_to(&self, total: &mut Distribution) {
        for (into, from) in total.buckets.iter_mut().zip(&self.buckets) {
            *into += from.load(Relaxed);
        }
        let sum = total.sum_nanos.wrapping_add(self.sum_nanos.load(Relaxed));
        total.sum_nanos = sum;
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_nanos: AtomicU64::new(0),
        }
    }
}

/// Where `nanos` is counted.
fn bucket_of(nanos: u64) -> usize {
    let value = nanos.saturating_sub(1);
    if value < 1 << LOW_BITS {
        return 0;
    }
    if value >= 1 << HIGH_BITS {
        return BUCKETS - 1;
    }
    let octave = value.ilog2();
    let part = (value >> (octave - SPLIT_BITS)) as usize & (SPLIT - 1);
    1 + (octave - LOW_BITS) as usize * SPLIT + part
}

/// The longest duration that bucket `index` holds, in nanoseconds; none for the last, open one.
fn bound_of(index: usize) -> Option<u64> {
    if index + 1 >= BUCKETS {
        return None;
    }
    let (octave, part) = (index / SPLIT, index % SPLIT);
    Some(((SPLIT + part) as u64) << (LOW_BITS as usize + octave - SPLIT_BITS as usize))
}

/// A sum of histograms: what a scrape reads quantiles from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    buckets: [u64; BUCKETS],
    sum_nanos: u64,
}

impl Distribution {
    /// Nothing counted.
    pub const fn new() -> Self {
        Distribution { buckets: [0; BUCKETS], sum_nanos: 0 }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All counted durations together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos)
    }

    /// The smallest bucket bound at or below which `share` of the durations lie; zero when nothing
    /// was counted, 1,100 s when it lies beyond the range.
    pub fn quantile(&self, share: Ratio) -> Duration {
        let count = self.count();
        if count == 0 {
            return Duration::ZERO;
        }
        let rank = share.of(count).clamp(1, count);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= rank {
                return Duration::from_nanos(bound_of(index).unwrap_or(1 << HIGH_BITS));
            }
        }
        Duration::from_nanos(1 << HIGH_BITS)
    }

    /// One bound for each octave with how many durations are at or below it, and last `None` with
    /// all of them: the buckets of the text format (28 and the open one).
    pub fn octaves(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let mut seen = 0;
        self.buckets.iter().enumerate().filter_map(move |(index, bucket)| {
            seen += bucket;
            let bound = bound_of(index);
            let told = index % SPLIT == 0 || bound.is_none();
            told.then_some((bound.map(Duration::from_nanos), seen))
        })
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

/// What a metric is: one record for each, in the table of the crate that counts it.
///
/// The manual (`docs/metrics.md`) and the text format are both written from these records.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// `spillgate_<noun>_<unit>`, with `_total` last for counters.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// In what it is counted.
    pub unit: Unit,
    /// One sentence, without a final stop.
    pub help: &'static str,
    /// Its labels, in the order in which they are written.
    pub labels: &'static [Label],
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the process ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Durations, counted in buckets.
    Histogram,
}

/// In what a metric is counted. Base units only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things: the noun in the name says which.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// One label of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What values it can have.
    pub values: Values,
}

/// What values a label can have. Never an open set: what clients send is no label.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// The members of a [`LabelSet`]; mostly `names::<Set>`.
    Closed(fn() -> Vec<&'static str>),
    /// Names or numbers from the configuration; the text says which.
    Configured(&'static str),
}

/// A metric with all its samples, as read by one scrape.
#[derive(Clone, Debug)]
pub struct Family {
    /// What it is.
    pub described: &'static Described,
    /// Its samples; one for each combination of label values that exists.
    pub samples: Vec<Sample>,
}

/// One sample of a [`Family`].
#[derive(Clone, Debug)]
pub struct Sample {
    /// The label values, in the order of [`Described::labels`].
    pub labels: Vec<String>,
    /// The number.
    pub value: Value,
}

/// The number in a [`Sample`]. Its variant fits the [`Kind`] of the family.
#[derive(Clone, Debug)]
pub enum Value {
    /// Of a counter or a gauge that counts whole things.
    Whole(u64),
    /// Of a counter or a gauge in seconds.
    Real(f64),
    /// Of a histogram.
    Spread(Box<Distribution>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_bucket(nanos: u64) {
        let index = bucket_of(nanos);
        if let Some(bound) = bound_of(index) {
            assert!(nanos <= bound, "{nanos} lies above its bucket {index}, which ends at {bound}");
        }
        let below = if index == 0 { None } else { bound_of(index - 1) };
        assert!(below.is_none_or(|below| nanos > below), "{nanos} lies below its bucket {index}");
    }

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for nanos in [0, 1, 8_191, 8_192, 8_193, 10_239, 10_240, 10_241, 1 << 40, (1 << 40) + 1] {
            check_bucket(nanos);
        }
        for octave in 0..64 {
            for part in 0..16 {
                let nanos = (1u64 << octave) + (1u64 << octave) / 16 * part;
                check_bucket(nanos);
                check_bucket(nanos + 1);
            }
        }
        check_bucket(u64::MAX);
    }

    #[test]
    fn a_quantile_is_at_most_a_quarter_too_high() {
        let cell = Histogram::default();
        for millis in 1..=1000 {
            cell.observe(Duration::from_millis(millis));
        }
        let mut total = Distribution::new();
        cell.add_to(&mut total);
        assert_eq!(total.count(), 1000);
        assert_eq!(total.sum(), Duration::from_millis(500_500));
        for (percent, exact) in [(1, 10), (50, 500), (90, 900), (99, 990), (100, 1000)] {
            let found = total.quantile(Ratio::from_percent(percent)).as_millis();
            assert!(found >= exact && found <= exact * 5 / 4, "{percent} %: {found} for {exact}");
        }
        assert_eq!(Distribution::new().quantile(Ratio::from_percent(50)), Duration::ZERO);
    }

    #[test]
    fn histograms_of_several_shards_add_up() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.observe(Duration::from_millis(1));
        two.observe(Duration::from_secs(5000));
        let mut total = Distribution::new();
        one.add_to(&mut total);
        two.add_to(&mut total);
        let told: Vec<_> = total.octaves().collect();
        assert_eq!(told.len(), OCTAVES + 2);
        assert_eq!(told[0], (Some(Duration::from_nanos(8192)), 0));
        assert_eq!(told[OCTAVES], (Some(Duration::from_nanos(1 << 40)), 1));
        assert_eq!(told[OCTAVES + 1], (None, 2));
    }

    #[test]
    fn a_gauge_never_goes_below_zero() {
        let gauge = Gauge::default();
        gauge.add(2);
        gauge.subtract(3);
        assert_eq!(gauge.value(), 0);
    }
}
