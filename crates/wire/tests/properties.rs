//! What must hold for any input: properties over random messages, random cuts and random bytes.

#[path = "../../../fuzz/src/bytes.rs"]
#[allow(unreachable_pub, reason = "a library of its own, included here")]
mod checks;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use spillgate_wire::http1::{
    BodyDecoder, Framing, HeadLimits, RequestHead, ResponseIndex, Version, encode,
};

const LIMITS: HeadLimits = HeadLimits { size_max: 32 * 1024, fields_max: 128 };

/// What agents say, and nearly say.
const AGENT_WORDS: &[&str] = &[
    "up",
    "Down",
    "FAILED",
    "fail",
    "stopped",
    "ready",
    "drain",
    "maint",
    "75%",
    "0%",
    "99999%",
    "weight:3",
    "weight:300",
    "weight:10%",
    "maxconn:30",
    "maxconn:0",
    "maxconn:",
    "db",
    "-1%",
];

/// A request before it is written.
#[derive(Clone, Debug)]
struct Request {
    method: String,
    path: String,
    query: Option<String>,
    host: String,
    framing: Framing,
    fields: Vec<(String, String)>,
}

prop_compose! {
    fn fields()(
        fields in prop::collection::vec(
            ("[xX]-[a-zA-Z0-9!#$&*.^_`|~-]{1,40}", "|[!-~\u{a0}-\u{ff}]([ -~\t]{0,60}[!-~])?"),
            0..20,
        ),
    ) -> Vec<(String, String)> {
        // A forwarding field would change its id, which is no part of this property.
        fields.into_iter().filter(|(name, _)| name.len() != 9).collect()
    }
}

prop_compose! {
    fn request()(
        method in select(vec!["GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "x!#$"]),
        path in "/[a-zA-Z0-9/._~%;:@!$&'()*+,=-]{0,80}",
        query in prop::option::of("[!\"$-\\[\\]-~?]{0,80}"),
        host in "[a-z0-9][a-z0-9.-]{0,30}(:[1-9][0-9]{0,3})?|\\[::[1-9a-f]\\](:80)?",
        framing in prop_oneof![
            Just(Framing::None),
            any::<u64>().prop_map(Framing::Length),
            Just(Framing::Chunked),
        ],
        fields in fields(),
    ) -> Request {
        Request { method: method.to_owned(), path, query, host, framing, fields }
    }
}

impl Request {
    fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let query = self.query.as_deref().map(str::as_bytes);
        encode::request_line(&mut out, self.method.as_bytes(), self.path.as_bytes(), query);
        encode::field(&mut out, b"Host", self.host.as_bytes());
        for (name, value) in &self.fields {
            encode::field(&mut out, name.as_bytes(), value.as_bytes());
        }
        write_framing(&mut out, self.framing);
        encode::head_end(&mut out);
        out
    }
}

fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(length) => encode::field_number(out, b"content-length", length),
        Framing::Chunked => encode::field(out, b"transfer-encoding", b"chunked"),
        Framing::None | Framing::UntilClose => {}
    }
}

/// Bytes that mean something somewhere.
const HOSTILE: &[u8] = b"\r\n\0 \t:,;a5-_\x7f\x80/?#@";

/// Grow `seen` to each of the cuts in turn, then to the whole.
fn cut_points(len: usize, cuts: &[Index]) -> Vec<usize> {
    let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(len)).collect();
    points.push(len);
    points.sort_unstable();
    points
}

