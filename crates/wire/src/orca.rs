//! The load that a worker reports on its answers: ORCA, the Open Request Cost Aggregation.
//!
//! Source: the ORCA proposal of Envoy and gRPC, `endpoint-load-metrics` with `TEXT` and `JSON`
//! (xds `OrcaLoadReport`). Ours differs in that only the utilisation is read, whatever else is
//! there, that `application_utilization` goes before `cpu_utilization`, as in gRPC's weighted round
//! robin, and that a report with any fault says nothing.
//!
//! Absent: the binary form, and what a worker that is so busy should be given.

use std::str::FromStr;

/// A utilisation above this counts as this: a hundred times what a worker can do.
const PPM_MAX: f64 = 100_000_000.0;
/// Most entries of a report: ten times what the message has. Named metrics are few.
const ENTRIES_MAX: usize = 256;

/// How busy the worker is, in parts per million of what it can do (which it may exceed); none: the
/// report does not say, or cannot be read.
pub fn utilization(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?.trim_ascii();
    let (kind, report) = text.split_once(' ')?;
    let mut busy = Busy::default();
    match kind {
        "TEXT" => read_text(report, &mut busy)?,
        "JSON" => read_json(report, &mut busy)?,
        _ => return None,
    }
    // Zero is what a worker reports that does not measure it.
    let said = busy.application.filter(|ppm| *ppm > 0);
    said.or(busy.cpu.filter(|ppm| *ppm > 0))
}

/// What a report says of utilisation.
#[derive(Default)]
struct Busy {
    application: Option<u32>,
    cpu: Option<u32>,
}

impl Busy {
    /// Take an entry over; none: its value is no number.
    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        let number = f64::from_str(value.trim_ascii()).ok()?;
        let is_plain = number.is_finite() && number >= 0.0;
        let ppm = (number * 1_000_000.0).round().min(PPM_MAX) as u32;
        match name.trim_ascii() {
            "application_utilization" => self.application = is_plain.then_some(ppm),
            "cpu_utilization" => self.cpu = is_plain.then_some(ppm),
            _ => {}
        }
        Some(())
    }
}

/// `cpu_utilization=0.3, named_metrics.queue=7`
fn read_text(report: &str, busy: &mut Busy) -> Option<()> {
    for entry in report.split(',').take(ENTRIES_MAX) {
        let (name, value) = entry.split_once('=').or_else(|| entry.split_once(':'))?;
        busy.take(name, value)?;
    }
    Some(())
}

/// `{"cpu_utilization": 0.3, "named_metrics": {"queue": 7}}`: objects in the one object are passed
/// over, and hold nothing but numbers.
fn read_json(report: &str, busy: &mut Busy) -> Option<()> {
    let mut rest = report.trim_ascii().strip_prefix('{')?.trim_ascii_start();
    let mut inside = false;
    for _ in 0..ENTRIES_MAX {
        if let Some(after) = rest.strip_prefix('}') {
            rest = after.trim_ascii_start();
            if !inside {
                return rest.is_empty().then_some(());
            }
            inside = false;
        } else {
            let (name, after) = rest.strip_prefix('"')?.split_once('"')?;
            if name.contains('\\') {
                return None;
            }
            let value = after.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
            if let Some(object) = value.strip_prefix('{').filter(|_| !inside) {
                rest = object.trim_ascii_start();
                inside = true;
                continue;
            }
            let end = value.find([',', '}'])?;
            busy.take(if inside { "" } else { name }, &value[..end])?;
            rest = &value[end..];
        }
        rest = match rest.strip_prefix(',') {
            Some(after) => Some(after.trim_ascii_start()).filter(|next| next.starts_with('"'))?,
            None if rest.starts_with('}') => rest,
            None => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        for (value, expected) in [
            ("TEXT cpu_utilization=0.3", Some(300_000)),
            ("TEXT cpu_utilization=0.3, application_utilization=1.25", Some(1_250_000)),
            ("TEXT application_utilization=0, cpu_utilization=0.5", Some(500_000)),
            ("TEXT named_metrics.queue=7,rps_fractional=3.5,cpu_utilization:1e-1", Some(100_000)),
            ("TEXT rps_fractional=3", None),
            ("JSON {\"cpu_utilization\": 0.3}", Some(300_000)),
            (
                "JSON {\"named_metrics\":{\"a\":1,\"cpu_utilization\":9},\"cpu_utilization\":2}",
                Some(2_000_000),
            ),
            ("JSON { \"utilization\" : { } , \"application_utilization\" : 0.7 } ", Some(700_000)),
            ("JSON {\"cpu_utilization\":0.3,\"named_metrics\":{\"a\":1}}", Some(300_000)),
            ("JSON {}", None),
            ("TEXT cpu_utilization=99999999", Some(100_000_000)),
        ] {
            assert_eq!(utilization(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_report_with_a_fault_says_nothing() {
        for value in [
            "",
            "TEXT",
            "TEXT ",
            "BIN CgA=",
            "cpu_utilization=0.3",
            "TEXT cpu_utilization",
            "TEXT cpu_utilization=x",
            "TEXT cpu_utilization=-1",
            "TEXT cpu_utilization=NaN",
            "TEXT cpu_utilization=0.3,,",
            "JSON {\"cpu_utilization\":0.3",
            "JSON [1]",
            "JSON {\"cpu_utilization\":\"0.3\"}",
            "JSON {\"a\":{\"b\":{\"c\":1}}}",
            "JSON {\"cpu_utilization\":0.3} x",
            "JSON {\"cpu_utilization\" 0.3}",
            "\u{fc}",
            "JSON {\"a\":1 \"cpu_utilization\":2}",
            "JSON {\"a\\\"\":1,\"cpu_utilization\":2}",
        ] {
            assert_eq!(utilization(value.as_bytes()), None, "{value}");
        }
        assert_eq!(utilization(b"TEXT cpu_utilization=\xff"), None);
    }
}
