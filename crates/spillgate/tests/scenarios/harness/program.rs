//! Workers as real processes that Spillgate starts: a small program for Python.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::config::Config;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/harness/worker.py");

/// The program of a pool, and a folder for its sockets.
pub(crate) struct Program {
    folder: TempDir,
}

impl Program {
    /// The program. Panics with what to install where its interpreter is missing.
    pub(crate) fn new() -> Program {
        static PRESENT: OnceLock<bool> = OnceLock::new();
        let present = PRESENT.get_or_init(|| Command::new("python3").arg("-V").output().is_ok());
        assert!(present, "python3 is missing: sudo apt-get install --yes python3");
        Program { folder: TempDir::new().expect("a folder can be made") }
    }

    /// A pool of so many of them, on Unix sockets.
    pub(crate) fn config(&self, workers: usize) -> Config {
        self.config_on_ports(workers).pool(&format!("socket_dir = {:?}", self.sockets()))
    }

    /// The folder of their sockets.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.folder.path().join("sockets")
    }

    /// The program and its arguments.
    pub(crate) fn command(&self) -> [&'static str; 3] {
        ["python3", "-IS", SCRIPT]
    }

    /// A pool of so many of them, on ports.
    pub(crate) fn config_on_ports(&self, workers: usize) -> Config {
        Config::new()
            .pool(&format!("command = {:?}", self.command()))
            .pool(&format!("workers = {workers}"))
    }

    /// The path of a file that does not exist yet; `/until` waits for it.
    pub(crate) fn mark(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}
