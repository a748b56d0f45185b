//! The right to use one slot of one worker.
//!
//! Apart from the gate's books (`permits.rs`), so that nothing but those can make one. Absent: what
//! a permit was granted for, which the gate knows by its number.

use crate::id::WorkerId;

/// One slot of one worker, until it is returned to the gate that granted it.
///
/// Not cloneable, and made by gates alone, so a slot can be held by nobody twice. It has no `Drop`:
/// the shell's own wrapper returns it as [`super::Outcome::Ignore`] when it is dropped.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit must be returned to its gate"]
pub struct Permit {
    worker: WorkerId,
    number: u64,
}

impl Permit {
    pub(crate) fn new(worker: WorkerId, number: u64) -> Self {
        Permit { worker, number }
    }

    /// The worker whose slot this is.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The number under which the gate knows it; unique in one gate.
    pub fn number(&self) -> u64 {
        self.number
    }
}
