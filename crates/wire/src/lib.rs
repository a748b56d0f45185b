//! Bytes, and nothing else: what the network says, read strictly, and what we say, written.
//!
//! Each module knows one format. Nothing here opens a socket, reads a clock, takes a lock, decides
//! what may pass, or writes a log line: callers bring bytes and get offsets, numbers and small
//! error enums back. No input may panic, every parser gives the same result however its input was
//! cut into pieces, and every parser has a fuzz target.
//!
//! Deliberately absent: header maps, owned strings, and lenience. Where two programs could read
//! the same bytes differently, the bytes are refused.

pub mod agent_line;
pub mod attempt;
pub mod digits;
pub mod forwarded;
pub mod http1;
pub mod orca;
pub mod proxy_protocol;
