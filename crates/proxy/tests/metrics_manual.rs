//! `docs/metrics.md` is written from the metric tables. This test holds the two together.
//!
//! After a change of a table:
//! `UPDATE_GOLDEN=1 cargo test -p spillgate-proxy --test metrics_manual`.

use std::fmt::Write as _;
use std::path::Path;

use spillgate_proxy::metrics::table;
use spillgate_runtime::metrics::{Described, Kind, Label, Unit, Values};

const REFRESH: &str = "UPDATE_GOLDEN=1 cargo test -p spillgate-proxy --test metrics_manual";

#[test]
fn the_manual_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let fresh = manual();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &fresh).expect("docs/metrics.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == fresh, "docs/metrics.md is stale; refresh it with\n    {REFRESH}");
}

fn manual() -> String {
    let mut text = String::from(INTRODUCTION);
    for described in table::ALL {
        entry(&mut text, described);
    }
    text
}

const INTRODUCTION: &str = "\
# Metrics

This page is generated from the tables in the code; do not edit it.

`GET /metrics` on the admin address answers in the OpenMetrics text format.
Durations are in seconds and sizes in bytes; counters end in `_total` and start at zero with the \
process.
Every label has a closed set of values: nothing that a client sends becomes a label.

For each pool, `arrivals = successes + shed + refused + failed + abandoned + in progress`, exact \
when the pool is quiet.
Histograms have one bucket for each doubling from 8 microseconds to 1,100 seconds.
";

fn entry(text: &mut String, described: &Described) {
    let Described { name, kind, unit, help, labels } = described;
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let unit = match unit {
        Unit::Count => "",
        Unit::Bytes => ", bytes",
        Unit::Seconds => ", seconds",
    };
    let _ = write!(text, "\n## `{name}`\n\n{help}.\n\n- kind: {kind}{unit}\n");
    for label in *labels {
        let _ = writeln!(text, "- label `{}`: {}", label.name, values(label));
    }
}

fn values(label: &Label) -> String {
    match label.values {
        Values::Configured(what) => what.to_owned(),
        Values::Closed(all) => {
            all().iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
        }
    }
}
