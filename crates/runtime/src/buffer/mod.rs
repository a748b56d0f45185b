//! Buffers: where the bytes of a request or response body are while nobody can take them.
//!
//! A [`Buffer`] is filled at one speed and read at another, in one task. A request body is filled
//! first and read then, once or more often ([`Buffer::rewind`] for a retry); what was read stays. A
//! response body is filled and read in turns; what was read is freed. Small bodies are one
//! allocation, large ones blocks of 64 KiB.
//!
//! What does not fit into memory spills: a body beyond `body_memory_max`, and any body when the
//! budget is short. Then only its last bytes are in memory, and it is read back piece by piece.
//!
//! A request body waits for the byte budget; a response body never does: it says that it is full,
//! and its reader has to take something first. Everything that a buffer holds is given back when it
//! is dropped, also in the middle of a wait or a write.
//!
//! Absent: sockets, and any policy of how long to hold bytes back (the proxy's `deliver`).

mod account;
mod ahead;
mod blocks;
mod room;
mod spilled;
mod storage;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use spillgate_core::budget::{COLLECT_WINDOW, Purpose, Side};

use account::Account;
use blocks::Blocks;
use room::Room;
use spilled::{Place, Spilled};
pub use storage::{SocketBytes, Storage, StorageSettings, StorageView};

/// Unused memory below this is not worth an allocation and a lock at the end of a body.
const FIT_MIN: u64 = 8 * 1024;

/// Why a body cannot be buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// It waited too long for memory, or is larger than request bodies may ever be in memory. A
    /// matter of load: shed.
    #[error("no memory for the body within the byte budget")]
    Budget,
    /// There is no room in the spill folders. A matter of load: shed.
    #[error("the spill folders are full")]
    SpillFull,
    /// A spill folder failed to write or read.
    #[error("spill folder: {0}")]
    SpillIo(io::ErrorKind),
}

impl BufferError {
    /// A disk that is full for the operating system is as full as one that is full for us.
    fn from_io(error: &io::Error) -> BufferError {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::WriteZero => BufferError::SpillFull,
            kind => BufferError::SpillIo(kind),
        }
    }
}

/// One body. Made on the shard of its exchange; dropped at its end.
#[derive(Debug)]
pub struct Buffer {
    account: Account,
    side: Side,
    known_len: Option<u64>,
    blocks: Blocks,
    /// Some of it is, or is about to be, in the spill folders.
    spilled: Option<Box<Spilled>>,
    len: u64,
    read: u64,
    finished: bool,
    relayed: bool,
    /// The folder lost some of it: every later call fails alike.
    failed: Option<BufferError>,
}

impl Buffer {
    /// A buffer for a request body, of `known_len` bytes if that is known.
    ///
    /// Takes nothing from the budget until the first byte is appended; then the whole length where
    /// it is known, steps where it is not.
    pub fn request(storage: &Arc<Storage>, known_len: Option<u64>) -> Buffer {
        Buffer::new(storage, Side::Intake, known_len)
    }

    /// A buffer for a response body, with the collect window of 64 KiB. If not even that is free it
    /// begins full, which is a relay.
    pub fn response(storage: &Arc<Storage>) -> Buffer {
        let mut buffer = Buffer::new(storage, Side::Collect, None);
        buffer.account.charge(COLLECT_WINDOW.as_bytes(), Purpose::Window);
        buffer
    }

    fn new(storage: &Arc<Storage>, side: Side, known_len: Option<u64>) -> Buffer {
        Buffer {
            account: Account::new(storage, side),
            side,
            known_len,
            blocks: Blocks::default(),
            spilled: None,
            len: 0,
            read: 0,
            finished: false,
            relayed: false,
            failed: None,
        }
    }

    /// Says how long the body will be, once a response head tells. A hint for right-sized memory; a
    /// body that turns out longer or shorter is stored all the same.
    pub fn expect_len(&mut self, len: u64) {
        self.known_len = Some(len);
    }

    /// Appends a prefix of `bytes` without waiting and says how long it is.
    ///
    /// Less than all of them: a request has to wait ([`Buffer::poll_append`]), a response is full
    /// until its reader has consumed something.
    ///
    /// # Errors
    /// The spill folder failed; the body is lost.
    pub fn try_append(&mut self, bytes: &[u8]) -> Result<usize, BufferError> {
        let mut done = 0;
        while done < bytes.len() {
            if self.blocks.room() == 0
                && !matches!(self.make_room(bytes.len() - done, None)?, Room::Made)
            {
                break;
            }
            let taken = self.blocks.append(&bytes[done..]);
            self.len += taken as u64;
            done += taken;
        }
        if self.side == Side::Intake {
            self.write_ahead();
        }
        Ok(done)
    }

