//! The PROXY protocol, versions 1 and 2: who a connection really came from, told by a load
//! balancer before the first byte of the client.
//!
//! Source: "The PROXY protocol", HAProxy Technologies, 2020, sections 2.1 and 2.2. Ours differs in
//! that sizes are bounded (an extension block above [`V2_SIZE_MAX`] is refused), ports and
//! addresses must be written canonically, and type-length-value extensions are skipped unread.
//!
//! Absent: whom to believe. A header counts only from an address that is trusted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest version 1 header, with its line end (section 2.1).
pub const V1_SIZE_MAX: usize = 107;
/// The longest version 2 header that is read. Plain choice: TLS extensions with a certificate name
/// take some hundred bytes.
pub const V2_SIZE_MAX: usize = 4096;

const V1_START: &[u8] = b"PROXY ";
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The fixed part of a version 2 header.
const V2_FIXED: usize = 16;

/// What a header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The client. `None`: the balancer speaks for itself (`LOCAL`), does not know (`UNKNOWN`), or
    /// was reached over a Unix socket; the address of the connection stands.
    pub source: Option<SocketAddr>,
    /// The address that the client connected to, where `source` is known.
    pub destination: Option<SocketAddr>,
}

/// A rule of the PROXY protocol that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// The connection does not start with a header of either version.
    Missing,
    /// A version 1 header without line end in its first [`V1_SIZE_MAX`] bytes.
    LineTooLong,
    /// A version 1 header that cannot be read.
    Line,
    /// A version 2 header of another version or with an unknown command.
    Command,
    /// A version 2 header with an unknown family or transport.
    Family,
    /// A version 2 header that is too short for its addresses or longer than [`V2_SIZE_MAX`].
    Length,
}

impl ProxyError {
    /// What was wrong: lower case, no final stop.
    pub fn reason(&self) -> &'static str {
        match self {
            ProxyError::Missing => "proxy protocol header missing",
            ProxyError::LineTooLong => "proxy protocol line too long",
            ProxyError::Line => "invalid proxy protocol line",
            ProxyError::Command => "unknown proxy protocol version or command",
            ProxyError::Family => "unknown proxy protocol address family",
            ProxyError::Length => "invalid proxy protocol length",
        }
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for ProxyError {}

/// Read a header at the start of a connection: how many bytes it took, and what it says. `None`:
/// more bytes are needed, never more than [`V2_SIZE_MAX`] in all.
///
/// # Errors
/// The rule that was broken; the connection must be closed.
pub fn parse(input: &[u8]) -> Result<Option<(usize, Header)>, ProxyError> {
    if input.starts_with(V1_START) {
        return parse_v1(input);
    }
    if input.starts_with(V2_START) {
        return parse_v2(input);
    }
    match V1_START.starts_with(input) || V2_START.starts_with(input) {
        true => Ok(None),
        false => Err(ProxyError::Missing),
    }
}

fn parse_v1(input: &[u8]) -> Result<Option<(usize, Header)>, ProxyError> {
    let window = &input[..input.len().min(V1_SIZE_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return match window.len() {
            V1_SIZE_MAX => Err(ProxyError::LineTooLong),
            _ => Ok(None),
        };
    };
    let line = window[V1_START.len()..end].strip_suffix(b"\r").ok_or(ProxyError::Line)?;
    if !line.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(ProxyError::Line);
    }
    let line = std::str::from_utf8(line).map_err(|_| ProxyError::Line)?;
    let header = v1_addresses(line).ok_or(ProxyError::Line)?;
    Ok(Some((end + 1, header)))
}

fn v1_addresses(line: &str) -> Option<Header> {
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(Header::default());
    }
    let mut words = line.split(' ');
    let family = words.next()?;
    let address = |word: &str| match family {
        "TCP4" => word.parse().map(IpAddr::V4).ok(),
        "TCP6" => word.parse().map(IpAddr::V6).ok(),
        _ => None,
    };
    let (source, destination) = (address(words.next()?)?, address(words.next()?)?);
    let (source_port, destination_port) = (v1_port(words.next()?)?, v1_port(words.next()?)?);
    if words.next().is_some() {
        return None;
    }
    Some(Header {
        source: Some(SocketAddr::new(source, source_port)),
        destination: Some(SocketAddr::new(destination, destination_port)),
    })
}

/// A port without sign or leading zeros.
fn v1_port(word: &str) -> Option<u16> {
    let is_plain = word == "0" || word.starts_with(|first: char| matches!(first, '1'..='9'));
    word.parse().ok().filter(|_| is_plain)
}

fn parse_v2(input: &[u8]) -> Result<Option<(usize, Header)>, ProxyError> {
    let Some(fixed) = input.get(..V2_FIXED) else {
        return Ok(None);
    };
    let is_local = match fixed[12] {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyError::Command),
    };
    let size = V2_FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let addresses_len = match fixed[13] {
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ if is_local => 0,
        _ => return Err(ProxyError::Family),
    };
    let too_short = !is_local && size < V2_FIXED + addresses_len;
    if size > V2_SIZE_MAX || too_short {
        return Err(ProxyError::Length);
    }
    let Some(addresses) = input.get(V2_FIXED..size) else {
        return Ok(None);
    };
    let header = match addresses_len {
        _ if is_local => Header::default(),
        12 => v2_addresses::<4>(addresses),
        36 => v2_addresses::<16>(addresses),
        _ => Header::default(),
    };
    Ok(Some((size, header)))
}

