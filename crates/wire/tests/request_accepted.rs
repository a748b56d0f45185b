//! Request heads that must be understood, and what is understood of them.

mod pieces;

use pieces::{LIMITS, request_in_pieces};
use spillgate_wire::http1::{
    Framing, HeadError, HeadLimits, Method, Name, RequestError, RequestHead, TargetForm, Version,
};

/// Parse a whole head, also in pieces.
fn parse(text: &str) -> RequestHead {
    let mut head = RequestHead::new();
    let verdict = head.parse(text.as_bytes(), &LIMITS);
    assert!(matches!(verdict, Ok(Some(_))), "{text:?}: {verdict:?}");
    request_in_pieces(text.as_bytes(), |in_pieces| assert_eq!(in_pieces, verdict, "{text:?}"));
    head
}

fn with_fields(lines: &str) -> RequestHead {
    parse(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

/// Request line, path, query, host in force, form.
type Line = (&'static str, &'static str, Option<&'static str>, &'static str, TargetForm);

#[test]
fn targets() {
    let cases: &[Line] = &[
        ("GET /", "/", None, "a", TargetForm::Origin),
        ("GET /a/b;c=d", "/a/b;c=d", None, "a", TargetForm::Origin),
        ("GET /a?b", "/a", Some("b"), "a", TargetForm::Origin),
        ("GET /a?", "/a", Some(""), "a", TargetForm::Origin),
        ("GET /?a?b/c", "/", Some("a?b/c"), "a", TargetForm::Origin),
        ("GET /?a|b^c{d}\"<>`\\", "/", Some("a|b^c{d}\"<>`\\"), "a", TargetForm::Origin),
        ("GET /%zz", "/%zz", None, "a", TargetForm::Origin),
        ("GET //a//b", "//a//b", None, "a", TargetForm::Origin),
        ("GET /http://b/", "/http://b/", None, "a", TargetForm::Origin),
        ("GET http://b", "/", None, "b", TargetForm::Absolute),
        ("GET http://b/", "/", None, "b", TargetForm::Absolute),
        ("GET HTTPS://b:81/c?d", "/c", Some("d"), "b:81", TargetForm::Absolute),
        ("GET http://b?c", "/", Some("c"), "b", TargetForm::Absolute),
        ("GET http://[::1]:8/c", "/c", None, "[::1]:8", TargetForm::Absolute),
        ("OPTIONS http://b", "*", None, "b", TargetForm::Absolute),
        ("OPTIONS http://b/", "/", None, "b", TargetForm::Absolute),
        ("OPTIONS *", "*", None, "a", TargetForm::Asterisk),
        ("OPTIONS /", "/", None, "a", TargetForm::Origin),
        ("CONNECT b:443", "", None, "b:443", TargetForm::Authority),
        ("CONNECT [::1]:443", "", None, "[::1]:443", TargetForm::Authority),
    ];
    for (line, path, query, host, form) in cases {
        let head = parse(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head.path(), path.as_bytes(), "{line}");
        assert_eq!(head.query(), query.map(str::as_bytes), "{line}");
        assert_eq!(head.host(), host.as_bytes(), "{line}");
        assert_eq!(head.target_form(), *form, "{line}");
        assert_eq!(head.target(), line.split_once(' ').unwrap().1.as_bytes(), "{line}");
    }
}

#[test]
fn methods() {
    let cases = [
        ("GET", Method::Get, true, true),
        ("HEAD", Method::Head, true, true),
        ("OPTIONS", Method::Options, true, true),
        ("TRACE", Method::Trace, true, true),
        ("PUT", Method::Put, false, true),
        ("DELETE", Method::Delete, false, true),
        ("POST", Method::Post, false, false),
        ("PATCH", Method::Patch, false, false),
        ("get", Method::Other, false, false),
        ("PROPFIND", Method::Other, false, false),
        ("!#$%&'*+-.^_`|~", Method::Other, false, false),
    ];
    for (text, method, is_safe, is_idempotent) in cases {
        let head = parse(&format!("{text} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head.method(), method);
        assert_eq!(head.method_bytes(), text.as_bytes());
        assert_eq!(method.is_safe(), is_safe, "{text}");
        assert_eq!(method.is_idempotent(), is_idempotent, "{text}");
    }
}

#[test]
fn framings() {
    let cases = [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Framing::Length(0)),
        ("Content-Length: 5\r\n", Framing::Length(5)),
        ("Content-Length:5\r\n", Framing::Length(5)),
        ("Content-Length: \t 5 \t\r\n", Framing::Length(5)),
        ("content-LENGTH: 0005\r\n", Framing::Length(5)),
        ("Content-Length: 18446744073709551615\r\n", Framing::Length(u64::MAX)),
        ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
        ("TRANSFER-encoding:\tCHUNKED\t\r\n", Framing::Chunked),
    ];
    for method in ["GET", "POST", "DELETE", "OPTIONS"] {
        for (lines, framing) in cases {
            let head = parse(&format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            assert_eq!(head.framing(), framing, "{method} {lines:?}");
        }
    }
    assert_eq!(with_fields("Content-Length: 7\r\n").content_length(), Some(7));
    assert_eq!(with_fields("").content_length(), None);
}

#[test]
fn versions_and_keeping_alive() {
    let cases = [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.1", "Connection: Close\r\n", false),
        ("HTTP/1.1", "Connection: keep-alive\r\n", true),
        ("HTTP/1.1", "Connection: keep-alive, close\r\n", false),
        ("HTTP/1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
        ("HTTP/1.1", "Connection: , ,close\r\n", false),
        ("HTTP/1.1", "Connection:\r\n", true),
        ("HTTP/1.1", "Proxy-Connection: close\r\n", true),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: keep-alive\r\n", true),
        ("HTTP/1.0", "Connection: keep-alive, close\r\n", false),
        ("HTTP/1.0", "Connection: foo\r\n", false),
    ];
    for (version, lines, keep_alive) in cases {
        let head = parse(&format!("GET / {version}\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(head.keep_alive(), keep_alive, "{version} {lines:?}");
    }
    let head = parse("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((head.version(), head.host()), (Version::Http10, &b""[..]));
    assert_eq!(parse("GET / HTTP/1.1\r\nHost:\r\n\r\n").host(), b"");
    assert_eq!(parse("GET / HTTP/1.1\r\nHost: A.b:8080\r\n\r\n").host(), b"A.b:8080");
}

#[test]
fn expectations() {
    assert!(with_fields("Expect: 100-continue\r\n").expects_continue());
    assert!(with_fields("expect: 100-Continue\r\n").expects_continue());
    assert!(!with_fields("").expects_continue());
    let old = parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    assert!(!old.expects_continue());
}

#[test]
fn upgrades() {
    let cases = [
        ("Upgrade: websocket\r\nConnection: Upgrade\r\n", Some("websocket")),
        ("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n", Some("websocket")),
        ("Connection: upgrade\r\nUpgrade: a/1, b\r\n", Some("a/1, b")),
        ("Upgrade: websocket\r\n", None),
        ("Connection: upgrade\r\n", None),
        ("Connection: upgrade\r\nUpgrade:\r\n", None),
        ("Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n", None),
        ("Connection: upgrade\r\nUpgrade: websocket, H2C\r\n", None),
    ];
    for (lines, protocol) in cases {
        assert_eq!(with_fields(lines).upgrade(), protocol.map(str::as_bytes), "{lines:?}");
    }
    let old = parse("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(old.upgrade(), None);
}

#[test]
fn hop_by_hop_fields_are_marked() {
    let head = with_fields(
        "Connection: close, X-Auth, cookie, te\r\nX-Auth: 1\r\nx-auth: 2\r\nX-Author: 3\r\n\
         Cookie: 4\r\nTE: trailers\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\
         Upgrade: y\r\nProxy-Authorization: z\r\nTrailer: t\r\nConnection: X-Late\r\nX-Late: 5\r\n",
    );
    let hop: Vec<&[u8]> = head.fields().filter(|field| field.hop).map(|field| field.name).collect();
    let expected: [&[u8]; 11] = [
        b"Connection",
        b"X-Auth",
        b"x-auth",
        b"Cookie",
        b"TE",
        b"Keep-Alive",
        b"Proxy-Connection",
        b"Upgrade",
        b"Proxy-Authorization",
        b"Connection",
        b"X-Late",
    ];
    assert_eq!(hop, expected);
}

#[test]
fn fields_are_lent_as_they_came() {
    let head = with_fields(
        "A:b\r\nX-Forwarded-For: 1\r\nX_Forwarded_For: 2\r\nEmpty:\r\nBlank: \t \r\n\
         Obs: \u{e4}\u{f6}\r\nList:  a, b \t c  \r\nContent_Type: x\r\n",
    );
    let fields: Vec<(Name, &[u8], &[u8])> =
        head.fields().map(|field| (field.id, field.name, field.value)).collect();
    let expected: [(Name, &[u8], &[u8]); 9] = [
        (Name::Host, b"Host", b"a"),
        (Name::Other, b"A", b"b"),
        (Name::XForwardedFor, b"X-Forwarded-For", b"1"),
        (Name::XForwardedFor, b"X_Forwarded_For", b"2"),
        (Name::Other, b"Empty", b""),
        (Name::Other, b"Blank", b""),
        (Name::Other, b"Obs", "\u{e4}\u{f6}".as_bytes()),
        (Name::Other, b"List", b"a, b \t c"),
        (Name::Other, b"Content_Type", b"x"),
    ];
    assert_eq!(fields, expected);
    assert_eq!(head.get(Name::XForwardedFor), Some(&b"1"[..]));
    assert_eq!(head.find(b"list"), Some(&b"a, b \t c"[..]));
    assert_eq!(head.find(b"lis"), None);
}

#[test]
fn empty_lines_before_and_bytes_after_do_not_count() {
    let text = "\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: b\r\n\r\n";
    let mut head = RequestHead::new();
    let first = head.parse(text.as_bytes(), &LIMITS).unwrap().unwrap();
    assert_eq!((head.path(), head.host()), (&b"/a"[..], &b"a"[..]));
    let rest = &text.as_bytes()[first..];
    assert_eq!(head.parse(rest, &LIMITS), Ok(Some(rest.len())));
    assert_eq!((head.path(), head.host()), (&b"/b"[..], &b"b"[..]));
    assert_eq!(head.bytes(), rest);
    head.clear();
    assert_eq!((head.path(), head.host(), head.fields().len()), (&b""[..], &b""[..], 0));
}

#[test]
fn a_warm_head_keeps_its_memory() {
    let mut head = RequestHead::new();
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(100));
    assert!(head.parse(large.as_bytes(), &LIMITS).is_ok());
    let memory = head.bytes().as_ptr();
    for text in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"G@T", large.as_bytes()] {
        let _ = head.parse(text, &LIMITS);
        assert_eq!(head.bytes().as_ptr(), memory);
    }
}

#[test]
fn an_incomplete_head_is_no_error() {
    let text = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    for len in 0..text.len() {
        assert_eq!(RequestHead::new().parse(&text[..len], &LIMITS), Ok(None), "{len} bytes");
    }
    assert_eq!(RequestHead::new().parse(b"\r\n\r", &LIMITS), Ok(None));
    // A first byte that starts no request need not wait for the rest: a TLS hello.
    assert_eq!(RequestHead::new().parse(b"\x16\x03\x01", &LIMITS), Err(RequestError::Method));
}

#[test]
fn limits_hold_exactly() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n";
    let check = |size_max, fields_max, expected: Result<Option<usize>, HeadError>| {
        let limits = HeadLimits { size_max, fields_max };
        let expected = expected.map_err(RequestError::Head);
        assert_eq!(RequestHead::new().parse(text, &limits), expected);
        let mut head = RequestHead::new();
        let slow = (1..=text.len()).map(|len| head.parse(&text[..len], &limits));
        let slow = slow.into_iter().find(|verdict| *verdict != Ok(None));
        assert_eq!(slow, Some(expected), "{limits:?}");
    };
    check(text.len(), 2, Ok(Some(text.len())));
    check(text.len() - 1, 2, Err(HeadError::TooLarge));
    check(text.len(), 1, Err(HeadError::TooManyFields));
    check(text.len(), 0, Err(HeadError::TooManyFields));
    check(0, 2, Err(HeadError::TooLarge));
}

#[test]
fn heads_with_very_many_fields() {
    let wide = HeadLimits { size_max: usize::MAX, fields_max: u16::MAX };
    for (count, fits) in [(127, true), (128, true), (1023, true), (1024, false)] {
        let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        for index in 0..count {
            text.extend_from_slice(format!("X-{index}: {index}\r\n").as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        let mut head = RequestHead::new();
        match fits {
            true => {
                assert_eq!(head.parse(&text, &wide), Ok(Some(text.len())));
                assert_eq!(head.fields().len(), count + 1);
            }
            false => {
                let error = RequestError::Head(HeadError::TooManyFields);
                assert_eq!(head.parse(&text, &wide), Err(error));
            }
        }
    }
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "b".repeat(70_000));
    let error = RequestError::Head(HeadError::TooLarge);
    assert_eq!(RequestHead::new().parse(long.as_bytes(), &wide), Err(error));
}
