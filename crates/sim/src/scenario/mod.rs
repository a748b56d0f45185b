//! The scenario file: what clients, workers and faults do.
//!
//! Everything has a unit or a range; unknown keys are errors. Every mistake is told with its line
//! and column. Pools are set by the keys of the product's own configuration file, with its
//! defaults; a `configuration` names what is different in it, so that several can be seen side by
//! side under one load.

mod check;
mod clients;
mod pool;
mod says;
mod value;

use std::collections::BTreeMap;

use serde::Deserialize;
use spillgate_core::gate;
use spillgate_core::time::Duration;
use toml::Spanned;

use crate::access_log::Recorded;
use crate::curve::Curve;

pub use check::{ReadFile, ScenarioError};
pub(crate) use clients::{Arrivals, Clients, Takes};
pub(crate) use pool::{Admission, Hedging, PoolKeys};
pub(crate) use says::Says;
pub use value::duration;
pub(crate) use value::{Count, Time};

/// A story: load, workers and faults.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the report calls it.
    pub name: String,
    /// How long clients come; after that everything is let finish.
    pub(crate) time: Time,
    /// Shards over which the exchanges are spread. Default 1.
    #[serde(default = "value::one")]
    pub(crate) shards: Count<1, 64>,
    /// The world moves in steps of this length, as a calculation by hand does. Default: it does
    /// not, every moment is what it is.
    pub(crate) step: Option<Time>,
    /// Time that a message takes from one thread to another. Default 50 µs; with `step` none.
    pub(crate) mail: Option<Time>,
    /// Who comes.
    #[serde(default)]
    pub(crate) clients: Vec<Clients>,
    /// Who serves.
    #[serde(default)]
    pub(crate) pool: BTreeMap<String, PoolKeys>,
    /// What workers share.
    #[serde(default)]
    pub(crate) database: BTreeMap<String, Database>,
    /// What goes wrong, and crowds.
    #[serde(default)]
    pub(crate) event: Vec<Event>,
    /// What is tried side by side; none: the pools as they are.
    #[serde(default)]
    pub(crate) configuration: Vec<Configuration>,
    /// A game with pencil and paper, which takes the place of everything else.
    pub(crate) game: Option<Game>,
}

/// Who serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workers {
    /// How many.
    pub(crate) count: Count<1, 1000>,
    /// The time that an exchange takes in a worker that has room for it.
    #[serde(default)]
    pub(crate) service: Time,
    /// Percent by which that time varies to both sides, evenly. Default 0.
    #[serde(default)]
    pub(crate) spread_percent: Count<0, 100>,
    /// The time is random, with that mean (an exponential distribution). Default false.
    #[serde(default)]
    pub(crate) exponential: bool,
    /// Percent of exchanges that take `slow_service`. Default 0.
    #[serde(default)]
    pub(crate) slow_percent: Count<0, 100>,
    /// What those take.
    #[serde(default)]
    pub(crate) slow_service: Time,
    /// Exchanges that one worker does at full speed; with more each is slower in proportion.
    /// Default: any number.
    pub(crate) capacity: Option<Count<1, 1_000_000>>,
    /// After its own work an exchange goes to this database.
    database: Option<Spanned<String>>,
    /// How long it is there if the database has room.
    #[serde(default)]
    pub(crate) database_time: Time,
    /// Percent of answers that are a 500, after the work. Default 0.
    #[serde(default)]
    pub(crate) error_percent: Count<0, 100>,
    /// Started by a supervisor, which says when a worker is ready and when it ended.
    #[serde(default)]
    pub(crate) supervised: bool,
    /// The time from the start of a process until it serves. Default 1 s.
    #[serde(default = "value::second")]
    pub(crate) boot: Time,
}

/// What workers of one or more pools share.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Database {
    /// Queries at full speed; with more each is slower in proportion.
    pub(crate) capacity: Count<1, 1_000_000>,
}

