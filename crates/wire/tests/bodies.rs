//! Bodies: decoded in place, however the network cuts them, and refused where two readers could
//! find different ends.

use spillgate_wire::http1::{
    BodyDecoder, BodyError, EXTENSIONS_SIZE_MAX, Framing, TRAILERS_MAX, TRAILERS_SIZE_MAX, encode,
};

/// The body, how much of the input it took, and its trailers.
type Whole = (Vec<u8>, usize, Vec<(Vec<u8>, Vec<u8>)>);

/// Decode in pieces of `step` bytes until the body is complete or the input used up.
fn decode(framing: Framing, text: &[u8], step: usize) -> Result<Option<Whole>, BodyError> {
    let mut decoder = BodyDecoder::new(framing);
    let mut body = Vec::new();
    let mut at = 0;
    while !decoder.is_done() {
        let piece = &text[at..(at + step).min(text.len())];
        if piece.is_empty() {
            return Ok(None);
        }
        let decoded = decoder.decode(piece)?;
        assert!(decoded.data.end <= decoded.consumed && decoded.consumed <= piece.len());
        assert!(decoded.consumed > 0, "no progress");
        assert_eq!(decoded.done, decoder.is_done());
        body.extend_from_slice(&piece[decoded.data]);
        at += decoded.consumed;
    }
    let trailers = decoder.trailers().map(|field| (field.name.to_vec(), field.value.to_vec()));
    Ok(Some((body, at, trailers.collect())))
}

/// Decode in pieces of every size; the result must be the same.
fn chunked(text: &[u8]) -> Result<Option<Whole>, BodyError> {
    let whole = decode(Framing::Chunked, text, usize::MAX / 2);
    for step in 1..text.len().min(64) {
        let in_pieces = decode(Framing::Chunked, text, step);
        assert_eq!(in_pieces, whole, "in pieces of {step}: {}", text.escape_ascii());
    }
    whole
}

