//! The part of one body that is in the spill folders.
//!
//! It lies between the full blocks and the tail of [`super::blocks::Blocks`]. Its own order, by
//! position:
//!
//! ```text
//! start                 end                end + writing
//!   │ written, in extents │ being written     │ tail ...
//! ```
//!
//! At most one write and one read are under way. Memory that this part uses is counted by
//! [`Spilled::held`], so that the budget pays for it.
//!
//! Invariants: only `start..end` is ever read, so a body sees what it wrote and nothing else; a
//! write that failed leaves its bytes here in memory (`unwritten`), where they are still read from.

use std::sync::Arc;
use std::task::{Poll, Waker};

use spillgate_core::budget::Side;
use spillgate_core::time::{Duration, Instant};

use crate::clock;
use crate::spill::{Chain, Done, EXTENT, Haste, Order, Spill, Transfer, Turn};

use super::BufferError;
use super::blocks::BLOCK;

/// Bytes that wait to be written gather at least this far where memory is short, and as many are
/// read at once.
pub(super) const STAGE: u64 = 16 * 1024;

/// Most bytes of an answer that are written at once, where there is memory for it. Plain choice: an
/// extent; twice as much was no cheaper.
pub(super) const WRITE_MAX: u64 = EXTENT;

/// A body that has wanted nothing of its folder for so long is at a slow client's pace, which a few
/// milliseconds do not change.
const SLOW_MIN: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Spilled {
    side: Side,
    chain: Chain,
    /// The position of the first byte of the chain.
    start: u64,
    end: u64,
    write: Option<Write>,
    read: Option<Read>,
    /// Bytes at `end` whose write failed, and why. Then nothing more is written.
    unwritten: Vec<u8>,
    broken: Option<BufferError>,
    loaded: Vec<u8>,
    loaded_at: u64,
    /// Reads and writes wait for the queue apart: one that is served must not end the other's wait.
    read_turn: Option<Turn>,
    write_turn: Option<Turn>,
    /// When the folder was last wanted.
    wanted: Instant,
}

#[derive(Debug)]
struct Write {
    transfer: Transfer,
    len: usize,
    memory: usize,
}

#[derive(Debug)]
struct Read {
    transfer: Transfer,
    position: u64,
    memory: usize,
}

/// What came of handing the tail over.
#[derive(Debug)]
pub(super) enum Handed {
    /// It is being written.
    Writing,
    /// Not yet: here it is again. The waker, where one was given, is told when to try again.
    Later(Vec<u8>),
}

impl Spilled {
    /// Nothing is spilled; the first byte to be will be the one at `start`.
    pub(super) fn new(spill: &Arc<Spill>, start: u64, side: Side) -> Spilled {
        Spilled {
            side,
            chain: Chain::new(spill),
            start,
            end: start,
            write: None,
            read: None,
            unwritten: Vec::new(),
            broken: None,
            loaded: Vec::new(),
            loaded_at: 0,
            read_turn: None,
            write_turn: None,
            wanted: clock::now(),
        }
    }

    /// How soon the next job has to be done.
    fn haste(&mut self) -> Haste {
        let now = clock::now();
        let before = std::mem::replace(&mut self.wanted, now);
        if now.since(before) >= SLOW_MIN { Haste::Lazy } else { Haste::Now }
    }

    /// Bytes of memory in use.
    pub(super) fn held(&self) -> u64 {
        let write = self.write.as_ref().map_or(0, |write| write.memory);
        let read = self.read.as_ref().map_or(0, |read| read.memory);
        (write + read + self.unwritten.capacity() + self.loaded.capacity()) as u64
    }

    /// Is a write under way?
    pub(super) fn is_writing(&self) -> bool {
        self.write.is_some()
    }

    /// Why nothing more is written, if a write has failed.
    pub(super) fn broken(&self) -> Option<BufferError> {
        self.broken
    }

    /// Bytes of the spill folders that it needs when it ends at `end`.
    pub(super) fn needed(&self, end: u64) -> u64 {
        end.saturating_sub(self.start).next_multiple_of(EXTENT)
    }

    /// Bytes of the spill folders in use.
    pub(super) fn held_on_disk(&self) -> u64 {
        self.chain.size()
    }

    /// Hands `tail`, which begins where everything else ends, over to be written. What
    /// [`Spilled::needed`] says is charged.
    pub(super) fn write(&mut self, tail: Vec<u8>, waker: Option<&Waker>) -> Handed {
        debug_assert!(self.write.is_none() && self.broken.is_none(), "one write at a time");
        let (len, memory) = (tail.len(), tail.capacity());
        let offset = self.end - self.start;
        if !self.chain.extend(offset + len as u64, waker) {
            // A body that is gone still has a job under way in the place that is now ours.
            return Handed::Later(tail);
        }
        let haste = self.haste();
        match self.chain.write(Order { offset, data: tail, haste }, &mut self.write_turn, waker) {
            Ok(transfer) => {
                self.write = Some(Write { transfer, len, memory });
                Handed::Writing
            }
            Err(tail) => Handed::Later(tail),
        }
    }