/// Something that happens at a moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    /// When.
    pub(crate) at: Time,
    /// What.
    pub(crate) what: What,
    /// In which pool. Default: the only one.
    pool: Option<Spanned<String>>,
    /// To which worker, from 0.
    worker: Option<Spanned<u32>>,
    /// For how long.
    pub(crate) lasts: Option<Time>,
    /// How many clients.
    pub(crate) clients: Option<Count<1, 1_000_000>>,
    /// How many times as slow.
    pub(crate) factor: Option<Count<2, 1000>>,
    /// What the worker's agent says.
    pub(crate) says: Option<Says>,
    /// The status of an error. Default 500.
    pub(crate) status: Option<Count<500, 599>>,
    /// How many of the answers are errors (default all), or how busy a worker says that it is.
    pub(crate) percent: Option<Count<0, 1000>>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// Clients come at once, of the first group of the pool.
    Crowd,
    /// A worker's process ends; another takes its place after the boot time.
    Crash,
    /// A worker accepts and does not answer, until the time is over or it is killed.
    Hang,
    /// A worker answers every exchange that it cannot take more.
    Refuse,
    /// A worker is slower by `factor`.
    Slow,
    /// All workers of the pool stand still, as in a long garbage collection.
    Pause,
    /// The agent of a worker speaks.
    Report,
    /// A worker answers with `status`, at once.
    Error,
    /// A worker says with an answer how busy it is.
    Load,
}

/// What is different in one of several runs side by side.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    pub(crate) name: String,
    #[serde(default)]
    pool: BTreeMap<Spanned<String>, PoolKeys>,
}

/// Tasks, processors and periods; see [`crate::game`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Game {
    /// Processors.
    pub(crate) cpus: Count<1, 16>,
    /// Units of work of a task.
    pub(crate) work: Count<1, 16>,
    /// Periods that are played.
    pub(crate) periods: Count<1, 100>,
    /// Tasks that are let in; none: all.
    pub(crate) inside: Option<Count<1, 16>>,
    /// Tasks that may wait outside.
    #[serde(default)]
    pub(crate) outside: Count<0, 16>,
}

/// A scenario with one of its configurations applied: what a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The configuration's name; empty where there is only one.
    pub(crate) name: String,
    pub(crate) time: Duration,
    pub(crate) shards: u16,
    pub(crate) step: Option<Duration>,
    pub(crate) mail: Duration,
    pub(crate) groups: Vec<Group>,
    pub(crate) pools: Vec<PoolSetup>,
    pub(crate) databases: Vec<(String, u32)>,
    pub(crate) events: Vec<Befalling>,
    /// All of them, in the order of the groups.
    pub(crate) tenants: Vec<String>,
    /// The moments at which the load steps, with the beginning; none: it has no steps.
    pub(crate) phases: Vec<Duration>,
}

/// A group of clients, with places in place of names.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) clients: Clients,
    pub(crate) pool: usize,
    pub(crate) load: Load,
    /// Answers after this are late.
    pub(crate) slo: Option<Duration>,
    /// The number of its first tenant; the others follow.
    pub(crate) first_tenant: u64,
}

/// When the clients of a group come.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// As a curve says.
    Curve(Curve),
    /// As it was once, so many times as fast; with or without the times that work took.
    Recorded { log: Recorded, speed: f64, service: bool },
}

/// A pool, with everything filled in.
#[derive(Clone, Debug)]
pub(crate) struct PoolSetup {
    pub(crate) name: String,
    pub(crate) workers: Workers,
    pub(crate) database: Option<usize>,
    pub(crate) admission: Admission,
    pub(crate) settings: gate::Settings,
    pub(crate) exchange_time_max: Duration,
    pub(crate) retry_unavailable: bool,
    pub(crate) hedge: Hedging,
}

/// An event, with places in place of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Befalling {
    pub(crate) at: Duration,
    pub(crate) what: What,
    pub(crate) pool: usize,
    pub(crate) worker: u32,
    pub(crate) lasts: Duration,
    pub(crate) clients: u32,
    pub(crate) factor: u32,
    pub(crate) says: Says,
    pub(crate) status: u16,
    pub(crate) percent: u32,
}

impl Workers {
    /// What an exchange takes that is of no path; `slow`: one of the slow ones.
    pub(crate) fn takes(&self, slow: bool) -> Takes {
        let service = if slow { self.slow_service.0 } else { self.service.0 };
        let (spread_percent, exponential) = (self.spread_percent.0, self.exponential);
        Takes { service, spread_percent, exponential }
    }
}

impl Scenario {
    /// The names of what is tried side by side; one that is empty where there is only one.
    pub fn configurations(&self) -> Vec<&str> {
        match self.configuration.is_empty() {
            true => vec![""],
            false => self.configuration.iter().map(|one| one.name.as_str()).collect(),
        }
    }

    /// How the gates are set, by pool, in the first configuration; none where it is a game.
    pub fn settings(&self) -> Vec<gate::Settings> {
        self.setup(0).pools.into_iter().map(|pool| pool.settings).collect()
    }
}
