//! Feeds a recorded trace to a gate.
//!
//! The proof that the simulated world and the real one are one: the outputs must be those that were
//! recorded, byte for byte.

use std::collections::BTreeMap;
use std::fmt;

use spillgate_core::gate::trace::{ParseError, Trace, write_output};
use spillgate_core::gate::{Gate, Output, Permit};

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
/// When the trace cannot be read, or the outputs are not those that it holds.
pub fn replay(trace: &str) -> Result<String, ReplayError> {
    let trace = Trace::parse(trace)?;
    let mut gate = Gate::new(trace.settings.clone(), trace.began);
    let mut permits = BTreeMap::new();
    let mut outputs = String::new();
    for step in &trace.steps {
        match step.input(&mut permits)? {
            Some(input) => gate.handle(input, step.now),
            None => gate.handle_timeout(step.now),
        }
        gate.check_invariants();
        while let Some(output) = gate.poll_output() {
            write_output(&mut outputs, &output).expect("a string takes everything");
            permits.extend(permit(output).map(|permit| (permit.number(), permit)));
        }
    }
    compare(&trace.outputs, &outputs)?;
    Ok(outputs)
}

fn permit(output: Output) -> Option<Permit> {
    match output {
        Output::Grant(grant) => Some(grant.permit),
        Output::Probe(probe) => probe.permit,
        Output::Shed(_) | Output::CloseIdle { .. } | Output::State { .. } => None,
    }
}

fn compare(recorded: &str, replayed: &str) -> Result<(), ReplayError> {
    if recorded == replayed {
        return Ok(());
    }
    let mut lines = (recorded.lines(), replayed.lines());
    let mut output = 0;
    loop {
        output += 1;
        let (recorded, replayed) = (lines.0.next(), lines.1.next());
        if recorded != replayed {
            let text = |line: Option<&str>| line.unwrap_or_default().to_owned();
            let (recorded, replayed) = (text(recorded), text(replayed));
            return Err(ReplayError::Differs { output, recorded, replayed });
        }
    }
}
