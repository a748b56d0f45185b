//! Commands to a running Spillgate, over its Unix socket: both ends.
//!
//! One JSON line asks, JSON lines answer; the last answer says how it ended. The socket belongs to
//! the user that Spillgate runs as, which is all the permission there is.
//!
//! Absent: commands that change settings, and anything that a browser could send.

pub(crate) mod ask;
pub(crate) mod serve;
mod table;

use serde::{Deserialize, Serialize};

use crate::admin::status::Status;

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
