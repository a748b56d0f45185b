//! A worker whose every word is said by the test.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};

use super::config::Config;
use super::link::Link;
use super::listening::Listening;
use super::message::Message;
use super::spillgate::Spillgate;
use super::wait::{PATIENCE, until};

/// Connections that may wait to be accepted by the test.
const WAITING_MAX: usize = 1024;

/// A listening worker. Connections are taken from the kernel at once and wait for
/// [`Worker::accept`]. It stops listening when dropped.
pub(crate) struct Worker {
    accepted: Receiver<Link>,
    listening: Listening,
}

impl Worker {
    /// A worker on a port from the OS.
    pub(crate) fn start() -> Worker {
        let (sender, accepted) = mpsc::sync_channel(WAITING_MAX);
        let listening = Listening::start(move |link| {
            // Fails once the test has dropped the worker: then nobody wants the connection.
            let _ = sender.try_send(link);
        });
        Worker { accepted, listening }
    }

    /// A worker and a Spillgate in front of it, with these changes to the configuration.
    #[track_caller]
    pub(crate) fn behind(change: impl FnOnce(Config) -> Config) -> (Worker, Spillgate) {
        let worker = Worker::start();
        let spillgate = Spillgate::start(change(Config::of(&[worker.address()])));
        (worker, spillgate)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address
    }

    /// The next connection on which something is said. Probes, which only connect, are passed over.
    #[track_caller]
    pub(crate) fn accept(&self) -> Link {
        loop {
            let link = self.accepted.recv_timeout(PATIENCE).expect("somebody connects");
            if link.is_spoken_on() {
                return link;
            }
        }
    }

    /// The next exchange; questions of probes that come before it are answered.
    #[track_caller]
    pub(crate) fn accept_exchange(&self) -> (Link, Message) {
        loop {
            let mut link = self.accept();
            let request = link.receive_request();
            if request.head.method() != "OPTIONS" {
                return (link, request);
            }
            link.send("HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            link.close();
        }
    }

    /// The next connection to any of `workers` on which something is said, and whose it is.
    #[track_caller]
    pub(crate) fn accept_of(workers: &[&Worker]) -> (usize, Link) {
        until("a connection to one of the workers", || {
            let mut links = workers.iter().map(|worker| worker.accepted.try_recv().ok());
            let (index, link) =
                (0..).zip(&mut links).find_map(|(index, link)| Some((index, link?)))?;
            link.is_spoken_on().then_some((index, link))
        })
    }

    /// Nobody has said anything on any connection (beyond those accepted). Looks, and does not
    /// wait.
    #[track_caller]
    pub(crate) fn expect_nobody(&self) {
        for mut link in self.accepted.try_iter() {
            link.expect_silence();
        }
    }
}
