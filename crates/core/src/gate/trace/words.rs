//! The words of a trace: one for each value of the closed sets that inputs and outputs hold.
//!
//! Each function is exhaustive, so a value that is added anywhere must be given a word here; each
//! list holds what can be read back.

use crate::gate::{Balance, Limit, Shedding, WithholdReason};
use crate::gate::{Change, Connection, Fate, Fault, Heard, Order, Outcome, ProbeKind, Reason};
use crate::pool::{Admin, Health, OutReason, State};

pub(in crate::gate) const NONE: &str = "-";

pub(in crate::gate) const CHANGES: [Change; 6] = [
    Change::Join,
    Change::JoinSupervised,
    Change::Ready,
    Change::Down,
    Change::Drain,
    Change::Leave,
];

pub(in crate::gate) const OUTCOMES: [Outcome; 3] =
    [Outcome::Success, Outcome::Overload, Outcome::Ignore];

pub(in crate::gate) const FAULTS: [Fault; 5] =
    [Fault::Refused, Fault::Reset, Fault::Refusal, Fault::Error, Fault::Stuck];

pub(in crate::gate) const FATES: [Fate; 3] = [Fate::Kept, Fate::Closed, Fate::Cut];

pub(in crate::gate) const HEARD: [Heard; 3] = [Heard::Well, Heard::Badly, Heard::Nothing];

pub(in crate::gate) const ADMINS: [Admin; 3] = [Admin::Ready, Admin::Drain, Admin::Maint];

pub(in crate::gate) const HEALTHS: [Health; 2] = [Health::Up, Health::Down];

pub(in crate::gate) fn admin(admin: Admin) -> &'static str {
    match admin {
        Admin::Ready => "ready",
        Admin::Drain => "drain",
        Admin::Maint => "maint",
    }
}

pub(in crate::gate) fn health(health: Health) -> &'static str {
    match health {
        Health::Up => "up",
        Health::Down => "down",
    }
}

pub(in crate::gate) const ORDERS: [Order; 4] =
    [Order::Fifo, Order::Lifo, Order::Priority, Order::Adaptive];

pub(in crate::gate) const LIMITS: [Limit; 3] = [Limit::Fixed, Limit::Gradient, Limit::Aimd];

pub(in crate::gate) const BALANCES: [Balance; 5] =
    [Balance::Turns, Balance::LeastLoaded, Balance::First, Balance::Weighted, Balance::Hash];

pub(in crate::gate) const SHEDDINGS: [Shedding; 3] =
    [Shedding::Ratio, Shedding::Codel, Shedding::Off];

pub(in crate::gate) fn change(change: Change) -> &'static str {
    match change {
        Change::Join => "join",
        Change::JoinSupervised => "join-supervised",
        Change::Ready => "ready",
        Change::Down => "down",
        Change::Drain => "drain",
        Change::Leave => "leave",
    }
}

pub(in crate::gate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "success",
        Outcome::Overload => "overload",
        Outcome::Ignore => "ignore",
    }
}

pub(in crate::gate) fn fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Refused => "refused",
        Fault::Reset => "reset",
        Fault::Refusal => "refusal",
        Fault::Error => "error",
        Fault::Stuck => "stuck",
    }
}

pub(in crate::gate) fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Kept => "kept",
        Fate::Closed => "closed",
        Fate::Cut => "cut",
    }
}

pub(in crate::gate) fn heard(heard: Heard) -> &'static str {
    match heard {
        Heard::Well => "well",
        Heard::Badly => "badly",
        Heard::Nothing => "nothing",
    }
}

pub(in crate::gate) fn connection(connection: Connection) -> &'static str {
    match connection {
        Connection::Idle => "idle",
        Connection::Moved(_) => "moved",
        Connection::New => "new",
    }
}

pub(in crate::gate) fn kind(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::Connect => "connect",
        ProbeKind::Exchange => "exchange",
    }
}

pub(in crate::gate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::QueueFull => "queue-full",
        Reason::QueueTimeout => "queue-timeout",
        Reason::DeadlineUnmeetable => "deadline-unmeetable",
        Reason::Overload => "overload",
        Reason::Displaced => "displaced",
        Reason::NoWorker => "no-worker",
        Reason::StartHoldExpired => "start-hold-expired",
        Reason::WorkerFailed => "worker-failed",
        Reason::RetryBudget => "retry-budget",
        Reason::Draining => "draining",
    }
}

pub(in crate::gate) fn withhold_reason(reason: WithholdReason) -> &'static str {
    match reason {
        WithholdReason::Waiting => "waiting",
        WithholdReason::Overload => "overload",
        WithholdReason::NoSlot => "no-slot",
        WithholdReason::Late => "late",
        WithholdReason::RetryBudget => "retry-budget",
        WithholdReason::Draining => "draining",
    }
}

pub(in crate::gate) fn state(state: State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Up => "up",
        State::Out(OutReason::Refused) => "out-refused",
        State::Out(OutReason::Reset) => "out-reset",
        State::Out(OutReason::Refusal) => "out-refusal",
        State::Out(OutReason::Stuck) => "out-stuck",
        State::Out(OutReason::Probe) => "out-probe",
        State::Out(OutReason::Ejected) => "out-ejected",
        State::Out(OutReason::Agent) => "out-agent",
        State::Out(OutReason::Maint) => "out-maint",
        State::Draining => "draining",
        State::Down => "down",
    }
}
