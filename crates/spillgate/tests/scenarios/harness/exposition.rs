//! A strict reader of the OpenMetrics text format, as far as Spillgate writes it: a metric that a
//! scraper would stumble over fails the scenario.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a sample.
type Labels = BTreeMap<String, String>;

/// One page of metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Families by name, with their kinds.
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Metrics {
    /// Read a page; panics where it breaks a rule of the format.
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Metrics {
        let mut metrics = Metrics::default();
        let lines = text.strip_suffix("# EOF\n").expect("the page ends with its mark");
        for line in lines.lines() {
            match line.strip_prefix("# ") {
                Some(words) => metrics.describe(words),
                None => metrics.sample(line),
            }
        }
        metrics.check_histograms();
        metrics
    }

    /// The sum of the samples of this name that have (at least) these labels, rounded.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let has =
            |of: &Labels, (name, value): &(&str, &str)| of.get(*name).is_some_and(|v| v == value);
        let wanted = self
            .samples
            .iter()
            .filter(|((known, of), _)| known == name && labels.iter().all(|label| has(of, label)));
        wanted.map(|(_, value)| *value).sum::<f64>().round() as u64
    }

    /// The names of all families.
    pub(crate) fn families(&self) -> BTreeSet<&str> {
        self.kinds.keys().map(String::as_str).collect()
    }

    #[track_caller]
    fn describe(&mut self, words: &str) {
        let mut words = words.splitn(3, ' ');
        let what = words.next().unwrap_or_default();
        let name = words.next().expect("a description names its family").to_owned();
        let value = words.next().expect("a description says something").to_owned();
        match what {
            "TYPE" => {
                let before = self.kinds.insert(name.clone(), value);
                assert!(before.is_none(), "two types of {name}");
            }
            "UNIT" => assert!(name.ends_with(&value), "{name} has the unit {value}"),
            "HELP" => assert!(!value.is_empty(), "{name} has an empty text"),
            other => panic!("no description: {other}"),
        }
    }

    #[track_caller]
    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => {
                (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("no end: {line}")))
            }
            None => (series, ""),
        };
        assert!(self.kind_of(name).is_some(), "a sample of no family: {line}");
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(label).collect();
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let before = self.samples.insert((name.to_owned(), labels), value);
        assert!(before.is_none(), "twice: {line}");
    }

    /// The kind of the family that a sample of this name belongs to.
    fn kind_of(&self, name: &str) -> Option<&str> {
        let suffixes = [
            ("counter", &["_total"][..]),
            ("gauge", &[""][..]),
            ("histogram", &["_bucket", "_sum", "_count"][..]),
        ];
        suffixes.iter().find_map(|(kind, suffixes)| {
            suffixes.iter().find_map(|suffix| {
                let family = name.strip_suffix(suffix)?;
                self.kinds.get(family).map(String::as_str).filter(|known| known == kind)
            })
        })
    }

    /// Buckets grow to the count.
    #[track_caller]
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.samples {
            let Some(family) = name.strip_suffix("_bucket") else { continue };
            let mut labels = labels.clone();
            let bound = labels.remove("le").expect("a bucket has a bound");
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("one") };
            buckets.entry((family.to_owned(), labels)).or_default().push((bound, *value));
        }
        for ((family, labels), mut buckets) in buckets {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(buckets.is_sorted_by_key(|bucket| bucket.1), "{family} {labels:?} shrinks");
            let last = buckets.last().expect("it has one");
            let count = self.samples.get(&(format!("{family}_count"), labels));
            assert_eq!((last.0, Some(&last.1)), (f64::INFINITY, count), "{family}");
        }
    }
}

#[track_caller]
fn label(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or_else(|| panic!("no label: {text}"));
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    (name.to_owned(), value.unwrap_or_else(|| panic!("no value: {text}")).to_owned())
}
