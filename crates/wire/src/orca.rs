//! The load that a worker reports on its answers: ORCA, the Open Request Cost Aggregation.
//!
//! Source: the ORCA proposal of Envoy and gRPC (xds `OrcaLoadReport`): `endpoint-load-metrics` with
//! `TEXT`, `JSON` or `BIN`, and `endpoint-load-metrics-bin`, a protocol buffer in base64 (RFC 4648,
//! section 4, padded or not, as gRPC has it). Ours differs in that only the utilisation is read,
//! whatever else is there, that `application_utilization` goes before `cpu_utilization`, as in
//! gRPC's weighted round robin, and that a report with any fault says nothing.
//!
//! Absent: what a worker that is so busy should be given.

use std::str::FromStr;

/// A utilisation above this counts as this: a hundred times what a worker can do.
const PPM_MAX: f64 = 100_000_000.0;
/// Most entries of a report: ten times what the message has. Named metrics are few.
const ENTRIES_MAX: usize = 256;

/// Longest binary report: ten times one with a dozen named metrics. A longer one says nothing.
const BINARY_MAX: usize = 4096;

/// How busy the worker is, in parts per million of what it can do (which it may exceed); none: the
/// report does not say, or cannot be read.
pub fn utilization(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?.trim_ascii();
    // The binary field has no word before it, and base64 has no space in it.
    let (kind, report) = text.split_once(' ').unwrap_or(("BIN", text));
    let mut busy = Busy::default();
    match kind {
        "TEXT" => read_text(report, &mut busy)?,
        "JSON" => read_json(report, &mut busy)?,
        "BIN" => read_binary(report.trim_ascii().as_bytes(), &mut busy)?,
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
        match name.trim_ascii() {
            "application_utilization" => self.application = ppm(number),
            "cpu_utilization" => self.cpu = ppm(number),
            _ => {}
        }
        Some(())
    }
}

/// In parts per million; none: it is no share.
fn ppm(number: f64) -> Option<u32> {
    let is_plain = number.is_finite() && number >= 0.0;
    is_plain.then(|| (number * 1_000_000.0).round().min(PPM_MAX) as u32)
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

/// The numbers of the two fields in the message.
const FIELD_CPU: u64 = 1;
const FIELD_APPLICATION: u64 = 9;

/// A protocol buffer in base64. Of a field that comes twice the last one counts, as everywhere.
fn read_binary(text: &[u8], busy: &mut Busy) -> Option<()> {
    let mut buffer = [0; BINARY_MAX];
    let mut rest = decode(text, &mut buffer)?;
    for _ in 0..ENTRIES_MAX {
        if rest.is_empty() {
            return Some(());
        }
        let tag = take_varint(&mut rest)?;
        let field = tag >> 3;
        match (tag & 7, field) {
            (_, 0) => return None,
            (0, _) => drop(take_varint(&mut rest)?),
            (1, field) => {
                let number = f64::from_le_bytes(*rest.split_first_chunk()?.0);
                rest = &rest[8..];
                match field {
                    FIELD_CPU => busy.cpu = ppm(number),
                    FIELD_APPLICATION => busy.application = ppm(number),
                    _ => {}
                }
            }
            (2, _) => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            (5, _) => rest = rest.get(4..)?,
            // Groups are not of this version of the language; there are no other types.
            _ => return None,
        }
    }
    None
}

/// A number in seven bits a byte, the least first; at most ten bytes.
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(first & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Base64 into `buffer`: what was in it. None: it is none, or too long.
fn decode<'b>(text: &[u8], buffer: &'b mut [u8; BINARY_MAX]) -> Option<&'b [u8]> {
    let padding = text.iter().rev().take_while(|letter| **letter == b'=').count();
    let letters = &text[..text.len() - padding];
    let whole = (letters.len() + padding).is_multiple_of(4);
    if letters.is_empty() || padding > 2 || (padding > 0 && !whole) || letters.len() % 4 == 1 {
        return None;
    }
    let length = letters.len() * 3 / 4;
    let bytes = buffer.get_mut(..length)?;
    for (group, out) in letters.chunks(4).zip(bytes.chunks_mut(3)) {
        let mut bits = 0u32;
        for letter in group {
            bits = bits << 6 | u32::from(sextet(*letter)?);
        }
        // Left-aligned in three bytes, whatever the length of the group.
        bits <<= 6 * (4 - group.len());
        let used = 8 * out.len();
        if bits & (0x00ff_ffff >> used) != 0 {
            return None;
        }
        let three = &bits.to_be_bytes()[1..];
        out.copy_from_slice(&three[..out.len()]);
    }
    Some(bytes)
}

