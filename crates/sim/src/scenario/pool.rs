//! How a pool admits: the keys of the configuration file, over each other, with their defaults.
//!
//! The defaults are those of the product (docs/config.md); a test of the binary would have to link
//! this crate to compare them, so they are repeated here once.

use serde::Deserialize;
use spillgate_core::gate;
use spillgate_core::time::Duration;
use spillgate_core::units::{Ratio, Slots};

use super::Workers;
use super::value::{Count, Time};

/// Who decides when an exchange goes to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Admission {
    /// Spillgate's own gate.
    #[default]
    Gate,
    /// Nobody: everything goes in at once, as in an asynchronous server without a limit.
    None,
    /// A fixed number of threads (`slots` of each worker), and a queue without an end before them
    /// in which nobody notices that a client has left.
    Threads,
}

/// In which order those who wait are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Fifo,
    Lifo,
    Priority,
    #[default]
    Adaptive,
}

impl From<Order> for gate::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::Fifo => gate::Order::Fifo,
            Order::Lifo => gate::Order::Lifo,
            Order::Priority => gate::Order::Priority,
            Order::Adaptive => gate::Order::Adaptive,
        }
    }
}

/// How exchanges are turned away early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shedding {
    #[default]
    Ratio,
    Codel,
    Off,
}

impl From<Shedding> for gate::Shedding {
    fn from(shedding: Shedding) -> Self {
        match shedding {
            Shedding::Ratio => gate::Shedding::Ratio,
            Shedding::Codel => gate::Shedding::Codel,
            Shedding::Off => gate::Shedding::Off,
        }
    }
}

/// Which worker an exchange gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Balance {
    Turns,
    LeastLoaded,
    First,
    Weighted,
    Hash,
}

impl From<Balance> for gate::Balance {
    fn from(balance: Balance) -> Self {
        match balance {
            Balance::Turns => gate::Balance::Turns,
            Balance::LeastLoaded => gate::Balance::LeastLoaded,
            Balance::First => gate::Balance::First,
            Balance::Weighted => gate::Balance::Weighted,
            Balance::Hash => gate::Balance::Hash,
        }
    }
}

/// How the limit of each worker is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Limit {
    #[default]
    Fixed,
    Gradient,
    Aimd,
}

impl From<Limit> for gate::Limit {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Fixed => gate::Limit::Fixed,
            Limit::Gradient => gate::Limit::Gradient,
            Limit::Aimd => gate::Limit::Aimd,
        }
    }
}

/// Which exchanges may have a second try beside a first that is slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hedging {
    Off,
    #[default]
    Safe,
    Idempotent,
    All,
}

/// A pool: its workers, and how its gate is set; what is left out has the product's default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolKeys {
    pub(super) workers: Option<Workers>,
    admission: Option<Admission>,
    slots: Option<Count<1, 1_000_000>>,
    limit: Option<Limit>,
    limit_min: Option<Count<1, 1_000_000>>,
    connections_max: Option<Count<1, 1_000_000>>,
    queue_len_max: Option<Count<0, 1_000_000>>,
    queue_wait_max: Option<Time>,
    answer_within: Option<Time>,
    answer_quantile: Option<Count<1, 100>>,
    order: Option<Order>,
    shedding: Option<Shedding>,
    balance: Option<Balance>,
    hash_excess_max: Option<Count<1, 100>>,
    ramp_time: Option<Time>,
    start_hold_max: Option<Time>,
    retry_max: Option<Count<0, 10>>,
    retry_budget: Option<Count<0, 100>>,
    retry_budget_min: Option<Count<0, 1000>>,
    retry_unavailable: Option<bool>,
    hedge: Option<Hedging>,
    eject_after: Option<Count<0, 1000>>,
    eject_error_share: Option<Count<0, 100>>,
    eject_time: Option<Time>,
    eject_keep_min: Option<Count<0, 100>>,
    probe_exchange: Option<bool>,
    probe_interval: Option<Time>,
    probe_interval_up: Option<Time>,
    probe_fall: Option<Count<1, 100>>,
    exchange_time_max: Option<Time>,
}

