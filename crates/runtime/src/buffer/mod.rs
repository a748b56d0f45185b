//! Buffers: where the bytes of a request or response body are while nobody can take them.
//!
//! A [`Buffer`] is filled at one speed and read at another, in one task. A request body is filled
//! first and read then, once or more often ([`Buffer::rewind`] for a retry); what was read stays. A
//! response body is filled and read in turns; what was read is freed. Small bodies are one
//! allocation, large ones blocks of 64 KiB.
//!
//! A request body waits for the byte budget; a response body never does: it says that it is full,
//! and its reader has to take something first. Everything that a buffer holds is given back when it
//! is dropped, also in the middle of a wait.
//!
//! Absent: sockets, and any policy of how long to hold bytes back (the proxy's `deliver`).

mod account;
mod blocks;
mod storage;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use spillgate_core::budget::{COLLECT_WINDOW, Purpose, Side};

use account::Account;
use blocks::{BLOCK, Blocks};
pub use storage::{Storage, StorageSettings, StorageView};

/// The largest body that is one right-sized allocation and one charge.
const SMALL_MAX: u64 = 16 * 1024;

/// The smallest allocation for a body of unknown length.
const SMALL_MIN: u64 = 1024;

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

/// One body. Made on the shard of its exchange; dropped at its end.
#[derive(Debug)]
pub struct Buffer {
    account: Account,
    side: Side,
    known_len: Option<u64>,
    blocks: Blocks,
    len: u64,
    read: u64,
    finished: bool,
    relayed: bool,
}

/// What an append needs before it can go on.
enum Room {
    /// Nothing: there is room.
    Made,
    /// A charge that a request body may wait for.
    Wait { bytes: u64, purpose: Purpose },
    /// A reader that takes something.
    Full,
}

impl Buffer {
    /// A buffer for a request body, of `known_len` bytes if that is known.
    ///
    /// Takes nothing from the budget until the first byte is appended; then the whole length where it
    /// is known, steps where it is not.
    pub fn request(storage: &Arc<Storage>, known_len: Option<u64>) -> Buffer {
        Buffer::new(storage, Side::Intake, known_len)
    }

    /// A buffer for a response body. Make it when the permit is granted: it reserves the collect
    /// window of 64 KiB. If not even that is free it begins full, which is a relay.
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
            len: 0,
            read: 0,
            finished: false,
            relayed: false,
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
            if self.blocks.room() == 0 && !matches!(self.make_room(bytes.len() - done), Room::Made)
            {
                break;
            }
            let taken = self.blocks.append(&bytes[done..]);
            self.len += taken as u64;
            done += taken;
        }
        Ok(done)
    }

    /// Appends a prefix of `bytes` and says how long it is.
    ///
    /// A request is pending while it waits for the budget. A response is never: 0 (for `bytes` that
    /// are not empty) means that it is full until its reader has consumed something.
    ///
    /// # Errors
    /// [`BufferError::Budget`]: waited longer than `body_wait_max`, or no body may be that large.
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
            match self.make_room(bytes.len()) {
                Room::Made => {}
                Room::Full => return Poll::Ready(Ok(0)),
                Room::Wait { bytes, purpose } => {
                    match self.account.poll_charge(cx, bytes, purpose) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(false) => return Poll::Ready(Err(BufferError::Budget)),
                        Poll::Ready(true) => {}
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
        self.blocks.fit();
        if self.side == Side::Intake && self.known_len.is_none() {
            self.account.complete();
        }
        if self.account.charged() >= self.blocks.held() + FIT_MIN {
            self.account.shrink_to(self.blocks.held());
        }
    }

    /// The next unread bytes; empty when there are none now.
    ///
    /// # Errors
    /// The spill folder failed; the body is lost.
    pub fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], BufferError>> {
        Poll::Ready(Ok(self.chunk()))
    }

    /// The next unread bytes that are in memory; empty when there are none, or when they have to be
    /// loaded first ([`Buffer::poll_chunk`]).
    pub fn chunk(&self) -> &[u8] {
        self.blocks.at(self.read).unwrap_or_default()
    }

    /// Marks the first `count` unread bytes as read. A response frees them.
    ///
    /// Panics when there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count as u64 <= self.unread(), "consumed more than was unread");
        self.read += count as u64;
        if self.side == Side::Collect {
            self.blocks.free_before(self.read);
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

    /// Is some of it in a spill folder?
    pub fn is_spilled(&self) -> bool {
        false
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
        poll_fn(|cx| self.poll_chunk(cx).map_ok(|_| ())).await?;
        Ok(self.chunk())
    }

    /// Makes room for at least one of `rest` bytes, if that is possible now.
    fn make_room(&mut self, rest: usize) -> Room {
        let roll = self.blocks.tail_limit() == BLOCK;
        let limit = self.next_limit(rest, roll);
        let tail = if roll { 0 } else { self.blocks.tail_limit() };
        let held = self.blocks.held() + (limit - tail) as u64;
        if held > self.account.charged() {
            let (bytes, purpose) = self.wish(held - self.account.charged());
            if !self.account.charge(bytes, purpose) {
                return self.no_memory(bytes, purpose);
            }
        }
        if roll {
            self.blocks.roll();
        }
        self.blocks.grow(limit);
        Room::Made
    }

    /// How large the tail should be next, or the first tail after it (`roll`).
    fn next_limit(&self, rest: usize, roll: bool) -> usize {
        let start = if roll { self.len } else { self.blocks.tail_start() };
        let filled = self.len - start;
        let known = self.known_len.map_or(0, |known| known.saturating_sub(start));
        if known > filled {
            return known.min(BLOCK as u64) as usize;
        }
        let wanted = filled + rest as u64;
        if start > 0 || wanted > SMALL_MAX {
            return BLOCK;
        }
        wanted.next_power_of_two().clamp(SMALL_MIN, SMALL_MAX) as usize
    }

    /// What to charge when `missing` more bytes of memory are needed.
    fn wish(&self, missing: u64) -> (u64, Purpose) {
        let charged = self.account.charged();
        match (self.side, self.known_len) {
            (Side::Intake, Some(known)) if charged == 0 => (missing.max(known), Purpose::Whole),
            (Side::Intake, _) if charged == 0 => (missing.max(SMALL_MAX), Purpose::Step),
            (Side::Intake, _) => (missing, Purpose::Step),
            (Side::Collect, _) if charged + missing <= COLLECT_WINDOW.as_bytes() => {
                (missing, Purpose::Window)
            }
            (Side::Collect, _) => (missing, Purpose::Growth),
        }
    }

    /// The budget has said no.
    fn no_memory(&mut self, bytes: u64, purpose: Purpose) -> Room {
        if self.side == Side::Intake {
            return Room::Wait { bytes, purpose };
        }
        if !self.relayed {
            self.relayed = true;
            self.account.storage.count_relay();
        }
        Room::Full
    }

    /// Gives back what a response holds no longer, in large steps so that locks stay rare.
    fn trim(&mut self) {
        let reserved = if self.finished { 0 } else { COLLECT_WINDOW.as_bytes() };
        let keep = self.blocks.held().max(reserved);
        if self.account.charged() >= keep + BLOCK as u64 {
            self.account.shrink_to(keep);
        }
    }
}
