//! The keys of a pool for what fails: tries, ejection, probes and agents.
//!
//! Absent: how they are used.

use super::super::super::key::{Key, Kind, Place, Preset};
use super::super::{HOUR, ms, percent};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
    Key {
        place: Place::Pool,
        name: "retry_max",
        kind: Kind::Count { min: 0, max: 10 },
        preset: Preset::Is("2"),
        live: false,
        line: "tries after the first that one exchange may have once bytes were sent",
        text: "Only idempotent methods are tried again, but any method where the worker's \
               answer marks a refusal; none after two workers died of the exchange. A connect \
               that failed costs no try. Zero: no such try.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "retry_budget",
        kind: Kind::Share { min: percent(0), max: percent(100) },
        preset: Preset::Is(r#""20%""#),
        live: false,
        line: "retries as a share of recent arrivals",
        text: "Keeps retries from adding to an overload. 0%: only what `retry_budget_min` \
               allows.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "retry_budget_min",
        kind: Kind::Count { min: 0, max: 10000 },
        preset: Preset::Is("10"),
        live: false,
        line: "retries that are always allowed within the budget's window",
        text: "So that a pool with little traffic can retry at all. Zero: only the share \
               counts.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "retry_unavailable",
        kind: Kind::Flag,
        preset: Preset::Is("true"),
        live: false,
        line: "whether a 503 that only few workers give is tried elsewhere",
        text: "Of an idempotent request, before anything of the answer went out, while at least \
               half of the workers answer well and the retry budget lasts. Otherwise the 503 \
               passes as it is, as every other error does.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "hedge",
        kind: Kind::Choice(&["off", "safe", "idempotent", "all"]),
        preset: Preset::Is(r#""safe""#),
        live: false,
        line: "which requests get a second try beside a first that is slow",
        text: "When a worker has not begun to answer after the time in which 95 of 100 of its kind \
               are answered, and twice the median, another worker is tried as well. The first that \
               begins to answer has the exchange, what the other says is thrown away. Only where \
               a slot is free and nobody waits, within `retry_max` and the retry budget. \
               `safe`: GET, HEAD, OPTIONS \
               and TRACE. `idempotent`: PUT and DELETE as well; the one that lost may be carried \
               out later than what follows it. `all`: any method, and two workers may do what it \
               says. `off`: never.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "eject_after",
        kind: Kind::Count { min: 0, max: 1000000 },
        preset: Preset::Is("5"),
        live: false,
        line: "failures in a row after which a worker is ejected",
        text: "A bare 5xx counts as a failure here. Zero: never.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "eject_error_share",
        kind: Kind::Share { min: percent(0), max: percent(100) },
        preset: Preset::Is(r#""50%""#),
        live: false,
        line: "share of failures among its recent answers by which a worker is ejected",
        text: "For a worker that fails now and then. Counted over ten seconds, from 20 answers on, \
               and only while the other workers together fail less than half as often. 0%: never.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "eject_time",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""10s""#),
        live: false,
        line: "how long the first ejection lasts",
        text: "The n-th in a row lasts n times as long.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "eject_keep_min",
        kind: Kind::Share { min: percent(0), max: percent(100) },
        preset: Preset::Is(r#""50%""#),
        live: false,
        line: "share of the pool's workers that ejection always leaves in",
        text: "So that a fault that all workers share does not empty the pool. 0%: one worker \
               stays all the same.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "probe_path",
        kind: Kind::UrlPath,
        preset: Preset::Off("probes are connects"),
        live: false,
        line: "path of the HTTP probe",
        text: "A GET on it must be answered with 2xx or 3xx. An HTTP probe takes a slot, like \
               an exchange.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "probe_interval",
        kind: Kind::Duration { min: ms(10), max: HOUR },
        preset: Preset::Is(r#""100ms""#),
        live: false,
        line: "time between two probes of a worker that is out",
        text: "The first one that succeeds brings the worker back.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "probe_interval_up",
        kind: Kind::Duration { min: ms(10), max: HOUR },
        preset: Preset::Off("workers that are in are not probed"),
        live: false,
        line: "time between two probes of a worker that is in",
        text: "Exchanges tell as much about a busy worker; this is for workers that are mostly \
               idle.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "probe_fall",
        kind: Kind::Count { min: 1, max: 100 },
        preset: Preset::Is("3"),
        live: false,
        line: "failed probes in a row that take out a worker that is in",
        text: "Has an effect with `probe_interval_up` only.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "probe_time_max",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""1s""#),
        live: false,
        line: "longest probe",
        text: "One that takes longer has failed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "agents",
        kind: Kind::Endpoints,
        preset: Preset::Off("no worker has an agent"),
        live: false,
        line: "where the agents of the workers listen, one for each worker, in order",
        text: "An agent says in one line what its worker can take, as HAProxy's agent-check has \
               it: `up`, `down`, `ready`, `drain`, `maint`, `75%`, `maxconn:30`. What it said \
               holds until it says the opposite, also when it is silent.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "agent_port",
        kind: Kind::Count { min: 1, max: 65535 },
        preset: Preset::Off("no worker has an agent"),
        live: false,
        line: "the port of the agent on the host of each endpoint",
        text: "In place of `agents`, where each worker is on a host of its own.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "agent_interval",
        kind: Kind::Duration { min: ms(10), max: HOUR },
        preset: Preset::Is(r#""2s""#),
        live: false,
        line: "time between two questions to one agent",
        text: "Also the longest answer. The agents of a pool are asked one after the other, \
               spread over this time.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "agent_send",
        kind: Kind::Text,
        preset: Preset::Is(r#""""#),
        live: false,
        line: "what an agent is told before it answers",
        text: "Sent as it stands once the connection is open; write a line end (`\\n`) if the \
               agent waits for one.",
        since: "0.1.0",
    },
];
