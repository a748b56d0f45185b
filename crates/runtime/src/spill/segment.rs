//! One segment file: bytes at offsets.
//!
//! A seam, because what disks do wrong (full, short, failing, slow) has to be shown to the code
//! above by a double in tests. A segment file has no name: it is unlinked as soon as it is made, so
//! nothing is left behind by any kind of death.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::sys::cached::cached_pages;

/// What is needed of a file. Calls may block, but for the one that says that it does not.
pub(super) trait SegmentFile: Send + Sync + std::fmt::Debug {
    /// Writes a prefix of `bytes` at `offset` and says how long it is.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads a prefix of `bytes` from `offset` and says how long it is; 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads a prefix of `bytes` from `offset` if all of them are in memory, and says how long it
    /// is; 0: they may not be. Never waits for a disk: for shards.
    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> usize;

    /// Gives the disk space of `len` bytes at `offset` back.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// A segment file that names its folder when something goes wrong.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    folder: PathBuf,
}

impl Segment {
    /// `file`, which lies in `folder`.
    pub(super) fn new(file: File, folder: &Path) -> Segment {
        Segment { file, folder: folder.to_owned() }
    }

    fn named<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| named(&self.folder, &error))
    }
}

impl SegmentFile for Segment {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.named(FileExt::write_at(&self.file, bytes, offset))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.named(FileExt::read_at(&self.file, bytes, offset))
    }

    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> usize {
        self.file.read_cached(bytes, offset)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.named(self.file.punch(offset, len))
    }
}

impl SegmentFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    /// The flag alone is not enough: the kernel begins to read ahead what it does not find, and has
    /// to wait for that where the disk is busy. So it is asked first, and then only what pages were
    /// evicted in between can still be a miss.
    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> usize {
        let (len, page) = (bytes.len() as u64, rustix::param::page_size() as u64);
        let pages = (offset + len).div_ceil(page) - offset / page;
        if cached_pages(self.as_fd(), offset, len) != Some(pages) {
            return 0;
        }
        preadv2(self, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT).unwrap_or(0)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(self, flags, offset, len)?)
    }
}

/// Writes all of `bytes`; a disk that takes nothing more is an error.
pub(super) fn write_all(file: &dyn SegmentFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills all of `bytes`; a file that ends before is an error, never other bytes.
pub(super) fn read_all(file: &dyn SegmentFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The same error, saying where. Its kind stays.
pub(super) fn named(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("spill folder {}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_in_which_folder() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("segment");
        std::fs::write(&path, b"x").expect("a file");
        let read_only = File::open(&path).expect("it is there");
        let segment = Segment::new(read_only, folder.path());
        let error = write_all(&segment, b"y", 0).expect_err("it cannot be written");
        assert!(error.to_string().contains(&*folder.path().to_string_lossy()), "{error}");
        let mut one = [0];
        read_all(&segment, &mut one, 0).expect("it can be read");
        assert_eq!(one, *b"x");
    }
}
