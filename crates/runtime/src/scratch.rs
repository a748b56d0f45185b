//! The buffers into which sockets are read.
//!
//! A shard has a few large buffers and lends them by value. Whoever reads from a socket takes one,
//! finishes its step synchronously where it can, and drops it, so that 10,000 connections share two
//! or three buffers that stay in the processor's cache. That is the largest single lever on the CPU
//! cost of a proxy (measured: `docs/decisions/0001-own-http1-codec.md`).
//!
//! Invariant: nobody holds a scratch over a suspension unless it is at least half full; for an
//! answer, of which there are no more than slots, an eighth is enough. [`Scratch::park`] is how a
//! step that has to wait lets go of it.

use std::cell::RefCell;
use std::ops::Range;

/// Bytes in one scratch: a head of some hundred bytes and a body of 64 KiB fit.
pub const SIZE: usize = 72 * 1024;

/// Space below which a read is not worth its call: moving what is there costs less than another.
const SPACE_MIN: usize = 4 * 1024;

/// Free buffers that one shard keeps at most; more are given back to the allocator.
const KEPT_MAX: usize = 512;

/// Free buffers that a shard keeps for good; those beyond it go bit by bit.
const KEPT_IDLE: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Give back an eighth of the free buffers that only a burst needed, those unused for longest. To
/// be called now and then; making a buffer costs more than keeping it for the next moment.
pub fn shrink() {
    FREE.with_borrow_mut(|free| {
        let surplus = free.len().saturating_sub(KEPT_IDLE);
        free.drain(..surplus.div_ceil(8));
    });
}

/// A buffer lent by this thread; goes back when dropped.
#[derive(Debug)]
pub struct Scratch {
    buffer: Box<[u8]>,
    used: Range<usize>,
}

impl Scratch {
    /// Take a buffer; it is empty.
    pub fn lend() -> Scratch {
        let buffer =
            FREE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; SIZE].into_boxed_slice());
        Scratch { buffer, used: 0..0 }
    }

    /// The bytes in it that were not consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.used.clone()]
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Does it hold nothing?
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Forget the first `count` bytes.
    ///
    /// Panics when it holds fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.used.len(), "consumed more than the scratch holds");
        self.used.start += count;
        if self.used.is_empty() {
            self.used = 0..0;
        }
    }

    /// Forget all but the first `count` bytes.
    pub fn truncate(&mut self, count: usize) {
        self.used.end = self.used.end.min(self.used.start + count);
    }

    /// The free space behind the bytes.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used.end..]
    }

    /// `count` bytes were written to the space.
    ///
    /// Panics when there was less space.
    pub fn filled(&mut self, count: usize) {
        assert!(self.used.end + count <= self.buffer.len(), "filled past the end of a scratch");
        self.used.end += count;
    }

    /// Before a read: where space is short, move the bytes to the front, if that moves less than it
    /// gains or hardly any space is left.
    pub fn make_room(&mut self) {
        let space = self.buffer.len() - self.used.end;
        let is_cheap = self.used.start >= self.used.len();
        if space < SPACE_MIN || (space < SIZE / 4 && is_cheap) {
            self.compact();
        }
    }

    fn compact(&mut self) {
        if self.used.start > 0 {
            self.buffer.copy_within(self.used.clone(), 0);
            self.used = 0..self.used.len();
        }
    }

    /// Append what fits of `bytes`; returns how many that were.
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let space = self.space();
        let count = bytes.len().min(space.len());
        space[..count].copy_from_slice(&bytes[..count]);
        self.filled(count);
        count
    }

    /// The same bytes in a form that may be held while waiting: a right-sized copy, or the scratch
    /// itself where the copy would be more than half of it.
    pub fn park(self) -> Parked {
        self.park_above(SIZE / 2)
    }

    /// The same, where more than `keep` bytes keep the scratch. For holders of whom there are few.
    pub fn park_above(self, keep: usize) -> Parked {
        if self.len() > keep { Parked::Whole(self) } else { Parked::Copy(self.bytes().to_vec(), 0) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // Fails only while the thread ends: then the allocator takes it.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT_MAX && buffer.len() == SIZE {
                free.push(buffer);
            }
        });
    }
}

