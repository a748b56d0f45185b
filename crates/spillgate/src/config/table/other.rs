//! The keys of `[spill]`, `[access_log]` and `[admin]`.
//!
//! Absent: how they are used.

use super::super::key::{Key, Kind, Place, Preset};
use super::{mib, tib};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Spill,
        name: "enabled",
        kind: Kind::Flag,
        preset: Preset::Is("true"),
        live: false,
        line: "whether bodies spill to disk",
        text: "Without it, a body that memory has no room for waits (a request) or keeps its \
               worker until its client has read it (an answer).",
        since: "0.1.0",
    },
    Key {
        place: Place::Spill,
        name: "folders",
        kind: Kind::Folders,
        preset: Preset::Derived("`/var/tmp`, else the folder that `TMPDIR` names, else `/tmp`"),
        live: false,
        line: "folders on disk where bodies spill",
        text: "Segment files are made there and unlinked at once, so nothing is left after an \
               end of any kind. Folders on different disks share the work. A folder on tmpfs is \
               memory again, and warned about. A folder that is named here and cannot be used \
               is an error at start. By default, folders that cannot be used, or are on tmpfs, \
               are passed over, and where none is left bodies stay in memory; the log tells \
               which.",
        since: "0.1.0",
    },
    Key {
        place: Place::Spill,
        name: "size_max",
        kind: Kind::Size { min: mib(1), max: tib(1024) },
        preset: Preset::Derived("a quarter of what is free there at start, at most 16GiB"),
        live: false,
        line: "most bytes that all folders together may hold",
        text: "A request body of known length is counted whole before it spills, and waits up to \
               `body_wait_max` for its place; one that could never fit is shed at once. Of bodies \
               of unknown length that fill the folders between them, the youngest is shed, so that \
               the oldest can finish. Responses that find no place are relayed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Spill,
        name: "threads",
        kind: Kind::Count { min: 1, max: 64 },
        preset: Preset::Is("2"),
        live: false,
        line: "threads that read and write spill files",
        text: "No shard ever waits for a disk; these do.",
        since: "0.1.0",
    },
    Key {
        place: Place::AccessLog,
        name: "path",
        kind: Kind::Log,
        preset: Preset::Is(r#""stdout""#),
        live: false,
        line: "where access records go, one JSON object a line",
        text: "A file is opened for appending, and opened again on SIGUSR1. A log that cannot \
               keep up loses records and counts them; it never slows an exchange. Without the \
               section, records go to standard output.",
        since: "0.1.0",
    },
    Key {
        place: Place::Admin,
        name: "address",
        kind: Kind::AddressOrOff,
        preset: Preset::Is(r#""127.0.0.1:8999""#),
        live: false,
        line: "where the admin page, `/status`, `/metrics` and `/ready` are served",
        text: "Read-only. An address that other machines can reach is warned about. `off`: \
               none; commands still work. Without the section there is neither page nor command \
               socket.",
        since: "0.1.0",
    },
    Key {
        place: Place::Admin,
        name: "control",
        kind: Kind::SocketFile,
        preset: Preset::Derived("`/run/spillgate.sock` for root, else `/tmp/spillgate-UID.sock`"),
        live: false,
        line: "Unix socket for the commands of `spillgate ctl`",
        text: "Only the user that Spillgate runs as can use it.",
        since: "0.1.0",
    },
];
