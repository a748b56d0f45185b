//! What a scenario asks of the admin side: the page's paths, and the commands of `spillgate ctl`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::config::{CONTROL, PAGE};
use super::exposition::Metrics;
use super::link::Link;
use super::message::Message;
use super::spillgate::Spillgate;
use super::wait::until;

impl Spillgate {
    /// Ask the admin page.
    #[track_caller]
    pub(crate) fn page(&self, path: &str) -> Message {
        let socket = self.folder().join(PAGE);
        let mut link = until("the page is served", || Link::connect_unix(&socket));
        link.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// The whole picture.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let answer = self.page("/status");
        assert_eq!(answer.status(), 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).expect("the status is JSON")
    }

    /// The picture of the pool `app`.
    #[track_caller]
    pub(crate) fn pool(&self) -> Value {
        self.status()["pools"][0].clone()
    }

    /// All metrics.
    #[track_caller]
    pub(crate) fn metrics(&self) -> Metrics {
        let answer = self.page("/metrics");
        assert_eq!(answer.status(), 200, "{}", answer.text());
        Metrics::parse(&answer.text())
    }

    /// Look at the pool `app` until it is as `wanted`.
    #[track_caller]
    pub(crate) fn wait_pool(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        until(what, || {
            last = self.pool();
            wanted(&last).then(|| last.clone())
        })
    }

    /// Wait until so many exchanges wait in the queue.
    #[track_caller]
    pub(crate) fn wait_queue(&self, len: usize) {
        self.wait_pool(&format!("a queue of {len}"), |pool| pool["queue_len"] == len);
    }

    /// Wait until so many workers get exchanges.
    #[track_caller]
    pub(crate) fn wait_up(&self, count: usize) {
        self.wait_pool(&format!("{count} workers that are up"), |pool| {
            workers(pool).filter(|worker| worker["state"] == "up").count() == count
        });
    }

    /// Wait until the worker with this number is in this state.
    #[track_caller]
    pub(crate) fn wait_state(&self, worker: usize, state: &str) {
        self.wait_pool(&format!("worker {worker} is {state}"), |pool| {
            pool["workers"][worker]["state"] == state
        });
    }

    /// The processes of the pool `app` that run now.
    #[track_caller]
    pub(crate) fn pids(&self) -> Vec<i32> {
        let pool = self.pool();
        let pids = workers(&pool).filter_map(|worker| worker["pid"].as_i64());
        pids.map(|pid| i32::try_from(pid).expect("a process id")).collect()
    }

    /// A command for it, not started yet.
    pub(crate) fn ctl_command(&self, arguments: &[&str]) -> Command {
        ctl_command(&self.folder().join(CONTROL), arguments)
    }

    /// Give it a command, and wait for the end of that.
    #[track_caller]
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        self.ctl_command(arguments).output().expect("the binary can be started")
    }
}

/// A command for whoever listens on `socket`, not started yet.
pub(crate) fn ctl_command(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spillgate"));
    command.args(["ctl", "--socket"]).arg(socket).args(arguments);
    command
}

/// The workers in the picture of a pool.
pub(crate) fn workers(pool: &Value) -> impl Iterator<Item = &Value> {
    pool["workers"].as_array().into_iter().flatten()
}
