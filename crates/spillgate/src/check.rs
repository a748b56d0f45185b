//! `spillgate check`: all problems of a configuration file.
//!
//! Absent: the checks (`config`), and anything that would touch the network: a file can be checked
//! while another Spillgate serves it.

use std::path::Path;
use std::process::ExitCode;

use crate::config;

/// Checks the file at `path` and prints what it finds. Fails when there is an error; warnings and
/// hints are shown only.
pub(crate) fn run(path: &Path) -> ExitCode {
    let outcome = config::load(path);
    outcome.problems.show();
    match outcome.config {
        None => ExitCode::FAILURE,
        Some(_) => {
            println!("{}: valid", path.display());
            ExitCode::SUCCESS
        }
    }
}
