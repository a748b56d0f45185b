//! The binary: arguments, configuration, wiring.

mod check;
mod cli;
mod config;
#[cfg(test)]
mod golden;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Check(args) => check::run(&args.config),
        _ => ExitCode::FAILURE,
    }
}
