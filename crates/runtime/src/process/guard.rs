//! What makes sure that no worker outlives us, nor anything that a worker has started.
//!
//! A face over the process that `sys/guard.rs` makes: it is told of each group of processes, and
//! kills those that are left when we are gone. A group is told as soon as its process exists; what
//! lies between is covered by the parent-death signal.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::sys::guard::{MESSAGE_LEN, fork_guard};

/// A process of ours that kills every worker's group when we end, killed or not. Cheap to clone;
/// one is enough for all pools.
#[derive(Clone, Debug)]
pub struct Guard {
    pipe: Arc<OwnedFd>,
}

impl Guard {
    /// Start it, early: it keeps a copy of what memory holds at this moment.
    ///
    /// Errors: the system gives no process or no pipe.
    pub fn start() -> io::Result<Guard> {
        Ok(Guard { pipe: Arc::new(fork_guard()?) })
    }

    /// From here on the group is killed with us.
    pub(super) fn add(&self, group: i32) {
        self.tell(group);
    }

    /// From here on it is not. To be said while the number is still the group's own.
    pub(super) fn remove(&self, group: i32) {
        self.tell(-group);
    }

    fn tell(&self, message: i32) {
        // A guard that was killed, or does not read, is no reason to lose a worker: the kernel
        // still kills its first process.
        let written = rustix::io::write(&*self.pipe, &message.to_ne_bytes());
        debug_assert!(written.is_err() || written == Ok(MESSAGE_LEN), "short messages are whole");
    }
}
