//! The only unsafe code: each file is a safe face over one thing that the compiler cannot check.
//!
//! Each block argues why it is sound, and its face takes and gives safe types only. Absent:
//! anything that a crate of safe wrappers offers (`rustix`, `socket2`).

pub(crate) mod cached;
pub(crate) mod clock;
pub(crate) mod guard;
pub(crate) mod process;
pub(crate) mod unsent;
pub(crate) mod watch;
