//! Why an exchange ended without the worker's answer.
//!
//! Shedding is the gate's decision and no error, yet it ends an exchange all the same, so both come
//! out of a stage as one type. Which status that makes is known to `reply.rs` alone.

use spillgate_core::gate::Reason;
use spillgate_core::time::Duration;

use crate::metrics::label::{FailReason, RefuseReason, ShedReason, Stage};

/// The end of an exchange that got no answer of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeError {
    /// Where it happened.
    pub(crate) stage: Stage,
    /// What happened.
    pub(crate) kind: Kind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Turned away because of load; after this time asking again could help.
    Shed(ShedReason, Option<Duration>),
    /// Turned away because a rule says so, in these words.
    Refused(RefuseReason, &'static str),
    /// Tried, and did not work.
    Failed(FailReason),
    /// The client left first.
    Abandoned,
}

/// Whose fault an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The client's.
    Client,
    /// A worker's.
    Worker,
    /// Ours: there is more to do than we and the workers can.
    Ourselves,
}

impl Blame {
    /// As the access record says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Blame::Client => "client",
            Blame::Worker => "worker",
            Blame::Ourselves => "ourselves",
        }
    }
}

impl ExchangeError {
    pub(crate) fn refused(stage: Stage, reason: RefuseReason, words: &'static str) -> Self {
        ExchangeError { stage, kind: Kind::Refused(reason, words) }
    }

    pub(crate) fn failed(stage: Stage, reason: FailReason) -> Self {
        ExchangeError { stage, kind: Kind::Failed(reason) }
    }

    pub(crate) fn abandoned(stage: Stage) -> Self {
        ExchangeError { stage, kind: Kind::Abandoned }
    }

    /// The gate turned it away.
    pub(crate) fn turned_away(reason: Reason, retry_after: Option<Duration>) -> Self {
        let shed = |reason| Kind::Shed(reason, retry_after);
        let kind = match reason {
            Reason::QueueFull => shed(ShedReason::QueueFull),
            Reason::QueueTimeout => shed(ShedReason::QueueTimeout),
            Reason::DeadlineUnmeetable => shed(ShedReason::DeadlineUnmeetable),
            Reason::Overload => shed(ShedReason::Overload),
            Reason::Displaced => shed(ShedReason::Displaced),
            Reason::NoWorker => shed(ShedReason::NoWorker),
            Reason::StartHoldExpired => shed(ShedReason::StartHoldExpired),
            Reason::Draining => shed(ShedReason::Draining),
            Reason::WorkerFailed => Kind::Failed(FailReason::WorkerFailed),
            Reason::RetryBudget => Kind::Failed(FailReason::RetryBudget),
        };
        ExchangeError { stage: Stage::Admit, kind }
    }

    /// Whose fault it is.
    pub(crate) fn blame(&self) -> Blame {
        match &self.kind {
            Kind::Refused(..) | Kind::Abandoned => Blame::Client,
            Kind::Failed(FailReason::Spill | FailReason::Internal) => Blame::Ourselves,
            Kind::Failed(_)
            | Kind::Shed(ShedReason::NoWorker | ShedReason::StartHoldExpired, _) => Blame::Worker,
            Kind::Shed(..) => Blame::Ourselves,
        }
    }
}
