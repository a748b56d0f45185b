//! The program under test: the real binary with a configuration of its own.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::config::Config;
use super::lines::Lines;
use super::link::Link;
use super::port::HeldPort;
use super::wait::until;

/// A running Spillgate. Killed, and its end awaited, when dropped.
pub(crate) struct Spillgate {
    child: Child,
    port: HeldPort,
    /// Its program log.
    pub(crate) messages: Lines,
    records: Lines,
    _config: NamedTempFile,
}

impl Spillgate {
    /// Start with `config` and wait until it accepts connections.
    #[track_caller]
    pub(crate) fn start(config: Config) -> Spillgate {
        let port = HeldPort::any();
        let text = config.text(port.address());
        let mut file = NamedTempFile::with_suffix(".toml").expect("a file can be made");
        file.write_all(text.as_bytes()).expect("a file can be written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_spillgate"))
            .args(["serve", "--config"])
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let records = Lines::of(child.stdout.take().expect("a pipe was asked for"));
        let messages = Lines::of(child.stderr.take().expect("a pipe was asked for"));
        let mut spillgate = Spillgate { child, port, messages, records, _config: file };
        until("Spillgate accepts connections", || spillgate.accepts(&text));
        spillgate
    }

    #[track_caller]
    fn accepts(&mut self, config: &str) -> Option<()> {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("ended at once, {status}: {:?}\n{config}", self.messages.all());
        }
        Link::connect(self.port.address()).map(drop)
    }

    /// The address of the listener `main`.
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// A new connection of a client to the listener `main`.
    #[track_caller]
    pub(crate) fn connect(&self) -> Link {
        Link::connect(self.address()).expect("Spillgate accepts connections")
    }

    /// A new connection, one request on it, and its response. The connection is closed.
    #[track_caller]
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> super::Message {
        self.connect().ask(request)
    }

    /// Wait for the access record of the exchange with this target.
    #[track_caller]
    pub(crate) fn record(&self, target: &str) -> Value {
        self.record_where(target, |record| record["target"] == target)
    }

    /// Wait for the first access record that is `wanted`.
    #[track_caller]
    pub(crate) fn record_where(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.records.wait(&format!("the record of {what}"), |lines| {
            lines.iter().map(|line| parse(line)).find(|record| wanted(record))
        })
    }

    /// All access records so far.
    pub(crate) fn records(&self) -> Vec<Value> {
        self.records.all().iter().map(|line| parse(line)).collect()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Send it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the child is ours and was not waited for");
    }

    /// Wait until it has ended by itself.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the end of Spillgate", || self.child.try_wait().expect("the child is ours"))
    }
}

impl Drop for Spillgate {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            for line in self.messages.all().iter().chain(&self.records.all()) {
                eprintln!("spillgate: {line}");
            }
        }
    }
}

#[track_caller]
fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON: {error}: {line}"))
}
