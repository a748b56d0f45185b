//! The keys before the first section.
//!
//! Absent: how they are used.

use std::time::Duration;

use super::super::key::{Key, Kind, Place, Preset};
use super::{DAY, HOUR, gib, kib, mib, ms, tib};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Top,
        name: "shards",
        kind: Kind::Count { min: 1, max: 512 },
        preset: Preset::Derived("one for each core that the process may use"),
        live: false,
        line: "event-loop threads of Spillgate itself",
        text: "Each shard accepts, reads and writes on its own. Fewer than cores leaves room \
               for workers on the same machine; more than cores brings nothing.",
        since: "0.1.0",
    },
    Key {
        place: Place::Top,
        name: "trusted_from",
        kind: Kind::TrustedFrom,
        preset: Preset::Is("[]"),
        live: false,
        line: "whose forwarded and steering headers are believed",
        text: "Requests from these addresses may tell us the client's address, and their PROXY \
               protocol header is read where a listener asks for one. From anyone else such \
               headers are removed. A single address stands for itself, and `unix:` for the \
               clients of every Unix socket, which have no address: set the mode of the \
               socket's folder so that only the proxy in front can reach it. Name the load \
               balancers in front of Spillgate here, never the internet. Left out, clients on \
               this machine's loopback addresses may still steer their own requests (class, \
               tenant, deadline); `[]` takes that away, too.",
        since: "0.1.0",
    },
    Key {
        place: Place::Top,
        name: "buffer_memory_max",
        kind: Kind::Size { min: mib(1), max: tib(1) },
        preset: Preset::Is(r#""256MiB""#),
        live: false,
        line: "most bytes that all buffers together may hold in memory",
        text: "Request bodies may take at most 70 % of it; the rest is kept for responses. When \
               it is used up, bodies wait, at most `body_wait_max`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Top,
        name: "body_memory_max",
        kind: Kind::Size { min: kib(16), max: gib(1) },
        preset: Preset::Is(r#""1MiB""#),
        live: false,
        line: "bytes of one body that stay in memory",
        text: "What is beyond goes to the folders of `[spill]`; when those are full, a request \
               is shed and an answer is relayed. Where nothing spills the whole body stays in \
               memory, within `buffer_memory_max`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Top,
        name: "body_wait_max",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""5s""#),
        live: false,
        line: "longest time that a body waits for room in the buffers",
        text: "Then the exchange is shed with the reason `byte_budget`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Top,
        name: "stop_delay",
        kind: Kind::Duration { min: Duration::ZERO, max: HOUR },
        preset: Preset::Is(r#""0s""#),
        live: false,
        line: "time from not ready to the closing of the listeners, after SIGTERM",
        text: "A load balancer that watches `/ready` needs this time to notice and send new \
               connections elsewhere. Zero: they close at once.",
        since: "0.1.0",
    },
    Key {
        place: Place::Top,
        name: "drain_time_max",
        kind: Kind::Duration { min: Duration::ZERO, max: DAY },
        preset: Preset::Is(r#""30s""#),
        live: false,
        line: "longest time that running and waiting exchanges get after SIGTERM",
        text: "Spillgate ends as soon as the last one is answered; this is the bound. Zero: \
               what runs is cut off.",
        since: "0.1.0",
    },
];
