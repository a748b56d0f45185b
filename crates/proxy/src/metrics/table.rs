//! What every metric of the proxy means: the table behind `docs/metrics.md` and `/metrics`.
//!
//! Absent: numbers. [`super::scrape`] puts them beside these records. Invariant, held by a test:
//! each record of [`ALL`] is told by a scrape, and a scrape tells nothing else.

use spillgate_runtime::metrics::{Described, Kind, Label, Unit, Values, names};

use super::label::{
    AgentOutcome, ClassLabel, CloseReason, ConnectKind, FailReason, HedgeEnd, IdleEnd, PauseReason,
    RefuseReason, RelayReason, RetryKind, ShedReason, Stage, StatusClass,
};

/// Every metric of the proxy, in the order of the manual.
pub static ALL: &[&Described] = &[
    &ARRIVALS,
    &SUCCESSES,
    &SHED,
    &REFUSED,
    &FAILED,
    &ABANDONED,
    &IN_PROGRESS,
    &LATE,
    &CLASS_ARRIVALS,
    &CLASS_SUCCESSES,
    &CLASS_SHED,
    &EXCHANGE_DURATION,
    &STAGE_DURATION,
    &RETRIES,
    &HEDGES,
    &RELAYS,
    &REQUEST_BODY_BYTES,
    &RESPONSE_BODY_BYTES,
    &SPLICED_BYTES,
    &QUEUE_LEN,
    &QUEUE_LEN_MAX,
    &QUEUE_CLASS_LEN,
    &SHED_RATIO,
    &SLOTS,
    &SLOTS_TAKEN,
    &SLOTS_STUCK,
    &GRANTS,
    &WORKER_UP,
    &WORKER_EXCHANGES,
    &WORKER_CONNECTIONS,
    &WORKER_FAILURES,
    &PROBES,
    &AGENT_REPORTS,
    &WORKER_SLOTS,
    &WORKER_SLOTS_GRANTED,
    &WORKER_SLOTS_LEARNED,
    &CONNECTS,
    &IDLE_CLOSED,
    &ACCEPTED,
    &PAUSES,
    &CLOSED,
    &OPEN,
    &SHARD_OPEN,
    &BUFFER_BYTES,
    &BUFFER_MAX_BYTES,
    &SOCKET_BYTES,
    &BUDGET_WAITING,
    &SPILL_BYTES,
    &SPILL_MAX_BYTES,
    &SPILLED_BYTES,
    &SPILLED_BODIES,
    &RECORDS_DROPPED,
    &LOG_ERRORS,
    &UPTIME,
];

const POOL: Label = Label {
    name: "pool",
    values: Values::Configured("the name of the pool; empty for exchanges that belong to none"),
};
const WORKER: Label =
    Label { name: "worker", values: Values::Configured("the number of the worker") };
const LISTENER: Label =
    Label { name: "listener", values: Values::Configured("the name of the listener") };
const SHARD: Label = Label { name: "shard", values: Values::Configured("the number of the shard") };

const fn closed(name: &'static str, values: fn() -> Vec<&'static str>) -> Label {
    Label { name, values: Values::Closed(values) }
}

/// The stages whose time is measured.
fn timed_stages() -> Vec<&'static str> {
    names::<Stage>().into_iter().filter(|stage| !matches!(*stage, "route" | "record")).collect()
}

const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Described {
    Described { name, kind: Kind::Counter, unit: Unit::Count, help, labels }
}

const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Described {
    Described { name, kind: Kind::Gauge, unit: Unit::Count, help, labels }
}

const fn in_bytes(described: Described) -> Described {
    Described { unit: Unit::Bytes, ..described }
}

const fn in_seconds(described: Described) -> Described {
    Described { unit: Unit::Seconds, ..described }
}

const fn histogram(name: &'static str, labels: &'static [Label], help: &'static str) -> Described {
    Described { name, kind: Kind::Histogram, unit: Unit::Seconds, help, labels }
}

pub(super) static ARRIVALS: Described = counter(
    "spillgate_exchange_arrivals_total",
    &[POOL],
    "Exchanges that came; equals successes + shed + refused + failed + abandoned + in progress",
);
pub(super) static SUCCESSES: Described = counter(
    "spillgate_exchange_successes_total",
    &[POOL, closed("status", names::<StatusClass>)],
    "Exchanges answered by a worker, whatever its status, or by a reply of the configuration",
);
pub(super) static SHED: Described = counter(
    "spillgate_exchange_shed_total",
    &[POOL, closed("reason", names::<ShedReason>)],
    "Exchanges turned away because of load",
);
pub(super) static REFUSED: Described = counter(
    "spillgate_exchange_refused_total",
    &[POOL, closed("reason", names::<RefuseReason>)],
    "Exchanges turned away because a rule says so",
);
pub(super) static FAILED: Described = counter(
    "spillgate_exchange_failed_total",
    &[POOL, closed("reason", names::<FailReason>)],
    "Exchanges that were tried and did not work",
);
pub(super) static ABANDONED: Described = counter(
    "spillgate_exchange_abandoned_total",
    &[POOL, closed("stage", names::<Stage>)],
    "Exchanges whose client left first, by the stage they were in",
);
pub(super) static IN_PROGRESS: Described =
    gauge("spillgate_exchanges_in_progress", &[POOL], "Exchanges that came and have not ended");
