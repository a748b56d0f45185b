//! What becomes of connections, of both sides: closed sets.
//!
//! Why client connections end is the HTTP driver's set, since that is where they end. Absent: why
//! exchanges end (`reason.rs`); an end of a connection is not an end of an exchange.

pub use spillgate_runtime::http::end::CloseReason;
use spillgate_runtime::metrics::LabelSet;

/// How a connection to a worker was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectKind {
    /// It was opened for the exchange.
    New,
    /// It was idle.
    Reused,
    /// It was idle on another shard.
    Moved,
    /// It could not be opened.
    Failed,
}

impl LabelSet for ConnectKind {
    const ALL: &'static [Self] =
        &[ConnectKind::New, ConnectKind::Reused, ConnectKind::Moved, ConnectKind::Failed];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            ConnectKind::New => "new",
            ConnectKind::Reused => "reused",
            ConnectKind::Moved => "moved",
            ConnectKind::Failed => "failed",
        }
    }
}

/// What came of a question to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentOutcome {
    /// A line of which every word is known.
    Heard,
    /// A line with a word that is not known; the others hold.
    UnknownWord,
    /// A line without an end, which says nothing.
    Incomplete,
    /// No connection, or not a byte in time.
    Silent,
}

impl LabelSet for AgentOutcome {
    const ALL: &'static [Self] = &[
        AgentOutcome::Heard,
        AgentOutcome::UnknownWord,
        AgentOutcome::Incomplete,
        AgentOutcome::Silent,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            AgentOutcome::Heard => "heard",
            AgentOutcome::UnknownWord => "unknown_word",
            AgentOutcome::Incomplete => "incomplete",
            AgentOutcome::Silent => "silent",
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
