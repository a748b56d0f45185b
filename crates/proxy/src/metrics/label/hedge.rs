//! What becomes of second tries that were asked for: a closed set.
//!
//! Absent: when one is asked for (`proxy/hedge.rs`), and the decision (the gate's).

use spillgate_core::gate::WithholdReason;
use spillgate_runtime::metrics::LabelSet;

/// What became of a second try that was asked for. The first three were granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeEnd {
    /// It was answered first.
    Won,
    /// The first try was answered first.
    Lost,
    /// It did not work.
    Failed,
    /// Somebody waited for a slot.
    Waiting,
    /// More came than could be served.
    Overload,
    /// No other worker had a slot left.
    NoSlot,
    /// Its answer would have been of no use any more.
    Late,
    /// The retry budget, or the tries of the exchange, were used up.
    RetryBudget,
    /// Spillgate was stopping.
    Draining,
}

impl From<WithholdReason> for HedgeEnd {
    fn from(reason: WithholdReason) -> HedgeEnd {
        match reason {
            WithholdReason::Waiting => HedgeEnd::Waiting,
            WithholdReason::Overload => HedgeEnd::Overload,
            WithholdReason::NoSlot => HedgeEnd::NoSlot,
            WithholdReason::Late => HedgeEnd::Late,
            WithholdReason::RetryBudget => HedgeEnd::RetryBudget,
            WithholdReason::Draining => HedgeEnd::Draining,
        }
    }
}

impl LabelSet for HedgeEnd {
    const ALL: &'static [Self] = &[
        HedgeEnd::Won,
        HedgeEnd::Lost,
        HedgeEnd::Failed,
        HedgeEnd::Waiting,
        HedgeEnd::Overload,
        HedgeEnd::NoSlot,
        HedgeEnd::Late,
        HedgeEnd::RetryBudget,
        HedgeEnd::Draining,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            HedgeEnd::Won => "won",
            HedgeEnd::Lost => "lost",
            HedgeEnd::Failed => "failed",
            HedgeEnd::Waiting => "waiting",
            HedgeEnd::Overload => "overload",
            HedgeEnd::NoSlot => "no_slot",
            HedgeEnd::Late => "late",
            HedgeEnd::RetryBudget => "retry_budget",
            HedgeEnd::Draining => "draining",
        }
    }
}
