//! What a gate can be told before it starts. Checked values: every combination here is valid.
//!
//! Absent: defaults and ranges (the table of the binary's configuration has them; they are repeated
//! here for readers only) and anything that a shell does by itself, such as time limits of
//! connects.

use crate::time::Duration;
use crate::units::{Ratio, Slots};

/// In which order those who wait are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By age alone, whatever the class.
    Fifo,
    /// By youth alone, whatever the class.
    Lifo,
    /// By class, then by age.
    Priority,
    /// By class, then by age; by youth while the line stands and many must go without. The default.
    Adaptive,
}

impl Order {
    /// Do more important classes come first?
    pub(crate) const fn is_by_class(self) -> bool {
        matches!(self, Order::Priority | Order::Adaptive)
    }
}

/// How exchanges are turned away early when not everybody can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shedding {
    /// A share of the arrivals, the least important first, and a shorter line. The default.
    Ratio,
    /// Those who waited for too long, while the line stands.
    Codel,
    /// Not: only limits and deadlines shed.
    Off,
}

/// How it is found out how many exchanges a worker can hold well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Not: `slots` is the limit. The default.
    Fixed,
    /// By how much longer exchanges take the more of them there are.
    Gradient,
    /// By those that are not answered in time, or turned away.
    Aimd,
}

/// Which worker an exchange gets, of those with a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One with a connection at hand, then the one with the fewest exchanges, in turn. The default
    /// for one slot.
    Turns,
    /// The one that would be done first, by its exchanges and what they take.
    LeastLoaded,
    /// The first.
    First,
    /// In turn, by weight.
    Weighted,
    /// The same for the same key, within a bound.
    Hash,
}

/// Settings of one pool's gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Exchanges that one worker may hold at once. Default 1.
    pub slots: Slots,
    /// How the limit of each worker is learned, up to `slots`. Default fixed.
    pub limit: Limit,
    /// The least that is learned; at most `slots`. Default 1.
    pub limit_min: Slots,
    /// Connections that one worker may ever see open from us, over all shards. Default `slots`.
    pub connections_max: Slots,
    /// Waiting exchanges; 0 means that nobody waits, yet a free slot still serves. Default 100.
    pub queue_len_max: u32,
    /// Longest time in the queue. Default 5 s.
    pub queue_wait_max: Duration,
    /// An answer later than this after the last request byte is useless. None: no such limit.
    pub answer_within: Option<Duration>,
    /// The quantile of the measured service times that `answer_within` reckons with. Default 90 %.
    pub answer_quantile: Ratio,
    /// In which order those who wait are served. Default adaptive.
    pub order: Order,
    /// Which worker an exchange gets. Default by turns with one slot, else the least loaded.
    pub balance: Balance,
    /// By how much more than the mean [`Balance::Hash`] may load a worker. Default 25 %, the excess
    /// that its authors measure with.
    pub hash_excess_max: Ratio,
    /// The time in which a worker that has come, or come back, gets its full share. None: at once,
    /// the default.
    pub ramp_time: Option<Duration>,
    /// How exchanges are turned away early. Default by ratio.
    pub shedding: Shedding,
    /// Takes the place of `queue_wait_max` until the first worker was ever ready. Default 60 s.
    pub start_hold_max: Duration,
    /// Tries after the first that one exchange may have once bytes were sent. Default 2.
    pub retry_max: u8,
    /// Retries as a share of recent first arrivals. Default 20 % (Envoy's retry budget).
    pub retry_budget: Ratio,
    /// Retries that are always allowed within the budget's window. Default 10: twice
    /// `eject_after`, so that finding out a broken worker costs nobody an answer.
    pub retry_budget_min: u32,
    /// Whether a second try may run beside a first that is slow for its kind; charged to the same
    /// budget. Default true: which methods may is for the shell to say.
    pub hedge: bool,
    /// Consecutive failures after which a worker is ejected. 0: never. Default 5.
    pub eject_after: u32,
    /// Share of failures among a worker's recent answers by which it is ejected, if the others fail
    /// less than half as often. 0: never. Default 50 %.
    pub eject_error_share: Ratio,
    /// How long the first ejection lasts; the n-th in a row lasts n times as long. Default 10 s.
    pub eject_time: Duration,
    /// Share of the pool's workers that ejection always leaves in. Default 50 %.
    pub eject_keep_min: Ratio,
    /// Time between two probes of a worker that is out. Default 100 ms.
    pub probe_interval: Duration,
    /// Whether probes are HTTP exchanges (a path is configured) rather than connects.
    pub probe_exchange: bool,
    /// Time between two probes of a worker that is in; none: workers that are in are not probed.
    pub probe_interval_up: Option<Duration>,
    /// Failed probes in a row that take out a worker that is in. Default 3.
    pub probe_fall: u8,
    /// How long a worker that is in may stay silent about a slot that was [`super::Fate::Cut`]
    /// before it is held to be stuck. Default: the pool's `exchange_time_max`, which bounds every
    /// other exchange as well.
    pub stuck_time_max: Duration,
}
