//! Sound messages with a few bytes changed, many times over, always the same ones.
//!
//! Nobody knows what each of them deserves. What holds for all of them: Spillgate lives, a worker
//! sees nothing but sound requests, and a client sees one answer and nothing behind it.

use spillgate_core::rng::Rng;

use crate::harness::{Config, Echo, Message, Spillgate, Worker};

/// Bytes that mean something to some reader of HTTP.
const BYTES: &[u8] = b"\r\n\0 \t:;,=/\\?#0159afxX+-_\"\x7f\x80\xff";

/// Pieces that a smuggler would add.
const PIECES: &[&str] = &[
    "\r\n",
    "\r\n\r\n",
    "0\r\n\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding:\x0bchunked\r\n",
    "Connection: upgrade, close\r\n",
    "Expect: 100-continue\r\n",
    "Host: b.example\r\n",
    " folded\r\n",
    "GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
];

fn mutated(rng: &mut Rng, sound: &str) -> Vec<u8> {
    let mut bytes = sound.as_bytes().to_vec();
    for _ in 0..=rng.below(3) {
        let mut at = |len: usize| rng.below(len as u64 + 1) as usize;
        let (from, to) = (at(bytes.len()), at(bytes.len()));
        let (piece, byte) = (PIECES[at(PIECES.len() - 1)], BYTES[at(BYTES.len() - 1)]);
        let slice = bytes[from.min(to)..from.max(to)].to_vec();
        match at(5) {
            0 => drop(bytes.splice(from..from, piece.bytes())),
            1 => bytes.insert(from, byte),
            2 if from < bytes.len() => bytes[from] = byte,
            3 if from < bytes.len() => drop(bytes.remove(from)),
            4 => drop(bytes.splice(from..from, slice)),
            _ => {
                // A piece between two lines, where it is most likely to be read as one.
                let line = bytes[from..].iter().position(|byte| *byte == b'\n');
                let from = line.map_or(bytes.len(), |offset| from + offset + 1);
                bytes.splice(from..from, piece.bytes());
            }
        }
    }
    bytes
}

#[track_caller]
fn expect_alive(spillgate: &Spillgate) {
    assert!(spillgate.page("/status").status() == 200);
    let panics = spillgate.messages.all().into_iter().filter(|line| line.contains("panicked"));
    assert_eq!(panics.collect::<Vec<_>>(), Vec::<String>::new());
}

/// What every request must be when a worker sees it.
#[track_caller]
fn expect_sound(seen: &Message) {
    let words: Vec<&str> = seen.head.line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { panic!("{seen:?}") };
    assert!(is_token(method), "{seen:?}");
    assert!(target.starts_with('/') || target == "*", "{seen:?}");
    assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'), "{seen:?}");
    for (name, value) in seen.head.fields.iter().chain(&seen.trailers) {
        assert!(is_token(name), "{seen:?}");
        assert!(!value.contains(['\r', '\n', '\0']), "{seen:?}");
    }
    assert_eq!(seen.head.all("host").len(), 1, "{seen:?}");
    assert_eq!(seen.head.all("x-forwarded-for"), ["127.0.0.1"], "{seen:?}");
    let framings = ["content-length", "transfer-encoding"].map(|name| seen.head.all(name).len());
    assert!(framings.iter().sum::<usize>() <= 1, "{seen:?}");
    for name in ["keep-alive", "te", "proxy-connection", "expect"] {
        assert_eq!(seen.head.all(name).len(), 0, "{seen:?}");
    }
}

fn is_token(name: &str) -> bool {
    let others = "!#$%&'*+-.^_`|~";
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

#[test]
fn a_worker_sees_sound_requests_only() {
    let sound = [
        "GET /a?b=c HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
        "POST /b HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello",
        "PUT /c HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
        "GET http://b.example/d HTTP/1.1\r\nHost: a.example\r\nConnection: X-A\r\nX-A: 1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.1\r\nTE: gzip\r\n\r\n",
        "GET /e HTTP/1.0\r\nConnection: keep-alive\r\nX_Forwarded_For: 192.0.2.1\r\n\r\n",
    ];
    let (echo, spillgate) = Echo::behind(|config| config.listener("half_close = \"serve\""));
    let mut rng = Rng::new(1);
    for turn in 0..1500 {
        let mut client = spillgate.connect();
        // Two on one connection: what is left of the first is read as the beginning of the second.
        let first = mutated(&mut rng, sound[turn % sound.len()]);
        let second = mutated(&mut rng, sound[turn / 7 % sound.len()]);
        client.try_send(&[first, second].concat());
        client.half_close();
        client.receive_all();
    }
    let seen = echo.seen();
    assert!(seen.len() > 300, "only {} came through", seen.len());
    seen.iter().for_each(expect_sound);
    expect_alive(&spillgate);
}

/// One answer, or the beginning of one, and nothing behind it.
#[track_caller]
fn expect_one_answer(mut bytes: &[u8]) {
    loop {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            panic!("no answer: {:?}", String::from_utf8_lossy(bytes));
        };
        let head = crate::harness::Head::parse(&bytes[..end + 4]);
        bytes = &bytes[end + 4..];
        if (100..200).contains(&head.status()) && head.status() != 101 {
            continue;
        }
        match (head.get("content-length"), head.get("transfer-encoding")) {
            (Some(length), None) => {
                let length: usize = length.parse().expect("a length");
                assert!(bytes.len() <= length, "{head:?} and {bytes:?}");
            }
            (None, Some(coding)) => {
                assert_eq!(coding, "chunked");
                let last = bytes.windows(5).position(|window| window == b"0\r\n\r\n");
                assert!(last.is_none_or(|at| at + 5 == bytes.len()), "{head:?} and {bytes:?}");
            }
            (None, None) => {}
            (Some(_), Some(_)) => panic!("two framings: {head:?}"),
        }
        return;
    }
}

#[test]
fn a_client_sees_one_answer_only() {
    let sound = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.0 200 OK\r\nSet-Cookie: a=b\r\n\r\nhello",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nConnection: X-A\r\nX-A: 1\r\n\r\n",
    ];
    let patient = |config: Config| {
        config.pool("probe_interval = \"10ms\"\neject_after = 0\nrespond_hold_wait = \"1ms\"")
    };
    let (worker, spillgate) = Worker::behind(patient);
    let mut rng = Rng::new(2);
    for turn in 0..400 {
        spillgate.wait_up(1);
        let mut client = spillgate.connect();
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
        let (mut link, _) = worker.accept_exchange();
        link.send(mutated(&mut rng, sound[turn % sound.len()]));
        link.close();
        expect_one_answer(&client.receive_all());
    }
    expect_alive(&spillgate);
}
