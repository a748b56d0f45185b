//! Feeds a recorded trace to a gate.
//!
//! The proof that the simulated world and the real one are one: the outputs must be those that were
//! recorded, byte for byte.

use std::collections::BTreeMap;
use std::fmt;

use spillgate_core::gate::trace::{ParseError, Told, Trace, write_output};
use spillgate_core::gate::{Gate, Output, Permit};

/// Steps after each of which the gate is swept over, and one in how many of the later ones.
const SWEPT: u64 = 20_000;
const SWEPT_LATER: u64 = 256;

/// Why a trace cannot be replayed, or does not give what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// It cannot be read, or returns a permit that is not out.
    Trace(ParseError),
    /// The outputs are others than those recorded.
    Differs {
        /// The number of the first output that is another, from 1.
        output: usize,
        /// What was recorded; nothing where the record had ended.
        recorded: String,
        /// What the gate said; nothing where it said no more.
        replayed: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Trace(error) => write!(f, "{error}"),
            ReplayError::Differs { output, recorded, replayed } => {
                write!(f, "output {output} was '{recorded}' and is '{replayed}'")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<ParseError> for ReplayError {
    fn from(error: ParseError) -> Self {
        ReplayError::Trace(error)
    }
}

/// Feed the inputs of a trace to a gate; its outputs, one a line.
///
/// # Errors
///
/// When the trace cannot be read, or the outputs are not those that it holds: at the first that is
/// another.
pub fn replay(trace: &str) -> Result<String, ReplayError> {
    let trace = Trace::parse(trace)?;
    let mut gate = Gate::new(trace.settings.clone(), trace.began);
    let mut permits = BTreeMap::new();
    let mut recorded = Recorded { lines: trace.outputs.lines(), count: 0 };
    let mut outputs = String::new();
    let mut told = 0;
    for step in &trace.steps {
        match step.told(&mut permits)? {
            Told::Input(input) => gate.handle(input, step.now),
            Told::Timeout => gate.handle_timeout(step.now),
            Told::View => drop(gate.view(step.now)),
        }
        told += 1;
        if told <= SWEPT || told % SWEPT_LATER == 0 {
            gate.check_invariants();
        }
        while let Some(output) = gate.poll_output() {
            let begin = outputs.len();
            write_output(&mut outputs, &output).expect("a string takes everything");
            recorded.expect(Some(outputs[begin..].trim_end()))?;
            permits.extend(permit(output).map(|permit| (permit.number(), permit)));
        }
    }
    recorded.expect(None)?;
    Ok(outputs)
}

/// What was recorded, and is still to come.
struct Recorded<'t> {
    lines: std::str::Lines<'t>,
    count: usize,
}

impl Recorded<'_> {
    /// The gate said this, or says no more: so it must have been recorded.
    fn expect(&mut self, replayed: Option<&str>) -> Result<(), ReplayError> {
        self.count += 1;
        let recorded = self.lines.next();
        if recorded == replayed {
            return Ok(());
        }
        let text = |line: Option<&str>| line.unwrap_or_default().to_owned();
        let (recorded, replayed) = (text(recorded), text(replayed));
        Err(ReplayError::Differs { output: self.count, recorded, replayed })
    }
}

fn permit(output: Output) -> Option<Permit> {
    match output {
        Output::Grant(grant) => Some(grant.permit),
        Output::Probe(probe) => probe.permit,
        Output::Shed(_) | Output::Withheld(_) | Output::CloseIdle { .. } | Output::State { .. } => {
            None
        }
    }
}
