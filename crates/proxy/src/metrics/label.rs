//! The closed sets of words by which the proxy counts, logs and tells why.
//!
//! The same words are label values in the metrics, fields of the access record and keys of the
//! status page, so they are written once, here. Absent: status codes and headers (`reply.rs`).
//!
//! Invariant: the members of a set stand in its `ALL` in the order of their declaration.

use spillgate_core::gate;
use spillgate_runtime::metrics::LabelSet;

use super::End;

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

/// Why an exchange was turned away because of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// `queue_len_max` exchanges waited already.
    QueueFull,
    /// It waited for `queue_wait_max`.
    QueueTimeout,
    /// It could not be answered within `answer_within` any more.
    DeadlineUnmeetable,
    /// The pool had no worker that could serve.
    NoWorker,
    /// No worker became ready within `start_hold_max`.
    StartHoldExpired,
    /// Its body waited for buffer bytes for `body_wait_max`.
    ByteBudget,
    /// Spillgate is stopping.
    Draining,
}

impl LabelSet for ShedReason {
    const ALL: &'static [Self] = &[
        ShedReason::QueueFull,
        ShedReason::QueueTimeout,
        ShedReason::DeadlineUnmeetable,
        ShedReason::NoWorker,
        ShedReason::StartHoldExpired,
        ShedReason::ByteBudget,
        ShedReason::Draining,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            ShedReason::QueueFull => "queue_full",
            ShedReason::QueueTimeout => "queue_timeout",
            ShedReason::DeadlineUnmeetable => "deadline_unmeetable",
            ShedReason::NoWorker => "no_worker",
            ShedReason::StartHoldExpired => "start_hold_expired",
            ShedReason::ByteBudget => "byte_budget",
            ShedReason::Draining => "draining",
        }
    }
}

/// Why an exchange was turned away by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseReason {
    /// Its head breaks a rule of HTTP, or could be read in two ways.
    BadHead,
    /// Its head is longer than `head_size_max`.
    HeadTooLarge,
    /// Its head has more fields than `head_fields_max`.
    HeadFieldsTooMany,
    /// Its head took longer than `head_time_max`.
    HeadTimeout,
    /// Its chunked body breaks a rule of HTTP.
    BadChunk,
    /// Its body is longer than `body_size_max`.
    BodyTooLarge,
    /// Its body came slower than `body_rate_min`.
    BodyTooSlow,
    /// No route matches its host and path.
    NoRoute,
    /// It is a CONNECT: we are no forward proxy.
    Connect,
    /// Its protocol version is none of ours.
    Version,
    /// It expects something that we do not know.
    Expectation,
}

impl LabelSet for RefuseReason {
    const ALL: &'static [Self] = &[
        RefuseReason::BadHead,
        RefuseReason::HeadTooLarge,
        RefuseReason::HeadFieldsTooMany,
        RefuseReason::HeadTimeout,
        RefuseReason::BadChunk,
        RefuseReason::BodyTooLarge,
        RefuseReason::BodyTooSlow,
        RefuseReason::NoRoute,
        RefuseReason::Connect,
        RefuseReason::Version,
        RefuseReason::Expectation,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            RefuseReason::BadHead => "bad_head",
            RefuseReason::HeadTooLarge => "head_too_large",
            RefuseReason::HeadFieldsTooMany => "head_fields_too_many",
            RefuseReason::HeadTimeout => "head_timeout",
            RefuseReason::BadChunk => "bad_chunk",
            RefuseReason::BodyTooLarge => "body_too_large",
            RefuseReason::BodyTooSlow => "body_too_slow",
            RefuseReason::NoRoute => "no_route",
            RefuseReason::Connect => "connect",
            RefuseReason::Version => "version",
            RefuseReason::Expectation => "expectation",
        }
    }
}

/// Why an exchange that was tried did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// Two workers died of it, its tries are used up, or it must not be tried again.
    WorkerFailed,
    /// The worker did not answer within `exchange_time_max` or `progress_time_max`.
    WorkerTimeout,
    /// It could be tried again, but the retry budget is used up.
    RetryBudget,
    /// The worker's answer breaks a rule of HTTP.
    BadResponse,
    /// The head of the worker's answer is longer than `head_size_max`.
    ResponseHeadTooLarge,
    /// The worker broke off an answer of which the client had seen a part.
    ResponseBroken,
    /// A spilled body could not be read back or written.
    Spill,
    /// A fault of our own.
    Internal,
}

impl LabelSet for FailReason {
    const ALL: &'static [Self] = &[
        FailReason::WorkerFailed,
        FailReason::WorkerTimeout,
        FailReason::RetryBudget,
        FailReason::BadResponse,
        FailReason::ResponseHeadTooLarge,
        FailReason::ResponseBroken,
        FailReason::Spill,
        FailReason::Internal,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            FailReason::WorkerFailed => "worker_failed",
            FailReason::WorkerTimeout => "worker_timeout",
            FailReason::RetryBudget => "retry_budget",
            FailReason::BadResponse => "bad_response",
            FailReason::ResponseHeadTooLarge => "response_head_too_large",
            FailReason::ResponseBroken => "response_broken",
            FailReason::Spill => "spill",
            FailReason::Internal => "internal",
        }
    }
}

