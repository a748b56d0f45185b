//! The command line: what can be asked of Spillgate, and the help that says so.
//!
//! Only names, types and help texts; what a command does is in the module of its name.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use spillgate_runtime::http::settings::Endpoint;

use crate::config::{self, Role};

/// Stands in front of application workers and keeps answering when demand exceeds them.
///
/// Spillgate buffers requests, queues them until a worker has a free slot, sheds honestly what
/// cannot be answered in time, and can start and replace the workers itself.
#[derive(Debug, Parser)]
#[command(name = "spillgate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start workers of a command and serve in front of them, without a file
    ///
    /// Each worker finds PORT in its environment and must listen there, on 127.0.0.1. All requests
    /// go to the workers; the admin page is on 127.0.0.1:8999. Everything else has its default: see
    /// docs/config.md, and use `serve` to change it.
    Run(RunArgs),
    /// Serve what a configuration file says
    ///
    /// SIGTERM and SIGINT stop gracefully: running and waiting exchanges are finished first.
    /// SIGQUIT stops at once.
    Serve(FileArgs),
    /// Show all problems of a configuration file
    ///
    /// Each problem comes with line, column and what to write instead. Exits with 1 when there is
    /// an error; warnings and hints are only shown.
    Check(FileArgs),
    /// Send a command to a running Spillgate
    Ctl(CtlArgs),
    /// See overload being held: embedded workers, a crowd, the live page
    ///
    /// Goes through calm, a rush of three times what the workers can do, a killed worker, slow
    /// uploads, and a rolling restart; shows a live table and ends with what became of everybody.
    /// Exits with 1 when a request failed.
    Demo(DemoArgs),
    /// A worker of the demo
    #[command(hide = true)]
    DemoWorker,
    /// Run a scenario in the simulator, or a recorded trace again
    Sim(SimArgs),
    /// Say what to set for a recorded load, and what would come of it
    ///
    /// Reads an access log (Spillgate's own, common, combined, or JSON lines), and prints slots,
    /// queue and deadline for a pool, with the reasons, and what the real gate would do with them
    /// at half to ten times of what the workers can do.
    Plan(PlanArgs),
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// How many workers to start [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// Where to listen: HOST:PORT or unix:/PATH [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = parse_endpoint)]
    pub(crate) listen: Option<Endpoint>,
    /// Where the admin page is: HOST:PORT, unix:/PATH or off [default: 127.0.0.1:8999]
    #[arg(long, value_name = "ADDR", value_parser = parse_admin)]
    pub(crate) admin: Option<AdminAddress>,
    /// Unix socket for `spillgate ctl` [default: as of `ctl --socket`]
    #[arg(long, value_name = "PATH", value_parser = parse_socket)]
    pub(crate) control: Option<PathBuf>,
    /// The program that is the worker, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) worker: Vec<String>,
}

/// Arguments of `serve` and `check`.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The configuration file (TOML; each key is described in docs/config.md)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// Arguments of `ctl`.
#[derive(Debug, Args)]
pub(crate) struct CtlArgs {
    /// The command socket: `control` of `[admin]` [default: /run/spillgate.sock for root, else
    /// /tmp/spillgate-UID.sock]
    #[arg(long, value_name = "PATH", value_parser = parse_socket)]
    pub(crate) socket: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

/// Commands to a running Spillgate.
#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Show pools, queues and what each worker does
    Status {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Replace the workers of a pool one by one, without a failed request
    Restart {
        /// The pool
        #[arg(value_name = "POOL")]
        pool: String,
        /// Return only when the last worker was replaced
        #[arg(long)]
        wait: bool,
    },
    /// Stop gracefully, as after SIGTERM
    Drain,
    /// Stop at once, as after SIGQUIT
    Stop,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How long all phases together take
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(6..=3600))]
    pub(crate) seconds: u32,
    /// Use any free ports rather than 8080 and 8999
    #[arg(long)]
    pub(crate) free_ports: bool,
}

/// Arguments of `sim`.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// The scenario file
    #[arg(value_name = "SCENARIO", required_unless_present = "replay")]
    pub(crate) scenario: Option<PathBuf>,
    /// The number that the whole run is a function of
    #[arg(long, value_name = "N", conflicts_with = "replay")]
    pub(crate) seed: Option<u64>,
    /// Write the charts of the run to this file: one page, for any browser
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) html: Option<PathBuf>,
    /// Feed a recorded trace to a gate; its outputs must be the recorded ones
    #[arg(long, value_name = "TRACE", conflicts_with = "scenario")]
    pub(crate) replay: Option<PathBuf>,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The access log
    #[arg(value_name = "ACCESS_LOG")]
    pub(crate) log: PathBuf,
    /// Answers later than this are of no use
    #[arg(long, value_name = "TIME", value_parser = spillgate_sim::duration)]
    pub(crate) slo: std::time::Duration,
    /// How many workers there are [default: as many as the log names]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) workers: Option<u32>,
    /// The time that a request is in a worker [default: as the log says]
    #[arg(long, value_name = "TIME", value_parser = spillgate_sim::duration)]
    pub(crate) service: Option<std::time::Duration>,
}

/// Where the admin page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminAddress {
    /// Nowhere.
    Off,
    /// Here.
    At(Endpoint),
}

fn parse_admin(text: &str) -> Result<AdminAddress, String> {
    match text {
        "off" => Ok(AdminAddress::Off),
        _ => parse_endpoint(text).map(AdminAddress::At),
    }
}

fn parse_socket(text: &str) -> Result<PathBuf, String> {
    config::socket_file(text).map_err(|fault| fault.to_string())
}

fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    config::endpoint(text, Role::Listen).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_dashes_is_the_worker() {
        let words = ["spillgate", "run", "--workers", "4", "--", "node", "--inspect", "server.js"];
        let cli = Cli::try_parse_from(words).expect("valid");
        let Command::Run(args) = cli.command else { panic!("run was asked for") };
        assert_eq!(args.workers, Some(4));
        assert_eq!(args.worker, ["node", "--inspect", "server.js"]);
    }

    #[test]
    fn a_bad_address_says_what_to_write() {
        let words = ["spillgate", "run", "--listen", ":80", "--", "x"];
        let error = Cli::try_parse_from(words).expect_err("the host is missing").to_string();
        assert!(error.contains("write 0.0.0.0:80"), "{error}");
    }

    #[test]
    fn a_socket_that_cannot_be_is_refused() {
        let long = format!("/{}", "x".repeat(107));
        for words in [
            &["spillgate", "ctl", "--socket", &long, "status"][..],
            &["spillgate", "run", "--control", &long, "--", "x"],
        ] {
            let error = Cli::try_parse_from(words).expect_err("it is too long").to_string();
            assert!(error.contains("108 bytes long; the system takes 107 at most"), "{error}");
        }
    }

    #[test]
    fn the_simulator_takes_a_scenario_or_a_trace() {
        let parse = |words: &[&str]| Cli::try_parse_from(words).is_ok();
        assert!(parse(&["spillgate", "sim", "a.toml", "--seed", "3"]));
        assert!(parse(&["spillgate", "sim", "--replay", "a.trace"]));
        assert!(!parse(&["spillgate", "sim"]));
        assert!(!parse(&["spillgate", "sim", "a.toml", "--replay", "a.trace"]));
    }
}
