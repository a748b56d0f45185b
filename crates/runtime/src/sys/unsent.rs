//! How much of what was written to a socket the other end has not taken yet, and what the kernel
//! holds for it.
//!
//! The kernel tells both by requests that have no safe wrapper.
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes that were written to the socket `fd` and are not acknowledged; zero where the kernel does
/// not tell.
pub(crate) fn unsent(fd: BorrowedFd<'_>) -> u64 {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the request writes one
    // `int` to the pointer, which points to one that lives on this stack.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if outcome == 0 { u64::try_from(count).unwrap_or(0) } else { 0 }
}

/// What `SO_MEMINFO` tells, in the kernel's order (`linux/sock_diag.h`), up to the last one used.
const MEMORY_NUMBERS: usize = 6;
const WRITE_ALLOCATED: usize = 2;
const FORWARD_ALLOCATED: usize = 4;
const WRITE_QUEUED: usize = 5;

/// Bytes of memory that the kernel holds for what was written to the socket `fd`, its own
/// bookkeeping included: what `ss -tm` shows as `w` (`t` for a Unix socket) and `f`. Zero where the
/// kernel does not tell.
pub(crate) fn memory(fd: BorrowedFd<'_>) -> u64 {
    let mut numbers = [0u32; MEMORY_NUMBERS];
    let mut len = mem::size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as it is borrowed. The kernel writes at most `len`
    // bytes to `numbers` and the count of them to `len`, both of which live on this stack.
    let outcome = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if outcome != 0 {
        return 0;
    }
    // TCP counts what is queued, with copies on their way to the device in the other number; a Unix
    // socket only has the latter.
    match numbers[WRITE_QUEUED].max(numbers[WRITE_ALLOCATED]) {
        // What an empty socket keeps for its next write is not held for anybody.
        0 => 0,
        written => u64::from(written) + u64::from(numbers[FORWARD_ALLOCATED]),
    }
}