    /// Waits for the write that is under way; if it fails, its bytes stay here. Without a waker:
    /// only looks.
    pub(super) fn poll_write(&mut self, waker: Option<&Waker>) -> Poll<()> {
        let Some(write) = &mut self.write else { return Poll::Ready(()) };
        let Poll::Ready(Done { data, result }) = write.transfer.poll(waker) else {
            return Poll::Pending;
        };
        let len = write.len;
        self.write = None;
        match result {
            Ok(()) => self.end += len as u64,
            Err(error) => {
                self.broken = Some(BufferError::from_io(&error));
                // The rest of its memory may be what the end of the body still fits into.
                self.unwritten = data;
                self.unwritten.shrink_to_fit();
            }
        }
        Poll::Ready(())
    }

    /// Has a read been begun for the bytes at `position`, or are they here?
    pub(super) fn is_loading(&self, position: u64) -> bool {
        self.read.as_ref().is_some_and(|read| read.position == position)
            || !matches!(self.at(position), Place::Disk)
    }

    /// Where the bytes at `position` are.
    pub(super) fn at(&self, position: u64) -> Place<'_> {
        let loaded = position.checked_sub(self.loaded_at).map(|offset| offset as usize);
        match loaded.and_then(|offset| self.loaded.get(offset..)) {
            Some(bytes) if !bytes.is_empty() => return Place::Memory(bytes),
            _ => {}
        }
        if (self.start..self.end).contains(&position) {
            return Place::Disk;
        }
        if self.write.is_some() {
            return Place::Writing;
        }
        Place::Memory(&self.unwritten[(position - self.end) as usize..])
    }

    /// Copies what is on disk at `position` into `bytes`, if that takes no disk after all, and says
    /// how many those were.
    pub(super) fn read_cached(&self, position: u64, bytes: &mut [u8]) -> usize {
        let Place::Disk = self.at(position) else { return 0 };
        let len = bytes.len().min((self.end - position) as usize);
        self.chain.read_cached(position - self.start, &mut bytes[..len])
    }

    /// Loads bytes at `position`, using up to `memory` bytes of new memory. Ready when some are
    /// there.
    pub(super) fn poll_load(
        &mut self,
        position: u64,
        memory: u64,
        waker: &Waker,
    ) -> Poll<Result<(), BufferError>> {
        if self.read.as_ref().is_some_and(|read| read.position != position) {
            // The reader went elsewhere; the job ends without us.
            self.read = None;
        }
        if self.read.is_none() && !self.begin_read(position, memory, waker) {
            return Poll::Pending;
        }
        let read = self.read.as_mut().expect("a read was begun");
        let Poll::Ready(Done { data, result }) = read.transfer.poll(Some(waker)) else {
            return Poll::Pending;
        };
        self.read = None;
        if let Err(error) = result {
            return Poll::Ready(Err(BufferError::from_io(&error)));
        }
        self.loaded = data;
        self.loaded_at = position;
        Poll::Ready(Ok(()))
    }

    /// False: the queue is full, and the waker is told when to try again.
    fn begin_read(&mut self, position: u64, memory: u64, waker: &Waker) -> bool {
        let mut data = std::mem::take(&mut self.loaded);
        let offset = position - self.start;
        let most = memory.max(data.capacity() as u64).min(BLOCK as u64);
        let len = most.min(self.end - position).min(EXTENT - offset % EXTENT) as usize;
        if data.capacity() < len {
            data = Vec::with_capacity(len);
        }
        data.resize(len, 0);
        let memory = data.capacity();
        let haste = match self.side {
            // A worker's slot is taken while it reads a request.
            Side::Intake => Haste::Now,
            Side::Collect => self.haste(),
        };
        match self.chain.read(Order { offset, data, haste }, &mut self.read_turn, Some(waker)) {
            Ok(transfer) => {
                self.read = Some(Read { transfer, position, memory });
                true
            }
            Err(_) => false,
        }
    }

    /// Memory that is loaded, or being loaded.
    pub(super) fn reader_memory(&self) -> u64 {
        let read = self.read.as_ref().map_or(0, |read| read.memory);
        (read + self.loaded.capacity()) as u64
    }

    /// Gives up what was loaded; it can be loaded again.
    pub(super) fn unload(&mut self) {
        self.loaded = Vec::new();
        self.read = None;
    }

    /// Frees what is before `position`. True: nothing is left, and no write is under way.
    pub(super) fn free_before(&mut self, position: u64) -> bool {
        if position >= self.loaded_at + self.loaded.len() as u64 {
            self.loaded = Vec::new();
        }
        while !self.chain.is_empty() && self.start + EXTENT <= position.min(self.end) {
            self.chain.drop_first();
            self.start += EXTENT;
        }
        self.write.is_none() && position >= self.end + self.unwritten.len() as u64
    }
}

/// Where a byte is.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// Here, with those after it.
    Memory(&'a [u8]),
    /// In an extent.
    Disk,
    /// On its way there.
    Writing,
}
