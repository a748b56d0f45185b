//! The target of a request (RFC 9112 section 3.2) and the authority in it or in `Host`.
//!
//! Stricter than RFC 3986 in hosts, since what a host decides (the route) must be the same for
//! every reader: letters, digits, `-`, `.`, `_`, `~` or an IPv6 literal in brackets, then perhaps a
//! port. No user info, no percent encoding, no list. Looser in queries, since browsers send `|`,
//! `^`, `{` and others there as they are. A `\` in a path is refused: some workers read it as `/`.
//!
//! Absent: percent decoding and dot segments, which are for whoever matches paths; the path is
//! passed on as it came.

use std::net::Ipv6Addr;

use super::{Method, RequestError, Span};

/// Which of the four forms a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `*`, with `OPTIONS` only.
    Asterisk,
    /// `host:port`, with `CONNECT` only.
    Authority,
}

/// A target, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) form: TargetForm,
    /// Empty where an absolute target has none, and with `CONNECT`.
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    pub(super) authority: Option<Span>,
}

/// Take the target at `span` of `head` apart.
pub(super) fn parse(head: &[u8], span: Span, method: Method) -> Result<Target, RequestError> {
    let text = span.of(head);
    if method == Method::Connect {
        return connect(text, span);
    }
    match text {
        [b'/', ..] => {
            let (path, query) = path_and_query(head, span.start(), span.end())?;
            Ok(Target { form: TargetForm::Origin, path, query, authority: None })
        }
        b"*" if method == Method::Options => {
            Ok(Target { form: TargetForm::Asterisk, path: span, query: None, authority: None })
        }
        _ => absolute(head, span),
    }
}

fn connect(text: &[u8], span: Span) -> Result<Target, RequestError> {
    if !text.contains(&b':') || text.ends_with(b"]") || text.contains(&b'/') {
        return Err(RequestError::TargetForm);
    }
    if !is_authority(text) {
        return Err(RequestError::TargetAuthority);
    }
    let path = Span::new(span.end(), span.end());
    Ok(Target { form: TargetForm::Authority, path, query: None, authority: Some(span) })
}

fn absolute(head: &[u8], span: Span) -> Result<Target, RequestError> {
    let text = span.of(head);
    let Some(colon) = text.windows(3).position(|window| window == b"://") else {
        return Err(RequestError::TargetForm);
    };
    let scheme = &text[..colon];
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(RequestError::TargetScheme);
    }
    let start = colon + 3;
    let len = text[start..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    let end = len.map_or(text.len(), |len| start + len);
    if start == end || !is_authority(&text[start..end]) {
        return Err(RequestError::TargetAuthority);
    }
    let authority = Span::new(span.start() + start, span.start() + end);
    let (path, query) = path_and_query(head, authority.end(), span.end())?;
    Ok(Target { form: TargetForm::Absolute, path, query, authority: Some(authority) })
}

/// Split the bytes from `start` to `end` at the first `?`, and check each of them.
#[inline]
fn path_and_query(
    head: &[u8],
    start: usize,
    end: usize,
) -> Result<(Span, Option<Span>), RequestError> {
    let text = &head[start..end];
    let Some(len) = text.iter().position(|byte| !is_path_byte(*byte)) else {
        return Ok((Span::new(start, end), None));
    };
    let path_end = start + len;
    if head[path_end] != b'?' {
        return Err(RequestError::Target { at: path_end });
    }
    let query = &head[path_end + 1..end];
    if let Some(offset) = query.iter().position(|byte| !is_query_byte(*byte)) {
        return Err(RequestError::Target { at: path_end + 1 + offset });
    }
    Ok((Span::new(start, path_end), Some(Span::new(path_end + 1, end))))
}

#[inline]
fn is_path_byte(byte: u8) -> bool {
    is_query_byte(byte) && byte != b'?' && byte != b'\\'
}

#[inline]
fn is_query_byte(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && byte != b'#'
}

/// Is `text` a host with an optional port, and nothing else?
pub(super) fn is_authority(text: &[u8]) -> bool {
    let (host_is_good, rest) = match text {
        [b'[', inner @ ..] => {
            let Some(len) = inner.iter().position(|byte| *byte == b']') else {
                return false;
            };
            (is_ipv6(&inner[..len]), &inner[len + 1..])
        }
        _ => {
            let len = text.iter().position(|byte| !is_host_byte(*byte)).unwrap_or(text.len());
            (len > 0, &text[len..])
        }
    };
    host_is_good
        && match rest {
            [] => true,
            [b':', port @ ..] => is_port(port),
            _ => false,
        }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_ipv6(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

fn is_port(text: &[u8]) -> bool {
    text.len() <= 5 && super::index::decimal(text).is_some_and(|port| (1..=65_535).contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let good = ["a", "a.b-c_d~", "127.0.0.1", "a:1", "a:65535", "[::1]", "[::1]:80", "1"];
        for text in good {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        let bad = [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:080000",
            "a:+1",
            "a b",
            "a,b",
            "u@a",
            "u:p@a",
            "[::1",
            "::1",
            "[::1]x",
            "[::1%25lo]",
            "[v1.a]",
            "a/b",
            "a?b",
            "a#b",
            "a%41",
            "a\u{e4}",
            "a:1:2",
            "[]",
            "a\\b",
            "a\0",
        ];
        for text in bad {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
    }
}
