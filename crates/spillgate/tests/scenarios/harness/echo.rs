//! A worker that answers by itself and remembers what it saw.
//!
//! The answer is 200 with what was seen as JSON; `/bytes/N` gets N bytes from [`Echo::bytes`],
//! `/status/N` gets that status, and at `/die` the connection ends without an answer.
//! An echo that holds keeps every request inside until it is let go, which is how a scenario fills
//! slots and queues without waiting for time to pass.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

use rustix::net::Shutdown;
use serde_json::json;

use super::config::Config;
use super::link::Link;
use super::listening::Listening;
use super::message::Message;
use super::port::HeldPort;
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
    /// Status line and fields of every answer, in place of the usual ones.
    instead: Option<String>,
    /// How long each answer takes.
    takes: Duration,
    /// Its connections, those that have ended among them.
    connections: Vec<Weak<OwnedFd>>,
    most_connected: usize,
    killed: bool,
}

impl Echo {
    /// An echo that answers at once.
    pub(crate) fn start() -> Echo {
        Echo::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false)
    }

    /// An echo on this port.
    pub(crate) fn on(port: &HeldPort) -> Echo {
        Echo::listen(port.address(), false)
    }

    /// An echo that serves one connection at a time: another waits until that one is closed.
    pub(crate) fn serial() -> Echo {
        Echo::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), true)
    }

    fn listen(address: SocketAddr, serial: bool) -> Echo {
        let inside: Arc<Inside> = Arc::default();
        let shared = Arc::clone(&inside);
        let listening = Listening::at(address, move |link| {
            let inside = Arc::clone(&shared);
            if !inside.connect(&link) {
                return;
            }
            let serve = move || serve(link, &inside);
            if serial {
                serve();
            } else {
                thread::spawn(serve);
            }
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
        echo.hold();
        echo
    }

    /// Keep each request from here on.
    pub(crate) fn hold(&self) {
        self.state().holds = true;
    }

    /// Let each answer take so long.
    pub(crate) fn takes(&self, time: Duration) {
        self.state().takes = time;
    }

    /// Answer everything with this status and these fields (`503 Busy`), and no body.
    pub(crate) fn answers(&self, head: &str) {
        self.state().instead = Some(format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n"));
    }

    /// End it as a process ends that is killed: it listens no more, its connections close, and
    /// what is inside gets no answer.
    pub(crate) fn kill(self) {
        drop(self.listening);
        let mut state = self.inside.lock();
        state.killed = true;
        for connection in state.connections.iter().filter_map(Weak::upgrade) {
            // Fails only where the other end has closed it already.
            let _ = rustix::net::shutdown(&*connection, Shutdown::Both);
        }
        self.inside.changed.notify_all();
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

    /// The most connections that were open at once.
    pub(crate) fn most_connected(&self) -> usize {
        self.state().most_connected
    }

    /// The body of the answer for `/bytes/N`.
    pub(crate) fn bytes(count: usize) -> Vec<u8> {
        // A prime period, so that a piece that is lost, doubled or moved shows.
        (0..count).map(|index| (index % 251) as u8).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inside.lock()
    }
}

fn serve(mut link: Link, inside: &Inside) {
    while let Some(request) = link.next_request() {
        let lives = inside.enter(&request) && request.head.target() != "/die";
        let close = request.get("connection").is_some_and(|option| option == "close");
        let instead = inside.lock().instead.clone();
        let answer = instead.map_or_else(|| answer(&request), String::into_bytes);
        inside.leave();
        if !lives || !link.try_send(&answer) || close {
            return;
        }
    }
}

impl Inside {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// A connection begins, unless it came too late.
    fn connect(&self, link: &Link) -> bool {
        let mut state = self.lock();
        state.connections.retain(|connection| connection.strong_count() > 0);
        state.connections.push(link.watch());
        state.most_connected = state.most_connected.max(state.connections.len());
        !state.killed
    }

    /// A request comes in, and stays as long as it must; is it to be answered?
    fn enter(&self, request: &Seen) -> bool {
        let mut state = self.lock();
        state.seen.push(request.clone());
        state.now += 1;
        state.most = state.most.max(state.now);
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| state.holds && state.let_go == 0 && !state.killed)
            .expect("nobody panics with it");
        if state.holds && !state.killed {
            state.let_go -= 1;
        }
        let takes = state.takes;
        let (state, _) = self
            .changed
            .wait_timeout_while(state, takes, |state| !state.killed)
            .expect("nobody panics with it");
        !state.killed
    }

    fn leave(&self) {
        self.lock().now -= 1;
        self.changed.notify_all();
    }
}

fn answer(request: &Seen) -> Vec<u8> {
    let target = request.head.target();
    let status = target.strip_prefix("/status/").unwrap_or("200");
    let body = match target.strip_prefix("/bytes/").and_then(|count| count.parse().ok()) {
        Some(count) => Echo::bytes(count),
        None => shown(request),
    };
    let (kind, len) = ("application/json", body.len());
    let head = format!(
        "HTTP/1.1 {status} As Asked\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\r\n",
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