pub(super) static LATE: Described = counter(
    "spillgate_exchange_late_total",
    &[POOL],
    "Successes that ended later than answer_within after the last request byte",
);
pub(super) static CLASS_ARRIVALS: Described = counter(
    "spillgate_class_arrivals_total",
    &[POOL, closed("class", names::<ClassLabel>)],
    "Exchanges that came to the pool, by class",
);
pub(super) static CLASS_SUCCESSES: Described = counter(
    "spillgate_class_successes_total",
    &[POOL, closed("class", names::<ClassLabel>)],
    "Exchanges answered by a worker, by class",
);
pub(super) static CLASS_SHED: Described = counter(
    "spillgate_class_shed_total",
    &[POOL, closed("class", names::<ClassLabel>)],
    "Exchanges turned away because of load, by class",
);
pub(super) static EXCHANGE_DURATION: Described = histogram(
    "spillgate_exchange_duration_seconds",
    &[POOL],
    "Time from the first request byte to the end of the exchange",
);
pub(super) static STAGE_DURATION: Described = histogram(
    "spillgate_stage_duration_seconds",
    &[POOL, closed("stage", timed_stages)],
    "Time in each stage, of exchanges that finished it; admit is the wait in the queue",
);
pub(super) static RETRIES: Described = counter(
    "spillgate_retries_total",
    &[POOL, closed("kind", names::<RetryKind>)],
    "Tries after the first: unsent ones are free, sent ones are charged to the retry budget",
);
pub(super) static HEDGES: Described = counter(
    "spillgate_hedges_total",
    &[POOL, closed("end", names::<HedgeEnd>)],
    "Second tries asked for; won, lost and failed ones ran, the others were not granted",
);
pub(super) static RELAYS: Described = counter(
    "spillgate_relays_total",
    &[POOL, closed("reason", names::<RelayReason>)],
    "Exchanges that left buffering: relayed at the client's speed with the slot held",
);
pub(super) static REQUEST_BODY_BYTES: Described = in_bytes(counter(
    "spillgate_request_body_bytes_total",
    &[POOL],
    "Bytes of request bodies received from clients",
));
pub(super) static RESPONSE_BODY_BYTES: Described = in_bytes(counter(
    "spillgate_response_body_bytes_total",
    &[POOL],
    "Bytes of response bodies collected from workers",
));
pub(super) static SPLICED_BYTES: Described = in_bytes(counter(
    "spillgate_spliced_bytes_total",
    &[POOL],
    "Bytes of relayed response bodies that the kernel moved from worker to client without a copy",
));
pub(super) static QUEUE_LEN: Described =
    gauge("spillgate_queue_len", &[POOL], "Exchanges that wait for a permit");
pub(super) static QUEUE_LEN_MAX: Described =
    gauge("spillgate_queue_len_max", &[POOL], "Exchanges that may wait for a permit");
pub(super) static QUEUE_CLASS_LEN: Described = gauge(
    "spillgate_queue_class_len",
    &[POOL, closed("class", names::<ClassLabel>)],
    "Exchanges that wait for a permit, by class",
);
pub(super) static SHED_RATIO: Described = gauge(
    "spillgate_shed_ratio",
    &[POOL],
    "Share of the arrivals that is too much, 0 to 1; the least important are shed by it",
);
pub(super) static SLOTS: Described =
    gauge("spillgate_slots", &[POOL], "Slots of all workers that get exchanges");
pub(super) static SLOTS_TAKEN: Described =
    gauge("spillgate_slots_taken", &[POOL], "Permits that are out, stuck slots included");
pub(super) static SLOTS_STUCK: Described = gauge(
    "spillgate_slots_stuck",
    &[POOL, WORKER],
    "Slots held by exchanges that were given up while the worker may still be busy",
);
pub(super) static GRANTS: Described =
    counter("spillgate_grants_total", &[POOL, WORKER], "Permits granted, retries included");
pub(super) static WORKER_UP: Described =
    gauge("spillgate_worker_up", &[POOL, WORKER], "1 when the worker gets exchanges, else 0");
