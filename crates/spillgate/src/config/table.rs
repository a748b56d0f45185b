//! One record for each key of the configuration file.
//!
//! The checker, the manual (`docs/config.md`) and the error texts all read these records; nothing
//! else states a range or a default. The order is that of the manual. No record knows how its value
//! is used: that is `build.rs`, and the settings it fills.

use std::time::Duration;

use spillgate_core::units::{ByteSize, Ratio};

use super::key::{Key, Kind, Place, Preset};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn kib(count: u64) -> ByteSize {
    ByteSize::from_kib(count)
}

const fn mib(count: u64) -> ByteSize {
    ByteSize::from_mib(count)
}

const fn gib(count: u64) -> ByteSize {
    ByteSize::from_mib(count << 10)
}

const fn tib(count: u64) -> ByteSize {
    ByteSize::from_mib(count << 20)
}

const fn percent(count: u32) -> Ratio {
    Ratio::from_percent(count)
}

const MINUTE: Duration = secs(60);
const HOUR: Duration = secs(3_600);
const DAY: Duration = secs(86_400);

/// Positions within a head are kept as 16-bit numbers.
const HEAD_MOST: ByteSize = ByteSize::from_bytes(65_535);

/// The record of `name` in `place`; none when there is no such key.
pub(crate) fn find(place: Place, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.place == place && key.name == name)
}

/// All keys of `place`.
pub(crate) fn keys_of(place: Place) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.place == place)
}

