//! What the demo does to Spillgate and its workers, by the means that an operator has.
//!
//! Nothing here reaches into the process that is shown: the page is asked, `spillgate ctl` is run,
//! a signal is sent. So the demo proves what an operator can do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, getpid, kill_process};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::{clock, shard};

use super::client;
use crate::admin::status::Status;

/// Longest wait for the status.
const STATUS_PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for a rolling restart.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);
/// How often a command is looked after.
const LOOK: Duration = Duration::from_millis(20);

/// `GET /status` of the admin page; none when there is no answer.
pub(super) async fn status(page: &Endpoint) -> Option<Status> {
    let request = format!("GET /status HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
    let answer = client::ask(page, request.as_bytes(), STATUS_PATIENCE).await.ok()?;
    Status::from_json(&answer.body)
}

/// `kill -9`.
pub(super) fn kill(pid: u32) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no such process")?;
    kill_process(pid, Signal::KILL).context("it cannot be killed")
}

/// `spillgate ctl restart POOL --wait`.
pub(super) async fn restart(program: &Path, control: &Path, pool: &str) -> anyhow::Result<()> {
    let mut command = Command::new(program)
        .arg("ctl")
        .arg("--socket")
        .arg(control)
        .args(["restart", pool, "--wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("the command cannot be started")?;
    let end = clock::now() + RESTART_PATIENCE;
    while clock::now() < end {
        if let Some(exit) = command.try_wait()? {
            ensure!(exit.success(), "the command ended with {exit}");
            return Ok(());
        }
        shard::sleep_until(clock::now() + LOOK).await;
    }
    command.kill()?;
    command.wait()?;
    bail!("it took longer than {} s", RESTART_PATIENCE.as_secs())
}

/// SIGTERM to ourselves when dropped, also by a panic: a graceful stop.
#[derive(Debug)]
pub(super) struct StopAtEnd;

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        // A process may always signal itself.
        let _ = kill_process(getpid(), Signal::TERM);
    }
}
