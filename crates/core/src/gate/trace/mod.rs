//! What a gate was told, as text: the proof that the simulator's world and the real one are one.
//!
//! The shell that owns a gate writes each input with its moment, inside the lock, and each output.
//! [`Trace::parse`] reads the inputs back; fed to a new gate with the same settings they must give
//! the same outputs, byte for byte. One line for each thing, fields separated by spaces, times in
//! nanoseconds, `-` for none:
//!
//! ```text
//! spillgate gate trace 5          the format
//! set slots 1                     settings, one a line
//! begin 0                         the moment of birth
//! in 7 arrive 1 0 7 7 1 0 0 0 0 - first       an input: moment, verb, fields
//! at 100 timeout                  the gate's own timer
//! at 120 view                     somebody looked, which moves the gate's clock too
//! out grant 1 0 2 0 new 0 -       an output
//! ```
//!
//! Permits are written as their numbers. Only a gate makes permits, so whoever replays matches the
//! numbers with those that the new gate granted.

mod read;
pub(super) mod words;
mod write;

pub use read::{Cause, ParseError, Step, Told, Trace};
pub use write::{TraceWriter, write_output};

/// The first line of a trace. The number rises with every change of the format.
const HEADER: &str = "spillgate gate trace 5";
