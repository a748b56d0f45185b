//! The keys of a pool for one exchange: times, sizes, and what is held back or recorded.
//!
//! Absent: how they are used.

use std::time::Duration;

use spillgate_core::units::ByteSize;

use super::super::super::key::{Key, Kind, Place, Preset};
use super::super::{DAY, HEAD_MOST, HOUR, MINUTE, kib, mib, ms, tib};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Pool,
        name: "connect_time_max",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""1s""#),
        live: false,
        line: "longest connect to a worker",
        text: "Then the worker counts as out, and the exchange goes to another one.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "exchange_time_max",
        kind: Kind::Duration { min: ms(1), max: DAY },
        preset: Preset::Is(r#""60s""#),
        live: false,
        line: "longest time from the last request byte sent to the end of the response head",
        text: "Then the exchange fails, and a worker that we started is stalled and gets replaced.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "progress_time_max",
        kind: Kind::Duration { min: ms(1), max: DAY },
        preset: Preset::Is(r#""60s""#),
        live: false,
        line: "longest time without a byte from the worker once its head has come",
        text: "Tunnels and event streams are exempt.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "keep_alive_time_max",
        kind: Kind::Duration { min: Duration::ZERO, max: DAY },
        preset: Preset::Is(r#""5s""#),
        live: false,
        line: "how long a worker keeps an idle connection",
        text: "Ours is not used for unsafe methods in the last second of it, and closed when it \
               is over. `Keep-Alive: timeout=` of the worker overrides it. The default is that \
               of Node.js. Zero: connections are not kept.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "head_size_max",
        kind: Kind::Size { min: kib(1), max: HEAD_MOST },
        preset: Preset::Is(r#""32KiB""#),
        live: false,
        line: "largest response head",
        text: "A larger one is a failure of the worker.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "body_size_max",
        kind: Kind::Size { min: ByteSize::ZERO, max: tib(1) },
        preset: Preset::Is(r#""64MiB""#),
        live: false,
        line: "largest request body",
        text: "A larger one is refused with 413. Zero: requests with a body are refused.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "respond_hold_max",
        kind: Kind::Size { min: ByteSize::ZERO, max: mib(16) },
        preset: Preset::Is(r#""64KiB""#),
        live: false,
        line: "response bytes that are held back so that a failing worker can be retried",
        text: "Up to that many bytes, or until `respond_hold_wait`, the client sees nothing of \
               a response, and an idempotent exchange can start over. Zero: nothing is held \
               back.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "respond_hold_wait",
        kind: Kind::Duration { min: Duration::ZERO, max: MINUTE },
        preset: Preset::Is(r#""20ms""#),
        live: false,
        line: "time after the response head after which what is there goes out",
        text: "So that a page that streams still streams. Zero: the head goes out when it has \
               come.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "response_size_max",
        kind: Kind::Size { min: kib(64), max: tib(1) },
        preset: Preset::Is(r#""64MiB""#),
        live: false,
        line: "longest response that is buffered",
        text: "A longer one is relayed at the client's speed, and holds its slot to the end.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "trace_path",
        kind: Kind::Path,
        preset: Preset::Off("nothing is recorded"),
        live: false,
        line: "file in which everything is recorded that the gate is told and decides",
        text: "Made anew at each start. `spillgate sim --replay FILE` then makes the same \
               decisions again, and says so where it does not. It holds times and numbers, no \
               header and no path. Costs some microseconds of a core for each exchange and some \
               300 bytes of disk. A disk that cannot keep up ends the recording; it never slows \
               an exchange.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "trace_size_max",
        kind: Kind::Size { min: mib(1), max: tib(1) },
        preset: Preset::Is(r#""1GiB""#),
        live: false,
        line: "length at which the recording of a trace ends",
        text: "A trace begins with the gate and cannot begin later, so its beginning is kept. \
               1 GiB are some three million exchanges.",
        since: "0.1.0",
    },
];
