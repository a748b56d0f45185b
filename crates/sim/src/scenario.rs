//! The scenario file: what clients, workers and faults do.
//!
//! Everything is given a unit or a bounded number; unknown keys are errors. The gate's settings
//! have the product's defaults.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer, de};
use spillgate_core::gate;
use spillgate_core::time::{Duration, Instant};
use spillgate_core::units::{Ratio, Slots};

/// A story: load, workers and faults.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the report calls it.
    pub name: String,
    /// Shards over which the exchanges are spread. Range 1 to 64.
    pub shards: u16,
    /// How long clients come; after that everything is let finish.
    pub time: Time,
    /// Longest time that a worker may take for an exchange. Default 60 s.
    #[serde(default = "Time::minute")]
    pub exchange_time_max: Time,
    /// Who comes.
    pub clients: Clients,
    /// Who serves.
    pub workers: Workers,
    /// How the gate is set.
    #[serde(default)]
    pub pool: Pool,
    /// What goes wrong, and crowds.
    #[serde(default)]
    pub event: Vec<Event>,
}

/// Who comes. Open loop: nobody waits for the answer of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Arrivals a second, at random. Range 1 to 5,000.
    pub rate: u32,
    /// How long a client waits for its answer; none: for ever.
    pub patience: Option<Time>,
    /// Percent of exchanges that must not be repeated once they were sent. Default 0.
    #[serde(default)]
    pub unsafe_percent: u32,
}

/// Who serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    /// How many. Range 1 to 1,000.
    pub count: u32,
    /// The time that an exchange takes in a worker.
    pub service: Time,
    /// Percent by which that time varies to both sides, evenly. Default 0, range 0 to 100.
    #[serde(default)]
    pub spread_percent: u32,
    /// Started by a supervisor, which says when a worker is ready and when it ended.
    #[serde(default)]
    pub supervised: bool,
    /// The time from the start of a process until it serves. Default 1 s.
    #[serde(default = "Time::second")]
    pub boot: Time,
}

/// How the gate is set; what is left out has the product's default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    slots: Option<u32>,
    connections_max: Option<u32>,
    queue_len_max: Option<u32>,
    queue_wait_max: Option<Time>,
    answer_within: Option<Time>,
    probe_exchange: Option<bool>,
    probe_interval_up: Option<Time>,
}

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what", deny_unknown_fields)]
pub enum Event {
    /// Clients come at once.
    Crowd {
        /// When.
        at: Time,
        /// How many. Range 1 to 10,000.
        clients: u32,
    },
    /// The worker's process ends; another takes its place after the boot time.
    Crash {
        /// When.
        at: Time,
        /// Which worker, from 0.
        worker: u32,
    },
    /// The worker accepts and does not answer, until the time is over or it is killed.
    Hang {
        /// When.
        at: Time,
        /// Which worker, from 0.
        worker: u32,
        /// For how long.
        lasts: Time,
    },
    /// The worker answers every exchange that it cannot take more.
    Refuse {
        /// When.
        at: Time,
        /// Which worker, from 0.
        worker: u32,
        /// For how long.
        lasts: Time,
    },
}

impl Event {
    /// When it happens.
    pub fn at(&self) -> Instant {
        let (Event::Crowd { at, .. }
        | Event::Crash { at, .. }
        | Event::Hang { at, .. }
        | Event::Refuse { at, .. }) = self;
        at.after_start()
    }
}

/// A duration with its unit: `"250ms"`, `"2s"`. At most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl Time {
    fn second() -> Time {
        Time(Duration::from_secs(1))
    }

    fn minute() -> Time {
        Time(Duration::from_secs(60))
    }

    /// The moment this long after the beginning.
    pub fn after_start(self) -> Instant {
        Instant::ZERO + self.0
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let (number, unit) = (digits.parse::<u64>().ok(), &text[digits.len()..]);
        let micros = match unit {
            "us" => Some(1),
            "ms" => Some(1000),
            "s" => Some(1_000_000),
            _ => None,
        };
        let micros = number.zip(micros).and_then(|(number, unit)| number.checked_mul(unit));
        let time = micros.filter(|micros| *micros <= 86_400_000_000).map(Duration::from_micros);
        let wrong = || de::Error::custom(format!("'{text}' is not a time such as \"250ms\""));
        time.map(Time).ok_or_else(wrong)
    }
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug)]
pub enum ScenarioError {
    /// It is not TOML, or not of this shape.
    Shape(toml::de::Error),
    /// A number is out of its range.
    Range(&'static str),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioError::Shape(error) => write!(f, "{error}"),
            ScenarioError::Range(key) => write!(f, "'{key}' is out of its range"),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Read a scenario.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(ScenarioError::Shape)?;
        let within = |key, value, range: RangeInclusive<u32>| match range.contains(&value) {
            true => Ok(()),
            false => Err(ScenarioError::Range(key)),
        };
        within("shards", scenario.shards.into(), 1..=64)?;
        within("clients.rate", scenario.clients.rate, 1..=5000)?;
        within("clients.unsafe_percent", scenario.clients.unsafe_percent, 0..=100)?;
        within("workers.count", scenario.workers.count, 1..=1000)?;
        within("workers.spread_percent", scenario.workers.spread_percent, 0..=100)?;
        for event in &scenario.event {
            match *event {
                Event::Crowd { clients, .. } => within("event.clients", clients, 1..=10_000)?,
                Event::Crash { worker, .. }
                | Event::Hang { worker, .. }
                | Event::Refuse { worker, .. } => {
                    within("event.worker", worker, 0..=scenario.workers.count - 1)?;
                }
            }
        }
        scenario.pool.settings()?;
        Ok(scenario)
    }

    /// How the gate is set.
    pub fn settings(&self) -> gate::Settings {
        self.pool.settings().expect("the settings were checked when the scenario was read")
    }
}

impl Pool {
    fn settings(&self) -> Result<gate::Settings, ScenarioError> {
        let slots =
            Slots::new(self.slots.unwrap_or(1)).ok_or(ScenarioError::Range("pool.slots"))?;
        let connections = Slots::new(self.connections_max.unwrap_or(slots.count()));
        let or = |time: Option<Time>, default: u64| {
            time.map_or(Duration::from_millis(default), |time| time.0)
        };
        Ok(gate::Settings {
            slots,
            connections_max: connections.ok_or(ScenarioError::Range("pool.connections_max"))?,
            queue_len_max: self.queue_len_max.unwrap_or(100),
            queue_wait_max: or(self.queue_wait_max, 5000),
            answer_within: self.answer_within.map(|time| time.0),
            answer_quantile: Ratio::from_percent(90),
            start_hold_max: Duration::from_secs(60),
            retry_max: 2,
            retry_budget: Ratio::from_percent(20),
            retry_budget_min: 3,
            eject_after: 5,
            eject_time: Duration::from_secs(10),
            eject_keep_min: Ratio::from_percent(50),
            probe_interval: Duration::from_millis(100),
            probe_exchange: self.probe_exchange.unwrap_or(false),
            probe_interval_up: self.probe_interval_up.map(|time| time.0),
            probe_fall: 3,
            stuck_time_max: Duration::from_secs(60),
        })
    }
}
