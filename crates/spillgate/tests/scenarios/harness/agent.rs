//! An agent beside a worker: says one line to whoever connects.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::listening::Listening;
use super::port::HeldPort;

/// A listening agent. It listens no more once dropped.
pub(crate) struct Agent {
    listening: Listening,
    line: Arc<Mutex<String>>,
}

impl Agent {
    /// An agent on this port, that says this text.
    pub(crate) fn on(port: &HeldPort, text: &str) -> Agent {
        let line = Arc::new(Mutex::new(text.to_owned()));
        let shared = Arc::clone(&line);
        let listening = Listening::at(port.address(), move |mut link| {
            let text = shared.lock().expect("nobody panics with it").clone();
            // Whoever does not read to the end does not want it.
            let _ = link.try_send(text.as_bytes());
        });
        Agent { listening, line }
    }

    /// Say this text from here on.
    pub(crate) fn says(&self, text: &str) {
        text.clone_into(&mut self.line.lock().expect("nobody panics with it"));
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address
    }
}
