//! Response heads: what is understood of them, and what is refused.

use spillgate_wire::http1::{
    Framing, HeadError, HeadLimits, Method, Name, ResponseError, ResponseHead, ResponseIndex,
    Version,
};

const LIMITS: HeadLimits = HeadLimits { size_max: 32 * 1024, fields_max: 128 };

/// Parse whole and in pieces; all verdicts must be the same. Hands the head to `check` if there is
/// one.
fn parse(text: &[u8], check: impl Fn(ResponseHead<'_>)) -> Result<Option<usize>, ResponseError> {
    let verdict = ResponseIndex::new().parse(text, &LIMITS);
    for step in [1, 2, 5, text.len().max(1)] {
        let mut index = ResponseIndex::new();
        let mut len = 0;
        let in_pieces = loop {
            len = (len + step).min(text.len());
            match index.parse(&text[..len], &LIMITS) {
                Ok(None) if len < text.len() => {}
                in_pieces => break in_pieces,
            }
        };
        assert_eq!(in_pieces, verdict, "in pieces of {step}: {}", text.escape_ascii());
        if let Ok(Some(_)) = in_pieces {
            check(index.head(text));
        }
    }
    verdict
}

fn accept(text: &str, check: impl Fn(ResponseHead<'_>)) {
    let verdict = parse(text.as_bytes(), check);
    assert!(matches!(verdict, Ok(Some(_))), "{text:?}: {verdict:?}");
}

#[test]
fn status_lines() {
    let cases: [(&str, u16, &[u8], Version); 9] = [
        ("HTTP/1.1 200 OK", 200, b"OK", Version::Http11),
        ("HTTP/1.1 200 ", 200, b"", Version::Http11),
        ("HTTP/1.1 200", 200, b"", Version::Http11),
        ("HTTP/1.0 404 Not Found", 404, b"Not Found", Version::Http10),
        ("HTTP/1.1 503   a  b ", 503, b"  a  b ", Version::Http11),
        ("HTTP/1.1 200 \u{e4}\t", 200, "\u{e4}\t".as_bytes(), Version::Http11),
        ("HTTP/1.1 101 Switching Protocols", 101, b"Switching Protocols", Version::Http11),
        ("HTTP/1.1 100 Continue", 100, b"Continue", Version::Http11),
        ("HTTP/1.1 999 x", 999, b"x", Version::Http11),
    ];
    for (line, status, reason, version) in cases {
        accept(&format!("{line}\r\nA: b\r\n\r\n"), |head| {
            assert_eq!((head.status(), head.version()), (status, version), "{line}");
            assert_eq!(head.reason(), reason, "{line}");
            assert_eq!(head.find(b"a"), Some(&b"b"[..]), "{line}");
        });
    }
}

fn refuse(cases: &[(&str, ResponseError)]) {
    for (text, error) in cases {
        let verdict = parse(text.as_bytes(), |_| {});
        assert_eq!(verdict, Err(*error), "{text:?}");
        assert!(!error.reason().is_empty());
    }
}

#[test]
fn refused_lines() {
    let head = ResponseError::Head;
    let line_end = |at| head(HeadError::LineEnd { at });
    refuse(&[
        ("HTTP/1.1 099 x\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 20 x\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 2000 x\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 2x0 x\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 +20 x\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 200 a\0b\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 200 a\rb\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1  200 a\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/2.0 200 OK\r\n\r\n", ResponseError::Version),
        ("HTTP/1.2 200 OK\r\n\r\n", ResponseError::Version),
        ("HTTP/0.9 200 OK\r\n\r\n", ResponseError::Version),
        ("ICY 200 OK\r\n\r\n", ResponseError::StatusLine),
        ("http/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        ("0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        (" HTTP/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        ("<html>", ResponseError::StatusLine),
        ("HTTP/1.1 200 OK\nA: b\r\n\r\n", line_end(15)),
        ("HTTP/1.1 200\nA: b\r\n\r\n", line_end(12)),
        ("HTTP/1.1 200 OK\r\nA: b\n\r\n", line_end(21)),
        ("HTTP/1.1 200 OK\r\nA: b\r\n\n", line_end(23)),
        ("HTTP/1.1 200 OK\n\n", line_end(15)),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", head(HeadError::FieldName)),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", head(HeadError::FieldName)),
        ("HTTP/1.1 200 OK\r\n\u{e4}: b\r\n\r\n", head(HeadError::FieldName)),
        ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", head(HeadError::FieldValue)),
        ("HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: c\r\n\r\n", head(HeadError::FieldValue)),
    ]);
}

#[test]
fn refused_framings() {
    let head = ResponseError::Head;
    refuse(&[
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            head(HeadError::LengthAndCoding),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            head(HeadError::LengthRepeated { at: 52 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            head(HeadError::LengthRepeated { at: 52 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            head(HeadError::LengthInvalid { at: 33 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            head(HeadError::LengthInvalid { at: 33 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            head(HeadError::CodingInvalid { at: 36 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            head(HeadError::CodingUnknown { at: 36 }),
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            head(HeadError::CodingInOldVersion),
        ),
    ]);
}

#[test]
fn framings() {
    let length = "Content-Length: 1000\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let cases = [
        ("200", Method::Get, length, Framing::Length(1000)),
        ("200", Method::Get, chunked, Framing::Chunked),
        ("200", Method::Get, "", Framing::UntilClose),
        ("200", Method::Get, "Content-Length: 0\r\n", Framing::Length(0)),
        ("500", Method::Post, length, Framing::Length(1000)),
        ("200", Method::Head, length, Framing::None),
        ("200", Method::Head, chunked, Framing::None),
        ("200", Method::Head, "", Framing::None),
        ("404", Method::Head, length, Framing::None),
        ("304", Method::Get, length, Framing::None),
        ("304", Method::Get, chunked, Framing::None),
        ("204", Method::Get, length, Framing::None),
        ("204", Method::Get, "", Framing::None),
        ("205", Method::Get, length, Framing::Length(1000)),
        ("100", Method::Post, length, Framing::None),
        ("101", Method::Get, "", Framing::None),
        ("103", Method::Get, chunked, Framing::None),
        ("199", Method::Get, "", Framing::None),
        ("200", Method::Connect, length, Framing::None),
        ("299", Method::Connect, chunked, Framing::None),
        ("403", Method::Connect, length, Framing::Length(1000)),
        ("200", Method::Other, length, Framing::Length(1000)),
    ];
    for (status, method, lines, framing) in cases {
        accept(&format!("HTTP/1.1 {status} x\r\n{lines}\r\n"), |head| {
            assert_eq!(head.framing(method), framing, "{status} {method:?} {lines:?}");
        });
    }
    accept(&format!("HTTP/1.1 304 x\r\n{length}\r\n"), |head| {
        assert_eq!(head.content_length(), Some(1000));
    });
}

#[test]
fn connections() {
    let cases = [
        ("HTTP/1.1", "", true, None),
        ("HTTP/1.1", "Connection: close\r\n", false, None),
        ("HTTP/1.1", "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n", true, Some(5)),
        ("HTTP/1.1", "Keep-Alive: timeout=5, max=100\r\n", true, Some(5)),
        ("HTTP/1.1", "Keep-Alive: max=100, Timeout = 72 \r\n", true, Some(72)),
        ("HTTP/1.1", "Keep-Alive: timeout=-5\r\n", true, None),
        ("HTTP/1.1", "Keep-Alive: timeout=99999999999\r\n", true, None),
        ("HTTP/1.1", "Keep-Alive: 5\r\n", true, None),
        ("HTTP/1.1", "Keep-Alive:\r\n", true, None),
        ("HTTP/1.0", "", false, None),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", true, None),
    ];
    for (version, lines, keep_alive, timeout) in cases {
        accept(&format!("{version} 200 OK\r\n{lines}\r\n"), |head| {
            assert_eq!(head.keep_alive(), keep_alive, "{version} {lines:?}");
            assert_eq!(head.keep_alive_timeout(), timeout, "{lines:?}");
        });
    }
    let switch = "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x01\x02";
    accept(switch, |head| assert_eq!(head.upgrade(), Some(&b"websocket"[..])));
    accept("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n", |head| assert_eq!(head.upgrade(), None));
}

#[test]
fn streams() {
    let cases = [
        ("Content-Type: text/event-stream\r\n", true, false),
        ("content-type: Text/Event-Stream; charset=utf-8\r\n", true, false),
        ("Content-Type: text/event-stream ;a\r\n", true, false),
        ("Content-Type: text/event-streams\r\n", false, false),
        ("Content-Type: text/html\r\n", false, false),
        ("X-Accel-Buffering: no\r\n", false, true),
        ("x-accel-buffering: No\r\n", false, true),
        ("X-Accel-Buffering: yes\r\n", false, false),
        ("", false, false),
    ];
    for (lines, is_event_stream, buffering_off) in cases {
        accept(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), |head| {
            assert_eq!(head.is_event_stream(), is_event_stream, "{lines:?}");
            assert_eq!(head.accel_buffering_off(), buffering_off, "{lines:?}");
        });
    }
}

#[test]
fn fields_and_reuse() {
    let mut index = ResponseIndex::new();
    let first = b"HTTP/1.1 200 OK\r\nConnection: x-a\r\nX-A: 1\r\nServer: s\r\n\r\nbody";
    assert_eq!(index.parse(first, &LIMITS), Ok(Some(first.len() - 4)));
    let hops: Vec<bool> = index.head(first).fields().map(|field| field.hop).collect();
    assert_eq!(hops, [true, true, false]);
    assert_eq!(index.head(first).get(Name::Server), Some(&b"s"[..]));
    let second = b"HTTP/1.0 204 x\r\n\r\n";
    assert_eq!(index.parse(second, &LIMITS), Ok(Some(second.len())));
    assert_eq!(index.head(second).fields().len(), 0);
    assert!(!index.head(second).keep_alive());
    assert!(index.parse(b"HTTP/1.1 x\r\n\r\n", &LIMITS).is_err());
    assert_eq!(index.head(b"").fields().len(), 0);
}

#[test]
fn limits() {
    let text = b"HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\n";
    let parse = |size_max, fields_max| {
        ResponseIndex::new().parse(text, &HeadLimits { size_max, fields_max })
    };
    assert_eq!(parse(text.len(), 2), Ok(Some(text.len())));
    assert_eq!(parse(text.len() - 1, 2), Err(HeadError::TooLarge.into()));
    assert_eq!(parse(text.len(), 1), Err(HeadError::TooManyFields.into()));
    let big = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {}\r\n\r\n", "a".repeat(16 * 1024));
    assert_eq!(ResponseIndex::new().parse(big.as_bytes(), &LIMITS), Ok(Some(big.len())));
    let mut many = b"HTTP/1.1 200 OK\r\n".to_vec();
    many.extend_from_slice(&b"A: b\r\n".repeat(1024));
    many.extend_from_slice(b"\r\n");
    let wide = HeadLimits { size_max: 65_535, fields_max: 1024 };
    assert_eq!(ResponseIndex::new().parse(&many, &wide), Ok(Some(many.len())));
}
