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

/// A pool: its workers, and how its gate is set; what is left out has the product's default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolKeys {
    pub(super) workers: Option<Workers>,
    admission: Option<Admission>,
    slots: Option<Count<1, 1_000_000>>,
    connections_max: Option<Count<1, 1_000_000>>,
    queue_len_max: Option<Count<0, 1_000_000>>,
    queue_wait_max: Option<Time>,
    answer_within: Option<Time>,
    order: Option<Order>,
    shedding: Option<Shedding>,
    start_hold_max: Option<Time>,
    retry_max: Option<Count<0, 10>>,
    eject_after: Option<Count<0, 1000>>,
    eject_time: Option<Time>,
    probe_exchange: Option<bool>,
    probe_interval: Option<Time>,
    probe_interval_up: Option<Time>,
    exchange_time_max: Option<Time>,
}

impl PoolKeys {
    /// These, and those of `base` where these say nothing.
    pub(super) fn over(&self, base: &PoolKeys) -> PoolKeys {
        PoolKeys {
            workers: self.workers.clone().or_else(|| base.workers.clone()),
            admission: self.admission.or(base.admission),
            slots: self.slots.or(base.slots),
            connections_max: self.connections_max.or(base.connections_max),
            queue_len_max: self.queue_len_max.or(base.queue_len_max),
            queue_wait_max: self.queue_wait_max.or(base.queue_wait_max),
            answer_within: self.answer_within.or(base.answer_within),
            order: self.order.or(base.order),
            shedding: self.shedding.or(base.shedding),
            start_hold_max: self.start_hold_max.or(base.start_hold_max),
            retry_max: self.retry_max.or(base.retry_max),
            eject_after: self.eject_after.or(base.eject_after),
            eject_time: self.eject_time.or(base.eject_time),
            probe_exchange: self.probe_exchange.or(base.probe_exchange),
            probe_interval: self.probe_interval.or(base.probe_interval),
            probe_interval_up: self.probe_interval_up.or(base.probe_interval_up),
            exchange_time_max: self.exchange_time_max.or(base.exchange_time_max),
        }
    }

    pub(super) fn admission(&self) -> Admission {
        self.admission.unwrap_or_default()
    }

    pub(super) fn exchange_time_max(&self) -> Duration {
        self.exchange_time_max.map_or(Duration::from_secs(60), |time| time.0)
    }

    pub(crate) fn settings(&self) -> gate::Settings {
        let slots = self.slots.map_or(1, |slots| slots.0);
        let connections = self.connections_max.map_or(slots, |connections| connections.0);
        let or = |time: Option<Time>, default: u64| {
            time.map_or(Duration::from_millis(default), |time| time.0)
        };
        gate::Settings {
            slots: Slots::new(slots).expect("slots begin at 1"),
            connections_max: Slots::new(connections).expect("connections begin at 1"),
            queue_len_max: self.queue_len_max.map_or(100, |length| length.0),
            queue_wait_max: or(self.queue_wait_max, 5000),
            answer_within: self.answer_within.map(|time| time.0),
            answer_quantile: Ratio::from_percent(90),
            order: self.order.unwrap_or_default().into(),
            shedding: self.shedding.unwrap_or_default().into(),
            start_hold_max: or(self.start_hold_max, 60_000),
            retry_max: self.retry_max.map_or(2, |retries| retries.0 as u8),
            retry_budget: Ratio::from_percent(20),
            retry_budget_min: 3,
            eject_after: self.eject_after.map_or(5, |failures| failures.0),
            eject_error_share: Ratio::from_percent(50),
            eject_time: or(self.eject_time, 10_000),
            eject_keep_min: Ratio::from_percent(50),
            probe_interval: or(self.probe_interval, 100),
            probe_exchange: self.probe_exchange.unwrap_or(false),
            probe_interval_up: self.probe_interval_up.map(|time| time.0),
            probe_fall: 3,
            stuck_time_max: self.exchange_time_max(),
        }
    }
}
