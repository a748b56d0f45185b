//! What a gate is told, and what it answers.
//!
//! These types are the whole border between the gate and the rest of the product: the proxy fills
//! them from requests and sockets, the simulator from a random world, the trace from a file.

use crate::id::{ShardId, Ticket, WorkerId};
use crate::pool::Report;
use crate::time::{Duration, Instant};
use crate::units::Weight;

use super::class::Claim;
use super::permit::Permit;

/// Something happened that the gate has to know.
#[derive(Debug)]
pub enum Input {
    /// An exchange is whole and asks for a permit, for the first time or again.
    Arrive(Arrival),
    /// An exchange whose worker has not begun to answer asks for a second try beside the first.
    /// Decided at once.
    Hedge(Hedge),
    /// The client of a waiting exchange left. Ignored when the ticket is not waiting (a grant may
    /// be under way: the shell returns that permit with [`Outcome::Ignore`]).
    Abandon(Ticket),
    /// A permit comes back.
    Return(Returned),
    /// An idle connection of `worker`, kept by `shard`, is closed: by the worker, by age, or
    /// because of [`Output::CloseIdle`]. Ignored where no idle connection is on record there (it
    /// was granted meanwhile: whoever got the grant finds it gone and opens another in its place).
    Closed {
        /// Whose connection it was.
        worker: WorkerId,
        /// The shard that kept it.
        shard: ShardId,
    },
    /// A probe ended.
    Probed(Probed),
    /// A worker that had been too slow for a probe, of which [`Input::Probed`] was said without its
    /// permit, is at it no more.
    Late(Late),
    /// A worker joined, left, or changed by the supervisor's or an operator's word.
    Member {
        /// The worker.
        worker: WorkerId,
        /// What happened to it.
        change: Change,
    },
    /// How much a worker gets beside the others, where `balance` goes by that. One before it is
    /// said, and after the worker has left.
    Weight {
        /// The worker.
        worker: WorkerId,
        /// Its weight.
        weight: Weight,
    },
    /// A worker, or an agent beside it, says what it can take. What was said of a worker that is no
    /// member is forgotten.
    Report {
        /// The worker.
        worker: WorkerId,
        /// What was said.
        report: Report,
    },
    /// A worker reports with an answer how busy it is. To be said before the permit of that
    /// exchange is returned.
    Load {
        /// The worker.
        worker: WorkerId,
        /// In parts per million of what it can do well; may be more than a million.
        utilization: u32,
    },
    /// Shed everything that waits, and everything that will come, with [`Reason::Draining`].
    Drain,
}

/// An exchange that asks for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The exchange. One that waits already is ignored.
    pub ticket: Ticket,
    /// The shard on which it lives; grants go there.
    pub shard: ShardId,
    /// When it first asked this gate. A retry keeps its first value, so it re-enters at its age.
    pub since: Instant,
    /// When the last byte of its request came: `answer_within` counts from here.
    pub received: Instant,
    /// What it says of itself.
    pub claim: Claim,
    /// First try or another.
    pub attempt: Attempt,
}

/// An exchange that asks for a second try, on another worker, while the first goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedge {
    /// The second try; not the ticket of the first.
    pub ticket: Ticket,
    /// The shard on which it lives.
    pub shard: ShardId,
    /// When the last byte of its request came.
    pub received: Instant,
    /// What it says of itself.
    pub claim: Claim,
    /// The workers that have it or had it, none of which is asked again; this try is charged.
    pub tried: Tried,
}

/// Which try of an exchange this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It was never given to a worker.
    First,
    /// A worker was tried and nothing of the request can have reached it. Free: charged neither to
    /// the retry count nor to the budget.
    Unsent(Tried),
    /// A worker had (part of) the request and died, reset or refused. Charged at this moment.
    Sent(Tried),
}

impl Attempt {
    /// The workers tried before.
    pub fn tried(&self) -> Tried {
        match self {
            Attempt::First => Tried::default(),
            Attempt::Unsent(tried) | Attempt::Sent(tried) => *tried,
        }
    }
}

/// The workers that an exchange has tried already, to be avoided where another can serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    workers: [Option<WorkerId>; Tried::MAX],
    /// How many workers had the request and died of it or reset it. The second death is final.
    pub deaths: u8,
    /// How many tries were charged (those after bytes were sent).
    pub charged: u8,
}

