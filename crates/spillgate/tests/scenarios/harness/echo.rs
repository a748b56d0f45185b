//! A worker that answers by itself and remembers what it saw.
//!
//! The answer is 200 with what was seen as JSON; `/bytes/N` gets N bytes from [`Echo::bytes`].
//! An echo that holds keeps every request inside until it is let go, which is how a scenario fills
//! slots and queues without waiting for time to pass.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use serde_json::json;

use super::config::Config;
use super::link::Link;
use super::listening::Listening;
use super::message::Message;
use super::spillgate::Spillgate;
use super::wait::PATIENCE;

/// A worker that answers everything.
pub(crate) struct Echo {
    listening: Listening,
    inside: Arc<Inside>,
}

/// A request as it came.
pub(crate) type Seen = Message;

/// What its connections share.
#[derive(Default)]
struct Inside {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    now: usize,
    most: usize,
    holds: bool,
    /// Requests that may leave although it holds.
    let_go: usize,
}

impl Echo {
    /// An echo that answers at once.
    pub(crate) fn start() -> Echo {
        let inside: Arc<Inside> = Arc::default();
        let shared = Arc::clone(&inside);
        let listening = Listening::start(move |link| {
            let inside = Arc::clone(&shared);
            thread::spawn(move || serve(link, &inside));
        });
        Echo { listening, inside }
    }

    /// An echo and a Spillgate in front of it, with these changes to the configuration.
    #[track_caller]
    pub(crate) fn behind(change: impl FnOnce(Config) -> Config) -> (Echo, Spillgate) {
        let echo = Echo::start();
        let spillgate = Spillgate::start(change(Config::of(&[echo.address()])));
        (echo, spillgate)
    }

    /// An echo that keeps each request until it is let go.
    pub(crate) fn holding() -> Echo {
        let echo = Echo::start();
        echo.state().holds = true;
        echo
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address
    }

    /// Let one request go, now or when it comes.
    pub(crate) fn let_one_go(&self) {
        self.state().let_go += 1;
        self.inside.changed.notify_all();
    }

    /// Let everything go, from here on.
    pub(crate) fn let_all_go(&self) {
        self.state().holds = false;
        self.inside.changed.notify_all();
    }

    /// Wait until `count` requests are inside at once.
    #[track_caller]
    pub(crate) fn wait_inside(&self, count: usize) {
        let (state, waited) = self
            .inside
            .changed
            .wait_timeout_while(self.state(), PATIENCE, |state| state.now != count)
            .expect("nobody panics with it");
        assert!(!waited.timed_out(), "{} are inside, not {count}", state.now);
    }

    /// What came whole so far, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The targets of what came so far, in order.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.state().seen.iter().map(|seen| seen.head.target().to_owned()).collect()
    }

    /// The most requests that were inside at once.
    pub(crate) fn most_inside(&self) -> usize {
        self.state().most
    }

    /// The body of the answer for `/bytes/N`.
    pub(crate) fn bytes(count: usize) -> Vec<u8> {
        // A prime period, so that a piece that is lost, doubled or moved shows.
        (0..count).map(|index| (index % 251) as u8).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inside.state.lock().expect("nobody panics with it")
    }
}

fn serve(mut link: Link, inside: &Inside) {
    while let Some(request) = link.next_request() {
        inside.enter(&request);
        let close = request.get("connection").is_some_and(|option| option == "close");
        let answer = answer(&request);
        inside.leave();
        if !link.try_send(&answer) || close {
            return;
        }
    }
}

impl Inside {
    fn enter(&self, request: &Seen) {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.seen.push(request.clone());
        state.now += 1;
        state.most = state.most.max(state.now);
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| state.holds && state.let_go == 0)
            .expect("nobody panics with it");
        if state.holds {
            state.let_go -= 1;
        }
    }

    fn leave(&self) {
        self.state.lock().expect("nobody panics with it").now -= 1;
        self.changed.notify_all();
    }
}

fn answer(request: &Seen) -> Vec<u8> {
    let target = request.head.target();
    let body = match target.strip_prefix("/bytes/").and_then(|count| count.parse().ok()) {
        Some(count) => Echo::bytes(count),
        None => shown(request),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = head.into_bytes();
    if request.head.method() != "HEAD" {
        answer.extend(body);
    }
    answer
}

fn shown(request: &Seen) -> Vec<u8> {
    let shown = json!({
        "method": request.head.method(),
        "target": request.head.target(),
        "fields": request.head.fields,
        "trailers": request.trailers,
        "body_len": request.body.len(),
        "body_hash": hash(&request.body),
    });
    shown.to_string().into_bytes()
}

/// FNV-1a, 1991, of 64 bits: enough to see that a body is whole.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
