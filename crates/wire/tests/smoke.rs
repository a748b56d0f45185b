//! The happy path.
use spillgate_wire::http1::*;

const LIMITS: HeadLimits = HeadLimits { size_max: 32 * 1024, fields_max: 128 };

#[test]
fn request() {
    let mut head = RequestHead::new();
    let text = b"POST /a/b?c=d HTTP/1.1\r\nHost: Example.com:8080\r\nContent-Length: 5\r\nConnection: keep-alive, x-y\r\nX-Y: 1 \r\nEmpty:  \r\n\r\nhello";
    assert_eq!(head.parse(text, &LIMITS), Ok(Some(text.len() - 5)));
    assert_eq!(head.method(), Method::Post);
    assert_eq!(head.path(), b"/a/b");
    assert_eq!(head.query(), Some(&b"c=d"[..]));
    assert_eq!(head.framing(), Framing::Length(5));
    assert_eq!(head.host(), b"Example.com:8080");
    assert!(head.keep_alive());
    let fields: Vec<_> = head.fields().map(|f| (f.name, f.value, f.hop)).collect();
    assert_eq!(fields[3], (&b"X-Y"[..], &b"1"[..], true));
    assert_eq!(fields[4], (&b"Empty"[..], &b""[..], false));
}

#[test]
fn response() {
    let mut index = ResponseIndex::new();
    let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    let n = index.parse(text, &LIMITS).unwrap().unwrap();
    let head = index.head(text);
    assert_eq!(head.status(), 200);
    assert_eq!(head.keep_alive_timeout(), Some(5));
    let mut body = BodyDecoder::new(head.framing(Method::Get));
    let d = body.decode(&text[n..]).unwrap();
    assert_eq!(&text[n..][d.data], b"hello");
    assert!(d.done);
    assert_eq!(d.consumed, text.len() - n);
    assert_eq!(body.trailers().next().unwrap().value, b"b");
}