impl PoolKeys {
    /// These, and those of `base` where these say nothing.
    pub(super) fn over(&self, base: &PoolKeys) -> PoolKeys {
        PoolKeys {
            workers: self.workers.clone().or_else(|| base.workers.clone()),
            admission: self.admission.or(base.admission),
            slots: self.slots.or(base.slots),
            limit: self.limit.or(base.limit),
            limit_min: self.limit_min.or(base.limit_min),
            connections_max: self.connections_max.or(base.connections_max),
            queue_len_max: self.queue_len_max.or(base.queue_len_max),
            queue_wait_max: self.queue_wait_max.or(base.queue_wait_max),
            answer_within: self.answer_within.or(base.answer_within),
            answer_quantile: self.answer_quantile.or(base.answer_quantile),
            order: self.order.or(base.order),
            shedding: self.shedding.or(base.shedding),
            balance: self.balance.or(base.balance),
            hash_excess_max: self.hash_excess_max.or(base.hash_excess_max),
            ramp_time: self.ramp_time.or(base.ramp_time),
            start_hold_max: self.start_hold_max.or(base.start_hold_max),
            retry_max: self.retry_max.or(base.retry_max),
            retry_budget: self.retry_budget.or(base.retry_budget),
            retry_budget_min: self.retry_budget_min.or(base.retry_budget_min),
            retry_unavailable: self.retry_unavailable.or(base.retry_unavailable),
            hedge: self.hedge.or(base.hedge),
            eject_after: self.eject_after.or(base.eject_after),
            eject_error_share: self.eject_error_share.or(base.eject_error_share),
            eject_time: self.eject_time.or(base.eject_time),
            eject_keep_min: self.eject_keep_min.or(base.eject_keep_min),
            probe_exchange: self.probe_exchange.or(base.probe_exchange),
            probe_interval: self.probe_interval.or(base.probe_interval),
            probe_interval_up: self.probe_interval_up.or(base.probe_interval_up),
            probe_fall: self.probe_fall.or(base.probe_fall),
            exchange_time_max: self.exchange_time_max.or(base.exchange_time_max),
        }
    }

    pub(super) fn admission(&self) -> Admission {
        self.admission.unwrap_or_default()
    }

    pub(super) fn exchange_time_max(&self) -> Duration {
        self.exchange_time_max.map_or(Duration::from_secs(60), |time| time.0)
    }

    pub(super) fn retry_unavailable(&self) -> bool {
        self.retry_unavailable.unwrap_or(true)
    }

    pub(super) fn hedge(&self) -> Hedging {
        self.hedge.unwrap_or_default()
    }

    pub(crate) fn settings(&self) -> gate::Settings {
        let slots = self.slots.map_or(1, |slots| slots.0);
        let connections = self.connections_max.map_or(slots, |connections| connections.0);
        let or = |time: Option<Time>, default: u64| {
            time.map_or(Duration::from_millis(default), |time| time.0)
        };
        fn percent<const MIN: u32>(share: Option<Count<MIN, 100>>, default: u32) -> Ratio {
            Ratio::from_percent(share.map_or(default, |share| share.0))
        }
        gate::Settings {
            slots: Slots::new(slots).expect("slots begin at 1"),
            limit: self.limit.unwrap_or_default().into(),
            limit_min: self.limit_min.map_or(Slots::ONE, |min| Slots::new(min.0).expect("from 1")),
            connections_max: Slots::new(connections).expect("connections begin at 1"),
            queue_len_max: self.queue_len_max.map_or(100, |length| length.0),
            queue_wait_max: or(self.queue_wait_max, 5000),
            answer_within: self.answer_within.map(|time| time.0),
            answer_quantile: percent(self.answer_quantile, 90),
            order: self.order.unwrap_or_default().into(),
            shedding: self.shedding.unwrap_or_default().into(),
            balance: match self.balance {
                Some(balance) => balance.into(),
                None if slots > 1 => gate::Balance::LeastLoaded,
                None if self.ramp_time.is_some() => gate::Balance::Weighted,
                None => gate::Balance::Turns,
            },
            hash_excess_max: percent(self.hash_excess_max, 25),
            ramp_time: self.ramp_time.map(|time| time.0),
            start_hold_max: or(self.start_hold_max, 60_000),
            retry_max: self.retry_max.map_or(2, |retries| retries.0 as u8),
            retry_budget: percent(self.retry_budget, 20),
            retry_budget_min: self.retry_budget_min.map_or(10, |retries| retries.0),
            hedge: self.hedge() != Hedging::Off,
            eject_after: self.eject_after.map_or(5, |failures| failures.0),
            eject_error_share: percent(self.eject_error_share, 50),
            eject_time: or(self.eject_time, 10_000),
            eject_keep_min: percent(self.eject_keep_min, 50),
            probe_interval: or(self.probe_interval, 100),
            probe_exchange: self.probe_exchange.unwrap_or(false),
            probe_interval_up: self.probe_interval_up.map(|time| time.0),
            probe_fall: self.probe_fall.map_or(3, |probes| probes.0 as u8),
            stuck_time_max: self.exchange_time_max(),
        }
    }
}