#[test]
fn whole_chunked_bodies() {
    let cases: &[(&str, &str)] = &[
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc"),
        ("a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("A\r\n0123456789\r\n000\r\n\r\n", "0123456789"),
        ("0000000000000003\r\nabc\r\n0\r\n\r\n", "abc"),
        ("3;a=b\r\nabc\r\n0;c\r\n\r\n", "abc"),
        ("3; a = \"b;c\"\r\nabc\r\n0\r\n\r\n", "abc"),
        ("3;\r\nabc\r\n0\r\n\r\n", "abc"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ("7\r\n0\r\n\r\nGE\r\n0\r\n\r\n", "0\r\n\r\nGE"),
    ];
    for (text, body) in cases {
        let (decoded, consumed, trailers) = chunked(text.as_bytes()).unwrap().unwrap();
        assert_eq!(decoded, body.as_bytes(), "{text:?}");
        assert_eq!(consumed, text.len(), "{text:?}");
        assert!(trailers.is_empty());
        let next = format!("{text}GET / HTTP/1.1\r\n\r\n");
        let (_, consumed, _) = chunked(next.as_bytes()).unwrap().unwrap();
        assert_eq!(consumed, text.len(), "bytes of the next message after {text:?}");
    }
}

#[test]
fn refused_chunked_bodies() {
    let cases: &[(&[u8], BodyError)] = &[
        (b"\r\n", BodyError::ChunkSize),
        (b"\n", BodyError::ChunkSize),
        (b";a\r\n", BodyError::ChunkSize),
        (b"0x5\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b"x5\r\n", BodyError::ChunkSize),
        (b"0_2e\r\n", BodyError::ChunkSize),
        (b"+5\r\n", BodyError::ChunkSize),
        (b"-5\r\n", BodyError::ChunkSize),
        (b"5 \r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b" 5\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b"5\t\r\n", BodyError::ChunkSize),
        (b"5 ;a\r\n", BodyError::ChunkSize),
        (b"5g\r\n", BodyError::ChunkSize),
        (b"5,5\r\n", BodyError::ChunkSize),
        (b"5\0\r\n", BodyError::ChunkSize),
        (b"\xef\xbc\x95\r\n", BodyError::ChunkSize),
        (b"10000000000000005\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b"00000000000000005\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b"5\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b"5\rhello\r\n0\r\n\r\n", BodyError::ChunkSize),
        (b"5\r\rhello\r\n", BodyError::ChunkSize),
        (b"5;a\nhello\r\n0\r\n\r\n", BodyError::ChunkExtension),
        (b"5;a\0b\r\nhello", BodyError::ChunkExtension),
        (b"5;a\x7f\r\nhello", BodyError::ChunkExtension),
        (b"5;a=\"\rb\"\r\nhello", BodyError::ChunkSize),
        (b"5;a=\"\nb\"\r\nhello", BodyError::ChunkExtension),
        (b"5\r\nhelloXX0\r\n\r\n", BodyError::ChunkEnd),
        (b"5\r\nhello\n0\r\n\r\n", BodyError::ChunkEnd),
        (b"5\r\nhello\rX0\r\n\r\n", BodyError::ChunkEnd),
        (b"5\r\nhello!\r\n0\r\n\r\n", BodyError::ChunkEnd),
        (b"5\r\nhello0\r\n\r\n", BodyError::ChunkEnd),
        (b"0\r\n\n", BodyError::Trailer),
        (b"0\r\n\rX", BodyError::Trailer),
        (b"0\n\r\n", BodyError::ChunkSize),
        (b"0\r\nA: b\n\r\n", BodyError::Trailer),
        (b"0\r\nA: b\rc\r\n\r\n", BodyError::Trailer),
        (b"0\r\nA : b\r\n\r\n", BodyError::Trailer),
        (b"0\r\n A: b\r\n\r\n", BodyError::Trailer),
        (b"0\r\nA: b\r\n c\r\n\r\n", BodyError::Trailer),
        (b"0\r\nA: b\0\r\n\r\n", BodyError::Trailer),
        (b"0\r\nA\r\n\r\n", BodyError::Trailer),
        (b"0\r\n: b\r\n\r\n", BodyError::Trailer),
        (b"0\r\nGET / HTTP/1.1\r\n\r\n", BodyError::Trailer),
        (b"0\r\nContent-Length: 5\r\n\r\n", BodyError::TrailerForbidden),
        (b"0\r\ncontent_length: 5\r\n\r\n", BodyError::TrailerForbidden),
        (b"0\r\nTransfer-Encoding: chunked\r\n\r\n", BodyError::TrailerForbidden),
        (b"0\r\nHost: b\r\n\r\n", BodyError::TrailerForbidden),
    ];
    for (text, error) in cases {
        assert_eq!(chunked(text), Err(*error), "{}", text.escape_ascii());
        assert!(!error.reason().is_empty());
    }
}

#[test]
fn large_chunks_do_not_wrap() {
    for (size, left) in [("100000005", 0x1_0000_0005u64), ("ffffffffffffffff", u64::MAX)] {
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let text = format!("{size}\r\nhello\r\n0\r\n\r\n");
        let decoded = decoder.decode(text.as_bytes()).unwrap();
        assert_eq!(decoded.data.len(), 10 + 2, "all that follows is data: {left} bytes are due");
        assert!(!decoded.done);
        assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));
    }
}

#[test]
fn trailers() {
    let text = b"3\r\nabc\r\n0\r\nGrpc-Status: 0\r\nX-Sum:  a b \r\nEmpty:\r\n\
        Connection: close\r\nSet-Cookie: a\r\nX_Forwarded_For: 1\r\nAuthorization: b\r\n\
        Last: \xe4\r\n\r\nrest";
    let (body, consumed, trailers) = chunked(text).unwrap().unwrap();
    assert_eq!((&body[..], consumed), (&b"abc"[..], text.len() - 4));
    let expected: [(&[u8], &[u8]); 4] =
        [(b"Grpc-Status", b"0"), (b"X-Sum", b"a b"), (b"Empty", b""), (b"Last", b"\xe4")];
    let expected = expected.map(|(name, value)| (name.to_vec(), value.to_vec()));
    assert_eq!(trailers, expected);
}

#[test]
fn bounds_of_extensions_and_trailers() {
    let text = |len: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(len));
    assert!(chunked(text(EXTENSIONS_SIZE_MAX).as_bytes()).is_ok());
    let error = Err(BodyError::ExtensionsTooLarge);
    assert_eq!(chunked(text(EXTENSIONS_SIZE_MAX + 1).as_bytes()), error);
    let often = "1;xxxxxxx\r\na\r\n".repeat(EXTENSIONS_SIZE_MAX / 7 + 1);
    assert_eq!(decode(Framing::Chunked, often.as_bytes(), 1 << 20), error);

    let error = Err(BodyError::TrailersTooLarge);
    let many = |count: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(chunked(many(TRAILERS_MAX).as_bytes()).is_ok());
    assert_eq!(chunked(many(TRAILERS_MAX + 1).as_bytes()), error);
    for name in ["A", "Connection"] {
        let size = TRAILERS_SIZE_MAX - name.len();
        let long = format!("0\r\n{name}: {}\r\n\r\n", "x".repeat(size));
        assert_eq!(decode(Framing::Chunked, long.as_bytes(), 1 << 20), error);
        let dropped = format!("{name}: {}\r\n", "x".repeat(1000)).repeat(9);
        let long = format!("0\r\n{dropped}\r\n");
        assert_eq!(decode(Framing::Chunked, long.as_bytes(), 1 << 20), error);
    }
}

#[test]
fn lengths_and_ends() {
    let whole = |framing, text: &[u8]| decode(framing, text, 3);
    assert_eq!(whole(Framing::None, b"next"), Ok(Some((vec![], 0, vec![]))));
    assert_eq!(whole(Framing::Length(0), b"next"), Ok(Some((vec![], 0, vec![]))));
    assert_eq!(whole(Framing::Length(5), b"hellonext"), Ok(Some((b"hello".to_vec(), 5, vec![]))));
    assert_eq!(whole(Framing::Length(5), b"hell"), Ok(None));

    let mut decoder = BodyDecoder::new(Framing::Length(u64::MAX));
    assert_eq!(decoder.decode(b"abc").unwrap().consumed, 3);
    assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));

    let mut decoder = BodyDecoder::new(Framing::Length(8));
    decoder.decode(b"abc").unwrap();
    assert_eq!(decoder.left(), Some(5));
    decoder.pass(4);
    assert_eq!(decoder.decode(b"xnext").unwrap().consumed, 1);
    assert!(decoder.is_done() && decoder.left().is_none());
    let mut decoder = BodyDecoder::new(Framing::Length(3));
    decoder.pass(3);
    assert!(decoder.is_done());

    let mut decoder = BodyDecoder::new(Framing::UntilClose);
    let decoded = decoder.decode(b"abc").unwrap();
    assert_eq!((decoded.consumed, decoded.data, decoded.done), (3, 0..3, false));
    assert_eq!(decoder.end_of_input(), Ok(()));
    assert!(decoder.is_done());

    for text in ["", "5", "5\r\n", "5\r\nhel", "5\r\nhello\r\n", "0\r\n", "0\r\nA: b\r\n"] {
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        decoder.decode(text.as_bytes()).unwrap();
        assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated), "{text:?}");
        assert_eq!(decoder.trailers().len(), 0, "trailers before the end of {text:?}");
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let source = b"0\r\nA-Sum: 5\r\nB:\r\n\r\n";
    let mut trailing = BodyDecoder::new(Framing::Chunked);
    trailing.decode(source).unwrap();
    let mut out = Vec::new();
    encode::chunk_head(&mut out, 11);
    out.extend_from_slice(b"hello\r\n0\r\n\r\n"[..11].as_ref());
    encode::chunk_end(&mut out);
    encode::last_chunk(&mut out, trailing.trailers());
    let (body, consumed, trailers) = chunked(&out).unwrap().unwrap();
    assert_eq!((&body[..], consumed), (&b"hello\r\n0\r\n\r"[..], out.len()));
    assert_eq!(trailers.len(), 2);
}
