//! The binary: arguments, configuration, wiring.
//!
//! Each command is a module; this file only chooses one. Exit codes: 0 done, 1 an error that was
//! told, 2 a command line that is not understood.

mod admin;
mod check;
mod claim;
mod cli;
mod commands;
mod config;
mod counted;
mod ctl;
mod demo;
#[cfg(test)]
mod golden;
mod observe;
mod plan;
mod run;
mod serving;
mod simulate;
mod supervisor;
mod workers;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

/// Measured against the system's allocator: docs/decisions/0010-allocator.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Check(args) => check::run(&args.config),
        cli::Command::Serve(args) => serve(&args.config),
        cli::Command::Run(args) => {
            started(config::for_command(args, config::cores()).and_then(run::run))
        }
        cli::Command::Ctl(args) => started(ctl::run(args)),
        cli::Command::Demo(args) => started(demo::run(&args)),
        cli::Command::DemoWorker => started(demo::worker::run()),
        cli::Command::Sim(args) => started(simulate::run(&args)),
        cli::Command::Plan(args) => started(plan::run(&args)),
    }
}

fn serve(path: &std::path::Path) -> ExitCode {
    let outcome = config::load(path);
    outcome.problems.show();
    match outcome.config {
        Some(config) => started(run::run(config).with_context(|| path.display().to_string())),
        None => ExitCode::FAILURE,
    }
}

/// The exit code of a run; an error at start is told in one line.
fn started(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("spillgate: {error:#}");
        ExitCode::FAILURE
    })
}
