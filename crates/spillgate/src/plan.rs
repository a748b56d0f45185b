//! `spillgate plan`: what to set for the load of an access log.
//!
//! Reads the file and prints; what is said is `spillgate-sim`'s.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use spillgate_sim::{Question, Recorded};

use crate::cli::PlanArgs;

/// The seed of the prediction: any will do, so that two plans of one log are the same.
const SEED: u64 = 1;

/// Print the plan for a log.
///
/// Errors: the file cannot be read or understood, or says too little.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let name = args.log.display();
    let bytes = std::fs::read(&args.log).with_context(|| format!("cannot read {name}"))?;
    let log = Recorded::read(&bytes).with_context(|| name.to_string())?;
    let (slo, workers, service) = (args.slo, args.workers, args.service);
    let question = Question { slo, workers, service, seed: SEED };
    let plan = spillgate_sim::plan(&log, &question).with_context(|| name.to_string())?;
    // Whoever reads it may have seen enough: `spillgate plan … | head`.
    let _ = std::io::stdout().write_all(plan.as_bytes());
    Ok(ExitCode::SUCCESS)
}