pub(super) static WORKER_EXCHANGES: Described = gauge(
    "spillgate_worker_exchanges",
    &[POOL, WORKER],
    "Exchanges in the worker, stuck ones included",
);
pub(super) static WORKER_CONNECTIONS: Described = gauge(
    "spillgate_worker_connections",
    &[POOL, WORKER],
    "Connections open to the worker, idle ones included",
);
pub(super) static WORKER_FAILURES: Described = gauge(
    "spillgate_worker_failures",
    &[POOL, WORKER],
    "Failures of the worker in a row; ejection starts at eject_after",
);
pub(super) static PROBES: Described = counter(
    "spillgate_probes_total",
    &[POOL, closed("outcome", || vec!["succeeded", "failed"])],
    "Probes that ended",
);
pub(super) static AGENT_REPORTS: Described = counter(
    "spillgate_agent_reports_total",
    &[POOL, closed("outcome", names::<AgentOutcome>)],
    "Questions to agents that ended",
);
pub(super) static WORKER_SLOTS: Described = gauge(
    "spillgate_worker_slots",
    &[POOL, WORKER],
    "Exchanges that the worker may hold now: the least of what is configured, granted and learned",
);
pub(super) static WORKER_SLOTS_GRANTED: Described = gauge(
    "spillgate_worker_slots_granted",
    &[POOL, WORKER],
    "Exchanges that the worker and its agent want at most",
);
pub(super) static WORKER_SLOTS_LEARNED: Described = gauge(
    "spillgate_worker_slots_learned",
    &[POOL, WORKER],
    "Exchanges that the worker can hold well, by what was learned; with a fixed limit its slots",
);
pub(super) static CONNECTS: Described = counter(
    "spillgate_worker_connects_total",
    &[POOL, closed("kind", names::<ConnectKind>)],
    "Connections to workers got for an exchange",
);
pub(super) static IDLE_CLOSED: Described = counter(
    "spillgate_idle_connections_closed_total",
    &[POOL, closed("reason", names::<IdleEnd>)],
    "Idle connections to workers that were closed",
);
pub(super) static ACCEPTED: Described =
    counter("spillgate_connections_accepted_total", &[LISTENER], "Client connections accepted");
pub(super) static PAUSES: Described = counter(
    "spillgate_accept_pauses_total",
    &[LISTENER, closed("reason", names::<PauseReason>)],
    "Times that accepting paused for 20 ms because nothing was left for another connection",
);
pub(super) static CLOSED: Described = counter(
    "spillgate_connections_closed_total",
    &[LISTENER, closed("reason", names::<CloseReason>)],
    "Client connections closed; send_rate and body_rate are clients that were too slow",
);
pub(super) static OPEN: Described =
    gauge("spillgate_connections_open", &[LISTENER], "Client connections open");
pub(super) static SHARD_OPEN: Described = gauge(
    "spillgate_shard_connections_open",
    &[SHARD],
    "Client connections open on the shard; far apart means that the kernel spreads them badly",
);
pub(super) static BUFFER_BYTES: Described = in_bytes(gauge(
    "spillgate_buffer_memory_bytes",
    &[],
    "Bytes of the byte budget that are granted, in memory",
));
pub(super) static BUFFER_MAX_BYTES: Described = in_bytes(gauge(
    "spillgate_buffer_memory_max_bytes",
    &[],
    "Bytes that all buffers together may hold in memory",
));
pub(super) static SOCKET_BYTES: Described = in_bytes(gauge(
    "spillgate_client_socket_bytes",
    &[],
    "Bytes that the kernel holds for clients that read slowly; paid from the byte budget in part",
));
pub(super) static BUDGET_WAITING: Described =
    gauge("spillgate_budget_waiting", &[], "Bodies that wait for the byte budget");
pub(super) static SPILL_BYTES: Described = in_bytes(gauge(
    "spillgate_spill_disk_bytes",
    &[],
    "Bytes of spill files in use, or reserved for bodies of known length",
));
pub(super) static SPILL_MAX_BYTES: Described = in_bytes(gauge(
    "spillgate_spill_disk_max_bytes",
    &[],
    "Bytes that all spill folders together may hold",
));
pub(super) static SPILLED_BYTES: Described =
    in_bytes(counter("spillgate_spilled_bytes_total", &[], "Bytes written to spill files"));
pub(super) static SPILLED_BODIES: Described =
    counter("spillgate_spilled_bodies_total", &[], "Bodies that were spilled, in whole or in part");
pub(super) static RECORDS_DROPPED: Described = counter(
    "spillgate_access_records_dropped_total",
    &[],
    "Access records thrown away because their writer was behind or could not write",
);
pub(super) static LOG_ERRORS: Described = counter(
    "spillgate_access_log_errors_total",
    &[],
    "Times that the access log could not be opened or written",
);
pub(super) static UPTIME: Described =
    in_seconds(gauge("spillgate_uptime_seconds", &[], "Time since the start of the process"));