impl Tried {
    /// How many workers are remembered; the oldest is forgotten first.
    pub const MAX: usize = 4;

    /// Remember `worker`.
    pub fn insert(&mut self, worker: WorkerId) {
        if self.contains(worker) {
            return;
        }
        self.workers.rotate_right(1);
        self.workers[0] = Some(worker);
    }

    /// Was `worker` tried?
    pub fn contains(&self, worker: WorkerId) -> bool {
        self.workers.contains(&Some(worker))
    }

    /// Was no worker tried?
    pub fn is_empty(&self) -> bool {
        self.workers[0].is_none()
    }

    /// The workers tried, newest first.
    pub fn iter(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.workers.iter().flatten().copied()
    }
}

/// A permit that comes back, with what was learned of its worker.
#[derive(Debug)]
pub struct Returned {
    /// The permit.
    pub permit: Permit,
    /// How the work went, for limits and service times.
    pub outcome: Outcome,
    /// What the worker did wrong, if anything.
    pub fault: Option<Fault>,
    /// What became of the connection.
    pub connection: Fate,
}

/// How a permit came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The worker answered whole; its time counts as a service time.
    Success,
    /// The worker was too slow or refused.
    Overload,
    /// Says nothing about the worker's speed (the client left first, a stream, a broken answer).
    Ignore,
}

/// What a worker did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It refused the connection, or its socket is gone: out at once.
    Refused,
    /// It closed or reset the connection before its answer was whole: out until a probe succeeds.
    Reset,
    /// Its answer said that it cannot take more: out until a probe succeeds.
    Refusal,
    /// It answered with a 5xx: counts towards ejection, nothing else.
    Error,
    /// It did not answer in time: out until a probe succeeds or the supervisor says that this is a
    /// new process.
    Stuck,
}

/// What became of the connection on which an exchange ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is idle on the shard of the exchange and can serve again.
    Kept,
    /// It is closed and the worker has done with the exchange, or it was never opened.
    Closed,
    /// We closed it while the worker may be busy with the exchange, and nobody can hear any more
    /// when it ends: the slot stays taken until the worker says anything on a new connection, or
    /// its process has ended.
    Cut,
}

/// What a worker said to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What it should.
    Well,
    /// Something else: it is there, and has done with what it was busy with.
    Badly,
    /// Nothing.
    Nothing,
}

/// The end of a probe.
#[derive(Debug)]
pub struct Probed {
    /// Whom it asked.
    pub worker: WorkerId,
    /// What it said.
    pub heard: Heard,
    /// The permit that came with the probe, if one did; none also where the worker may be at it
    /// still, and [`Input::Late`] will bring it.
    pub permit: Option<Permit>,
}

/// The late end of a question whose probe had ended before. It says nothing of the question that
/// may be under way meanwhile.
#[derive(Debug)]
pub struct Late {
    /// The slot that the question took.
    pub permit: Permit,
    /// What the worker said. [`Heard::Nothing`]: it was waited for long enough, and the slot is
    /// stuck.
    pub heard: Heard,
}

/// What can happen to a worker as a member of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It exists; it gets exchanges once a probe succeeds (workers started by others).
    Join,
    /// It exists; it gets exchanges once [`Change::Ready`] comes (workers that we supervise).
    JoinSupervised,
    /// It can serve: the supervisor says so. Clears every fault and every stuck slot: this is a
    /// new process.
    Ready,
    /// Its process ended: out at once, whatever is in flight will come back by itself.
    Down,
    /// No new exchanges; running ones end. Taken back by `Ready`.
    Drain,
    /// It is no member any more. Forgotten when its last permit is back and its last connection
    /// closed.
    Leave,
}