/// All keys.
pub(crate) const KEYS: &[Key] = &[
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
               is shed and an answer is relayed. Without that section the whole body stays in \
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
        text: "Versions 1 and 2 are read. The header is believed from `trusted_from` only; a \
               connection from anyone else is closed.",
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
    Key {
        place: Place::Pool,
        name: "endpoints",
        kind: Kind::Endpoints,
        preset: Preset::Off("`command` is needed"),
        live: false,
        line: "where workers listen that somebody else starts",
        text: "One entry per worker: an IP address and a port, `localhost` and a port, or \
               `unix:` and the path of a socket. Exactly one of `endpoints` and `command` is \
               needed.",
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
    Key {
        place: Place::Pool,
        name: "slots",
        kind: Kind::Count { min: 1, max: 1000000 },
        preset: Preset::Is("1"),
        live: false,
        line: "exchanges that one worker may hold at once",
        text: "1 for a worker that renders on a single thread. Spillgate never sends a worker \
               more; the rest waits in the queue.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "connections_max",
        kind: Kind::Count { min: 1, max: 1000000 },
        preset: Preset::Derived("`slots`"),
        live: false,
        line: "connections that one worker may ever see open from us",
        text: "Counted over all shards, idle ones included. At least `slots`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "queue_len_max",
        kind: Kind::Count { min: 0, max: 1000000 },
        preset: Preset::Is("100"),
        live: false,
        line: "most exchanges that wait",
        text: "One more is shed with the reason `queue_full`. Zero: nobody waits, yet a free \
               slot still serves.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "queue_wait_max",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Is(r#""5s""#),
        live: false,
        line: "longest time in the queue",
        text: "Then the exchange is shed with the reason `queue_timeout`. To keep a promise \
               about answers, set `answer_within` rather than this.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "answer_within",
        kind: Kind::Duration { min: ms(1), max: HOUR },
        preset: Preset::Off("answers are useful however late they come"),
        live: false,
        line: "an answer later than this after the last byte of the request is useless",
        text: "An exchange is not sent to a worker when now plus the measured service time \
               passes its deadline. Nothing is shed by it before enough was measured. Late \
               answers are delivered all the same, and counted.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "answer_quantile",
        kind: Kind::Share { min: percent(1), max: percent(100) },
        preset: Preset::Is(r#""90%""#),
        live: false,
        line: "the quantile of the measured service times that `answer_within` reckons with",
        text: "Higher sheds more and is late less often.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "order",
        kind: Kind::Choice(&["adaptive", "priority", "fifo", "lifo"]),
        preset: Preset::Is(r#""adaptive""#),
        live: false,
        line: "in which order those who wait are served",
        text: "`priority`: by class, then oldest first. `adaptive`: the same, but while the queue \
               stands and many must be shed, youngest first among the classes that are shed. \
               `fifo`, `lifo`: oldest or youngest first, whatever the class. Where tenants are \
               told apart they take turns within a class. Of two that came close together the \
               one that usually takes less time goes first.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "shedding",
        kind: Kind::Choice(&["ratio", "codel", "off"]),
        preset: Preset::Is(r#""ratio""#),
        live: false,
        line: "how exchanges are shed early when more comes than can be done",
        text: "`ratio`: once somebody had to be shed for its wait, the share that is too much is \
               measured, the least important go on arrival, and the queue is kept short. \
               `codel`: who waited for too long is shed while the queue stands. `off`: only \
               `queue_len_max`, `queue_wait_max` and deadlines shed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "class",
        kind: Kind::Choice(&["critical", "normal", "degraded", "bulk"]),
        preset: Preset::Is(r#""normal""#),
        live: false,
        line: "how important an exchange is that nothing else gives a class",
        text: "What else does, the first that is there: the field `class_header`, the route, the \
               method.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "class_header",
        kind: Kind::FieldName,
        preset: Preset::Off("no header field names a class"),
        live: false,
        line: "the header field that names the class of a request",
        text: "By number, 0 to 3, or by name: `critical`, `normal`, `degraded`, `bulk`. Believed \
               from `trusted_from` only; from anyone else the field is removed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "class_methods",
        kind: Kind::Classes,
        preset: Preset::Off("a method says nothing of the class"),
        live: false,
        line: "classes by method",
        text: "For example `{ POST = \"critical\", HEAD = \"bulk\" }`.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "tenant_header",
        kind: Kind::FieldName,
        preset: Preset::Off("no header field names a tenant"),
        live: false,
        line: "the header field that names the tenant of a request",
        text: "Those who wait are served by tenant in turn, so that one who asks a hundred times \
               as much as the others takes nothing from them. Believed from `trusted_from` only; \
               from anyone else the field is removed. Who names none shares one share.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "tenant_by_address",
        kind: Kind::Flag,
        preset: Preset::Is("false"),
        live: false,
        line: "whether a request that names no tenant is its client's address's",
        text: "The nearest address in `X-Forwarded-For` that is not in `trusted_from`, or the \
               client's own; of IPv6 its first 64 bits.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "deadline_header",
        kind: Kind::FieldName,
        preset: Preset::Off("only `grpc-timeout` says a deadline"),
        live: false,
        line: "the header field that says until when an answer is of use",
        text: "As the time that is left (`250ms`, `2s`) or as Unix time in seconds (a fraction is \
               allowed). The earlier of it, `grpc-timeout` and `answer_within` counts. Believed \
               from `trusted_from` only; from anyone else the field is removed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "start_hold_max",
        kind: Kind::Duration { min: Duration::ZERO, max: HOUR },
        preset: Preset::Is(r#""60s""#),
        live: false,
        line: "longest wait until the first worker of the pool was ever ready",
        text: "Takes the place of `queue_wait_max` during a cold start, and while a rolling \
               restart leaves the pool without a worker for a moment. The length of the queue \
               still bounds. Zero: nobody waits for the first worker.",
        since: "0.1.0",
    },
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
        preset: Preset::Is("3"),
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
    Key {
        place: Place::Route,
        name: "host",
        kind: Kind::Host,
        preset: Preset::Off("any host"),
        live: false,
        line: "host that the route applies to",
        text: "Without port. Upper and lower case are the same.",
        since: "0.1.0",
    },
    Key {
        place: Place::Route,
        name: "path",
        kind: Kind::UrlPath,
        preset: Preset::Is(r#""/""#),
        live: false,
        line: "beginning of the paths that the route applies to",
        text: "Ends at a border between segments: `/api` means `/api` and `/api/x`, not \
               `/apix`. The longest prefix wins, and an exact path wins over a prefix. Paths \
               are compared as workers read them: `/%61pi`, `/x/../api` and `//api` are `/api`. \
               What workers may read in several ways that lead to different places is refused \
               with 400 (`path_ambiguous`). Upper and lower case differ; the worker gets the \
               path as the client sent it.",
        since: "0.1.0",
    },
    Key {
        place: Place::Route,
        name: "path_exact",
        kind: Kind::UrlPath,
        preset: Preset::Off("`path` holds"),
        live: false,
        line: "the one path that the route applies to",
        text: "In place of `path`, and compared as that is. `/deny/` is another path than \
               `/deny`: write `path` where nothing below may pass.",
        since: "0.1.0",
    },
    Key {
        place: Place::Route,
        name: "class",
        kind: Kind::Choice(&["critical", "normal", "degraded", "bulk"]),
        preset: Preset::Off("that of the method or of the pool"),
        live: false,
        line: "how important the exchanges of the route are",
        text: "The field `class_header` of the pool can say something else of one request.",
        since: "0.1.0",
    },
    Key {
        place: Place::Route,
        name: "pool",
        kind: Kind::PoolName,
        preset: Preset::Off("`reply` is needed"),
        live: false,
        line: "the pool that the route leads to",
        text: "Exactly one of `pool` and `reply` is needed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Route,
        name: "reply",
        kind: Kind::Reply,
        preset: Preset::Off("`pool` is needed"),
        live: false,
        line: "a reply of our own that never touches a worker",
        text: "Exactly one of `pool` and `reply` is needed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Reply,
        name: "status",
        kind: Kind::Count { min: 200, max: 599 },
        preset: Preset::Required("200"),
        live: false,
        line: "its status",
        text: "204 and 304 have no body.",
        since: "0.1.0",
    },
    Key {
        place: Place::Reply,
        name: "body",
        kind: Kind::Text,
        preset: Preset::Is(r#""""#),
        live: false,
        line: "its body",
        text: "Sent as it stands, in UTF-8.",
        since: "0.1.0",
    },
    Key {
        place: Place::Reply,
        name: "content_type",
        kind: Kind::ContentType,
        preset: Preset::Is(r#""text/plain; charset=utf-8""#),
        live: false,
        line: "its `Content-Type`",
        text: "One line of visible ASCII.",
        since: "0.1.0",
    },
    Key {
        place: Place::Spill,
        name: "folders",
        kind: Kind::Folders,
        preset: Preset::Required(r#"["/var/lib/spillgate"]"#),
        live: false,
        line: "folders on disk where bodies spill",
        text: "Segment files are made there and unlinked at once, so nothing is left after an \
               end of any kind. Folders on different disks share the work. A folder on tmpfs is \
               memory again, and warned about.",
        since: "0.1.0",
    },
    Key {
        place: Place::Spill,
        name: "size_max",
        kind: Kind::Size { min: mib(1), max: tib(1024) },
        preset: Preset::Is(r#""4GiB""#),
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
