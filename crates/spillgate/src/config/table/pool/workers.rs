//! The keys of a pool that say which workers it has, and where they are.
//!
//! Absent: how they are used.

use super::super::super::key::{Key, Kind, Place, Preset};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Pool,
        name: "endpoints",
        kind: Kind::Workers,
        preset: Preset::Off("`command` is needed"),
        live: false,
        line: "where workers listen that somebody else starts",
        text: "One entry per worker: an IP address and a port, `localhost` and a port, or \
               `unix:` and the path of a socket; or a table of such an `address` and a \
               `weight`, 1 to 256, by which `balance` gives it more or less than the others. \
               Exactly one of `endpoints` and `command` is needed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "command",
        kind: Kind::Command,
        preset: Preset::Off("`endpoints` is needed"),
        live: false,
        line: "the program that Spillgate starts as a worker, and its arguments",
        text: "No shell stands between: each list entry is one argument. The worker finds \
               `PORT` or `SPILLGATE_SOCKET`, and `SPILLGATE_WORKER_ID`, in its environment.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "workers",
        kind: Kind::Count { min: 1, max: 1024 },
        preset: Preset::Derived("one for each core that the process may use"),
        live: false,
        line: "how many workers are started",
        text: "Goes with `command`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "port_base",
        kind: Kind::Count { min: 0, max: 65535 },
        preset: Preset::Is("0"),
        live: false,
        line: "first port that the workers get",
        text: "Goes with `command`. Worker n is told `PORT` = `port_base` + 2n, or the next \
               one, in turn, so that its successor can start before it stops. Zero: free ports, \
               chosen at each start.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "socket_dir",
        kind: Kind::Path,
        preset: Preset::Off("workers listen on ports"),
        live: false,
        line: "folder for the Unix sockets of the workers",
        text: "Goes with `command`, in place of `port_base`: each worker is told \
               `SPILLGATE_SOCKET`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "directory",
        kind: Kind::Path,
        preset: Preset::Off("the working directory of Spillgate"),
        live: false,
        line: "working directory of the workers",
        text: "Goes with `command`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "environment",
        kind: Kind::Environment,
        preset: Preset::Off("only the environment of Spillgate"),
        live: false,
        line: "variables added to the environment of the workers",
        text: "Goes with `command`. A value here replaces one of Spillgate's own environment.",
        since: "0.1.0",
    },
];
