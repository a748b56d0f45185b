//! Signals to the process, as a stream of words.
//!
//! Several of one kind before the next look are one word. Absent: what is done about them, and
//! signals to workers (`process`).

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What somebody wants of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// SIGTERM, SIGINT: stop gracefully.
    Stop,
    /// SIGQUIT: stop at once.
    StopNow,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: open the log files anew.
    Reopen,
}

/// The signals that are listened to. From its making on, none of them ends the process by itself.
#[derive(Debug)]
pub struct Wishes {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
}

impl Wishes {
    /// Listen. To be called inside the control runtime.
    ///
    /// Errors: the system refuses a handler.
    pub fn listen() -> io::Result<Wishes> {
        // Nobody's wish, but it would end the process: a write beyond the system's limit of a
        // file's size. With a handler, which stays when nobody listens, the write fails instead.
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
        Ok(Wishes {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.quit.recv() => Wish::StopNow,
            _ = self.hangup.recv() => Wish::Reload,
            _ = self.user1.recv() => Wish::Reopen,
        }
    }
}
