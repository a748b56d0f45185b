//! The asking end: `spillgate ctl`.
//!
//! Plain blocking reads and writes; the process does nothing else. Errors tell what to look at.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};

use super::{Answer, Command, table};
use crate::counted::counted;

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// For people.
    Table,
    /// The JSON of the status.
    Json,
}

/// Sends `command` to the Spillgate that listens on `socket`, and prints what it answers.
///
/// Failure when the command did not work; an error when it could not be asked.
pub(crate) fn run(socket: &Path, command: &Command, shown: Shown) -> anyhow::Result<ExitCode> {
    let mut stream = connect(socket)?;
    let line = serde_json::to_string(command).context("the command cannot be written")? + "\n";
    stream.write_all(line.as_bytes()).context("cannot send the command")?;
    let mut out = io::stdout().lock();
    for line in BufReader::new(stream).lines() {
        let line = line.context("the answer was broken off")?;
        let answer: Answer = serde_json::from_str(&line)
            .context("the answer is not understood; is the running version another one?")?;
        if let Some(code) = print(&mut out, command, answer, shown)? {
            return Ok(code);
        }
    }
    bail!("the connection ended without an answer; has Spillgate stopped?")
}

fn connect(socket: &Path) -> anyhow::Result<UnixStream> {
    let shown = socket.display();
    let owner = std::fs::metadata(socket)
        .with_context(|| format!("no Spillgate listens on {shown}; name its socket with --socket"))?
        .uid();
    let ours = rustix::process::geteuid().as_raw();
    ensure!(
        owner == 0 || owner == ours || ours == 0,
        "{shown} belongs to user {owner}, who may be anybody: run as that user, or as root"
    );
    UnixStream::connect(socket).with_context(|| format!("nobody listens on {shown}"))
}

/// The exit code, when this was the last answer.
fn print(
    out: &mut impl Write,
    command: &Command,
    answer: Answer,
    shown: Shown,
) -> anyhow::Result<Option<ExitCode>> {
    match answer {
        Answer::Status { status } if shown == Shown::Json => {
            serde_json::to_writer_pretty(&mut *out, &status)?;
            writeln!(out)?;
        }
        Answer::Status { status } => write!(out, "{}", table::of(&status))?,
        Answer::Progress { worker, done, total } => {
            let of = counted(total as u64, "worker");
            writeln!(out, "{done} of {of} replaced, worker {worker} is next")?;
            out.flush()?;
            return Ok(None);
        }
        Answer::Done => writeln!(out, "{}", done_text(command))?,
        Answer::Failed { reason } => {
            eprintln!("spillgate: {reason}");
            return Ok(Some(ExitCode::FAILURE));
        }
    }
    Ok(Some(ExitCode::SUCCESS))
}

fn done_text(command: &Command) -> String {
    match command {
        Command::Status => String::new(),
        Command::Restart { pool, wait: true } => format!("all workers of {pool} replaced"),
        Command::Restart { pool, wait: false } => format!("replacing the workers of {pool}"),
        Command::Drain => "draining; Spillgate ends when its exchanges have".to_owned(),
        Command::Stop => "stopping at once".to_owned(),
    }
}
