//! The keys of a pool that say how many exchanges run and wait, and who goes first.
//!
//! Absent: how they are used.

use std::time::Duration;

use super::super::super::key::{Key, Kind, Place, Preset};
use super::super::{HOUR, ms, percent};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
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
        name: "limit",
        kind: Kind::Choice(&["fixed", "gradient", "aimd"]),
        preset: Preset::Is(r#""fixed""#),
        live: false,
        line: "how it is found out how many of its `slots` a worker can use well",
        text: "`fixed`: not, it may use all of them. `gradient`: by how much longer exchanges take \
               the more of them a worker holds. `aimd`: by those that it turns away, or does not \
               answer within `exchange_time_max` or `answer_within`. The limit is learned for each \
               worker, between `limit_min` and `slots`, and what the worker itself grants still \
               counts.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "limit_min",
        kind: Kind::Count { min: 1, max: 1000000 },
        preset: Preset::Is("1"),
        live: false,
        line: "the least limit that is learned",
        text: "At most `slots`. With `gradient` a worker begins with it and gets more as it \
               answers, twice as many each time at first.",
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
        name: "balance",
        kind: Kind::Choice(&["turns", "least_loaded", "first", "weighted", "hash"]),
        preset: Preset::Derived(
            "`least_loaded` with more than one slot; else `weighted` where endpoints have weights \
             or there is a `ramp_time`, and `turns` otherwise",
        ),
        live: false,
        line: "which worker an exchange gets, of those with a free slot",
        text: "`turns`: one with a connection at hand, then the one with the fewest exchanges, in \
               turn. `least_loaded`: the one that would be done first, by its exchanges, what they \
               take, and its weight. `first`: the first in the list, so that the last are idle \
               while little comes. `weighted`: in turn by weight. `hash`: the same worker for the \
               same key, unless it has too much already. Nobody waits for a worker while another \
               has a free slot.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "hash_by",
        kind: Kind::Choice(&["path", "address"]),
        preset: Preset::Is(r#""path""#),
        live: false,
        line: "what the key of an exchange is, for `balance = \"hash\"`",
        text: "`path`: the path without the query. `address`: the client's address, or of IPv6 the \
               network's.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "hash_header",
        kind: Kind::FieldName,
        preset: Preset::Off("`hash_by` alone says"),
        live: false,
        line: "the header field that is the key, for `balance = \"hash\"`",
        text: "Where a request has no such field `hash_by` says. Read from everybody: who makes \
               keys up can at most fill the share of one worker.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "hash_excess_max",
        kind: Kind::Share { min: percent(1), max: percent(100) },
        preset: Preset::Is(r#""25%""#),
        live: false,
        line: "how much more than the mean load one worker may have, for `balance = \"hash\"`",
        text: "A key whose worker has that much already goes to the next along the circle. The \
               more, the more often a key finds its worker, and the less even the load.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "ramp_time",
        kind: Kind::Duration { min: ms(10), max: HOUR },
        preset: Preset::Off("the full share at once"),
        live: false,
        line: "the time in which a worker that came, or came back, gets its full share",
        text: "Its slots and its weight grow in proportion to the time that it is up, from one \
               slot and a hundredth of the weight. Workers that others started are warm when \
               Spillgate starts; those that come later, new processes and those that were out are \
               not.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "class",
        kind: Kind::Choice(&["critical", "normal", "degraded", "bulk"]),
        preset: Preset::Is(r#""normal""#),
        live: false,
        line: "how important an exchange is that nothing else gives a class",
        text: "What else does, the first that is there: the field `class_header`, the route or \
               pool for this caller, the route, the method.",
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
        name: "caller_header",
        kind: Kind::FieldName,
        preset: Preset::Off("no header field names a caller"),
        live: false,
        line: "the header field that names the caller of a request, such as another service",
        text: "What `class_callers` of routes and of the pool go by; the access record shows it. \
               Believed from `trusted_from` only; from anyone else the field is removed.",
        since: "0.1.0",
    },
    Key {
        place: Place::Pool,
        name: "class_callers",
        kind: Kind::Callers,
        preset: Preset::Off("a caller says nothing of the class"),
        live: false,
        line: "how important the exchanges of certain callers are, whatever the route",
        text: "As `class_callers` of a route, which come first. Names are compared as they stand; \
               a caller that is not listed has the class that its route, its method or the pool \
               gives.",
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
];
