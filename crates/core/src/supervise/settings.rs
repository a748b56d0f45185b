//! What a supervisor can be told before it starts. Checked values.
//!
//! Absent: defaults and ranges (the table of the binary's configuration has them; they are repeated
//! here for readers only), and what is run (the shell knows the command).

use crate::time::Duration;

/// Settings of one pool's supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Longest time from start to ready; then the worker is stopped and started again. Default 60 s
    /// (a worker that boots for 20 s is normal). A ready worker that takes no connection for as
    /// long is replaced, too.
    pub ready_time_max: Duration,
    /// Heartbeats further apart than this are a stall, for a worker that ever sent one
    /// (`WATCHDOG=1`). None: not watched. Default 5 s.
    pub heartbeat_time_max: Option<Duration>,
    /// Longest time that a drained worker's running exchanges get before it is stopped all the
    /// same. Default 30 s.
    pub drain_time_max: Duration,
    /// Time from SIGTERM to SIGKILL. Default 5 s (pool-hall's gentle stop).
    pub stop_time_max: Duration,
    /// Time from SIGTERM to SIGKILL for a stalled worker. Default 2 s (pool-hall's kill time-out).
    pub stall_stop_time_max: Duration,
    /// First wait before a worker that ended by itself is started again; doubles with each end that
    /// comes before `restart_calm`. Default 100 ms.
    pub restart_wait_min: Duration,
    /// Longest such wait. Default 30 s.
    pub restart_wait_max: Duration,
    /// A worker that was ready for this long starts again without waiting. Default 10 s.
    pub restart_calm: Duration,
}
