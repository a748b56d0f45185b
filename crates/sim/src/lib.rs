//! A simulated world on a virtual clock around the real decisions.
//!
//! Clients, shards, workers and databases are made up; the gate is the very one that the proxy
//! runs. A run is a function of its scenario and its seed: the same two give the same bytes. The
//! gate's invariants are checked after every step, and the world keeps books of its own.
//!
//! Absent on purpose: sockets, threads, clocks, and any copy of a decision. Never linked into the
//! serving path.

mod access_log;
mod agenda;
mod arrivals;
mod curve;
mod game;
mod plan;
mod replay;
mod report;
mod scenario;
mod station;
mod summary;
mod world;

pub use access_log::{LogError, Recorded, Request};
pub use game::{Fraction, Period, Played, periods};
pub use plan::{PlanError, Question, plan};
pub use replay::{ReplayError, replay};
pub use report::{page, table};
pub use scenario::{ReadFile, Scenario, ScenarioError, duration};
pub use summary::TenantSummary;
pub use summary::{GroupSummary, PathSummary, PhaseSummary, Point, PoolSummary, Series, Summary};
pub use world::{Run, Running, simulate};

impl Scenario {
    /// The game that this scenario is, played; none: it is none.
    pub fn play(&self) -> Option<Played> {
        self.game.as_ref().map(game::play)
    }

    /// All configurations with a seed; what came of each. None where it is a game.
    ///
    /// # Panics
    ///
    /// When something that must hold does not: an invariant of a gate, or the world's books.
    pub fn run(&self, seed: u64, progress: &mut dyn FnMut(usize, u32)) -> Vec<Summary> {
        if self.game.is_some() {
            return Vec::new();
        }
        let run = |configuration| {
            let mut progress = |thousandths| progress(configuration, thousandths);
            let progress = &mut progress;
            let running = Running { seed, configuration, traced: false, progress };
            simulate(self, running).summary
        };
        (0..self.configurations().len()).map(run).collect()
    }
}

/// What a scenario prints in a terminal: its table, or the periods of its game.
///
/// # Panics
///
/// As [`Scenario::run`].
pub fn report(scenario: &Scenario, seed: u64) -> String {
    match scenario.play() {
        Some(played) => periods(&scenario.name, &played),
        None => table(&scenario.run(seed, &mut |_, _| {})),
    }
}