fn sextet(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
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

    /// A message of the fields given as bytes, in base64, without padding.
    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for group in bytes.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - group.len()));
            for place in 0..=group.len() {
                let sextet = bits >> (18 - 6 * place) & 63;
                text.push(char::from(LETTERS[sextet as usize]));
            }
        }
        text
    }

    /// A field of eight bytes.
    fn double(field: u8, number: f64) -> Vec<u8> {
        [&[field << 3 | 1][..], &number.to_le_bytes()].concat()
    }

    #[test]
    fn a_binary_report_is_read() {
        // As protoc writes it: cpu_utilization 0.5.
        assert_eq!(utilization(b"CQAAAAAAAOA/"), Some(500_000));
        let (cpu, app) = (double(1, 0.5), double(9, 1.25));
        let named = [&[8 << 3 | 2, 5][..], b"queue"].concat();
        let rps = [3 << 3, 0xac, 0x02].to_vec();
        let short = [20 << 3 | 5, 1, 2, 3, 4].to_vec();
        // Field 20 has a tag of two bytes.
        let short = [&[0xa5, 0x01][..], &short[1..]].concat();
        for (parts, expected) in [
            (vec![&cpu], Some(500_000)),
            (vec![&cpu, &app], Some(1_250_000)),
            (vec![&named, &rps, &short, &cpu], Some(500_000)),
            (vec![&cpu, &double(1, 0.25)], Some(250_000)),
            (vec![&double(9, 0.0), &cpu], Some(500_000)),
            (vec![&double(1, f64::NAN)], None),
            (vec![&double(1, -1.0)], None),
            (vec![&double(1, 1e300)], Some(100_000_000)),
            (vec![&named], None),
        ] {
            let bytes: Vec<u8> = parts.into_iter().flatten().copied().collect();
            let text = base64(&bytes);
            let padded = format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
            for value in [text.clone(), padded.clone(), format!("BIN {padded}")] {
                assert_eq!(utilization(value.as_bytes()), expected, "{value}");
            }
        }
    }

    #[test]
    fn a_broken_binary_report_says_nothing() {
        let cpu = double(1, 0.5);
        let long = [&cpu[..], &vec![0; BINARY_MAX]].concat();
        let entries = [&[3 << 3, 1].repeat(ENTRIES_MAX)[..], &cpu].concat();
        for bytes in [
            &cpu[..8],                                       // ends in the number
            &[&cpu[..], &[0x80]].concat(),                   // ends in a tag
            &[&cpu[..], &[0]].concat(),                      // field 0
            &[&cpu[..], &[8 << 3 | 2, 5, b'a']].concat(),    // longer than there is
            &[&[8 << 3 | 2][..], &[0xff; 9], &[1]].concat(), // longer than anything
            &[&[3 << 3][..], &[0xff; 10], &[1]].concat(),    // a number of eleven bytes
            &[&[3 << 3][..], &[0xff; 9], &[2]].concat(),     // a number of 65 bits
            &[&cpu[..], &[2 << 3 | 3]].concat(),             // a group
            &[&cpu[..], &[2 << 3 | 7]].concat(),             // a type that is none
            &long,
            &entries,
        ] {
            let text = base64(bytes);
            assert_eq!(utilization(text.as_bytes()), None, "{bytes:?}");
        }
        for text in
            ["CQAAAAAAAOA", "CQAAAAAAAOA/=", "CQAAAAAAAOA/====", "CQ=AAAAAAAOA", "=", "CQAA-_"]
        {
            assert_eq!(utilization(text.as_bytes()), None, "{text}");
        }
        // Bits that are left over must be zero.
        assert_eq!(utilization(b"CQAAAAAAAOA/GAF="), None);
        assert_eq!(utilization(b"CQAAAAAAAOA/GAE="), Some(500_000));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 1u64;
        for length in 0..2000 {
            let bytes: Vec<u8> = (0..length % 90)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            utilization(base64(&bytes).as_bytes());
            utilization(&bytes);
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
