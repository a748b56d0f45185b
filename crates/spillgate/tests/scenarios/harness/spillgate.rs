//! The program under test: the real binary with a configuration of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::config::Config;
use super::lines::Lines;
use super::link::Link;
use super::port::HeldPort;
use super::program::Program;
use super::wait::until;

/// A running Spillgate. Killed, and its end awaited, when dropped.
pub(crate) struct Spillgate {
    child: Child,
    port: HeldPort,
    /// Its program log.
    pub(crate) messages: Lines,
    /// Its standard output: access records, and lines of workers.
    pub(crate) output: Lines,
    folder: TempDir,
}

impl Spillgate {
    /// Start with `config` and wait until it accepts connections.
    #[track_caller]
    pub(crate) fn start(config: Config) -> Spillgate {
        let mut spillgate = Spillgate::launch(&config);
        until("Spillgate accepts connections", || spillgate.accepts());
        spillgate
    }

    /// Start with `config`, whose listener is somewhere else, and do not wait for anything.
    pub(crate) fn start_unheard(config: Config) -> Spillgate {
        Spillgate::launch(&config)
    }

    /// Start with `config`, which cannot work, and wait for the end: its exit code, and what it
    /// said.
    #[track_caller]
    pub(crate) fn fails(config: &Config) -> (i32, String) {
        let mut spillgate = Spillgate::launch(config);
        let status = spillgate.ended();
        spillgate.messages.wait_end();
        (status.code().expect("it ended by itself"), spillgate.messages.all().join("\n"))
    }

    fn launch(config: &Config) -> Spillgate {
        let port = HeldPort::any();
        let folder = TempDir::new().expect("a folder can be made");
        let file = folder.path().join("spillgate.toml");
        let text = config.text(port.address(), folder.path());
        std::fs::write(&file, text).expect("a file can be written");
        let mut program = binary(config.descriptors);
        program.args(["serve", "--config"]).arg(file);
        Spillgate::spawn(port, folder, program)
    }

    /// `spillgate run` with so many workers of `program`, without an admin page, and wait until it
    /// accepts connections.
    #[track_caller]
    pub(crate) fn run(program: &Program, workers: usize) -> Spillgate {
        let port = HeldPort::any();
        let folder = TempDir::new().expect("a folder can be made");
        let (listen, workers) = (port.address().to_string(), workers.to_string());
        let control = folder.path().join("control.sock").display().to_string();
        let mut words = vec!["run", "--listen", &listen, "--workers", &workers];
        words.extend(["--admin", "off", "--control", &control, "--"]);
        words.extend(program.command());
        let mut binary = binary(None);
        binary.args(words);
        let mut spillgate = Spillgate::spawn(port, folder, binary);
        until("Spillgate accepts connections", || spillgate.accepts());
        spillgate
    }

    fn spawn(port: HeldPort, folder: TempDir, mut program: Command) -> Spillgate {
        let mut child = program
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let output = Lines::of(child.stdout.take().expect("a pipe was asked for"));
        let messages = Lines::of(child.stderr.take().expect("a pipe was asked for"));
        Spillgate { child, port, messages, output, folder }
    }

    #[track_caller]
    fn accepts(&mut self) -> Option<()> {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("ended at once, {status}: {:?}", self.messages.all());
        }
        Link::connect(self.port.address()).map(drop)
    }

    /// The folder that it has for itself.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
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
        self.output.wait(&format!("the record of {what}"), |lines| {
            records(lines).find(|record| wanted(record))
        })
    }

    /// All access records so far.
    pub(crate) fn records(&self) -> Vec<Value> {
        records(&self.output.all()).collect()
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

/// The binary, which may open so many descriptors.
fn binary(descriptors: Option<u32>) -> Command {
    let path = env!("CARGO_BIN_EXE_spillgate");
    let Some(count) = descriptors else { return Command::new(path) };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {count}; exec \"$0\" \"$@\""), path]);
    shell
}

impl Drop for Spillgate {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            for line in self.messages.all().iter().chain(&self.output.all()) {
                eprintln!("spillgate: {line}");
            }
        }
    }
}

/// The access records among the lines. Lines of workers begin with their name in brackets.
fn records(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().filter(|line| !line.starts_with('[')).map(|line| parse(line))
}

#[track_caller]
fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON: {error}: {line}"))
}
