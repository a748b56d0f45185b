//! Clients that ask again and again, each on a connection of its own that it keeps.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use super::link::Link;
use super::message::Message;
use super::wait::until;

/// What one client got for one request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The beginning of the request line.
    pub(crate) line: String,
    /// The response; none: the connection broke before it was whole.
    pub(crate) response: Option<Message>,
}

/// Clients on threads of their own.
pub(crate) struct Crowd {
    stopping: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Answer>>>,
}

impl Crowd {
    /// So many clients; each asks what `next` says for its number and its turn, until that says
    /// nothing more, or the crowd is stopped.
    pub(crate) fn start(
        address: SocketAddr,
        clients: usize,
        next: impl Fn(usize, usize) -> Option<String> + Send + Sync + 'static,
    ) -> Crowd {
        let next = Arc::new(next);
        let (stopping, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = |number| {
            let (next, stopping, answered) =
                (Arc::clone(&next), Arc::clone(&stopping), Arc::clone(&answered));
            thread::spawn(move || {
                let next = |turn| {
                    let going = !stopping.load(Ordering::Acquire);
                    going.then(|| next(number, turn)).flatten()
                };
                serve_turns(address, next, &answered)
            })
        };
        let clients = (0..clients).map(client).collect();
        Crowd { stopping, answered, clients }
    }

    /// So many clients with so many requests each, GET and POST in turn.
    pub(crate) fn of(address: SocketAddr, clients: usize, turns: usize) -> Crowd {
        Crowd::start(address, clients, move |client, turn| {
            (turn < turns).then(|| mixed(client, turn))
        })
    }

    /// Wait until so many more answers have come.
    #[track_caller]
    pub(crate) fn wait_more(&self, count: usize) {
        let wanted = self.answered.load(Ordering::Acquire) + count;
        until("more answers", || (self.answered.load(Ordering::Acquire) >= wanted).then_some(()));
    }

    /// Let each client finish what it asks now, and collect all answers.
    #[track_caller]
    pub(crate) fn stop(self) -> Vec<Answer> {
        self.stopping.store(true, Ordering::Release);
        self.finish()
    }

    /// Wait until each client has asked everything, and collect all answers.
    #[track_caller]
    pub(crate) fn finish(self) -> Vec<Answer> {
        self.clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    }
}

/// A GET or a POST, in turn.
pub(crate) fn mixed(client: usize, turn: usize) -> String {
    if (client + turn).is_multiple_of(2) {
        format!("GET /{client}/{turn} HTTP/1.1\r\nHost: a\r\n\r\n")
    } else {
        format!("POST /{client}/{turn} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
    }
}

/// Every answer is a 200.
#[track_caller]
pub(crate) fn expect_all_ok(answers: &[Answer]) {
    let good = |answer: &&Answer| answer.response.as_ref().is_some_and(|one| one.status() == 200);
    let bad: Vec<String> = answers.iter().filter(|answer| !good(answer)).map(shown).collect();
    assert!(bad.is_empty(), "{} of {} failed: {bad:#?}", bad.len(), answers.len());
}

fn shown(answer: &Answer) -> String {
    let response = answer.response.as_ref();
    let response = response.map(|one| (one.head.line.clone(), one.text()));
    format!("{}: {response:?}", answer.line)
}

fn serve_turns(
    address: SocketAddr,
    next: impl Fn(usize) -> Option<String>,
    answered: &AtomicUsize,
) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut link = None;
    while let Some(request) = next(answers.len()) {
        let mut open = match link.take() {
            Some(open) => open,
            None => Link::connect(address).expect("Spillgate accepts connections"),
        };
        let response = open.try_ask(&request);
        let kept = response.as_ref().is_some_and(|one| one.get("connection") != Some("close"));
        link = kept.then_some(open);
        let line = request.lines().next().unwrap_or_default().chars().take(80).collect();
        answers.push(Answer { line, response });
        answered.fetch_add(1, Ordering::AcqRel);
    }
    answers
}
