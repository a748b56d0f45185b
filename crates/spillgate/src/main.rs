//! The binary: arguments, configuration, wiring.

mod check;
mod cli;
mod config;
#[cfg(test)]
mod golden;
mod supervisor;
mod run;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Check(args) => check::run(&args.config),
        cli::Command::Serve(args) => serve(&args.config),
        _ => ExitCode::FAILURE,
    }
}

fn serve(path: &std::path::Path) -> ExitCode {
    let outcome = config::load(path);
    eprint!("{}", outcome.problems);
    let Some(config) = outcome.config else { return ExitCode::FAILURE };
    match run::serve(config) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("spillgate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
