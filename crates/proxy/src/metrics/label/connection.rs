//! What becomes of connections, of both sides: four closed sets.
//!
//! Absent: why exchanges end (`reason.rs`); an end of a connection is not an end of an exchange.

use spillgate_runtime::metrics::LabelSet;

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
