//! Cells that a shard counts in, and the words with which a scrape tells what it found there.
//!
//! Every cell but [`SharedCounter`] has **one writer**, the shard that owns it, and
//! any number of readers. So a count is a relaxed load and a relaxed store, which costs what a
//! plain addition costs; readers see every cell whole, but not several cells of one moment.
//!
//! Absent on purpose: names in the cells, registries, locks, lookups by label. What a cell means is
//! said once, by a [`Described`] record of the crate that counts, and put beside the sums at scrape
//! time only. The text format is written by the admin page of the binary.

mod described;
mod histogram;

pub use described::{Described, Family, Kind, Label, Sample, Unit, Value, Values};
pub use histogram::{Distribution, Histogram};

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
