//! How much of what was written to a socket the other end has not taken yet.
//!
//! The kernel tells it by a request that has no safe wrapper.
#![allow(unsafe_code)]

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
