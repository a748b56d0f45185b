//! The file, or standard output, behind the access log.
//!
//! Blocking: only the writer thread uses it. Absent: queues and counters.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use spillgate_core::time::{Duration, Instant};

use super::Destination;
use crate::clock;

/// After an error the file is opened anew, at most once in this time: a disk may have been mounted
/// over it, or its folder may be back.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// How long one wait for a pipe's reader lasts before the pipe is asked again.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Where the writer writes.
pub(super) struct Output {
    destination: Destination,
    /// None: standard output.
    file: Option<File>,
    /// The last write stopped inside a line.
    torn: bool,
    /// The last write failed, and the file may be opened anew from this moment on.
    reopen_at: Option<Instant>,
}

/// A write that did not succeed.
pub(super) struct WriteFailure {
    /// Bytes that were written before.
    pub(super) written: usize,
    /// Why no more were.
    pub(super) error: io::Error,
}

impl Output {
    /// Opens `destination` for appending.
    pub(super) fn open(destination: Destination) -> io::Result<Output> {
        let file = open(&destination)?;
        Ok(Output { destination, file, torn: false, reopen_at: None })
    }

    /// Opens the file anew. On an error, the old one stays.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.destination)?;
        self.torn = false;
        Ok(())
    }

    /// Writes whole lines. After a write that stopped inside a line, that line is ended first.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), WriteFailure> {
        self.reopen_after_error();
        let result = self.end_torn_line().map_err(|error| WriteFailure { written: 0, error });
        let result = result.and_then(|()| self.write_all(lines));
        if result.is_err() {
            self.reopen_at = Some(clock::now() + REOPEN_INTERVAL);
        }
        result
    }

    fn reopen_after_error(&mut self) {
        if self.reopen_at.is_some_and(|at| clock::now() >= at) {
            // Only whether it could be written counts, and that is about to show.
            let _ = self.reopen();
            self.reopen_at = None;
        }
    }

    fn end_torn_line(&mut self) -> io::Result<()> {
        if self.torn {
            self.write_all(b"\n").map_err(|failure| failure.error)?;
        }
        self.torn = false;
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_some(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) => {
                    self.torn |= written > 0 && bytes[written - 1] != b'\n';
                    return Err(WriteFailure { written, error });
                }
            }
        }
        Ok(())
    }

    /// At least one byte, or an error.
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let stdout;
        let fd: BorrowedFd<'_> = match &self.file {
            Some(file) => file.as_fd(),
            None => {
                stdout = io::stdout();
                stdout.as_fd()
            }
        };
        loop {
            match rustix::io::write(fd, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => {}
                // Standard output may be a pipe that another program made non-blocking.
                Err(Errno::AGAIN) => {
                    let mut wanted = [PollFd::new(&fd, PollFlags::OUT)];
                    poll(&mut wanted, Some(&PIPE_WAIT)).or_else(unless_interrupted)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn unless_interrupted(error: Errno) -> io::Result<usize> {
    if error == Errno::INTR { Ok(0) } else { Err(error.into()) }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.destination {
            Destination::Stdout => f.write_str("standard output"),
            Destination::File(path) => write!(f, "{}", path.display()),
        }
    }
}

fn open(destination: &Destination) -> io::Result<Option<File>> {
    match destination {
        Destination::Stdout => Ok(None),
        Destination::File(path) => open_file(path).map(Some),
    }
}

/// Readable by the group only: records name clients.
fn open_file(path: &Path) -> io::Result<File> {
    // A named pipe would keep us waiting for its reader, unless we could be that, too.
    let is_pipe = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    File::options().read(is_pipe).append(true).create(true).mode(0o640).open(path)
}

#[cfg(test)]
impl Output {
    /// What a full disk does: takes a part of a line and then no more.
    pub(super) fn tear(&mut self, part: &[u8]) {
        assert!(self.write_all(part).is_ok());
        self.torn = true;
    }
}
