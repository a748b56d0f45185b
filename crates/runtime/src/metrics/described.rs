//! What metrics are, and what one scrape found: names and labels beside numbers.
//!
//! Absent: the cells that are counted in, and the text format.

use super::Distribution;

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
    /// The members of a [`LabelSet`](super::LabelSet); mostly `names::<Set>`.
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
