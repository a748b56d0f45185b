//! `spillgate sim`: a scenario in the simulated world, or a recorded trace once more.
//!
//! Reads the file and prints; the world is `spillgate-sim`, and nothing of it is linked into the
//! path of a request.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::SimArgs;

/// The seed of a run that names none: any will do, so that two such runs are the same.
const SEED_DEFAULT: u64 = 1;

/// Print the report of a scenario, or the outputs of a trace.
///
/// Errors: the file cannot be read or understood, or the outputs are not the recorded ones.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let printed = match (&args.replay, &args.scenario) {
        (Some(trace), _) => {
            spillgate_sim::replay(&read(trace)?).with_context(|| format!("{}", trace.display()))?
        }
        (None, Some(scenario)) => {
            spillgate_sim::run(&read(scenario)?, args.seed.unwrap_or(SEED_DEFAULT))
                .with_context(|| format!("{}", scenario.display()))?
        }
        (None, None) => anyhow::bail!("name a scenario file, or a trace with --replay"),
    };
    // Whoever reads it may have seen enough: `spillgate sim … | head`.
    let _ = std::io::stdout().write_all(printed.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
