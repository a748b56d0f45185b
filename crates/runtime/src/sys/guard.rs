//! A forked copy of us that outlives us for a moment, to kill what we can no longer kill.
//!
//! The kernel kills a worker's first process when we die, not those that it has started: `npm`
//! dies, `node` lives on and keeps the port. The guard reads from a pipe which process groups there
//! are; when the pipe ends, however we ended, it kills them and ends.
//!
//! It is forked and starts no program, so it needs none to be installed. It must be made early,
//! while there is little memory to share and copy.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::pipe::{PipeFlags, pipe_with};

/// Groups that the guard can know at once; further ones are left to the kernel's signal.
const GROUPS_MAX: usize = 4096;
/// Bytes of a message: a process group, negative when it is gone.
pub(crate) const MESSAGE_LEN: usize = 4;
/// Descriptors that are closed one by one where the kernel cannot close a range.
const DESCRIPTORS_MAX: RawFd = 65_536;

/// Make the guard. The result is the pipe to it; it takes messages of [`MESSAGE_LEN`] bytes and
/// does not block.
pub(crate) fn fork_guard() -> io::Result<OwnedFd> {
    let (orders, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
    // SAFETY: other threads may hold locks, the allocator's among them, which stay locked in the
    // copy for ever. `guard` takes none: it makes system calls and computes on its own stack, and
    // never returns, so nothing of the copied program runs or is dropped.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => guard(orders.as_raw_fd()),
        _ => Ok(pipe),
    }
}

fn guard(orders: RawFd) -> ! {
    let mut groups = [0i32; GROUPS_MAX];
    // SAFETY: system calls and `sigfillset`, on numbers and on this stack. Closing every descriptor
    // is right here alone: they are copies, and nothing that owns one runs in this process.
    unsafe {
        // Neither the terminal's signals nor those to our group are for the guard.
        libc::setsid();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"spillgate-guard".as_ptr());
        libc::dup2(orders, 0);
        if libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32) != 0 {
            for descriptor in 1..DESCRIPTORS_MAX {
                libc::close(descriptor);
            }
        }
        let mut message = [0u8; MESSAGE_LEN];
        while libc::read(0, message.as_mut_ptr().cast(), MESSAGE_LEN) == MESSAGE_LEN as isize {
            note(&mut groups, i32::from_ne_bytes(message));
        }
        for group in groups {
            if group > 0 {
                libc::kill(-group, libc::SIGKILL);
            }
        }
        libc::_exit(0)
    }
}

/// Take a message into account. Zero means a free place.
fn note(groups: &mut [i32; GROUPS_MAX], message: i32) {
    let (wanted, value) = if message > 0 { (0, message) } else { (message.wrapping_neg(), 0) };
    if let Some(place) = groups.iter_mut().find(|group| **group == wanted) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_and_go_and_too_many_are_left_out() {
        let mut groups = [0; GROUPS_MAX];
        for group in 1..=GROUPS_MAX as i32 + 1 {
            note(&mut groups, group);
        }
        note(&mut groups, -2);
        note(&mut groups, -2);
        note(&mut groups, i32::MIN);
        assert_eq!(groups.iter().filter(|group| **group > 0).count(), GROUPS_MAX - 1);
        note(&mut groups, 7);
        assert_eq!(groups[1], 7);
    }
}
