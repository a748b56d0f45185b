//! Registers a descriptor with the engine.
//!
//! The engine's call is unsafe because it takes any type that yields a raw descriptor, and such a
//! type could close its descriptor early or yield another one each time. This wrapper admits owned
//! descriptors alone, for which neither is possible.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watch `fd` for `interest` until the result is dropped, which closes it.
///
/// Errors: the engine's, when it cannot watch another descriptor.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the call demands that `as_raw_fd` yields the same open descriptor for as long as it
    // is registered. An `OwnedFd` owns its descriptor, yields it unchanged, and closes it only when
    // it is dropped; the `AsyncFd` that owns it deregisters before it drops it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
