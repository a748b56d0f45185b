//! What came of a run, in numbers and as a table.
//!
//! A function of scenario and seed, to the byte: no wall time, no machine. Absent: judgement; tests
//! say what must hold of a summary.

use std::collections::BTreeMap;
use std::fmt;

use spillgate_core::gate::Reason;
use spillgate_core::time::Duration;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Exchanges that came.
    pub arrivals: u64,
    /// Those that were answered.
    pub served: u64,
    /// Those that were turned away, by reason.
    pub shed: BTreeMap<Reason, u64>,
    /// Those that were tried and did not work.
    pub failed: u64,
    /// Those whose client left first.
    pub abandoned: u64,
    /// Tries after the first.
    pub retries: u64,
    /// The most exchanges that were ever inside one worker.
    pub inside_max: u32,
    /// The most connections that a worker ever saw.
    pub open_max: u32,
    /// The longest queue.
    pub queue_len_max: u32,
    /// Answers by worker.
    pub served_by_worker: Vec<u64>,
    /// Times from arrival to answer, sorted.
    pub times: Vec<Duration>,
}

impl Summary {
    /// Exchanges that were turned away.
    pub fn shed_total(&self) -> u64 {
        self.shed.values().sum()
    }

    /// The time within which so many percent of the answers came; zero without answers.
    pub fn time(&self, percent: usize) -> Duration {
        let rank = (self.times.len() * percent).div_ceil(100).max(1);
        self.times.get(rank - 1).copied().unwrap_or_default()
    }

    /// The largest share of a worker, in percent of the mean; 0 without answers.
    pub fn largest_share_percent(&self) -> u64 {
        let most = self.served_by_worker.iter().max().copied().unwrap_or_default();
        let total: u64 = self.served_by_worker.iter().sum();
        (most * 100 * self.served_by_worker.len() as u64).checked_div(total).unwrap_or_default()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scenario             {} (seed {})", self.name, self.seed)?;
        writeln!(f, "arrivals             {}", self.arrivals)?;
        writeln!(f, "served               {}", self.served)?;
        writeln!(f, "shed                 {}", self.shed_total())?;
        for (reason, count) in &self.shed {
            writeln!(f, "  {:<18} {count}", format!("{reason:?}"))?;
        }
        writeln!(f, "failed               {}", self.failed)?;
        writeln!(f, "abandoned            {}", self.abandoned)?;
        writeln!(f, "retries              {}", self.retries)?;
        for percent in [50, 99, 100] {
            let micros = self.time(percent).as_micros();
            writeln!(f, "time p{percent:<14} {}.{:03} ms", micros / 1000, micros % 1000)?;
        }
        writeln!(f, "longest queue        {}", self.queue_len_max)?;
        writeln!(f, "most in a worker     {}", self.inside_max)?;
        writeln!(f, "most connections     {}", self.open_max)?;
        writeln!(f, "largest share        {} % of the mean", self.largest_share_percent())
    }
}
