//! Requests that could be read in two ways, or in none: refused, and never seen by a worker.
//!
//! Each list is a kind of mistake; what lies behind the broken request is one that a smuggler would
//! like the worker to see. After the refusal the connection ends, since nobody can tell where the
//! next request would begin (RFC 9112 sections 2.2, 5.1, 6.1, 6.3 and 7.1).

use crate::harness::{Echo, Spillgate, get};

/// What must never reach a worker.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// Each request, with the hidden one behind it, is refused with `status`; then nothing of it was
/// seen.
fn refuse(status: u16, reason: &str, requests: &[&[u8]]) {
    let (echo, spillgate) = Echo::behind(|config| config);
    for request in requests {
        refuse_one(&spillgate, status, reason, request);
    }
    assert_eq!(spillgate.ask(get("/sound")).status(), 200);
    assert_eq!(echo.targets(), ["/sound"]);
}

fn refuse_one(spillgate: &Spillgate, status: u16, reason: &str, request: &[u8]) {
    let shown = String::from_utf8_lossy(request);
    let mut client = spillgate.connect();
    client.send([request, HIDDEN.as_bytes()].concat());
    let response = client.receive_response();
    assert_eq!(response.status(), status, "{shown:?}: {}", response.text());
    assert_eq!(response.get("connection"), Some("close"), "{shown:?}");
    let details = response.get("proxy-status").expect("each reply of ours says why");
    assert!(details.contains(&format!("details=\"{reason}\"")), "{shown:?}: {details}");
    client.expect_end();
}

/// A request for `/` with these lines besides `Host`.
fn with(lines: &[u8]) -> Vec<u8> {
    [b"POST / HTTP/1.1\r\nHost: a.example\r\n", lines, b"\r\n\r\n"].concat()
}

