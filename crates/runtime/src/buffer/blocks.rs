//! The bytes of one body that are in memory: full blocks at its front, and the tail that is filled.
//!
//! A small body is one right-sized allocation (the tail); a large one a row of full blocks and a
//! tail. Between the full blocks and the tail there may be a gap, whose bytes are in the spill
//! folder. Positions count from the first byte of the body.
//!
//! Invariants: each full block holds exactly [`BLOCK`] bytes; the tail never grows beyond its
//! limit, which is what the budget was charged for.

use std::collections::VecDeque;

/// Bytes in one block of a large body. A socket takes about that much in one write.
pub(super) const BLOCK: usize = 64 * 1024;

/// What is in memory.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    full: VecDeque<Vec<u8>>,
    /// The position of the first byte of `full`.
    start: u64,
    tail: Vec<u8>,
    tail_start: u64,
    tail_limit: usize,
}

impl Blocks {
    /// Bytes of memory in use, filled or not.
    pub(super) fn held(&self) -> u64 {
        self.full_len() + self.tail_limit as u64
    }

    /// Bytes in full blocks.
    pub(super) fn full_len(&self) -> u64 {
        (self.full.len() * BLOCK) as u64
    }

    /// Bytes in the tail.
    pub(super) fn tail_len(&self) -> u64 {
        self.tail.len() as u64
    }

    /// The position after the last full block.
    fn full_end(&self) -> u64 {
        self.start + self.full_len()
    }

    /// The position of the first byte of the tail.
    pub(super) fn tail_start(&self) -> u64 {
        self.tail_start
    }

    /// The most that the tail may hold.
    pub(super) fn tail_limit(&self) -> usize {
        self.tail_limit
    }

    /// How many bytes fit into the tail.
    pub(super) fn room(&self) -> usize {
        self.tail_limit - self.tail.len()
    }

    /// Takes as many of `bytes` as fit, and says how many.
    pub(super) fn append(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.tail.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Lets the tail grow to `limit` bytes, which are allocated.
    pub(super) fn grow(&mut self, limit: usize) {
        debug_assert!(limit >= self.tail.len(), "a tail is cut");
        self.tail.reserve_exact(limit - self.tail.len());
        self.tail_limit = limit;
    }

    /// Frees the unused end of the tail, if it is worth an allocation.
    pub(super) fn fit(&mut self) {
        if self.room() as u64 >= super::FIT_MIN {
            self.tail.shrink_to_fit();
            self.tail_limit = self.tail.len();
        }
    }

    /// Makes a block of the full tail and begins a tail that may hold nothing yet.
    pub(super) fn roll(&mut self) {
        debug_assert_eq!(self.tail.len(), BLOCK, "only a full block is set aside");
        if self.full.is_empty() {
            self.start = self.tail_start;
        }
        debug_assert_eq!(self.full_end(), self.tail_start, "a gap between blocks");
        self.tail_start += BLOCK as u64;
        self.tail_limit = 0;
        self.full.push_back(std::mem::take(&mut self.tail));
    }

    /// Takes the tail away, to be written elsewhere. A tail that may hold nothing yet begins after
    /// it.
    pub(super) fn take_tail(&mut self) -> Vec<u8> {
        self.tail_start += self.tail.len() as u64;
        self.tail_limit = 0;
        std::mem::take(&mut self.tail)
    }

    /// Puts a tail back that was just taken.
    pub(super) fn put_back(&mut self, tail: Vec<u8>) {
        self.tail_start -= tail.len() as u64;
        self.tail_limit = tail.capacity();
        self.tail = tail;
    }

    /// The bytes from `position` to the end of its block; none if it is not in memory.
    pub(super) fn at(&self, position: u64) -> Option<&[u8]> {
        if position >= self.tail_start {
            return self.tail.get((position - self.tail_start) as usize..);
        }
        if position < self.start || position >= self.full_end() {
            return None;
        }
        let offset = (position - self.start) as usize;
        Some(&self.full[offset / BLOCK][offset % BLOCK..])
    }

    /// Frees what is before `position`: whole blocks, and the front of a full tail once that makes
    /// room for at least half of it.
    pub(super) fn free_before(&mut self, position: u64) {
        while !self.full.is_empty() && self.start + BLOCK as u64 <= position {
            self.full.pop_front();
            self.start += BLOCK as u64;
        }
        if position <= self.tail_start {
            return;
        }
        let done = (position - self.tail_start) as usize;
        if done == self.tail.len() || (self.room() == 0 && done >= self.tail_limit / 2) {
            self.tail.drain(..done);
            self.tail_start = position;
        }
    }
}