/// Bytes that wait for something.
#[derive(Debug)]
pub enum Parked {
    /// A right-sized copy, and how much of it is consumed.
    Copy(Vec<u8>, usize),
    /// A scratch that was more than half full.
    Whole(Scratch),
}

impl Parked {
    /// No bytes, no memory.
    pub const fn empty() -> Parked {
        Parked::Copy(Vec::new(), 0)
    }

    /// The bytes that were not consumed.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Parked::Copy(bytes, consumed) => &bytes[*consumed..],
            Parked::Whole(scratch) => scratch.bytes(),
        }
    }

    /// Forget the first `count` bytes.
    ///
    /// Panics when it holds fewer.
    pub fn consume(&mut self, count: usize) {
        match self {
            Parked::Copy(bytes, consumed) => {
                assert!(count <= bytes.len() - *consumed, "consumed more than was parked");
                *consumed += count;
                if *consumed == bytes.len() {
                    *self = Parked::empty();
                }
            }
            Parked::Whole(scratch) => {
                scratch.consume(count);
                if scratch.is_empty() {
                    *self = Parked::empty();
                }
            }
        }
    }

    /// Take the bytes back into a scratch, to work on them.
    pub fn into_scratch(self) -> Scratch {
        match self {
            Parked::Copy(bytes, consumed) => {
                let mut scratch = Scratch::lend();
                let taken = scratch.extend(&bytes[consumed..]);
                assert_eq!(taken, bytes.len() - consumed, "more was parked than a scratch holds");
                scratch
            }
            Parked::Whole(scratch) => scratch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_scratch_is_lent_again() {
        let mut first = Scratch::lend();
        first.extend(b"x");
        let place = first.buffer.as_ptr();
        drop(first);
        let second = Scratch::lend();
        assert_eq!(second.buffer.as_ptr(), place);
        assert!(second.is_empty());
    }

    #[test]
    fn what_a_burst_needed_is_given_back() {
        let burst: Vec<Scratch> = (0..100).map(|_| Scratch::lend()).collect();
        drop(burst);
        let free = || FREE.with_borrow(Vec::len);
        assert_eq!(free(), 100);
        for _ in 0..100 {
            shrink();
        }
        assert_eq!(free(), KEPT_IDLE);
    }

    #[test]
    fn small_contents_are_copied_and_large_ones_kept() {
        let mut small = Scratch::lend();
        small.extend(b"head");
        assert!(matches!(small.park(), Parked::Copy(ref bytes, 0) if bytes == b"head"));
        let mut large = Scratch::lend();
        large.extend(&vec![7; SIZE - 1]);
        assert!(matches!(large.park(), Parked::Whole(_)));
    }

    #[test]
    fn bytes_are_moved_only_where_that_gains_more() {
        let mut scratch = Scratch::lend();
        scratch.extend(&vec![7; SIZE - SIZE / 8]);
        scratch.consume(100);
        scratch.make_room();
        assert_eq!(scratch.space().len(), SIZE / 8, "little would be gained");
        scratch.consume(SIZE / 2);
        scratch.make_room();
        assert_eq!(scratch.space().len(), SIZE / 8 + 100 + SIZE / 2);
        scratch.extend(&vec![7; SIZE]);
        scratch.consume(1);
        scratch.make_room();
        assert_eq!(scratch.space().len(), 1, "there was none");
    }

    #[test]
    fn parked_bytes_come_back_in_order() {
        let mut scratch = Scratch::lend();
        scratch.extend(b"abcdef");
        scratch.consume(2);
        let mut parked = scratch.park();
        parked.consume(1);
        assert_eq!(parked.bytes(), b"def");
        assert_eq!(parked.into_scratch().bytes(), b"def");
    }
}
