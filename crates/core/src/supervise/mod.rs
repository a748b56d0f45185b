//! The supervisor machine of one pool: which processes run, and which of them the gate may use.
//!
//! It starts one process for each worker, waits until it is ready, replaces it when it ends or
//! stalls, replaces all of them one by one on request, and stops them. A worker keeps its id for
//! ever; its processes come and go on two addresses that are used in turn, so that the next process
//! can be ready before the one in use stops.
//!
//! Whether a ready worker is worth sending to is not decided here: that is the gate's (it hears of
//! this machine by [`Output::Member`]). Absent: process ids as a means (only shown), signals sent,
//! sockets, log text.
//!
//! Must hold: the gate is told Ready only while a ready process is reached at the told address; a
//! worker is switched to its next process only when no exchange runs in the one in use, or that one
//! has ended; two living processes of a worker never share an address.

mod ladder;
mod machine;
mod message;
mod process;
mod roll;
mod settings;
#[cfg(test)]
mod tests;
mod view;
mod worker;

pub use machine::Supervisor;
pub use message::{Event, Exit, Input, Output, ProcessId, RestartError, Side, Signal, StallReason};
pub use settings::Settings;
pub use view::{ProcessState, RestartView, View, WorkerView};