fn refuse_lines(lines: &[&[u8]]) {
    let requests: Vec<Vec<u8>> = lines.iter().map(|lines| with(lines)).collect();
    refuse(400, "bad_head", &requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn lengths_are_plain_numbers_said_once() {
    refuse_lines(&[
        b"Content-Length:",
        b"Content-Length: ",
        b"Content-Length: +5",
        b"Content-Length: -1",
        b"Content-Length: 5 5",
        b"Content-Length: 5,5",
        b"Content-Length: 5, 6",
        b"Content-Length: 0x5",
        b"Content-Length: 1e1",
        b"Content-Length: 5;",
        b"Content-Length: \"5\"",
        b"Content-Length: 18446744073709551621",
        b"Content-Length: 99999999999999999999999999",
        b"Content-Length: \xc2\xb2",
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 0\r\ncontent-length: 0",
        b"Content_Length: 5",
        b"Content-Length : 5",
        b"Content-Length: 5\r\nX: y\r\nCONTENT-LENGTH: 7",
    ]);
}

#[test]
fn one_framing_and_no_other_coding_than_chunked() {
    refuse_lines(&[
        b"Content-Length: 0\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 50",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: identity, chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding:",
        b"Transfer-Encoding: ,chunked",
        b"Transfer-Encoding: chunked,",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunked;q=1",
        b"Transfer-Encoding: \"chunked\"",
        b"Transfer-Encoding: chun ked",
        b"Transfer-Encoding: \x0bchunked",
        b"Transfer-Encoding: chunked\x00",
        b"Transfer-Encoding\x20: chunked",
        b"Transfer-Encoding\t: chunked",
        b"Transfer_Encoding: chunked",
        b"X: y\r\n Transfer-Encoding: chunked",
        b"Transfer-Encoding:\r\n chunked",
    ]);
}

#[test]
fn field_names_are_tokens() {
    let mut requests = Vec::new();
    for byte in b"()<>@,;\\\"/[]?={} \t\x01\x0b\x7f\x80\x85\xa0\xff" {
        requests.push(with(&[b"X", &[*byte][..], b"Y: z"].concat()));
        requests.push(with(&[b"Content-Length", &[*byte][..], b": 5"].concat()));
    }
    for line in [&b": nameless"[..], b"no colon", b" X: y", b"\tX: y", b"X: y\r\n folded"] {
        requests.push(with(line));
    }
    refuse(400, "bad_head", &requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn lines_end_with_cr_lf_and_hold_no_other_controls() {
    refuse(
        400,
        "bad_head",
        &[
            b"GET / HTTP/1.1\nHost: a.example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\n\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\n\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\0b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\x7fb\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\x0bb\r\n\r\n",
            b"GET / HTTP/1.1\rHost: a.example\r\n\r\n",
            b"\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ],
    );
}

#[test]
fn request_lines_have_three_words() {
    refuse(
        400,
        "bad_head",
        &[
            b" GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET\t/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"G(T / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET /a b HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET /a#b HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET /a\\b HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET /\x00 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET /\x80 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET a HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET * HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET http://user@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"GET http:///a HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        ],
    );
}

#[test]
fn versions_other_than_ours_are_named_as_such() {
    refuse(
        505,
        "version",
        &[
            b"GET / HTTP/1.2\r\nHost: a.example\r\n\r\n",
            b"GET / HTTP/2.0\r\nHost: a.example\r\n\r\n",
            b"GET / http/1.1\r\nHost: a.example\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ],
    );
}

#[test]
fn there_is_one_host_and_it_is_one() {
    refuse(
        400,
        "bad_head",
        &[
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nhost: b.example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: host\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close, content-length\r\n\r\n",
        ],
    );
}

#[test]
fn framing_that_a_version_or_method_does_not_have() {
    refuse(
        400,
        "bad_head",
        &[
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"TRACE / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello",
            b"TRACE / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ],
    );
}

/// A chunked request that begins with these bytes behind its head.
fn chunked(body: &[u8]) -> Vec<u8> {
    let head = b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    [head, body].concat()
}

#[test]
fn chunks_are_framed_by_bare_hex_digits_and_cr_lf() {
    let bodies: &[&[u8]] = &[
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"0_2e\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5\t;a\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n",
        b";a=b\r\nhello\r\n0\r\n\r\n",
        b"g\r\nhello\r\n0\r\n\r\n",
        b"10000000000000005\r\nhello\r\n0\r\n\r\n",
        b"00000000000000005\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5\rhello\r\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5;a=\0\r\nhello\r\n0\r\n\r\n",
        b"5;a=b\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTransfer_Encoding: chunked\r\n\r\n",
        b"5\r\nhello\r\n0\r\nHost: b.example\r\n\r\n",
        b"5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX y: z\r\n\r\n",
        b"5\r\nhello\r\n0\r\n folded: z\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: a\n\r\n",
        b"5\r\nhello\r\n0\r\nX: a\rb\r\n\r\n",
        b"5\r\nhello\r\n0\n\r\n",
    ];
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| chunked(body)).collect();
    refuse(400, "bad_chunk", &requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn what_stands_around_chunks_is_bounded() {
    let long = |count| "x".repeat(count);
    let bodies = [
        format!("1;{}\r\nx\r\n0\r\n\r\n", long(5000)),
        format!("1;{}\r\nx\r\n", long(100)).repeat(50) + "0\r\n\r\n",
        format!("0\r\nX: {}\r\n\r\n", long(9000)),
        format!("0\r\n{}\r\n", "X: y\r\n".repeat(100)),
        format!("0\r\n{}\r\n", "Cookie: y\r\n".repeat(1000)),
    ];
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| chunked(body.as_bytes())).collect();
    refuse(400, "bad_chunk", &requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn a_size_above_32_bits_does_not_wrap() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let mut client = spillgate.connect();
    // A reader with 32 bits would see 5 bytes, and then the hidden request.
    client.send(chunked(b"100000005\r\nhello\r\n0\r\n\r\n"));
    client.send(HIDDEN);
    client.half_close();
    client.expect_gone();
    assert_eq!(spillgate.record("/")["end"], "abandoned");
    assert!(echo.seen().is_empty());
}

#[test]
fn an_expectation_that_we_do_not_know() {
    let requests: Vec<Vec<u8>> = ["100-continues", "100-continue, other", "other", ""]
        .map(|expect| with(format!("Expect: {expect}\r\nContent-Length: 0").as_bytes()))
        .into();
    refuse(417, "expectation", &requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn a_tunnel_to_anywhere_is_refused() {
    let (echo, spillgate) = Echo::behind(|config| config);
    refuse_one(
        &spillgate,
        501,
        "connect",
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
    );
    assert!(echo.seen().is_empty());
}

#[test]
fn a_cut_head_or_body_reaches_nobody() {
    let (echo, spillgate) = Echo::behind(|config| config);
    for request in [
        &b"GET / HTTP/1.1\r\nHost: a.exam"[..],
        b"GET / HTTP/1.1\r\nHost: a.example\r\n",
        b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\n12345",
        b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
    ] {
        let mut client = spillgate.connect();
        client.send(request);
        client.half_close();
        client.expect_gone();
    }
    assert!(echo.seen().is_empty());
}
