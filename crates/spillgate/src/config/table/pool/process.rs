//! The keys of a pool for the processes that we start: heartbeat, stop and restart.
//!
//! Absent: how they are used.

use std::time::Duration;

use super::super::super::key::{Key, Kind, Place, Preset};
use super::super::{DAY, HOUR, ms};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Pool,
        name: "ready_time_max",
        kind: Kind::Duration { min: ms(100), max: HOUR },
        preset: Preset::Is(r#""60s""#),
        live: false,
        line: "longest time from the start of a worker until it is ready",
        text: "Goes with `command`. Then it is stopped and started again. So is a ready worker \
               that takes no connection for as long.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "heartbeat_time_max",
        kind: Kind::DurationOrOff { min: ms(100), max: HOUR },
        preset: Preset::Is(r#""5s""#),
        live: false,
        line: "heartbeats further apart than this are a stall",
        text: "Goes with `command`. Only a worker that ever sent a heartbeat (`WATCHDOG=1` on \
               `NOTIFY_SOCKET`) is watched. `off`: none is.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "worker_drain_time_max",
        kind: Kind::Duration { min: Duration::ZERO, max: DAY },
        preset: Preset::Is(r#""30s""#),
        live: false,
        line: "longest time that the running exchanges of a drained worker get",
        text: "Goes with `command`. Then the worker is stopped. Zero: at once.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "stop_time_max",
        kind: Kind::Duration { min: Duration::ZERO, max: HOUR },
        preset: Preset::Is(r#""5s""#),
        live: false,
        line: "time from SIGTERM to SIGKILL",
        text: "Goes with `command`. Zero: SIGKILL follows at once.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "stall_stop_time_max",
        kind: Kind::Duration { min: Duration::ZERO, max: HOUR },
        preset: Preset::Is(r#""2s""#),
        live: false,
        line: "time from SIGTERM to SIGKILL for a stalled worker",
        text: "Goes with `command`. Zero: SIGKILL follows at once.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "restart_wait_min",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""100ms""#),
        live: false,
        line: "first wait before a worker that ended by itself is started again",
        text: "Goes with `command`. Doubles with each end that comes before `restart_calm`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "restart_wait_max",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""30s""#),
        live: false,
        line: "longest wait before a worker that ended by itself is started again",
        text: "Goes with `command`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "restart_calm",
        kind: Kind::Duration { min: Duration::ZERO, max: DAY },
        preset: Preset::Is(r#""10s""#),
        live: false,
        line: "a worker that was ready for this long starts again without waiting",
        text: "Goes with `command`. Zero: any that was ready at all.",
        since: "0.1.0",
    },
];
