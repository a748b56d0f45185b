//! The machine's monotone clock, as it comes.
//!
//! The kernel answers from memory that it shares with us, without a system call. Only `clock.rs`
//! reads it, and gives it a meaning.

#![allow(unsafe_code)]

/// Nanoseconds since some moment before the process began; never less than before.
#[inline]
pub(crate) fn monotonic() -> u64 {
    let mut read = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which outlives the call. The call fails only
    // for a clock that does not exist, and then leaves the zeros.
    // tidy: allow(clock) the unsafe half of `clock.rs`, which alone calls this
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut read) };
    // Neither is ever negative, and 584 years fit.
    (read.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(read.tv_nsec as u64)
}
