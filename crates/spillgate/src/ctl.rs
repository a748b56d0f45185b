//! Commands to a running Spillgate, over its Unix socket: both ends.
//!
//! One JSON line asks, JSON lines answer; the last answer says how it ended. The socket belongs to
//! the user that Spillgate runs as, which is all the permission there is.
//!
//! Absent: commands that change settings, and anything that a browser could send.

pub(crate) mod ask;
pub(crate) mod serve;
mod table;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::admin::status::Status;
use crate::cli::{CtlArgs, CtlCommand};
use crate::config;
use ask::Shown;

/// Asks what the command line says. See [`ask::run`].
pub(crate) fn run(args: CtlArgs) -> anyhow::Result<ExitCode> {
    let socket = args.socket.unwrap_or_else(config::control_path_default);
    let (command, shown) = match args.command {
        CtlCommand::Status { json: true } => (Command::Status, Shown::Json),
        CtlCommand::Status { json: false } => (Command::Status, Shown::Table),
        CtlCommand::Restart { pool, wait } => (Command::Restart { pool, wait }, Shown::Table),
        CtlCommand::Drain => (Command::Drain, Shown::Table),
        CtlCommand::Stop => (Command::Stop, Shown::Table),
    };
    ask::run(&socket, &command, shown)
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    /// The whole picture, once.
    Status,
    /// Replace the workers of a pool one by one.
    Restart {
        /// The pool.
        pool: String,
        /// Tell the progress, and end only when the restart has.
        #[serde(default)]
        wait: bool,
    },
    /// Stop gracefully, as after SIGTERM.
    Drain,
    /// Stop at once, as after SIGQUIT.
    Stop,
}

/// What is answered. `Progress` may come several times; every other answer is the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The whole picture.
    Status {
        /// It.
        status: Box<Status>,
    },
    /// How far a rolling restart is.
    Progress {
        /// The worker whose turn it is.
        worker: u32,
        /// Workers that are done.
        done: u32,
        /// Workers of the pool.
        total: u32,
    },
    /// It is done (or, without `wait`, under way).
    Done,
    /// It did not work.
    Failed {
        /// Why, for a person.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
