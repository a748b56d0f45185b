//! Fields that say where a request came from, and which trace it belongs to.
//!
//! `X-Forwarded-For` (a custom older than any standard), `Forwarded` (RFC 7239) and `traceparent`
//! (W3C Trace Context, 2021, section 3.2). Absent: whom to believe, and the random source that new
//! trace ids come from.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::digits;

/// The addresses of an `X-Forwarded-For` value from the right: the nearest hop first. `None` stands
/// for a member that is no address (`unknown`, a name): what lies left of it was not written by
/// anybody we can tell.
pub fn hops_from_right(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    value.rsplit(|byte| *byte == b',').map(|member| address(member.trim_ascii()))
}

/// An address, perhaps in brackets, perhaps with a port.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<Ipv6Addr>().map(IpAddr::V6).ok()
}

/// Append `address` as `X-Forwarded-For` writes it: bare, no brackets.
pub fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => write_v4(out, address),
        // Writing to a vector cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

fn write_v4(out: &mut Vec<u8>, address: Ipv4Addr) {
    let mut text = [0; 16];
    let mut len = 0;
    for octet in address.octets() {
        text[len..len + 4].copy_from_slice(&OCTETS[usize::from(octet)]);
        len += 2 + usize::from(octet > 9) + usize::from(octet > 99);
    }
    // All of it is appended and the last dot cut off with the rest: a length that is known.
    let end = out.len() + len - 1;
    out.extend_from_slice(&text);
    out.truncate(end);
}

/// Each number of an IPv4 address with the dot after it.
const OCTETS: [[u8; 4]; 256] = {
    let mut texts = [[b'.'; 4]; 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let mut at = 0;
        let mut from = match octet {
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        while from < 3 {
            texts[octet][at] = b'0' + digits[from] as u8;
            at += 1;
            from += 1;
        }
        octet += 1;
    }
    texts
};

/// Append one element of `Forwarded`: `for=192.0.2.1;host=example.com;proto=https`, quoted where
/// RFC 7239 section 4 asks for it. `None` as the address is written as `unknown` (a client on a
/// Unix socket). An empty host is left out.
pub fn write_forwarded(out: &mut Vec<u8>, address: Option<IpAddr>, host: &[u8], proto: &str) {
    out.extend_from_slice(b"for=");
    match address {
        None => out.extend_from_slice(b"unknown"),
        Some(IpAddr::V4(address)) => write_v4(out, address),
        Some(IpAddr::V6(address)) => drop(write!(out, "\"[{address}]\"")),
    }
    if !host.is_empty() {
        out.extend_from_slice(b";host=");
        write_quoted(out, host);
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto.as_bytes());
}

/// The bytes that need no quotes.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let text = byte as u8;
        plain[byte] =
            text.is_ascii_alphanumeric() || matches!(text, b'-' | b'.' | b'_' | b'~' | b'!');
        byte += 1;
    }
    plain
};

/// Append `text` as a token where it is one, else as a quoted string.
fn write_quoted(out: &mut Vec<u8>, text: &[u8]) {
    if text.iter().all(|byte| PLAIN[usize::from(*byte)]) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// A `traceparent`: which trace a request belongs to, and the span it was sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace; not all zero.
    pub trace_id: [u8; 16],
    /// The sender's span; not all zero.
    pub parent_id: [u8; 8],
    /// Bit 0: sampled.
    pub flags: u8,
}

impl Traceparent {
    /// The size of a version 00 value.
    pub const SIZE: usize = 55;

    /// Read a value. `None` where it is invalid (the request then starts a trace of its own): not
    /// lower-case hex, an id of zeros, version `ff`, or another size than version 00 has. Of a
    /// later version the part is read that version 00 knows.
    pub fn parse(value: &[u8]) -> Option<Traceparent> {
        let (known, rest) = value.split_at_checked(Self::SIZE)?;
        let [version] = hex_bytes(&known[..2])?;
        let is_later = version > 0 && version < 0xff && matches!(rest, [] | [b'-', ..]);
        let is_first = version == 0 && rest.is_empty();
        let is_split = known[2] == b'-' && known[35] == b'-' && known[52] == b'-';
        if !is_split || !(is_first || is_later) {
            return None;
        }
        let parsed = Traceparent {
            trace_id: hex_bytes(&known[3..35])?,
            parent_id: hex_bytes(&known[36..52])?,
            flags: hex_bytes::<1>(&known[53..55])?[0],
        };
        (parsed.trace_id != [0; 16] && parsed.parent_id != [0; 8]).then_some(parsed)
    }

