//! Worker processes: started, watched, signalled, and heard.
//!
//! One permanent thread starts them (the kernel ties their life to the thread that does), one task
//! of the control runtime watches each. What happens is told as [`ProcessEvent`]s; what should
//! happen is decided by `core::supervise` and carried by the binary's supervisor shell.
//!
//! A worker is a process group: signals go to all of it, and what is left of it when its first
//! process ends is killed before the end is told. A worker dies with Spillgate, even with a killed
//! one: its first process by the kernel's hand, the rest of its group by the [`Guard`]'s.
//!
//! Absent: restart, backoff, ladder (decisions), and any trust in what a worker sends.

mod address;
mod group;
mod guard;
mod notify;
mod output;
mod owner;
mod ready;
mod spawn;
mod usage;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use spillgate_core::supervise::{Exit, ProcessId};

use crate::http::settings::Endpoint;

pub use address::free_port;
pub use guard::Guard;
pub use output::WorkerOutput;
pub use owner::listener_of;
pub use spawn::{Processes, SpawnError};
pub use usage::memory_of;

/// A process to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name among the processes of its pool.
    pub id: ProcessId,
    /// The pool, for the prefix of its lines.
    pub pool: String,
    /// Program and arguments. Not empty.
    pub command: Vec<String>,
    /// Working directory; none: ours.
    pub directory: Option<PathBuf>,
    /// Environment added to ours, and overruled by what we tell every worker (`PORT` or
    /// `SPILLGATE_SOCKET`, `SPILLGATE_WORKER_ID`, `NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub environment: Vec<(String, String)>,
    /// Where it is to listen: `PORT` for a TCP address, `SPILLGATE_SOCKET` for a Unix socket.
    pub endpoint: Endpoint,
    /// The longest time between two heartbeats, told as `WATCHDOG_USEC`; a worker should send one
    /// at half of it. None: not told. `WATCHDOG_PID` is never told, so that a worker behind a
    /// wrapper program still takes the time for its own.
    pub heartbeat_time_max: Option<Duration>,
}

/// Something that happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It exists.
    Spawned {
        /// Which.
        id: ProcessId,
        /// Its process id, which is also its group's.
        pid: u32,
    },
    /// It could not be made. Nothing more comes of it.
    SpawnFailed {
        /// Which.
        id: ProcessId,
        /// Why.
        error: String,
    },
    /// It can serve: it said so, or a connection to its endpoint reaches its group.
    Ready(ProcessId),
    /// It lives.
    Heartbeat(ProcessId),
    /// It is about to end.
    Leaving(ProcessId),
    /// A connection to its endpoint reaches somebody else; told once for each.
    Taken {
        /// Which.
        id: ProcessId,
        /// Whom it reaches, as far as that can be seen.
        owner: String,
    },
    /// It ended, its group with it. Nothing more comes of it.
    Exited {
        /// Which.
        id: ProcessId,
        /// How.
        exit: Exit,
    },
}
