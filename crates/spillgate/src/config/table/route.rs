//! The keys of a `[[route]]` and of its `reply`.
//!
//! Absent: how they are used.

use super::super::key::{Key, Kind, Place, Preset};

/// In the order of the manual.
pub(in crate::config::table) const KEYS: &[Key] = &[
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
        text: "The field `class_header` of the pool can say something else of one request, and \
               `class_callers` of the requests of one caller.",
        since: "0.1.0",
    },
    Key {
        place: Place::Route,
        name: "class_callers",
        kind: Kind::Callers,
        preset: Preset::Off("those of the pool"),
        live: false,
        line: "how important the exchanges of certain callers are",
        text: "For example `{ checkout = \"critical\", reports = \"bulk\" }`, or by method too: \
               `{ reports = { GET = \"degraded\", POST = \"bulk\" } }`. The caller is named by the \
               field `caller_header` of the pool. For callers that are not listed the pool's \
               `class_callers` hold, then the route's `class`.",
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
];
