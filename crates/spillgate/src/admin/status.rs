//! The picture that `/status`, the page and `spillgate ctl status` show.
//!
//! Plain data with the words of the glossary; units are in the names because JSON has no types.
//! Absent: how it is made from the views of gates, supervisors and shards (`status/build.rs`), and
//! how those are asked for (`observe.rs`).

mod build;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use build::{PoolParts, budget, ends, pool_from_view, state_word};

/// Everything that is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Of Spillgate.
    pub(crate) version: String,
    /// Seconds since the start of the process.
    pub(crate) uptime_s: f64,
    /// Where clients connect.
    pub(crate) listeners: Vec<ListenerStatus>,
    /// Our event loops.
    pub(crate) shards: Vec<ShardStatus>,
    /// Bytes of bodies, in memory and on disk.
    pub(crate) budget: BudgetStatus,
    /// The pools, in the order of the file.
    pub(crate) pools: Vec<PoolStatus>,
    /// Exchanges that belong to no pool: refused before their route was known, or fixed replies.
    pub(crate) poolless: EndStatus,
}

impl Status {
    /// The picture as `/status` sends it; none when it is something else.
    pub(crate) fn from_json(json: &[u8]) -> Option<Status> {
        serde_json::from_slice(json).ok()
    }
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListenerStatus {
    /// Its name in the file.
    pub(crate) name: String,
    /// Where it listens.
    pub(crate) address: String,
    /// Client connections open.
    pub(crate) connections: u64,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShardStatus {
    /// Its number.
    pub(crate) id: u16,
    /// Client connections open.
    pub(crate) connections: u64,
}

/// The byte budget. Bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BudgetStatus {
    /// Granted, in memory.
    pub(crate) memory_used: u64,
    /// The most that may be.
    pub(crate) memory_max: u64,
    /// In spill files.
    pub(crate) spill_used: u64,
    /// The most that may be; 0: nothing spills.
    pub(crate) spill_max: u64,
    /// Held by the kernel for clients that read slowly.
    pub(crate) sockets: u64,
    /// Bodies that wait for bytes.
    pub(crate) waiting: u64,
}

/// How exchanges ended, since the start. Maps from the word for why to how many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndStatus {
    /// Exchanges that came: the sum of everything below.
    pub(crate) arrivals: u64,
    /// Not ended yet.
    pub(crate) in_progress: u64,
    /// Answered, by status class.
    pub(crate) successes: BTreeMap<String, u64>,
    /// Turned away because of load, by reason.
    pub(crate) shed: BTreeMap<String, u64>,
    /// Turned away by a rule, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
    /// Tried in vain, by reason.
    pub(crate) failed: BTreeMap<String, u64>,
    /// The client left first, by stage.
    pub(crate) abandoned: BTreeMap<String, u64>,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PoolStatus {
    /// Its name.
    pub(crate) name: String,
    /// Exchanges that wait.
    pub(crate) queue_len: u32,
    /// The most that may.
    pub(crate) queue_len_max: u32,
    /// Those that wait, by class; classes of which nobody waits are left out.
    #[serde(default)]
    pub(crate) waiting_by_class: BTreeMap<String, u32>,
    /// The share of the arrivals that is too much, 0 to 1.
    #[serde(default)]
    pub(crate) shed_ratio: f64,
    /// Are the youngest served first?
    #[serde(default)]
    pub(crate) youngest_first: bool,
    /// Slots of the workers that get exchanges.
    pub(crate) slots: u32,
    /// Permits that are out, stuck slots included.
    pub(crate) in_flight: u32,
    /// Time in the queue, of recent grants.
    pub(crate) wait: QuantileStatus,
    /// Service time, of recent successes.
    pub(crate) service: QuantileStatus,
    /// Tries after the first, charged ones.
    pub(crate) retries: u64,
    /// How its exchanges ended.
    #[serde(flatten)]
    pub(crate) ends: EndStatus,
    /// The exchanges that have waited longest, oldest first; at most five.
    pub(crate) waiting: Vec<DoingStatus>,
    /// The rolling restart that runs.
    pub(crate) restart: Option<RestartStatus>,
    /// Its workers, by id.
    pub(crate) workers: Vec<WorkerStatus>,
}

/// Three quantiles, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuantileStatus {
    /// Half are at or below it.
    pub(crate) p50_ms: f64,
    /// Nine in ten are.
    pub(crate) p90_ms: f64,
    /// Ninety-nine in a hundred are.
    pub(crate) p99_ms: f64,
    /// From how many samples; 0: the others mean nothing.
    pub(crate) samples: u64,
}