proptest! {
    #[test]
    fn a_written_request_is_read_as_it_was(
        request in request(),
        rest in "[ -~]{0,40}",
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let mut text = request.write();
        let len = text.len();
        text.extend_from_slice(rest.as_bytes());
        let mut head = RequestHead::new();
        let points = cut_points(text.len(), &cuts);
        let verdict = points
            .into_iter()
            .map(|point| head.parse(&text[..point], &LIMITS))
            .find(|verdict| *verdict != Ok(None));
        prop_assert_eq!(verdict, Some(Ok(Some(len))));
        prop_assert_eq!(head.method_bytes(), request.method.as_bytes());
        prop_assert_eq!(head.path(), request.path.as_bytes());
        prop_assert_eq!(head.query(), request.query.as_deref().map(str::as_bytes));
        prop_assert_eq!(head.host(), request.host.as_bytes());
        prop_assert_eq!(head.framing(), request.framing);
        prop_assert_eq!(head.version(), Version::Http11);
        let expected = request.fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        let read = head.fields().filter(|f| f.name[0] | 0x20 == b'x').map(|f| (f.name, f.value));
        prop_assert!(expected.eq(read));
    }

    #[test]
    fn a_written_response_is_read_as_it_was(
        status in 100u16..1000,
        reason in "[ -~\t]{0,30}",
        fields in fields(),
        framing in prop_oneof![
            Just(Framing::UntilClose),
            any::<u64>().prop_map(Framing::Length),
            Just(Framing::Chunked),
        ],
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let mut text = Vec::new();
        encode::status_line(&mut text, status, reason.as_bytes());
        for (name, value) in &fields {
            encode::field(&mut text, name.as_bytes(), value.as_bytes());
        }
        write_framing(&mut text, framing);
        encode::head_end(&mut text);
        let mut index = ResponseIndex::new();
        let verdict = cut_points(text.len(), &cuts)
            .into_iter()
            .map(|point| index.parse(&text[..point], &LIMITS))
            .find(|verdict| *verdict != Ok(None));
        prop_assert_eq!(verdict, Some(Ok(Some(text.len()))));
        let head = index.head(&text);
        prop_assert_eq!((head.status(), head.reason()), (status, reason.as_bytes()));
        let has_body = !matches!(status, 100..=199 | 204 | 304);
        let expected = if has_body { framing } else { Framing::None };
        prop_assert_eq!(head.framing(spillgate_wire::http1::Method::Get), expected);
        let expected = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        let read = head.fields().filter(|f| f.name[0] | 0x20 == b'x').map(|f| (f.name, f.value));
        prop_assert!(expected.eq(read));
    }

    #[test]
    fn a_body_survives_any_chunks_and_any_cuts(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..10),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut text = Vec::new();
        for chunk in &chunks {
            encode::chunk_head(&mut text, chunk.len() as u64);
            text.extend_from_slice(chunk);
            encode::chunk_end(&mut text);
        }
        encode::last_chunk(&mut text, std::iter::empty());
        let len = text.len();
        text.extend_from_slice(&rest);
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let mut body = Vec::new();
        let mut at = 0;
        for point in cut_points(text.len(), &cuts) {
            while at < point && !decoder.is_done() {
                let piece = &text[at..point];
                let decoded = decoder.decode(piece).expect("a valid body");
                body.extend_from_slice(&piece[decoded.data]);
                at += decoded.consumed;
            }
        }
        prop_assert!(decoder.is_done());
        prop_assert_eq!(at, len);
        prop_assert_eq!(body, chunks.concat());
    }

    #[test]
    fn any_bytes_are_survived(input in prop::collection::vec(any::<u8>(), 0..600)) {
        checks::request_head(&input);
        checks::response_head(&input);
        checks::chunked_body(&input);
        checks::proxy_protocol(&input);
        checks::agent_line(&input);
        checks::attempt(&input);
        checks::orca(&input);
        for kind in ["TEXT ", "JSON {", "TEXT cpu_utilization="] {
            let mut text = kind.as_bytes().to_vec();
            text.extend_from_slice(&input);
            checks::orca(&text);
        }
    }

    #[test]
    fn words_of_agents_in_any_order_are_read(
        words in prop::collection::vec(
            (select(AGENT_WORDS), select(vec![' ', ',', '\t', '#'])),
            0..12,
        ),
        end in select(vec!["\n", "\r\n", ""]),
    ) {
        let mut text = String::new();
        for (word, between) in words {
            text.push_str(word);
            text.push(between);
        }
        text.push_str(end);
        checks::agent_line(text.as_bytes());
    }

    /// Random bytes rarely come far; good messages with a few bytes changed do.
    #[test]
    fn damaged_messages_are_survived(
        request in request(),
        damage in prop::collection::vec((any::<Index>(), select(HOSTILE)), 0..4),
        is_inserted in any::<bool>(),
    ) {
        let mut text = request.write();
        for (place, byte) in damage {
            let at = place.index(text.len());
            match is_inserted {
                true => text.insert(at, byte),
                false => text[at] = byte,
            }
        }
        checks::request_head(&text);
        let mut response = b"HTTP/1.1 200 OK\r\n".to_vec();
        let line = text.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        response.extend_from_slice(&text[line..]);
        checks::response_head(&response);
        let mut chunked = b"5;a=b\r\nhello\r\n0\r\n".to_vec();
        chunked.extend_from_slice(&text[line..]);
        checks::chunked_body(&chunked);
    }
}