    /// The trace in lower-case hex digits.
    #[inline]
    pub fn trace_text(&self) -> [u8; 32] {
        hex_text(self.trace_id)
    }

    /// Append it as a version 00 value.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        text[3..35].copy_from_slice(&self.trace_text());
        text[36..52].copy_from_slice(&hex_text::<8, 16>(self.parent_id));
        text[53..].copy_from_slice(&digits::hex(u32::from(self.flags))[6..]);
        out.extend_from_slice(&text);
    }
}

/// `bytes`, a multiple of four, in lower-case hex digits.
#[inline]
fn hex_text<const N: usize, const DIGITS: usize>(bytes: [u8; N]) -> [u8; DIGITS] {
    let mut text = [0; DIGITS];
    let (words, _) = bytes.as_chunks::<4>();
    let (places, _) = text.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = digits::hex(u32::from_be_bytes(*word));
    }
    text
}

/// `N` bytes out of `2 * N` lower-case hex digits.
fn hex_bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_read_from_the_right() {
        let cases: [(&str, &[Option<&str>]); 9] = [
            ("192.0.2.1", &[Some("192.0.2.1")]),
            ("192.0.2.1, 10.0.0.1", &[Some("10.0.0.1"), Some("192.0.2.1")]),
            (" 2001:db8::1 ,10.0.0.1\t", &[Some("10.0.0.1"), Some("2001:db8::1")]),
            ("192.0.2.1:4711, [::1]:80, [::2]", &[Some("::2"), Some("::1"), Some("192.0.2.1")]),
            ("unknown, 10.0.0.1", &[Some("10.0.0.1"), None]),
            ("", &[None]),
            ("10.0.0.1,,", &[None, None, Some("10.0.0.1")]),
            ("\u{ff}, 10.0.0.01, 1.2.3, \"::1\", [::1", &[None, None, None, None, None]),
            ("::ffff:10.0.0.1", &[Some("::ffff:10.0.0.1")]),
        ];
        for (value, expected) in cases {
            let expected: Vec<Option<IpAddr>> = expected
                .iter()
                .map(|hop| hop.map(|text| text.parse().expect("an address of the test")))
                .collect();
            let hops: Vec<Option<IpAddr>> = hops_from_right(value.as_bytes()).collect();
            assert_eq!(hops, expected, "{value:?}");
        }
    }

    #[test]
    fn elements_are_quoted_where_they_must_be() {
        let cases: [(Option<&str>, &str, &str, &str); 5] = [
            (Some("192.0.2.1"), "a.example", "https", "for=192.0.2.1;host=a.example;proto=https"),
            (Some("2001:db8::1"), "", "http", "for=\"[2001:db8::1]\";proto=http"),
            (Some("::1"), "[::1]:80", "http", "for=\"[::1]\";host=\"[::1]:80\";proto=http"),
            (None, "a:8080", "http", "for=unknown;host=\"a:8080\";proto=http"),
            (None, "a\"\\", "http", "for=unknown;host=\"a\\\"\\\\\";proto=http"),
        ];
        for (address, host, proto, expected) in cases {
            let mut out = Vec::new();
            let address = address.map(|text| text.parse().expect("an address of the test"));
            write_forwarded(&mut out, address, host.as_bytes(), proto);
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for text in ["0.0.0.0", "255.255.255.255", "192.0.2.10", "9.10.99.100", "::", "2001:db8::1"]
        {
            let mut out = Vec::new();
            write_address(&mut out, text.parse().expect("an address of the test"));
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn traces() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parsed = Traceparent::parse(good.as_bytes()).expect("the example of the standard");
        assert_eq!((parsed.trace_id[0], parsed.parent_id[7], parsed.flags), (0x0a, 0x31, 1));
        let mut out = Vec::new();
        parsed.write(&mut out);
        assert_eq!(out, good.as_bytes());

        let later = format!("cc{}", &good[2..]);
        assert_eq!(Traceparent::parse(later.as_bytes()), Some(parsed));
        assert_eq!(Traceparent::parse(format!("{later}-more").as_bytes()), Some(parsed));
        let bad = [
            String::new(),
            good[..54].to_owned(),
            format!("{good}0"),
            format!("{good}-more"),
            format!("{later}x"),
            format!("ff{}", &good[2..]),
            format!("0x{}", &good[2..]),
            good.to_uppercase(),
            good.replace('-', "_"),
            good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            good.replace("b7ad6b7169203331", &"0".repeat(16)),
            good.replace("-01", "-0g"),
            good.replace("b7ad", "b7 d"),
        ];
        for value in bad {
            assert_eq!(Traceparent::parse(value.as_bytes()), None, "{value}");
        }
    }
}
