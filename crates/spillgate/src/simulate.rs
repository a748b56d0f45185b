//! `spillgate sim`: a scenario in the simulated world, or a recorded trace once more.
//!
//! Reads the file and prints; the world is `spillgate-sim`, and nothing of it is linked into the
//! path of a request.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use spillgate_sim::Scenario;

use crate::cli::SimArgs;

/// The seed of a run that names none: any will do, so that two such runs are the same.
const SEED_DEFAULT: u64 = 1;

/// Print the report of a scenario, or the outputs of a trace.
///
/// Errors: the file cannot be read or understood, or the outputs are not the recorded ones.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let printed = match (&args.replay, &args.scenario) {
        (Some(trace), _) => {
            let text = String::from_utf8(read(trace)?);
            let text = text.with_context(|| format!("{}: not text", trace.display()))?;
            spillgate_sim::replay(&text).with_context(|| format!("{}", trace.display()))?
        }
        (None, Some(scenario)) => show(scenario, args)?,
        (None, None) => anyhow::bail!("name a scenario file, or a trace with --replay"),
    };
    // Whoever reads it may have seen enough: `spillgate sim … | head`.
    let _ = std::io::stdout().write_all(printed.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn show(path: &Path, args: &SimArgs) -> anyhow::Result<String> {
    let text = String::from_utf8(read(path)?);
    let text = text.with_context(|| format!("{}: not text", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let scenario = Scenario::parse_with(&text, &mut |name| std::fs::read(folder.join(name)))
        .with_context(|| format!("{}", path.display()))?;
    let seed = args.seed.unwrap_or(SEED_DEFAULT);
    if let Some(played) = scenario.play() {
        anyhow::ensure!(args.html.is_none(), "a game has no charts: leave --html out");
        return Ok(spillgate_sim::periods(&scenario.name, &played));
    }
    let mut progress = Progress::new(scenario.configurations().len());
    let summaries = scenario.run(seed, &mut |run, thousandths| progress.tell(run, thousandths));
    progress.end();
    if let Some(file) = &args.html {
        std::fs::write(file, spillgate_sim::page(&summaries))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(spillgate_sim::table(&summaries))
}

/// How far a long run has come, in one line of the terminal; nothing where nobody looks on.
struct Progress {
    runs: usize,
    shown: Option<u32>,
    terminal: bool,
}

impl Progress {
    fn new(runs: usize) -> Progress {
        Progress { runs, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    fn tell(&mut self, run: usize, thousandths: u32) {
        let percent = (run as u32 * 1000 + thousandths) / (self.runs as u32 * 10);
        if self.terminal && self.shown != Some(percent) {
            self.shown = Some(percent);
            let _ = write!(std::io::stderr(), "\r{percent:>3} % of the time is over");
        }
    }

    fn end(&self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:26}\r", "");
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
