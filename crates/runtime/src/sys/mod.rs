//! The only unsafe code: each file is a safe face over one thing that the compiler cannot check.

pub(crate) mod guard;
pub(crate) mod process;
pub(crate) mod unsent;
pub(crate) mod watch;
