//! What must hold for any bytes whatever, per parser of the wire crate: one function each, which
//! panics when it does not. The plain tests of that crate include this file and call them with the
//! committed corpus and with random bytes.
//!
//! Common to all: no panic, and the same result however the input is cut. Beyond that: what was
//! accepted holds no byte that could start another line, and means the same when it is written out
//! and read again.

use spillgate_wire::agent_line::{self, Admin, AgentLine, Health, Weight};
use spillgate_wire::attempt;
use spillgate_wire::http1::{
    BodyDecoder, BodyError, Framing, HeadLimits, Method, RequestHead, ResponseIndex, TargetForm,
    Version, encode,
};
use spillgate_wire::orca;
use spillgate_wire::proxy_protocol;

/// Small enough for the fuzzer to reach them.
const LIMITS: HeadLimits = HeadLimits { size_max: 2048, fields_max: 160 };

/// A request head.
pub fn request_head(input: &[u8]) {
    let mut head = RequestHead::new();
    let whole = head.parse(input, &LIMITS);
    for step in steps(input) {
        let mut pieces = RequestHead::new();
        let verdict = in_steps(input, step, |seen| pieces.parse(seen, &LIMITS));
        assert_eq!(verdict, whole, "in steps of {step}");
    }
    let Ok(Some(consumed)) = whole else {
        assert_eq!(head.fields().len(), 0);
        return;
    };
    assert!(input[..consumed].ends_with(b"\r\n\r\n"));
    assert!(input[..consumed].ends_with(head.bytes()));
    assert!(head.target().iter().all(|byte| (0x21..0x7f).contains(byte)));
    for field in head.fields() {
        check_field(field.name, field.value);
    }
    if head.target_form() != TargetForm::Authority {
        check_written_again(&head);
    }
}

/// Write a request as a proxy would, and read it: it must be the same request, and one only.
fn check_written_again(head: &RequestHead) {
    let mut text = Vec::new();
    encode::request_line(&mut text, head.method_bytes(), head.path(), head.query());
    encode::field(&mut text, b"Host", head.host());
    match head.framing() {
        Framing::Length(length) => encode::field_number(&mut text, b"Content-Length", length),
        Framing::Chunked => encode::field(&mut text, b"Transfer-Encoding", b"chunked"),
        Framing::None => {}
        Framing::UntilClose => panic!("a request that ends with its connection"),
    }
    let passing = |name: &[u8]| {
        let ours: [&[u8]; 4] = [b"host", b"content-length", b"connection", b"expect"];
        !ours.iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    let fields = || head.fields().filter(|field| !field.hop && passing(field.name));
    for field in fields() {
        encode::field(&mut text, field.name, field.value);
    }
    encode::head_end(&mut text);

    let mut again = RequestHead::new();
    let roomy = HeadLimits { size_max: HeadLimits::SIZE_MAX, fields_max: HeadLimits::FIELDS_MAX };
    assert_eq!(again.parse(&text, &roomy), Ok(Some(text.len())), "{}", text.escape_ascii());
    assert_eq!(again.method_bytes(), head.method_bytes());
    assert_eq!((again.path(), again.query()), (head.path(), head.query()));
    assert_eq!((again.host(), again.framing()), (head.host(), head.framing()));
    assert_eq!(again.version(), Version::Http11);
    let written = again.fields().filter(|field| !field.hop && passing(field.name));
    assert!(fields().eq(written));
}

/// A response head.
pub fn response_head(input: &[u8]) {
    let mut index = ResponseIndex::new();
    let whole = index.parse(input, &LIMITS);
    for step in steps(input) {
        let mut pieces = ResponseIndex::new();
        let verdict = in_steps(input, step, |seen| pieces.parse(seen, &LIMITS));
        assert_eq!(verdict, whole, "in steps of {step}");
    }
    let Ok(Some(consumed)) = whole else {
        return;
    };
    assert!(input[..consumed].ends_with(b"\r\n\r\n"));
    let head = index.head(&input[..consumed]);
    assert!((100..1000).contains(&head.status()));
    assert!(head.reason().iter().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
    for field in head.fields() {
        check_field(field.name, field.value);
    }
    let is_bodiless = matches!(head.status(), 100..=199 | 204 | 304);
    assert_eq!(head.framing(Method::Head), Framing::None);
    assert!(!is_bodiless || head.framing(Method::Get) == Framing::None);
    let _ = (head.keep_alive(), head.keep_alive_timeout(), head.upgrade());
    let _ = (head.is_event_stream(), head.accel_buffering_off());
}

/// A chunked body: also that what was read is read again when it is written as one chunk.
pub fn chunked_body(input: &[u8]) {
    let whole = decode(input, input.len().max(1));
    for step in steps(input) {
        assert_eq!(decode(input, step), whole, "in steps of {step}");
    }
    let Ok(Some((body, consumed, trailers))) = whole else {
        return;
    };
    assert!(input[..consumed].ends_with(b"\r\n"));
    let mut text = Vec::new();
    if !body.is_empty() {
        encode::chunk_head(&mut text, body.len() as u64);
        text.extend_from_slice(&body);
        encode::chunk_end(&mut text);
    }
    text.extend_from_slice(b"0\r\n");
    for (name, value) in &trailers {
        check_field(name, value);
        encode::field(&mut text, name, value);
    }
    text.extend_from_slice(b"\r\n");
    let len = text.len();
    assert_eq!(decode(&text, len), Ok(Some((body, len, trailers))));
}

/// A body, how much of the input it took, and its trailers.
type Body = (Vec<u8>, usize, Vec<(Vec<u8>, Vec<u8>)>);

/// Decode a chunked body in steps. `None`: it is not complete.
fn decode(input: &[u8], step: usize) -> Result<Option<Body>, BodyError> {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let mut body = Vec::new();
    let mut at = 0;
    while !decoder.is_done() && at < input.len() {
        let piece = &input[at..input.len().min(at + step)];
        let decoded = decoder.decode(piece)?;
        assert!(decoded.data.end <= decoded.consumed);
        assert!(decoded.consumed > 0 && decoded.consumed <= piece.len());
        body.extend_from_slice(&piece[decoded.data]);
        at += decoded.consumed;
    }
    if !decoder.is_done() {
        assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));
        return Ok(None);
    }
    let trailers = decoder.trailers().map(|field| (field.name.to_vec(), field.value.to_vec()));
    Ok(Some((body, at, trailers.collect())))
}