/// Two addresses of `N` bytes, then two ports. The length was checked.
fn v2_addresses<const N: usize>(bytes: &[u8]) -> Header {
    let address = |at: usize| match bytes[at..at + N] {
        [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        ref long => {
            let mut octets = [0; 16];
            octets.copy_from_slice(long);
            IpAddr::V6(Ipv6Addr::from(octets))
        }
    };
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    Header {
        source: Some(SocketAddr::new(address(0), port(2 * N))),
        destination: Some(SocketAddr::new(address(N), port(2 * N + 2))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parse whole and byte by byte; both must come to the same verdict.
    fn parse_all(input: &[u8]) -> Result<Option<(usize, Header)>, ProxyError> {
        let whole = parse(input);
        let first = (0..=input.len()).map(|len| parse(&input[..len])).find(|v| *v != Ok(None));
        assert_eq!(first.unwrap_or(Ok(None)), whole, "{}", input.escape_ascii());
        whole
    }

    fn known(source: &str, destination: &str) -> Header {
        let address = |text: &str| Some(text.parse().expect("an address of the test"));
        Header { source: address(source), destination: address(destination) }
    }

    #[test]
    fn version_1_headers() {
        let four = known("192.0.2.1:4711", "198.51.100.2:443");
        let six = known("[2001:db8::1]:65535", "[::1]:0");
        let cases = [
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\n", four),
            ("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", six),
            ("PROXY UNKNOWN\r\n", Header::default()),
            ("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", Header::default()),
        ];
        for (line, header) in cases {
            let text = format!("{line}GET / HTTP/1.1\r\n");
            assert_eq!(parse_all(text.as_bytes()), Ok(Some((line.len(), header))), "{line}");
        }
    }

    #[test]
    fn refused_version_1_headers() {
        let cases = [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n",
            "PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UNKNOWN a\0b\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY UNKNOWN a\rb\r\n",
        ];
        for line in cases {
            assert_eq!(parse_all(line.as_bytes()), Err(ProxyError::Line), "{line:?}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_SIZE_MAX));
        assert_eq!(parse_all(long.as_bytes()), Err(ProxyError::LineTooLong));
        for text in ["GET / HTTP/1.1\r\n", "PROXYTCP4 ", "proxy TCP4 ", "\r\nPROXY ", "\x16\x03"] {
            assert_eq!(parse_all(text.as_bytes()), Err(ProxyError::Missing), "{text:?}");
        }
    }

    /// A version 2 header with those bytes after the signature.
    fn v2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let mut header = V2_START.to_vec();
        header.extend_from_slice(&[command, family]);
        header.extend_from_slice(&(addresses.len() as u16).to_be_bytes());
        header.extend_from_slice(addresses);
        header
    }

    #[test]
    fn version_2_headers() {
        let four = [192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 1, 187];
        let mut six = [0; 36];
        (six[0], six[1], six[15], six[31], six[35]) = (0x20, 0x01, 9, 1, 80);
        let extended = [&four[..], b"\x04\x00\x02ab"].concat();
        let known_four = known("192.0.2.1:4711", "198.51.100.2:443");
        let cases = [
            (v2(0x21, 0x11, &four), known_four),
            (v2(0x21, 0x12, &four), known_four),
            (v2(0x21, 0x11, &extended), known_four),
            (v2(0x21, 0x21, &six), known("[2001::9]:0", "[::1]:80")),
            (v2(0x21, 0x31, &[1; 216]), Header::default()),
            (v2(0x21, 0x00, &[]), Header::default()),
            (v2(0x21, 0x00, &[1, 2, 3]), Header::default()),
            (v2(0x20, 0x00, &[]), Header::default()),
            (v2(0x20, 0x11, &four), Header::default()),
            (v2(0x20, 0x77, &[]), Header::default()),
        ];
        for (mut text, header) in cases {
            let size = text.len();
            text.extend_from_slice(b"GET / HTTP/1.1\r\n");
            assert_eq!(parse_all(&text), Ok(Some((size, header))), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn refused_version_2_headers() {
        let cases = [
            (v2(0x22, 0x11, &[0; 12]), ProxyError::Command),
            (v2(0x11, 0x11, &[0; 12]), ProxyError::Command),
            (v2(0x01, 0x11, &[0; 12]), ProxyError::Command),
            (v2(0x21, 0x41, &[0; 12]), ProxyError::Family),
            (v2(0x21, 0x13, &[0; 12]), ProxyError::Family),
            (v2(0x21, 0x11, &[0; 11]), ProxyError::Length),
            (v2(0x21, 0x21, &[0; 35]), ProxyError::Length),
            (v2(0x21, 0x31, &[0; 215]), ProxyError::Length),
            (v2(0x21, 0x11, &[0; V2_SIZE_MAX]), ProxyError::Length),
            (v2(0x20, 0x00, &[0; V2_SIZE_MAX]), ProxyError::Length),
        ];
        for (text, error) in cases {
            assert_eq!(parse_all(&text), Err(error));
            assert!(!error.to_string().is_empty());
        }
        let largest = v2(0x21, 0x11, &[0; V2_SIZE_MAX - V2_FIXED]);
        assert!(matches!(parse_all(&largest), Ok(Some((V2_SIZE_MAX, _)))));
    }
}
