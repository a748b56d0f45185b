//! How many files and sockets the process may have open.
//!
//! Raised once at start, before anything counts on it. Absent: counting what is open; the accept
//! loops keep to [`client_connections_max`], and the rest is bounded by other limits.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that client connections leave for everything else: logs, spill files, the admin
/// page, probes, and the starting of workers.
pub const RESERVED: u64 = 256;

/// What was in force before it was raised; zero: it was not.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// Raise the limit as far as allowed; returns what is in force.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    FOUND.store(limit.current.unwrap_or(0), Ordering::Relaxed);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is refused, what was in force stays in force.
    let _ = setrlimit(Resource::Nofile, wanted);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit that workers are to begin with: the one that we began with, since some programs take
/// time or memory for each descriptor that they could have. None: ours was not raised.
pub(crate) fn found() -> Option<u64> {
    Some(FOUND.load(Ordering::Relaxed)).filter(|found| *found > 0)
}

/// Pipes that all shards together have at most. Plain choice: at 256 KiB each they are half of what
/// Linux lets a user have in all pipes by default (`pipe-user-pages-soft`), so that those of the
/// user's other programs, workers among them, do not get smaller for ours.
const PIPES_MAX: u64 = 128;

/// Pipes that a limit of `descriptors` leaves room for: two descriptors each, a 32nd in all.
pub fn pipes_max(descriptors: u64) -> u32 {
    u32::try_from(PIPES_MAX.min(descriptors / 64)).expect("it is at most that constant")
}

/// Client connections that a limit of `descriptors` leaves room for. Each may need one more towards
/// its worker.
pub fn client_connections_max(descriptors: u64) -> u32 {
    let reserved = RESERVED + 2 * u64::from(pipes_max(descriptors));
    let free = descriptors.saturating_sub(reserved);
    // Slow and idle clients are many more than the exchanges that workers hold at once.
    u32::try_from(free - free / 8).unwrap_or(u32::MAX).max(1)
}
