//! How many files and sockets the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that client connections leave for everything else: logs, spill files, the admin
/// page,
/// probes, and the starting of workers.
pub const RESERVED: u64 = 256;

/// Raise the limit as far as allowed; returns what is in force.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is refused, what was in force stays in force.
    let _ = setrlimit(Resource::Nofile, wanted);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Client connections that a limit of `descriptors` leaves room for. Each may need one more towards
/// its worker.
pub fn client_connections_max(descriptors: u64) -> u32 {
    let free = descriptors.saturating_sub(RESERVED);
    // Slow and idle clients are many more than the exchanges that workers hold at once.
    u32::try_from(free - free / 8).unwrap_or(u32::MAX).max(1)
}
