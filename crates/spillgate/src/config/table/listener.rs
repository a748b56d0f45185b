//! The keys of a `[listener.NAME]`.
//!
//! Absent: how they are used.

use spillgate_core::units::ByteSize;

use super::super::key::{Key, Kind, Place, Preset};
use super::{DAY, HEAD_MOST, HOUR, gib, kib, ms, secs};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Listener,
        name: "address",
        kind: Kind::Address,
        preset: Preset::Required(r#""127.0.0.1:8080""#),
        live: false,
        line: "where it listens",
        text: "An IP address and a port (`[::1]:8080` for IPv6), `localhost` and a port, or \
               `unix:` and the path of a socket. Port 0 lets the system choose.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "proxy_protocol",
        kind: Kind::Flag,
        preset: Preset::Is("false"),
        live: false,
        line: "whether each connection begins with a PROXY protocol header",
        text: "Versions 1 and 2 are read, up to 4 KiB with all extensions. The header is believed \
               from `trusted_from` only; a connection from anyone else is closed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "half_close",
        kind: Kind::Choice(&["abandon", "serve"]),
        preset: Preset::Is(r#""abandon""#),
        live: false,
        line: "what it means that a client closed its sending side while its exchange waits",
        text: "`abandon`: it has left, and the exchange leaves the queue. `serve`: it still \
               wants its answer. An exchange that a worker already has is served in both cases. \
               An event stream ends at its worker's next word, or when the client's system is \
               found gone, after about a minute.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "connections_max",
        kind: Kind::Count { min: 1, max: 1000000 },
        preset: Preset::Is("10000"),
        live: false,
        line: "most open client connections",
        text: "Accepting pauses while so many are open.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "head_size_max",
        kind: Kind::Size { min: kib(1), max: HEAD_MOST },
        preset: Preset::Is(r#""32KiB""#),
        live: false,
        line: "largest request head",
        text: "The start line and all header fields. A larger one is refused with 431, and so \
               is one whose target is longer than 16 KiB.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "head_fields_max",
        kind: Kind::Count { min: 1, max: 1024 },
        preset: Preset::Is("128"),
        live: false,
        line: "most header fields in a request head",
        text: "More are refused with 431.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "head_time_max",
        kind: Kind::Duration { min: ms(100), max: HOUR },
        preset: Preset::Is(r#""5s""#),
        live: false,
        line: "longest time from the first byte of a head to its last",
        text: "For the first head of a connection it counts from the accept. Who takes longer \
               is refused with 408.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "body_rate_min",
        kind: Kind::Rate { min: ByteSize::ZERO, max: gib(1) },
        preset: Preset::Is(r#""64B/s""#),
        live: false,
        line: "slowest request body that is accepted",
        text: "Reckoned over `body_rate_grace`. Zero: no limit.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "body_rate_grace",
        kind: Kind::Duration { min: secs(1), max: HOUR },
        preset: Preset::Is(r#""30s""#),
        live: false,
        line: "the time over which `body_rate_min` is reckoned",
        text: "A body may stand still for that long. The default lets a device through that \
               sends 1 KiB every 10 s.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "send_rate_min",
        kind: Kind::Rate { min: ByteSize::ZERO, max: gib(1) },
        preset: Preset::Is(r#""256B/s""#),
        live: false,
        line: "slowest reader that is served",
        text: "Reckoned over `send_rate_grace`; a slower one is cut, so that it cannot hold \
               buffers for ever. Zero: no limit.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "send_rate_grace",
        kind: Kind::Duration { min: secs(1), max: HOUR },
        preset: Preset::Is(r#""30s""#),
        live: false,
        line: "the time over which `send_rate_min` is reckoned",
        text: "A reader may stand still for that long.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "idle_time_max",
        kind: Kind::Duration { min: ms(1), max: DAY },
        preset: Preset::Is(r#""60s""#),
        live: false,
        line: "longest time that a kept client connection stays idle between two exchanges",
        text: "Then it is closed. A load balancer in front should give up its idle connections \
               earlier than this.",
        since: "0.1.0",
    },
    Key {
        place: Place::Listener,
        name: "send_buffer_max",
        kind: Kind::Size { min: ByteSize::ZERO, max: gib(1) },
        preset: Preset::Is(r#""32KiB""#),
        live: false,
        line: "mark from which the kernel takes no more for one client, until it has sent some",
        text: "A client that reads slowly would otherwise hold up to 4 MiB of kernel memory. What \
               is on its way to the client does not count, so a fast client far away is not \
               slowed down. Sets `TCP_NOTSENT_LOWAT`, on a Unix socket `SO_SNDBUF`. Zero leaves \
               it to the kernel. See `spillgate_client_socket_bytes` for what all clients \
               hold.",
        since: "0.1.0",
    },
];
