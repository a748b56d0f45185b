//! What a body writes to its spill folder before it has to, and what it leaves there.
//!
//! A slow body holds memory for as long as it lasts, so where memory is short its tail is written
//! as soon as that is worth a write, and a slow reader's bytes stay on disk until they can be sent.
//! Where memory is not short nothing is written that would have stayed in memory.
//!
//! The rule for "short" is the budget's alone ([`Budget::is_short`]): it would refuse a block that
//! could spill. Nobody waits for such a write; where it cannot be done the tail stays.
//!
//! [`Budget::is_short`]: spillgate_core::budget::Budget::is_short

use std::task::{Context, Poll};

use spillgate_core::budget::Side;

use super::Buffer;
use super::blocks::BLOCK;
use super::spilled::{Handed, Place, STAGE, Spilled};
use crate::scratch::Scratch;

/// A tail is written ahead when it holds so much. Plain choice: half a stage; the work of a write
/// hardly depends on its size.
const AHEAD_MIN: u64 = STAGE / 2;

/// Most bytes that are copied out of the page cache at once, for one send.
const SEND_MAX: usize = BLOCK;

impl Buffer {
    /// Hands the tail over to be written although there is room in it, if that is worth a write.
    pub(super) fn write_ahead(&mut self) {
        if self.spilled.is_none() || self.blocks.tail_len() < AHEAD_MIN || !self.lasts() {
            return;
        }
        let spilled = self.spilled.as_mut().expect("it spills");
        if spilled.poll_write(None).is_pending()
            || spilled.broken().is_some()
            || !self.account.storage.is_short(self.side)
            || !self.has_place()
        {
            return;
        }
        let spilled = self.spilled.as_mut().expect("it spills");
        if let Handed::Later(tail) = spilled.write(self.blocks.take_tail(), None) {
            self.blocks.put_back(tail);
        }
    }

    /// Of a whole response: writes what had to wait for another write, and gives memory back when
    /// that is done. To be called whenever its task is woken, which this sees to.
    pub fn poll_settled(&mut self, cx: &mut Context<'_>) {
        let is_writing =
            |spilled: &mut Box<Spilled>| spilled.poll_write(Some(cx.waker())).is_pending();
        if !self.finished || self.spilled.as_mut().is_none_or(is_writing) {
            return;
        }
        self.write_ahead();
        // Asks to be woken, too.
        _ = self.spilled.as_mut().map(is_writing);
        self.trim();
    }

    /// Will the tail stay for some time? That of a request until the rest has come; it is read as
    /// soon as it is whole. That of a response while its reader has others to take before it, or
    /// where it is more than a window.
    fn lasts(&self) -> bool {
        match self.side {
            Side::Intake => self.known_len != Some(self.len),
            Side::Collect => {
                self.read < self.blocks.tail_start() || self.blocks.tail_len() > BLOCK as u64
            }
        }
    }

    /// Ready unless the next unread bytes are being written: for who would rather read them from
    /// the page cache than wait for them with memory in its hands.
    pub fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_spilled = self.unread() > 0 && self.blocks.at(self.read).is_none();
        match &mut self.spilled {
            Some(spilled) if is_spilled && matches!(spilled.at(self.read), Place::Writing) => {
                spilled.poll_write(Some(cx.waker()))
            }
            _ => Poll::Ready(()),
        }
    }

    /// Are the next unread bytes on disk, and nothing done yet to load them?
    pub fn is_away(&self) -> bool {
        self.unread() > 0
            && self.blocks.at(self.read).is_none()
            && self.spilled.as_ref().is_some_and(|spilled| !spilled.is_loading(self.read))
    }

    /// Copies the next unread bytes, which are on disk, into `scratch` where they are in the page
    /// cache, too. False: they may not be, and have to be loaded ([`Buffer::poll_chunk`]). Never
    /// blocks, and holds nothing: what is not consumed is copied again.
    pub fn copy_cached(&self, scratch: &mut Scratch) -> bool {
        let Some(spilled) = &self.spilled else { return false };
        let space = scratch.space();
        let most = space.len().min(SEND_MAX);
        let count = spilled.read_cached(self.read, &mut space[..most]);
        scratch.filled(count);
        count > 0
    }
}
