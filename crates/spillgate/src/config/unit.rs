//! Numbers with their unit, as the file writes them: `"250ms"`, `"64KiB"`, `"20%"`.
//!
//! One number, one unit, no space between. Fractions are allowed where they come out exact
//! (`"1.5s"`). A spelling that is close to a right one is still an error, but the fault says how to
//! write it. Ranges are not looked at here.

use std::time::Duration;

use spillgate_core::units::{ByteSize, Ratio};

/// Why a text is not a value of its kind, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What is wrong with it: the text under the caret.
    pub(super) what: String,
    /// The value to write instead, without quotes.
    pub(super) mend: Option<String>,
}

impl Fault {
    /// A fault that has no obvious mend.
    pub(super) fn new(what: impl Into<String>) -> Self {
        Fault { what: what.into(), mend: None }
    }

    /// A fault, and the value that was probably meant.
    pub(super) fn with_mend(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Fault { what: what.into(), mend: Some(mend.into()) }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.mend {
            Some(mend) => write!(f, "{}: write {mend}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// A unit: how it is written, how much it is, and how people write it elsewhere (lower case).
struct Unit {
    name: &'static str,
    factor: u64,
    elsewhere: &'static [&'static str],
}

/// The units of one kind of value.
struct Scale {
    units: &'static [Unit],
    /// The units to propose.
    allowed: &'static str,
    /// The unit that a number without one probably has.
    plain: &'static str,
}

const fn unit(name: &'static str, factor: u64, elsewhere: &'static [&'static str]) -> Unit {
    Unit { name, factor, elsewhere }
}

/// In nanoseconds.
const DURATIONS: Scale = Scale { units: &DURATION_UNITS, allowed: "ms, s, m or h", plain: "s" };
const DURATION_UNITS: [Unit; 4] = [
    unit("ms", 1_000_000, &["msec", "msecs", "millis", "millisecond", "milliseconds"]),
    unit("s", 1_000_000_000, &["sec", "secs", "second", "seconds"]),
    unit("m", 60_000_000_000, &["min", "mins", "minute", "minutes"]),
    unit("h", 3_600_000_000_000, &["hr", "hrs", "hour", "hours"]),
];

/// In bytes.
const SIZES: Scale = Scale { units: &SIZE_UNITS, allowed: "B, KiB, MiB, GiB or TiB", plain: "B" };
const SIZE_UNITS: [Unit; 9] = [
    unit("B", 1, &["b", "byte", "bytes"]),
    unit("KiB", 1 << 10, &["k", "ki", "kb", "kib"]),
    unit("MiB", 1 << 20, &["m", "mi", "mb", "mib"]),
    unit("GiB", 1 << 30, &["g", "gi", "gb", "gib"]),
    unit("TiB", 1 << 40, &["t", "ti", "tb", "tib"]),
    unit("kB", 1_000, &[]),
    unit("MB", 1_000_000, &[]),
    unit("GB", 1_000_000_000, &[]),
    unit("TB", 1_000_000_000_000, &[]),
];

/// In parts per million.
const SHARES: Scale =
    Scale { units: &[unit("%", 10_000, &["percent", "pct"])], allowed: "%", plain: "%" };

/// Reads a duration such as `250ms`, `5s`, `1.5m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, Fault> {
    read(text, &DURATIONS).map(Duration::from_nanos).map_err(|fault| match sum_of_parts(text) {
        Some(sum) => Fault::with_mend("one number and one unit are needed", duration_text(sum)),
        None => fault,
    })
}

/// Reads a size such as `64KiB`, `1MiB`, or in powers of ten `64kB`, `1MB`.
pub(super) fn size(text: &str) -> Result<ByteSize, Fault> {
    read(text, &SIZES).map(ByteSize::from_bytes)
}

/// Reads bytes a second, such as `64B/s`; the `/s` may be left out.
pub(super) fn rate(text: &str) -> Result<ByteSize, Fault> {
    size(text.strip_suffix("/s").unwrap_or(text))
        .map_err(|fault| Fault { mend: fault.mend.map(|right| format!("{right}/s")), ..fault })
}

/// Reads a share such as `20%`.
pub(super) fn share(text: &str) -> Result<Ratio, Fault> {
    let ppm = read(text, &SHARES).map_err(|fault| match fraction_as_percent(text) {
        Some(mend) => Fault::with_mend("a share without its `%`", mend),
        None => fault,
    })?;
    match u32::try_from(ppm) {
        Ok(ppm) if ppm <= Ratio::from_percent(100).as_ppm() => Ok(Ratio::from_ppm(ppm)),
        _ => Err(Fault::with_mend("more than the whole", "100%")),
    }
}

/// `0.2` as `20%`; none when the text is no fraction of one.
pub(super) fn fraction_as_percent(text: &str) -> Option<String> {
    if !text.contains('.') {
        return None;
    }
    let ppm = scaled(text, 1_000_000)?;
    (ppm <= 1_000_000).then(|| ppm_text(ppm))
}

/// A duration as the file writes it, in the largest unit that fits exactly.
pub(super) fn duration_text(value: Duration) -> String {
    let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".into();
    }
    match DURATION_UNITS.iter().rev().find(|unit| nanos.is_multiple_of(unit.factor)) {
        Some(unit) => format!("{}{}", nanos / unit.factor, unit.name),
        None => format!("{}ms", nanos as f64 / 1e6),
    }
}

/// A share as the file writes it.
pub(super) fn ratio_text(value: Ratio) -> String {
    ppm_text(u64::from(value.as_ppm()))
}

fn ppm_text(ppm: u64) -> String {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    if rest == 0 {
        return format!("{whole}%");
    }
    format!("{whole}.{}%", format!("{rest:04}").trim_end_matches('0'))
}

fn read(text: &str, scale: &Scale) -> Result<u64, Fault> {
    let (number, rest) = split(text);
    if number.is_empty() {
        return Err(Fault::new(format!("not a number with a unit ({})", scale.allowed)));
    }
    if let Some(unit) = scale.units.iter().find(|unit| unit.name == rest) {
        return scaled(number, unit.factor)
            .ok_or_else(|| Fault::new(format!("not exact, or too large, in `{}`", unit.name)));
    }
    if rest.is_empty() {
        let what = format!("a number without a unit ({})", scale.allowed);
        return Err(Fault::with_mend(what, format!("{number}{}", scale.plain)));
    }
    let tidy = rest.trim();
    if scale.units.iter().any(|unit| unit.name == tidy) {
        return Err(Fault::with_mend("no space goes before the unit", format!("{number}{tidy}")));
    }
    let lower = tidy.to_lowercase();
    let meant = scale
        .units
        .iter()
        .find(|unit| unit.name.to_lowercase() == lower || unit.elsewhere.contains(&lower.as_str()));
    let what = format!("the unit is not one of {}", scale.allowed);
    Err(match meant {
        Some(unit) => Fault::with_mend(what, format!("{number}{}", unit.name)),
        None => Fault::new(what),
    })
}

/// What `1m30s` comes to; none when the text is not of that form.
fn sum_of_parts(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = split(rest).0.len();
        let unit = &rest[unit_at..];
        let end = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let part = read(&rest[..unit_at + end], &DURATIONS).ok()?;
        sum = sum.checked_add(Duration::from_nanos(part))?;
        rest = &unit[end..];
    }
    (!text.is_empty()).then_some(sum)
}

/// The leading digits and dots, and what follows them.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// `number` times `factor`; none when that is not whole or does not fit.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let parts: u64 = fraction.parse().ok()?;
    let divisor = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let extra = u128::from(parts) * u128::from(factor);
    if extra % u128::from(divisor) != 0 {
        return None;
    }
    let sum = u128::from(whole) * u128::from(factor) + extra / u128::from(divisor);
    u64::try_from(sum).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mend<T>(result: Result<T, Fault>) -> Option<String> {
        result.err().expect("the text is at fault").mend
    }

