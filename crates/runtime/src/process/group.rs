//! One process group, and the moment after which its number is no longer its own.
//!
//! The system may give a number to another process as soon as the first process of the group is
//! reaped and the rest is gone. So signals and the reaping take one lock, and nothing is sent after
//! it.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::guard::Guard;
use crate::sys::process::group_of;

/// The group of a process that we started.
#[derive(Debug)]
pub(super) struct Group {
    pid: Pid,
    guard: Guard,
    /// Whether the first process is reaped. Held over each signal.
    reaped: Mutex<bool>,
}

impl Group {
    /// `guard` was told of the group, and is told when it is gone.
    pub(super) fn new(pid: Pid, guard: Guard) -> Group {
        Group { pid, guard, reaped: Mutex::new(false) }
    }

    /// The number of the group and of its first process.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Send `signal` to the whole group, unless it is gone.
    pub(super) fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // It fails only where nobody is left to get it, or where the group changed its user;
            // then the ladder's next rung, or an operator, has to do it.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Is `pid` a living process of this group?
    pub(super) fn contains(&self, pid: i32) -> bool {
        pid > 0 && group_of(pid) == Some(self.pid.as_raw_nonzero().get())
    }

    /// Wait until the first process has ended, kill what is left of the group, and take the exit
    /// status. Blocks while the process lives; the lock is taken only after that.
    pub(super) fn reap(&self, process: &mut Child) -> io::Result<ExitStatus> {
        waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        self.signal(Signal::KILL);
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard.remove(self.pid.as_raw_nonzero().get());
        let status = process.wait();
        *reaped = true;
        status
    }
}