impl From<gate::Reason> for End {
    /// What the gate calls one set of reasons is two in the books: turned away, or tried in vain.
    fn from(reason: gate::Reason) -> End {
        match reason {
            gate::Reason::QueueFull => End::Shed(ShedReason::QueueFull),
            gate::Reason::QueueTimeout => End::Shed(ShedReason::QueueTimeout),
            gate::Reason::DeadlineUnmeetable => End::Shed(ShedReason::DeadlineUnmeetable),
            gate::Reason::NoWorker => End::Shed(ShedReason::NoWorker),
            gate::Reason::StartHoldExpired => End::Shed(ShedReason::StartHoldExpired),
            gate::Reason::Draining => End::Shed(ShedReason::Draining),
            gate::Reason::WorkerFailed => End::Failed(FailReason::WorkerFailed),
            gate::Reason::RetryBudget => End::Failed(FailReason::RetryBudget),
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

/// How a connection to a worker was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectKind {
    /// It was opened for the exchange.
    New,
    /// It was idle.
    Reused,
    /// It could not be opened.
    Failed,
}

impl LabelSet for ConnectKind {
    const ALL: &'static [Self] = &[ConnectKind::New, ConnectKind::Reused, ConnectKind::Failed];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            ConnectKind::New => "new",
            ConnectKind::Reused => "reused",
            ConnectKind::Failed => "failed",
        }
    }
}

/// Why an idle connection to a worker was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleEnd {
    /// The worker closed it.
    Worker,
    /// It reached `keep_alive_time_max`.
    Age,
    /// The gate wanted its place for another shard.
    Gate,
    /// It was too old for an unsafe method, or had unasked bytes in it.
    Unfit,
}

impl LabelSet for IdleEnd {
    const ALL: &'static [Self] = &[IdleEnd::Worker, IdleEnd::Age, IdleEnd::Gate, IdleEnd::Unfit];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            IdleEnd::Worker => "worker",
            IdleEnd::Age => "age",
            IdleEnd::Gate => "gate",
            IdleEnd::Unfit => "unfit",
        }
    }
}

/// Why accepting pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// The listener has `connections_max` connections.
    Connections,
    /// The process has no descriptor left for another.
    Descriptors,
}

impl LabelSet for PauseReason {
    const ALL: &'static [Self] = &[PauseReason::Connections, PauseReason::Descriptors];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            PauseReason::Connections => "connections",
            PauseReason::Descriptors => "descriptors",
        }
    }
}

/// Why a client connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed it between two exchanges.
    Client,
    /// The client left during an exchange.
    Abandoned,
    /// The last answer said that it is the last.
    Answered,
    /// It was idle for `idle_time_max`.
    Idle,
    /// A head took longer than `head_time_max`.
    HeadTimeout,
    /// A body came slower than `body_rate_min`.
    BodyRate,
    /// The client read slower than `send_rate_min`.
    SendRate,
    /// It sent something that HTTP does not allow.
    BadInput,
    /// Its PROXY protocol header was wrong, or not from `trusted_from`.
    ProxyHeader,
    /// The answer could not be finished, and closing tells the client so.
    Broken,
    /// Its tunnel ended.
    Tunnel,
    /// Spillgate is stopping.
    Draining,
}

impl LabelSet for CloseReason {
    const ALL: &'static [Self] = &[
        CloseReason::Client,
        CloseReason::Abandoned,
        CloseReason::Answered,
        CloseReason::Idle,
        CloseReason::HeadTimeout,
        CloseReason::BodyRate,
        CloseReason::SendRate,
        CloseReason::BadInput,
        CloseReason::ProxyHeader,
        CloseReason::Broken,
        CloseReason::Tunnel,
        CloseReason::Draining,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            CloseReason::Client => "client",
            CloseReason::Abandoned => "abandoned",
            CloseReason::Answered => "answered",
            CloseReason::Idle => "idle",
            CloseReason::HeadTimeout => "head_timeout",
            CloseReason::BodyRate => "body_rate",
            CloseReason::SendRate => "send_rate",
            CloseReason::BadInput => "bad_input",
            CloseReason::ProxyHeader => "proxy_header",
            CloseReason::Broken => "broken",
            CloseReason::Tunnel => "tunnel",
            CloseReason::Draining => "draining",
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
        check::<ShedReason>();
        check::<RefuseReason>();
        check::<FailReason>();
        check::<RetryKind>();
        check::<RelayReason>();
        check::<ConnectKind>();
        check::<IdleEnd>();
        check::<PauseReason>();
        check::<CloseReason>();
    }
}