    #[test]
    fn durations_are_one_number_and_one_unit() {
        for (text, millis) in [
            ("0s", 0),
            ("250ms", 250),
            ("5s", 5_000),
            ("1.5s", 1_500),
            ("1m", 60_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5", "-5s", "5x", "1.s", "1.2.3s", ".5s", "0.0000000001s", "1m30s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("99999999999999999999h").is_err());
    }

    #[test]
    fn close_spellings_are_mended() {
        for (text, right) in [
            ("5 s", "5s"),
            ("5sec", "5s"),
            ("5S", "5s"),
            ("5 minutes", "5m"),
            ("5", "5s"),
            ("1m30s", "90s"),
            ("1h30m", "90m"),
        ] {
            assert_eq!(mend(duration(text)).as_deref(), Some(right), "{text}");
        }
        for (text, right) in
            [("64k", "64KiB"), ("64KB", "64KiB"), ("1 MiB", "1MiB"), ("1gb", "1GiB")]
        {
            assert_eq!(mend(size(text)).as_deref(), Some(right), "{text}");
        }
        assert_eq!(mend(share("0.2")).as_deref(), Some("20%"));
        assert_eq!(mend(share("20 percent")).as_deref(), Some("20%"));
    }

    #[test]
    fn sizes_know_both_kinds_of_kilo() {
        assert_eq!(size("64KiB"), Ok(ByteSize::from_kib(64)));
        assert_eq!(size("64kB"), Ok(ByteSize::from_bytes(64_000)));
        assert_eq!(rate("64B/s"), Ok(ByteSize::from_bytes(64)));
        assert_eq!(rate("64B"), Ok(ByteSize::from_bytes(64)));
        assert!(size("64B/s").is_err());
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["0s", "1ms", "250ms", "90s", "5m", "24h", "0.5ms"] {
            assert_eq!(duration_text(duration(text).expect("valid")), text);
        }
        for text in ["0%", "20%", "99.9%", "0.0001%"] {
            assert_eq!(ratio_text(share(text).expect("valid")), text);
        }
    }
}