/// What the gate wants done.
#[derive(Debug)]
pub enum Output {
    /// Give this exchange its permit.
    Grant(Grant),
    /// Tell this exchange that it is turned away.
    Shed(Shed),
    /// Tell this exchange that its first try goes on alone.
    Withheld(Withheld),
    /// Close one idle connection of `worker` on `shard`, one to an earlier process first, then say
    /// [`Input::Closed`]. Where none is left, its end was told already, and telling it once more is
    /// safe: at worst the gate knows of one connection too few until that one is used or closed.
    CloseIdle {
        /// Whose connection.
        worker: WorkerId,
        /// The shard that keeps it.
        shard: ShardId,
    },
    /// Ask `worker` whether it can serve, then say [`Input::Probed`].
    Probe(Probe),
    /// The worker's state changed; for the log and the dashboard.
    State {
        /// The worker.
        worker: WorkerId,
        /// Its new state.
        state: crate::pool::State,
    },
}

/// A permit with the worker it is for: one decision.
#[derive(Debug)]
pub struct Grant {
    /// The exchange.
    pub ticket: Ticket,
    /// Where it lives.
    pub shard: ShardId,
    /// The right to use one slot of `permit.worker()`.
    pub permit: Permit,
    /// Which connection to use.
    pub connection: Connection,
    /// How long the exchange waited in the queue.
    pub wait: Duration,
    /// The time after which a worker that has not begun to answer is slow for this kind of
    /// exchange, so that a second try is worth asking for ([`Input::Hedge`]); none: not known, or
    /// not wanted.
    pub hedge_after: Option<Duration>,
}

/// Which connection a grant may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// An idle one of this worker on the shard of the exchange (or, where it turns out to be gone
    /// or unfit, a new one in its place).
    Idle,
    /// An idle one of this worker that this other shard keeps, and hands over with the grant (or,
    /// where it turns out to be gone or unfit, a new one in its place).
    Moved(ShardId),
    /// A new one.
    New,
}

/// An exchange that is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// The exchange.
    pub ticket: Ticket,
    /// Where it lives.
    pub shard: ShardId,
    /// Why.
    pub reason: Reason,
    /// The time after which asking again could help; none where waiting does not help.
    pub retry_after: Option<Duration>,
}

/// Why a gate turns an exchange away. A closed set; each has its counter and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// `queue_len_max` exchanges wait already.
    QueueFull,
    /// It waited for `queue_wait_max`.
    QueueTimeout,
    /// It could not be answered in time any more: within `answer_within`, or before the moment that
    /// the client had said.
    DeadlineUnmeetable,
    /// More comes than can be served, and others were more important, or waited less in vain.
    Overload,
    /// It waited, and gave its place in a full queue to one that is more important, or whose tenant
    /// has fewer in it.
    Displaced,
    /// The pool has no worker that could serve, and had one before.
    NoWorker,
    /// No worker of the pool became ready within `start_hold_max`.
    StartHoldExpired,
    /// Two workers died of it, or its tries are used up.
    WorkerFailed,
    /// It could be tried again, but the retry budget is used up.
    RetryBudget,
    /// Spillgate is stopping.
    Draining,
}

/// A second try that is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The second try.
    pub ticket: Ticket,
    /// Where it lives.
    pub shard: ShardId,
    /// Why.
    pub reason: WithholdReason,
}

/// Why a second try is not granted. A closed set; each has its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WithholdReason {
    /// Somebody waits for a slot.
    Waiting,
    /// More comes than can be served.
    Overload,
    /// No other worker that is up has a slot left.
    NoSlot,
    /// Its answer is expected too late to be of use.
    Late,
    /// The retry budget, or the tries of the exchange, are used up.
    RetryBudget,
    /// Spillgate is stopping.
    Draining,
}

impl WithholdReason {
    /// May it be another in a moment, so that asking again is worth it?
    pub fn may_pass(self) -> bool {
        match self {
            WithholdReason::Waiting | WithholdReason::Overload | WithholdReason::NoSlot => true,
            WithholdReason::Late | WithholdReason::RetryBudget | WithholdReason::Draining => false,
        }
    }
}

/// A question to a worker.
#[derive(Debug)]
pub struct Probe {
    /// Whom to ask.
    pub worker: WorkerId,
    /// How to ask.
    pub kind: ProbeKind,
    /// The slot that the question takes, where it takes one; comes back with [`Input::Probed`].
    pub permit: Option<Permit>,
}

/// How a worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A connection that is accepted is answer enough.
    Connect,
    /// An HTTP request on a new connection must be answered: with 2xx or 3xx on the configured
    /// path, or with any status where no path is configured (`OPTIONS *`).
    Exchange,
}
