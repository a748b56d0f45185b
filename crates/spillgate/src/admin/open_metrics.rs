//! Families of samples as OpenMetrics text.
//!
//! The grammar is written by prometheus-client; this file hands it what a scrape has read. Absent:
//! what a metric means (the tables in the crates that count).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as TextUnit};
use spillgate_runtime::metrics::{Described, Distribution, Family, Kind, Sample, Unit, Value};

/// The type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All families, in their order.
///
/// Errors: none in practice; the writer's only failure is that of its buffer in memory.
pub(super) fn encode(families: Vec<Family>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Told(families)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[derive(Debug)]
struct Told(Vec<Family>);

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { described, samples } in &self.0 {
            let (name, unit) = stem(described);
            let kind = match described.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let help = format!("{}.", described.help);
            let mut metric = encoder.encode_descriptor(name, &help, unit.as_ref(), kind)?;
            for sample in samples {
                write(described, sample, &mut metric)?;
            }
        }
        Ok(())
    }
}

/// The name without what the writer appends: `_total`, and the unit.
fn stem(described: &Described) -> (&'static str, Option<TextUnit>) {
    let name = described.name.strip_suffix("_total").unwrap_or(described.name);
    match described.unit {
        Unit::Count => (name, None),
        Unit::Bytes => (name.strip_suffix("_bytes").unwrap_or(name), Some(TextUnit::Bytes)),
        Unit::Seconds => (name.strip_suffix("_seconds").unwrap_or(name), Some(TextUnit::Seconds)),
    }
}

fn write(described: &Described, sample: &Sample, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    let names = described.labels.iter().map(|label| label.name);
    let labels: Vec<(&str, &str)> = names.zip(sample.labels.iter().map(String::as_str)).collect();
    if labels.is_empty() {
        return write_value(described.kind, &sample.value, metric);
    }
    write_value(described.kind, &sample.value, &mut metric.encode_family(&labels)?)
}

fn write_value(kind: Kind, value: &Value, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => {
            metric.encode_counter::<NoLabelSet, _, f64>(value, None)
        }
        (Kind::Counter, Value::Real(value)) => {
            metric.encode_counter::<NoLabelSet, _, f64>(value, None)
        }
        (_, Value::Whole(value)) => metric.encode_gauge(value),
        (_, Value::Real(value)) => metric.encode_gauge(value),
        (_, Value::Spread(spread)) => write_spread(spread, metric),
    }
}

fn write_spread(spread: &Distribution, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    let mut before = 0;
    let buckets: Vec<(f64, u64)> = spread
        .octaves()
        .map(|(bound, seen)| {
            let here = seen - std::mem::replace(&mut before, seen);
            (bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()), here)
        })
        .collect();
    metric.encode_histogram::<NoLabelSet>(
        spread.sum().as_secs_f64(),
        spread.count(),
        &buckets,
        None,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spillgate_runtime::metrics::{Histogram, Label, Values};

    use super::*;

    const POOL: Label = Label { name: "pool", values: Values::Configured("the pool") };
    static BYTES: Described = Described {
        name: "spillgate_sent_bytes_total",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        help: "Bytes sent",
        labels: &[POOL],
    };
    static TIMES: Described = Described {
        name: "spillgate_stage_duration_seconds",
        kind: Kind::Histogram,
        unit: Unit::Seconds,
        help: "Times",
        labels: &[],
    };

    #[test]
    fn names_units_labels_and_buckets_are_those_of_open_metrics() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_millis(1));
        histogram.observe(Duration::from_secs(2000));
        let mut spread = Box::new(Distribution::new());
        histogram.add_to(&mut spread);
        let labels = vec!["a\"b\\c".to_owned()];
        let text = encode(vec![
            Family { described: &BYTES, samples: vec![Sample { labels, value: Value::Whole(7) }] },
            Family {
                described: &TIMES,
                samples: vec![Sample { labels: Vec::new(), value: Value::Spread(spread) }],
            },
        ])
        .expect("it can be written");
        for line in [
            "# TYPE spillgate_sent_bytes counter",
            "# UNIT spillgate_sent_bytes bytes",
            r#"spillgate_sent_bytes_total{pool="a\"b\\c"} 7"#,
            "# TYPE spillgate_stage_duration_seconds histogram",
            "spillgate_stage_duration_seconds_count 2",
            r#"spillgate_stage_duration_seconds_bucket{le="0.001048576"} 1"#,
            r#"spillgate_stage_duration_seconds_bucket{le="+Inf"} 2"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
