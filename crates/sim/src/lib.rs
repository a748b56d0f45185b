//! A simulated world on a virtual clock around the real decisions.
//!
//! Clients, shards and workers are made up; the gate is the very one that the proxy runs. A run is
//! a function of its scenario and its seed: the same two give the same bytes. The gate's invariants
//! are checked after every step, and the world keeps books of its own.
//!
//! Absent on purpose: sockets, threads, clocks, and any copy of a decision. Never linked into the
//! serving path.

mod replay;
mod report;
mod scenario;
mod shell;
mod worker;
mod world;

pub use replay::{ReplayError, replay};
pub use report::Summary;
pub use scenario::{Scenario, ScenarioError};
pub use world::{Run, simulate};

/// Run a scenario, given as TOML, with a seed; the report.
///
/// # Errors
///
/// When the scenario cannot be read, with the place and the reason.
///
/// # Panics
///
/// When something that must hold does not: an invariant of the gate, or the world's books.
pub fn run(scenario: &str, seed: u64) -> Result<String, ScenarioError> {
    let scenario = Scenario::parse(scenario)?;
    Ok(simulate(&scenario, seed).summary.to_string())
}
