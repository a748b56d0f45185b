//! The closed sets of words by which the proxy counts, logs and tells why.
//!
//! The same words are label values in the metrics, fields of the access record and keys of the
//! status page, so they are written once, here and in the four files below. Absent: status codes
//! and headers (`reply.rs`).
//!
//! Invariant: the members of a set stand in its `ALL` in the order of their declaration.

mod class;
mod connection;
mod hedge;
mod reason;

pub use class::ClassLabel;
pub use connection::{AgentOutcome, CloseReason, ConnectKind, IdleEnd, PauseReason};
pub use hedge::HedgeEnd;
pub use reason::{FailReason, RefuseReason, ShedReason};

use spillgate_runtime::metrics::LabelSet;

/// A step of the request path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// From the head to route and destination.
    Route,
    /// The whole request body, in memory or spilled.
    Intake,
    /// A permit now, a wait in the queue, or shed.
    Admit,
    /// Connection to the worker, request sent, response head awaited.
    Dispatch,
    /// The response read at the worker's speed.
    Collect,
    /// The response written at the client's speed.
    Deliver,
    /// Access record and counters.
    Record,
}

impl LabelSet for Stage {
    const ALL: &'static [Self] = &[
        Stage::Route,
        Stage::Intake,
        Stage::Admit,
        Stage::Dispatch,
        Stage::Collect,
        Stage::Deliver,
        Stage::Record,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Stage::Route => "route",
            Stage::Intake => "intake",
            Stage::Admit => "admit",
            Stage::Dispatch => "dispatch",
            Stage::Collect => "collect",
            Stage::Deliver => "deliver",
            Stage::Record => "record",
        }
    }
}

/// The first digit of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    /// 101: the exchange became a tunnel.
    Informational,
    /// 200 to 299.
    Successful,
    /// 300 to 399.
    Redirect,
    /// 400 to 499.
    ClientError,
    /// 500 and above.
    WorkerError,
}

impl StatusClass {
    /// The class of `status`.
    pub fn of(status: u16) -> StatusClass {
        match status {
            0..200 => StatusClass::Informational,
            200..300 => StatusClass::Successful,
            300..400 => StatusClass::Redirect,
            400..500 => StatusClass::ClientError,
            500.. => StatusClass::WorkerError,
        }
    }
}

impl LabelSet for StatusClass {
    const ALL: &'static [Self] = &[
        StatusClass::Informational,
        StatusClass::Successful,
        StatusClass::Redirect,
        StatusClass::ClientError,
        StatusClass::WorkerError,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            StatusClass::Informational => "1xx",
            StatusClass::Successful => "2xx",
            StatusClass::Redirect => "3xx",
            StatusClass::ClientError => "4xx",
            StatusClass::WorkerError => "5xx",
        }
    }
}

/// What the worker before had seen of a request that is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryKind {
    /// Nothing: free of charge.
    Unsent,
    /// Some of it, or all: charged to the retry budget.
    Sent,
}

impl LabelSet for RetryKind {
    const ALL: &'static [Self] = &[RetryKind::Unsent, RetryKind::Sent];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            RetryKind::Unsent => "unsent",
            RetryKind::Sent => "sent",
        }
    }
}

/// Why a response is relayed at the client's speed, with its permit held to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayReason {
    /// It is an event stream.
    EventStream,
    /// The worker asked for it (`X-Accel-Buffering: no`).
    Asked,
    /// The connection became a tunnel.
    Upgrade,
    /// It is longer than `response_size_max`.
    ResponseSize,
    /// The byte budget was used up.
    ByteBudget,
    /// The spill folder was full, slow or broken.
    Spill,
}

impl LabelSet for RelayReason {
    const ALL: &'static [Self] = &[
        RelayReason::EventStream,
        RelayReason::Asked,
        RelayReason::Upgrade,
        RelayReason::ResponseSize,
        RelayReason::ByteBudget,
        RelayReason::Spill,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            RelayReason::EventStream => "event_stream",
            RelayReason::Asked => "asked",
            RelayReason::Upgrade => "upgrade",
            RelayReason::ResponseSize => "response_size",
            RelayReason::ByteBudget => "byte_budget",
            RelayReason::Spill => "spill",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: LabelSet + std::fmt::Debug>() {
        for (place, member) in S::ALL.iter().enumerate() {
            assert_eq!(member.index(), place, "{member:?}");
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            assert!(member.name().bytes().all(|byte| plain(byte) || byte == b'_'), "{member:?}");
            let same = S::ALL.iter().filter(|other| other.name() == member.name()).count();
            assert_eq!(same, 1, "{member:?}");
        }
    }

    #[test]
    fn members_stand_where_their_index_says() {
        check::<Stage>();
        check::<StatusClass>();
        check::<ClassLabel>();
        check::<ShedReason>();
        check::<RefuseReason>();
        check::<FailReason>();
        check::<RetryKind>();
        check::<HedgeEnd>();
        check::<RelayReason>();
        check::<ConnectKind>();
        check::<IdleEnd>();
        check::<PauseReason>();
        check::<CloseReason>();
    }
}