/// A rolling restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RestartStatus {
    /// The worker whose turn it is.
    pub(crate) worker: u32,
    /// Workers that are done.
    pub(crate) done: u32,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerStatus {
    /// Its number in the pool.
    pub(crate) id: u32,
    /// Where it is reached.
    pub(crate) endpoint: String,
    /// Whether it gets exchanges: `up`, or why not.
    pub(crate) state: String,
    /// For how long, in seconds.
    pub(crate) state_for_s: f64,
    /// What each of those says who have a say in the state, which is the worst of them.
    pub(crate) signs: SignStatus,
    /// Its agent; none: it has none.
    pub(crate) agent: Option<AgentStatus>,
    /// Exchanges in it, stuck ones included.
    pub(crate) in_flight: u32,
    /// How many it may hold now: the least of the next three, and what its ramp leaves of that.
    pub(crate) slots: u32,
    /// How many it may ever hold, by configuration.
    #[serde(default)]
    pub(crate) slots_max: u32,
    /// How many of those it and its agent want.
    #[serde(default)]
    pub(crate) granted: u32,
    /// How many it can hold well, by what was learned; none: its limit is fixed.
    #[serde(default)]
    pub(crate) learned: Option<u32>,
    /// Its weight in the file.
    #[serde(default)]
    pub(crate) weight: u32,
    /// What its agent and its ramp leave of that, in percent.
    #[serde(default)]
    pub(crate) weight_percent: u32,
    /// What an exchange takes it, for `least_loaded`; none: not measured.
    #[serde(default)]
    pub(crate) pace_ms: Option<f64>,
    /// Slots held by exchanges that were given up while it may still be busy.
    pub(crate) stuck: u32,
    /// Connections open to it.
    pub(crate) connections: u32,
    /// Permits granted so far.
    pub(crate) grants: u64,
    /// Failures in a row.
    pub(crate) failures_in_row: u32,
    /// What its process does; none: it is not ours.
    pub(crate) process: Option<String>,
    /// Its process id, if it runs and is ours.
    pub(crate) pid: Option<u32>,
    /// Ends of its processes that nobody had asked for; none: they are not ours.
    pub(crate) restarts: Option<u32>,
    /// How its last process ended, in words; none: nobody had to be told yet.
    #[serde(default)]
    pub(crate) last_end: Option<String>,
    /// Resident memory of that process, in bytes.
    pub(crate) memory: Option<u64>,
    /// Its exchanges.
    pub(crate) doing: Vec<DoingStatus>,
}

/// What each of those says who have a say in a worker's state: the state that it alone would give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SignStatus {
    /// Questions that we ask.
    pub(crate) probe: String,
    /// What exchanges met.
    pub(crate) passive: String,
    /// The supervisor's or an operator's word.
    pub(crate) admin: String,
    /// What its agent said.
    pub(crate) agent: String,
}

/// The agent beside a worker, and what it said that holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentStatus {
    /// Where it is asked.
    pub(crate) endpoint: String,
    /// What came of the last question: `heard`, `unknown_word`, `incomplete` or `silent`; empty:
    /// there was none yet.
    pub(crate) outcome: String,
    /// Seconds since it last said a line; none: never.
    pub(crate) heard_s_ago: Option<f64>,
    /// `ready`, `drain` or `maint`.
    pub(crate) admin: String,
    /// The weight of the worker, in percent of the configured one.
    pub(crate) weight_percent: u32,
    /// The most exchanges that it wants at once; 0: as many as are configured.
    pub(crate) maxconn: u32,
    /// The last word of health, with its description; empty: none was said.
    pub(crate) health: String,
    /// A word of its last line that is not known; empty: all are.
    pub(crate) unknown: String,
}

/// One running exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DoingStatus {
    /// Its number on its shard.
    pub(crate) id: u64,
    /// Of the request.
    pub(crate) method: String,
    /// Of the request, with its query; cut.
    pub(crate) path: String,
    /// Its stage.
    pub(crate) stage: String,
    /// For how long it is in that stage.
    pub(crate) for_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_can_be_read_back() {
        let text = serde_json::to_string(&EndStatus::default()).expect("it can be written");
        let back: EndStatus = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(back, EndStatus::default());
    }
}
