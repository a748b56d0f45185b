//! Request heads that must be refused: whatever two readers could read differently, and whatever is
//! no HTTP/1 at all. Each input is also fed in pieces, which must not change the verdict.

mod pieces;

use pieces::{LIMITS, request_in_pieces};
use spillgate_wire::http1::{HeadError, RequestError, RequestHead};

/// Check that each input is refused for that reason, whole and in pieces.
fn check(cases: &[(&str, RequestError)]) {
    for (text, error) in cases {
        check_bytes(text.as_bytes(), *error);
    }
}

fn check_bytes(text: &[u8], error: RequestError) {
    let shown = text.escape_ascii();
    let whole = RequestHead::new().parse(text, &LIMITS);
    assert_eq!(whole, Err(error), "{shown}");
    request_in_pieces(text, |verdict| assert_eq!(verdict, Err(error), "in pieces: {shown}"));
}

/// A whole head around some field lines.
fn with_fields(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

fn check_fields(cases: &[(&str, HeadError)]) {
    for (lines, error) in cases {
        check_bytes(with_fields(lines).as_bytes(), RequestError::Head(*error));
    }
}

/// Check that the head around these lines is refused, for a reason whose kind alone counts.
fn check_fields_by_kind(cases: &[&str], is_kind: fn(&HeadError) -> bool) {
    for lines in cases {
        let text = with_fields(lines);
        let verdict = RequestHead::new().parse(text.as_bytes(), &LIMITS);
        match verdict {
            Err(RequestError::Head(error)) if is_kind(&error) => {
                check_bytes(text.as_bytes(), RequestError::Head(error));
            }
            other => panic!("{lines:?}: {other:?}"),
        }
    }
}

#[test]
fn request_lines() {
    check(&[
        ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        ("(GET) / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        ("\tGET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        ("\0GET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        ("GET\r\n\r\n", RequestError::Method),
        ("GET\0 / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Method),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET /\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET /\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 5 }),
        ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 5 }),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", RequestError::Head(HeadError::LineEnd { at: 0 })),
        ("GET / HTTP/1.11\r\nHost: a\r\n\r\n", RequestError::Head(HeadError::LineEnd { at: 0 })),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / HTTP/3\r\nHost: aaaa\r\n\r\n", RequestError::Version),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / HTTP/1,1\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / HTTP/01.1\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", RequestError::Version),
        ("GET / ICY/1.1\r\nHost: a\r\n\r\n", RequestError::Version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", RequestError::Http2Preface),
    ]);
}

#[test]
fn targets() {
    check(&[
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 6 }),
        ("GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 8 }),
        ("GET /\\..\\b HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 5 }),
        ("GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 5 }),
        ("GET /?\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 6 }),
        ("GET /\x07 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET /\ta HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 }),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetScheme),
        ("GET ws://a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetScheme),
        ("GET ://a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetScheme),
        ("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http:// HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a:/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a:x/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a:99999/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a%2eb/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a#b/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://[::1/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("GET http://a/b#c HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 14 }),
        ("GET http://a/ HTTP/1.1\r\n\r\n", RequestError::HostMissing),
        ("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("CONNECT [::1] HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("CONNECT http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetForm),
        ("CONNECT a:x HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
        ("CONNECT u@a:1 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::TargetAuthority),
    ]);
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(16 * 1024));
    assert_eq!(
        RequestHead::new().parse(long.as_bytes(), &LIMITS),
        Err(RequestError::TargetTooLong)
    );
    check_bytes(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::Target { at: 4 });
}

#[test]
fn hosts() {
    check(&[
        ("GET / HTTP/1.1\r\n\r\n", RequestError::HostMissing),
        ("GET / HTTP/1.1\r\nHosts: a\r\n\r\n", RequestError::HostMissing),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", RequestError::HostRepeated),
        ("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", RequestError::HostRepeated),
        ("GET / HTTP/1.1\r\nHost:\r\nhost: b\r\n\r\n", RequestError::HostRepeated),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nHOST:\r\n\r\n", RequestError::HostRepeated),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", RequestError::HostRepeated),
        ("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", RequestError::HostRepeated),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a:\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: :80\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a\tb\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a;b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: \"a\"\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a%00b\r\n\r\n", RequestError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: \u{e4}\r\n\r\n", RequestError::HostInvalid),
        ("GET http://a/ HTTP/1.1\r\nHost: b@c\r\n\r\n", RequestError::HostInvalid),
    ]);
}

#[test]
fn lengths() {
    let is_invalid = |error: &HeadError| matches!(error, HeadError::LengthInvalid { .. });
    let invalid = [
        "",
        " ",
        "+5",
        "-5",
        "5 5",
        "5, 5",
        "5,5",
        "5,",
        "5;",
        "0x5",
        "5a",
        "5.0",
        "5_0",
        "\"5\"",
        "5\u{b}",
        "1e3",
        "18446744073709551616",
        "99999999999999999999999",
        "\u{665}",
        "5\t5",
        "chunked",
        "0 0",
    ];
    for value in invalid {
        let line = format!("Content-Length: {value}\r\n");
        if value.contains('\u{b}') {
            check_fields(&[(&line, HeadError::FieldValue)]);
            continue;
        }
        check_fields_by_kind(&[&line], is_invalid);
    }
    check_fields_by_kind(
        &[
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 0\r\nA: b\r\ncontent-length: 0\r\n",
            "CONTENT-LENGTH: 1\r\nContent-Length: 1\r\n",
        ],
        |error| matches!(error, HeadError::LengthRepeated { .. }),
    );
    check_fields_by_kind(
        &["Content-Length: 5\r\nContent-Length:\r\n", "Content-Length: 5\r\nContent-Length: x\r\n"],
        |error| matches!(error, HeadError::LengthRepeated { .. } | HeadError::LengthInvalid { .. }),
    );
}

#[test]
fn codings() {
    check_fields_by_kind(
        &[
            "Transfer-Encoding:\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: gzip, chunked, chunked\r\n",
            "Transfer-Encoding: chunked,\r\n",
            "Transfer-Encoding: ,chunked\r\n",
            "Transfer-Encoding: , chunked\r\n",
            "Transfer-Encoding: chunked;\r\n",
            "Transfer-Encoding: chunked;a=b\r\n",
            "Transfer-Encoding: chunked a\r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
            "Transfer-Encoding: 'chunked'\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunkedx\r\n",
            "Transfer-Encoding: chun\tked\r\n",
            "Transfer-Encoding: chunke\u{212a}\r\n",
            "Transfer-Encoding: \u{a0}chunked\r\n",
        ],
        |error| matches!(error, HeadError::CodingInvalid { .. } | HeadError::CodingUnknown { .. }),
    );
    check_fields_by_kind(
        &["Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: identity, chunked\r\n"],
        |error| matches!(error, HeadError::CodingUnknown { .. }),
    );
    check_fields_by_kind(
        &[
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n",
        ],
        |error| matches!(error, HeadError::CodingRepeated { .. }),
    );
    check_fields(&[
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HeadError::LengthAndCoding),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", HeadError::LengthAndCoding),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", HeadError::LengthAndCoding),
        (
            "content-length: 50\r\nA: b\r\nTRANSFER-ENCODING: CHUNKED\r\n",
            HeadError::LengthAndCoding,
        ),
    ]);
    let old = RequestError::Head(HeadError::CodingInOldVersion);
    check(&[
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", old),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", old),
    ]);
}

#[test]
fn field_names() {
    check_fields(&[
        ("Content-Length : 5\r\n", HeadError::FieldName),
        ("Transfer-Encoding : chunked\r\n", HeadError::FieldName),
        ("Transfer-Encoding\t: chunked\r\n", HeadError::FieldName),
        (" Content-Length: 5\r\n", HeadError::FieldName),
        ("\tContent-Length: 5\r\n", HeadError::FieldName),
        (": a\r\n", HeadError::FieldName),
        ("A\r\n", HeadError::FieldName),
        ("A B: c\r\n", HeadError::FieldName),
        ("Content-Length\0: 5\r\n", HeadError::FieldName),
        ("A: b\r\n c\r\n", HeadError::FieldName),
        ("A: b\r\n\tc\r\n", HeadError::FieldName),
        ("A:\r\n b\r\n", HeadError::FieldName),
        ("Transfer-Encoding:\r\n chunked\r\n", HeadError::FieldName),
    ]);
    check_fields_by_kind(
        &["Content_Length: 5\r\n", "Transfer_Encoding: chunked\r\n", "content_LENGTH: 5\r\n"],
        |error| matches!(error, HeadError::FieldAmbiguous { at: 26 }),
    );
    // Every byte that is no token character, at the start, inside, and after a long run, where
    // parsers that look at many bytes at once have had their mistakes.
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for byte in (0..=255u8).filter(|byte| !tchar(*byte) && *byte != b':') {
        for position in [0, 1, 7, 8, 15, 16, 31, 32, 33] {
            let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
            text.extend_from_slice(&b"a".repeat(position));
            text.push(byte);
            text.extend_from_slice(b"bc: d\r\n\r\n");
            let verdict = RequestHead::new().parse(&text, &LIMITS);
            assert!(verdict.is_err(), "byte {byte:#x} at {position}");
        }
    }
}

#[test]
fn line_ends_and_values() {
    check_fields(&[
        ("A: b\rc\r\n", HeadError::FieldValue),
        ("A: b\r\r\n", HeadError::FieldValue),
        ("A: b\0c\r\n", HeadError::FieldValue),
        ("A: b\x7f\r\n", HeadError::FieldValue),
        ("A: \x01\r\n", HeadError::FieldValue),
        ("A: b\x1b[31m\r\n", HeadError::FieldValue),
        ("A: b\r\nB: c\nTransfer-Encoding: chunked\r\n", HeadError::LineEnd { at: 36 }),
        ("A: b\n", HeadError::LineEnd { at: 30 }),
        ("A: b \n", HeadError::LineEnd { at: 31 }),
        ("A:\n", HeadError::LineEnd { at: 28 }),
    ]);
    let line_end = |at| RequestError::Head(HeadError::LineEnd { at });
    check(&[
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", line_end(14)),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", line_end(23)),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", line_end(25)),
        ("GET / HTTP/1.1\nHost: a\n\n", line_end(14)),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", line_end(0)),
        ("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", line_end(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n", line_end(0)),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", line_end(0)),
        ("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", line_end(2)),
        ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", line_end(0)),
    ]);
    let many = "\r\n".repeat(5) + "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    check_bytes(many.as_bytes(), RequestError::Head(HeadError::EmptyLines));
    // Every control byte in a value, at places where blocks of bytes begin and end.
    for byte in (0..=255u8).filter(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
        for position in [0, 1, 7, 8, 15, 16, 31, 32, 33] {
            let mut text = b"GET / HTTP/1.1\r\nHost: a\r\nA: ".to_vec();
            text.extend_from_slice(&b"a".repeat(position));
            text.push(byte);
            text.extend_from_slice(b"bc\r\n\r\n");
            let verdict = RequestHead::new().parse(&text, &LIMITS);
            assert!(verdict.is_err(), "byte {byte:#x} at {position}");
        }
    }
}

#[test]
fn connection_options_and_expectations() {
    check_fields_by_kind(
        &["Connection: Host\r\n", "Connection: close, content-length\r\n"],
        |error| matches!(error, HeadError::ConnectionNamesFraming { .. }),
    );
    let many: Vec<String> = (0..17).map(|index| format!("x-{index}")).collect();
    let many = format!("Connection: {}\r\n", many.join(", "));
    check_fields_by_kind(
        &["Connection: a b\r\n", "Connection: \"close\"\r\n", "Connection: a;b\r\n", &many],
        |error| matches!(error, HeadError::ConnectionInvalid { .. }),
    );
    for value in ["200-ok", "", "100-continue, x", "100-continue;a=b", "100"] {
        let text = with_fields(&format!("Expect: {value}\r\n"));
        check_bytes(text.as_bytes(), RequestError::Expectation);
    }
    check(&[
        ("TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", RequestError::TraceBody),
        (
            "TRACE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            RequestError::TraceBody,
        ),
    ]);
}
