//! The keys of a `[pool.NAME]`, by what they are about.
//!
//! Absent: how they are used.

pub(super) mod exchange;
pub(super) mod gate;
pub(super) mod health;
pub(super) mod process;
pub(super) mod workers;
