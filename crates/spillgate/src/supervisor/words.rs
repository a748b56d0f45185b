//! What the log says of a supervisor's events.
//!
//! One line for each event, with pool, worker and run first, so that one worker can be followed
//! with `grep`. Absent: levels and limits of the log itself (`runtime/events`).

use std::fmt::{self, Display};

use spillgate_core::supervise::{Event, Exit, ProcessId, RestartError, StallReason};
use spillgate_runtime::events::{info, warn};

const AREA: &str = "supervisor";

/// A process in the log: pool, worker, and the how-manieth of that worker it is.
pub(super) fn name(pool: &str, id: ProcessId) -> String {
    format!("{pool}/{} run {}", id.worker.0, id.run)
}

/// Write one line.
pub(super) fn log(pool: &str, event: &Event) {
    let text = Text { pool, event };
    if is_trouble(event) { warn(AREA, text) } else { info(AREA, text) }
}

fn is_trouble(event: &Event) -> bool {
    match event {
        Event::Ready { .. }
        | Event::RestartBegan
        | Event::RestartSwitched(_)
        | Event::RestartDone => false,
        Event::Ended { asked, .. } => !asked,
        Event::ReadyLate(_)
        | Event::Stalled { .. }
        | Event::StopLate(_)
        | Event::DrainLate(_)
        | Event::RestartFailed { .. } => true,
    }
}

struct Text<'a> {
    pool: &'a str,
    event: &'a Event,
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = self.pool;
        let name = |id: &ProcessId| name(pool, *id);
        match self.event {
            Event::Ready { process, after } => {
                write!(f, "{} is ready after {} ms", name(process), after.as_millis())
            }
            Event::ReadyLate(id) => write!(f, "{} is not ready in time, stopping it", name(id)),
            Event::Stalled { process, reason: StallReason::Heartbeat(age) } => {
                let age = age.as_millis();
                write!(f, "{} sent no heartbeat for {age} ms, stopping it", name(process))
            }
            Event::Stalled { process, reason: StallReason::Exchange } => {
                write!(f, "{} stands still in an exchange, stopping it", name(process))
            }
            Event::Stalled { process, reason: StallReason::Unreached(time) } => {
                let time = time.as_millis();
                write!(f, "{} takes no connection for {time} ms, stopping it", name(process))
            }
            Event::Ended { process, exit, again_in, .. } => {
                write!(f, "{} {}", name(process), Ending(*exit))?;
                match again_in {
                    Some(wait) => write!(f, ", next one in {} ms", wait.as_millis()),
                    None => Ok(()),
                }
            }
            Event::StopLate(id) => write!(f, "{} does not stop, killing it", name(id)),
            Event::DrainLate(worker) => {
                write!(f, "{pool}/{} still has exchanges, stopping it", worker.0)
            }
            Event::RestartBegan => write!(f, "{pool}: rolling restart"),
            Event::RestartSwitched(worker) => {
                write!(f, "{pool}/{} is served by its next process", worker.0)
            }
            Event::RestartDone => write!(f, "{pool}: rolling restart done"),
            Event::RestartFailed { worker, error } => {
                let error = reason(*error);
                write!(f, "{pool}: rolling restart ended at worker {}: {error}", worker.0)
            }
        }
    }
}

/// How a process ended, after its name.
struct Ending(Option<Exit>);

impl Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Exit::Code(code)) => write!(f, "ended with code {code}"),
            Some(Exit::Signal(signal)) => write!(f, "ended by signal {signal}"),
            None => f.write_str("could not be started"),
        }
    }
}

/// How a process ended, for the status; none: it could not be started.
pub(crate) fn ending(exit: Option<Exit>) -> String {
    Ending(exit).to_string()
}

/// Why a rolling restart ended early, for the log and for `ctl`.
pub(crate) fn reason(error: RestartError) -> &'static str {
    match error {
        RestartError::Ended => "the next process ended, the one before it serves on",
        RestartError::EndedAlone => "the new process ended, and no other one serves this worker",
        RestartError::ReadyLate => "the next process was not ready in time",
        RestartError::Stalled => "the next process stood still or left at once",
        RestartError::Stopping => "the pool is stopping",
    }
}
