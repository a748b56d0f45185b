//! One segment file: bytes at offsets.
//!
//! A seam, because what disks do wrong (full, short, failing, slow) has to be shown to the code
//! above by a double in tests. A segment file has no name: it is unlinked as soon as it is made, so
//! nothing is left behind by any kind of death.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

/// What the I/O threads need of a file. Calls may block.
pub(super) trait SegmentFile: Send + Sync + std::fmt::Debug {
    /// Writes a prefix of `bytes` at `offset` and says how long it is.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads a prefix of `bytes` from `offset` and says how long it is; 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Gives the disk space of `len` bytes at `offset` back.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
}

impl SegmentFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
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