    /// Appends a prefix of `bytes` and says how long it is.
    ///
    /// A request is pending while it waits for the budget or for its spill folder; a response only
    /// for its folder. 0 (for `bytes` that are not empty) from a response means that it is full
    /// until its reader has consumed something.
    ///
    /// # Errors
    /// [`BufferError::Budget`], and [`BufferError::SpillFull`] for the spill folders: waited longer
    /// than `body_wait_max`, no body may be that large, or an older one needs the place. The
    /// others: the spill folders; the body is lost.
    pub fn poll_append(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, BufferError>> {
        loop {
            let done = self.try_append(bytes)?;
            if done > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(done));
            }
            match self.make_room(bytes.len(), Some(cx.waker()))? {
                Room::Made => {}
                Room::Full => return Poll::Ready(Ok(0)),
                Room::Later => return Poll::Pending,
                Room::Wait { bytes, purpose } => {
                    if !ready!(self.account.poll_charge(cx, bytes, purpose)) {
                        let error = match purpose.is_spill() {
                            true => BufferError::SpillFull,
                            false => BufferError::Budget,
                        };
                        return Poll::Ready(Err(self.fail(error)));
                    }
                }
            }
        }
    }

    /// Says that nothing more will be appended: what was reserved for more is given back, and a
    /// growing request body no longer counts as one. Reading is not affected.
    pub fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        if self.side == Side::Collect {
            self.write_ahead();
        }
        self.blocks.fit();
        self.account.complete();
        let needed = self.needed();
        if self.account.charged() >= needed + FIT_MIN {
            self.account.shrink_to(needed);
        }
    }

    /// The next unread bytes; empty when there are none now. Pending while they are loaded.
    ///
    /// # Errors
    /// The spill folder failed; the body is lost.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], BufferError>> {
        ready!(self.poll_loaded(cx))?;
        Poll::Ready(Ok(self.chunk()))
    }

    /// The next unread bytes that are in memory; empty when there are none, or when they have to be
    /// loaded first ([`Buffer::poll_chunk`]).
    pub fn chunk(&self) -> &[u8] {
        if let Some(bytes) = self.blocks.at(self.read) {
            return bytes;
        }
        match self.spilled.as_ref().map(|spilled| spilled.at(self.read)) {
            Some(Place::Memory(bytes)) => bytes,
            _ => &[],
        }
    }

    /// Marks the first `count` unread bytes as read. A response frees them.
    ///
    /// Panics when there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count as u64 <= self.unread(), "consumed more than was unread");
        self.read += count as u64;
        if self.side == Side::Collect {
            self.blocks.free_before(self.read);
            if self.spilled.as_mut().is_some_and(|spilled| spilled.free_before(self.read)) {
                self.spilled = None;
            }
            self.trim_spill();
            self.trim();
        }
    }

    /// Makes all of a request body unread again.
    ///
    /// Panics for a response: what was read of it is gone.
    pub fn rewind(&mut self) {
        assert_eq!(self.side, Side::Intake, "a response cannot be read twice");
        self.read = 0;
    }

    /// Bytes appended so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Was nothing appended?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes appended and not yet read.
    pub fn unread(&self) -> u64 {
        self.len - self.read
    }

    /// Is some of it in a spill folder, or on its way there or back?
    pub fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Appends all of `bytes`, waiting as long as it takes. For request bodies: a response that is
    /// full would wait for a reader that this call keeps out.
    ///
    /// # Errors
    /// As [`Buffer::poll_append`]. Cancel: a prefix may have been appended.
    pub async fn append_all(&mut self, mut bytes: &[u8]) -> Result<(), BufferError> {
        debug_assert_eq!(self.side, Side::Intake, "a full response never waits");
        while !bytes.is_empty() {
            let done = poll_fn(|cx| self.poll_append(cx, bytes)).await?;
            bytes = &bytes[done..];
        }
        Ok(())
    }

    /// The next unread bytes, loaded if need be; empty when there are none now.
    ///
    /// # Errors
    /// As [`Buffer::poll_chunk`]. Cancel: nothing is lost.
    pub async fn next_chunk(&mut self) -> Result<&[u8], BufferError> {
        poll_fn(|cx| self.poll_loaded(cx)).await?;
        Ok(self.chunk())
    }
}
