//! Whether bytes of a file are in the page cache.
//!
//! The kernel tells by a call that has no wrapper, `cachestat` (Linux 6.5).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Its number, the same on every processor that we run on (`scripts/syscall.tbl`).
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` (`linux/mman.h`).
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat`: pages cached, dirty, being written, evicted, and evicted lately.
type Counts = [u64; 5];

/// How many pages of `len` bytes at `offset` of the file `fd` are in the page cache; none where the
/// kernel does not tell. Never waits for a disk. A length of zero means all that follows.
pub(crate) fn cached_pages(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
    let range = Range { offset, len };
    let mut counts: Counts = [0; 5];
    // SAFETY: the descriptor is open for as long as it is borrowed. The kernel reads one `Range`
    // and writes one `struct cachestat`, both of which live on this stack with the layout that it
    // expects; without flags it does nothing else. A kernel without the call returns an error.
    let outcome = unsafe {
        libc::syscall(CACHESTAT, fd.as_raw_fd(), &raw const range, &raw mut counts, 0_u32)
    };
    (outcome == 0).then_some(counts[0])
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_was_just_written_is_in_the_cache_and_holes_are_not() {
        let mut file: File = tempfile::tempfile().expect("a scratch file");
        file.write_all(&[7; 20_000]).expect("room for it");
        file.set_len(1 << 20).expect("a hole costs nothing");
        let pages = |offset, len| cached_pages(file.as_fd(), offset, len);
        // On a kernel without the call, nothing is told of anything.
        if pages(0, 1).is_some() {
            assert_eq!((pages(0, 20_000), pages(4096, 4096)), (Some(5), Some(1)));
            assert_eq!(pages(64 << 10, 64 << 10), Some(0));
        }
    }
}