/// A PROXY protocol header.
pub fn proxy_protocol(input: &[u8]) {
    let whole = proxy_protocol::parse(input);
    for step in steps(input) {
        let verdict = in_steps(input, step, proxy_protocol::parse);
        assert_eq!(verdict, whole, "in steps of {step}");
    }
    match whole {
        Ok(Some((consumed, header))) => {
            assert!(consumed > 0 && consumed <= input.len());
            assert_eq!(header.source.is_some(), header.destination.is_some());
        }
        Ok(None) => assert!(input.len() < proxy_protocol::V2_SIZE_MAX),
        Err(_) => {}
    }
}

/// The line of an agent: also that what was understood means the same when it is said alone.
pub fn agent_line(input: &[u8]) {
    let shown = |seen: &[u8]| agent_line::parse(seen).map(|line| line.map(|l| format!("{l:?}")));
    let whole = shown(input);
    for step in steps(input) {
        let verdict = in_steps(input, step, shown);
        assert_eq!(verdict, whole, "in steps of {step}");
    }
    let Ok(Some(line)) = agent_line::parse(input) else {
        return;
    };
    let text = written(&line);
    let again = agent_line::parse(&text).expect("it was short enough").expect("it has an end");
    assert_eq!(again, AgentLine { unknown: None, ..line }, "{}", text.escape_ascii());
}

/// The words of a line as an agent would say them.
fn written(line: &AgentLine<'_>) -> Vec<u8> {
    let admin = line.admin.map(|admin| match admin {
        Admin::Ready => "ready".to_owned(),
        Admin::Drain => "drain".to_owned(),
        Admin::Maint => "maint".to_owned(),
    });
    let weight = line.weight.map(|weight| match weight {
        Weight::Percent(percent) => format!("{percent}%"),
        Weight::Absolute(weight) => format!("weight:{weight}"),
    });
    let slots = line.slots.map(|slots| format!("maxconn:{slots}"));
    let health = line.health.map(|health| match health {
        Health::Up => "up".to_owned(),
        Health::Down => "down".to_owned(),
        Health::Failed => "failed".to_owned(),
        Health::Stopped => "stopped".to_owned(),
    });
    let words: Vec<String> = [admin, weight, slots, health].into_iter().flatten().collect();
    let mut text = words.join(", ").into_bytes();
    if let Some(description) = line.description {
        text.push(b'#');
        text.extend_from_slice(description);
    }
    text.push(b'\n');
    text
}

/// A report of load: also that what was understood means the same when it is said alone.
pub fn orca(input: &[u8]) {
    let Some(ppm) = orca::utilization(input) else {
        return;
    };
    assert!(ppm > 0);
    let (whole, parts) = (ppm / 1_000_000, ppm % 1_000_000);
    let text = format!("TEXT application_utilization={whole}.{parts:06}");
    let again = orca::utilization(text.as_bytes()).expect("it is a report");
    // A decimal fraction need not be one of a float.
    assert!(again.abs_diff(ppm) <= 1, "{again} for {text}");
}

/// What proxies in a row say of tries: a number that is written again is the same, zeros in front
/// change nothing, and what says "do not retry" is no number.
pub fn attempt(input: &[u8]) {
    let Some(number) = attempt::number(input) else {
        assert_eq!(attempt::is_final(input), matches!(input, [b'n' | b'N', b'o' | b'O']));
        return;
    };
    assert!(!attempt::is_final(input));
    let digits = std::str::from_utf8(input).expect("digits are text").trim_start_matches('0');
    let least = digits.parse::<u8>().unwrap_or(u8::MAX);
    assert_eq!(number, least, "{digits}");
    assert_eq!(attempt::number(number.to_string().as_bytes()), Some(number));
    assert_eq!(attempt::number(&[b"0", input].concat()), Some(number));
}

/// Call `parse` with ever more of the input until it comes to a verdict or the input ends.
fn in_steps<T, E>(
    input: &[u8],
    step: usize,
    mut parse: impl FnMut(&[u8]) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let mut len = 0;
    loop {
        len = input.len().min(len + step);
        match parse(&input[..len]) {
            Ok(None) if len < input.len() => {}
            verdict => return verdict,
        }
    }
}

/// The sizes of pieces to try: single bytes, and one that depends on the input.
fn steps(input: &[u8]) -> [usize; 2] {
    [1, 2 + input.len() % 29]
}

/// Could this field, written out, be read as anything else?
fn check_field(name: &[u8], value: &[u8]) {
    assert!(!name.is_empty());
    assert!(
        name.iter().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(byte))
    );
    assert!(value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)));
    assert_eq!(value.trim_ascii(), value);
}
