//! Where the next bytes of a body go: memory, then the spill folders, then nowhere.
//!
//! Order of tries for an append: room in the tail; a larger tail or a further block, if the budget
//! grants it; the spill folders, by handing the tail over to be written and filling another. A body
//! that has begun to spill goes on so until all of it was read; its memory is then the *stage*: the
//! tail, the write under way, and what is loaded for its reader. None of these asks the budget for
//! memory, so a body that can spill never waits for more memory than its first stage, and a
//! response has its stage reserved. Its place in the folders is charged before it is written: all
//! of it where the length is known, an extent at a time where it is not.

use std::task::{Context, Poll, Waker, ready};

use spillgate_core::budget::{COLLECT_WINDOW, Purpose, Side};

use super::blocks::BLOCK;
use super::spilled::{Handed, Place, STAGE, Spilled, WRITE_MAX};
use super::{Buffer, BufferError, FIT_MIN};

/// The largest body that is one right-sized allocation and one charge.
const SMALL_MAX: u64 = 16 * 1024;

/// The smallest allocation, and the step in which allocations grow.
const SMALL_MIN: u64 = 1024;

/// The half of a window that a spilled response is read through, also once it is whole; the other
/// half is its tail.
pub(super) const READ_HALF: u64 = COLLECT_WINDOW.as_bytes() / 2;

/// What an append needs before it can go on.
#[derive(Debug)]
pub(super) enum Room {
    /// Nothing: there is room.
    Made,
    /// A charge that a request body may wait for.
    Wait { bytes: u64, purpose: Purpose },
    /// The spill folder; the waker is told.
    Later,
    /// A reader that takes something.
    Full,
}

impl Buffer {
    /// Makes room for at least one of `rest` bytes.
    pub(super) fn make_room(
        &mut self,
        rest: usize,
        waker: Option<&Waker>,
    ) -> Result<Room, BufferError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.spilled.is_none() {
            if self.grow_in_memory(rest) {
                return Ok(Room::Made);
            }
            if !self.can_spill() {
                return Ok(self.no_memory(rest));
            }
            self.begin_spill();
        }
        self.make_stage(rest, waker)
    }

    /// Bytes of memory in use.
    pub(super) fn held(&self) -> u64 {
        self.blocks.held() + self.spilled.as_ref().map_or(0, |spilled| spilled.held())
    }

    /// Charged bytes that nothing uses.
    fn free(&self) -> u64 {
        self.account.charged().saturating_sub(self.held())
    }

    /// The charge that the body still needs, now or for its stage.
    pub(super) fn needed(&self) -> u64 {
        let reserved = match (self.side, self.finished, self.spilled.is_some()) {
            // Beside full blocks a whole window, so that there is one to spill through.
            (Side::Collect, false, _) => self.blocks.full_len() + COLLECT_WINDOW.as_bytes(),
            (Side::Intake, _, true) => self.account.charged(),
            // What is read of a whole response is mostly in the page cache, and sent from there.
            (Side::Collect, true, true) | (_, _, false) => 0,
        };
        self.held().max(reserved)
    }

    /// Gives back what a response needs no longer, in large steps so that locks stay rare.
    pub(super) fn trim(&mut self) {
        if let Some(spilled) = &mut self.spilled {
            // Only a look; whoever needs the room waits for the write.
            _ = spilled.poll_write(None);
        }
        let step = if self.finished { FIT_MIN } else { BLOCK as u64 };
        if self.account.charged() >= self.needed() + step {
            self.account.shrink_to(self.needed());
        }
    }

    /// Enlarges the tail, or begins another after it, if the budget and the limit of a body allow.
    fn grow_in_memory(&mut self, rest: usize) -> bool {
        if self.blocks.tail_limit() > BLOCK {
            // It was to be written, and is all that is left of what had spilled.
            return false;
        }
        let roll = self.blocks.tail_limit() == BLOCK;
        let limit = self.next_limit(rest, roll);
        let tail = if roll { 0 } else { self.blocks.tail_limit() };
        // What is charged is used before more is asked for.
        let paid = self.account.charged().saturating_sub(self.blocks.full_len()) as usize;
        let limit = if !roll && paid > tail { limit.min(paid) } else { limit };
        let held = self.blocks.held() + (limit - tail) as u64;
        if held > self.in_memory_max() {
            return false;
        }
        let needed = match (self.side, roll) {
            (Side::Intake, _) => held,
            (Side::Collect, roll) => self.needed() + if roll { BLOCK as u64 } else { 0 },
        };
        if needed > self.account.charged() {
            let (bytes, purpose) = self.wish(needed - self.account.charged());
            if !self.account.charge(bytes, purpose) {
                return false;
            }
        }
        if roll {
            self.blocks.roll();
        }
        self.blocks.grow(limit);
        true
    }

    /// How large the tail should be next, or the first tail after it (`roll`): it grows with what
    /// has come, by half at least, so that a body which trickles holds little more than that.
    fn next_limit(&self, rest: usize, roll: bool) -> usize {
        let start = if roll { self.len } else { self.blocks.tail_start() };
        let filled = self.len - start;
        let wanted = (filled + rest as u64).max(filled + filled / 2);
        let wanted = wanted.next_multiple_of(SMALL_MIN);
        let limit = match self.known_len.map_or(0, |known| known.saturating_sub(start)) {
            known if known > filled => wanted.min(known),
            _ => wanted,
        };
        limit.min(BLOCK as u64) as usize
    }

    /// What one body may hold in memory.
    fn in_memory_max(&self) -> u64 {
        let storage = &self.account.storage;
        match storage.spill {
            Some(_) => storage.body_memory_max.max(SMALL_MAX),
            None => u64::MAX,
        }
    }

    /// What to charge when `missing` more bytes of memory are needed.
    fn wish(&self, missing: u64) -> (u64, Purpose) {
        let charged = self.account.charged();
        let spills = self.account.storage.spill.is_some();
        if self.side == Side::Collect {
            return match charged + missing <= COLLECT_WINDOW.as_bytes() {
                true => (missing, Purpose::Window),
                false if spills => (missing, Purpose::Spare(Side::Collect)),
                false => (missing, Purpose::Growth),
            };
        }
        let first = match self.known_len {
            Some(known) if spills => missing.max(known.min(SMALL_MAX)),
            Some(known) => missing.max(known),
            None if missing > SMALL_MAX => missing.next_multiple_of(BLOCK as u64),
            None => SMALL_MAX,
        };
        match (charged, spills) {
            (0, true) if first > SMALL_MAX => (first, Purpose::Spare(Side::Intake)),
            (0, true) => (first, Purpose::Whole),
            (0, false) if self.known_len.is_some() => (first, Purpose::Whole),
            (0, false) => (first, Purpose::Step),
            (_, true) => (missing.next_multiple_of(STAGE), Purpose::Spare(Side::Intake)),
            (_, false) if self.known_len.is_some() => (missing, Purpose::Step),
            (_, false) => {
                let whole = (charged + missing).next_multiple_of(BLOCK as u64);
                (whole - charged, Purpose::Step)
            }
        }
    }

    /// The budget has said no, and there is nothing to spill through.
    fn no_memory(&mut self, rest: usize) -> Room {
        if self.side == Side::Collect {
            return self.full();
        }
        let roll = self.blocks.tail_limit() == BLOCK;
        let limit = self.next_limit(rest, roll) as u64;
        let tail = if roll { 0 } else { self.blocks.tail_limit() as u64 };
        let held = self.blocks.held() + limit - tail;
        match self.wish(held - self.account.charged()) {
            (_, Purpose::Spare(_)) => Room::Wait { bytes: STAGE, purpose: Purpose::Whole },
            (bytes, purpose) => Room::Wait { bytes, purpose },
        }
    }

    fn full(&mut self) -> Room {
        if !self.relayed {
            self.relayed = true;
            self.account.storage.count_relay();
        }
        Room::Full
    }

    /// Whether there is a spill folder, and memory for a stage.
    fn can_spill(&self) -> bool {
        let stage = self.account.charged().saturating_sub(self.blocks.full_len());
        let needed = if self.side == Side::Collect { 2 * STAGE } else { STAGE };
        self.account.storage.spill.is_some() && stage >= needed
    }

    fn begin_spill(&mut self) {
        let storage = &self.account.storage;
        let spill = storage.spill.as_ref().expect("only who can spill begins to");
        self.spilled = Some(Box::new(Spilled::new(spill, self.blocks.tail_start(), self.side)));
        storage.count_spill();
    }

    /// Makes room in the tail of a body that spills.
    fn make_stage(&mut self, rest: usize, waker: Option<&Waker>) -> Result<Room, BufferError> {
        loop {
            self.widen_stage();
            if let Some(size) = self.tail_size() {
                let limit = self.stage_limit(rest, size);
                if limit > self.blocks.tail_limit() {
                    self.blocks.grow(limit);
                    return Ok(Room::Made);
                }
            }
            let spilled = self.spilled.as_mut().expect("it spills");
            if spilled.is_writing() {
                if spilled.poll_write(waker).is_pending() {
                    return Ok(Room::Later);
                }
            } else if self.blocks.tail_limit() > 0 {
                if let Some(room) = self.hand_over(waker)? {
                    return Ok(room);
                }
            } else if self.side == Side::Intake && spilled.reader_memory() > 0 {
                spilled.unload();
            } else {
                let error = spilled.broken().unwrap_or(BufferError::SpillFull);
                return self.no_place(error);
            }
        }
    }

    /// Charges memory for a larger tail of a response that is still coming, if there is some: most
    /// of what a write costs is the wakes of the threads on both ends of it.
    fn widen_stage(&mut self) {
        if self.side == Side::Intake || self.finished {
            return;
        }
        let tail = self.blocks.tail_limit() as u64;
        let coming = self.known_len.map_or(WRITE_MAX, |known| known.saturating_sub(self.len));
        let more = coming.min(WRITE_MAX - tail);
        let missing = (more + READ_HALF).saturating_sub(self.free());
        if more > 0 && missing > 0 {
            // Where it is refused, what is free has to do.
            self.account.charge(missing, Purpose::Stage);
        }
    }

    /// How large the tail of a body that spills should be next, of `size` at most.
    fn stage_limit(&self, rest: usize, size: usize) -> usize {
        if size <= BLOCK {
            return self.next_limit(rest, false).min(size);
        }
        match self.known_len.map_or(0, |known| known.saturating_sub(self.blocks.tail_start())) {
            0 => (self.blocks.tail_limit() * 2).clamp(BLOCK, size),
            known => size.min(known as usize),
        }
    }

    /// How large the tail of a body that spills may be; none: there is no memory for one.
    fn tail_size(&self) -> Option<usize> {
        let reader = self.spilled.as_ref().map_or(0, |spilled| spilled.reader_memory());
        let reserved = match self.side {
            Side::Intake => 0,
            Side::Collect => READ_HALF.saturating_sub(reader),
        };
        let free = self.free() + self.blocks.tail_limit() as u64;
        let size = free.saturating_sub(reserved).max(free.saturating_sub(STAGE).min(STAGE));
        let size = if self.side == Side::Intake { free } else { size };
        // Where nothing is written any more, what is left of a request may still fit.
        let is_broken = self.spilled.as_ref().is_some_and(|spilled| spilled.broken().is_some());
        let least = if self.side == Side::Intake && is_broken { 1 } else { STAGE };
        let most = if self.side == Side::Intake { BLOCK as u64 } else { WRITE_MAX };
        (size >= least).then_some(size.min(most) as usize)
    }

    /// Hands the full tail over to be written. None: it is being written.
    fn hand_over(&mut self, waker: Option<&Waker>) -> Result<Option<Room>, BufferError> {
        let spilled = self.spilled.as_mut().expect("it spills");
        if let Some(error) = spilled.broken() {
            return self.no_place(error).map(Some);
        }
        if let Some((bytes, purpose)) = self.spill_wish()
            && !self.account.charge(bytes, purpose)
        {
            return Ok(Some(match self.side {
                Side::Intake => Room::Wait { bytes, purpose },
                Side::Collect => self.full(),
            }));
        }
        let spilled = self.spilled.as_mut().expect("it spills");
        match spilled.write(self.blocks.take_tail(), waker) {
            Handed::Writing => Ok(None),
            Handed::Later(tail) => {
                self.blocks.put_back(tail);
                Ok(Some(Room::Later))
            }
        }
    }

    /// What has to be charged in the spill folders before the tail is written there.
    fn spill_wish(&self) -> Option<(u64, Purpose)> {
        let spilled = self.spilled.as_ref().expect("it spills");
        let charged = self.account.spilled();
        let needed = spilled.needed(self.len);
        if needed <= charged {
            return None;
        }
        let whole = self.known_len.map_or(needed, |known| needed.max(spilled.needed(known)));
        Some(match (self.side, self.known_len, self.finished) {
            (Side::Collect, ..) => (needed - charged, Purpose::SpillGrowth),
            (Side::Intake, None, false) => (needed - charged, Purpose::SpillStep),
            (Side::Intake, ..) => (whole - charged, Purpose::SpillWhole),
        })
    }

    /// Whether the place in the spill folders that the tail needs is charged, or can be now.
    pub(super) fn has_place(&mut self) -> bool {
        self.spill_wish().is_none_or(|(bytes, purpose)| self.account.charge(bytes, purpose))
    }

    /// Gives back the place of what was read.
    pub(super) fn trim_spill(&mut self) {
        let held = self.spilled.as_ref().map_or(0, |spilled| spilled.held_on_disk());
        self.account.shrink_spill_to(held);
    }

    /// The spill folders take nothing more. A request that needs them ends; a response is full.
    fn no_place(&mut self, error: BufferError) -> Result<Room, BufferError> {
        match self.side {
            Side::Intake => Err(self.fail(error)),
            Side::Collect => Ok(self.full()),
        }
    }

    pub(super) fn fail(&mut self, error: BufferError) -> BufferError {
        self.failed = Some(error);
        error
    }

    /// Ready when the next unread byte is in memory, or there is none.
    pub(super) fn poll_loaded(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BufferError>> {
        loop {
            if let Some(error) = self.failed {
                return Poll::Ready(Err(error));
            }
            if self.unread() == 0 || self.blocks.at(self.read).is_some() {
                return Poll::Ready(Ok(()));
            }
            let spilled = self.spilled.as_mut().expect("what is not in memory is spilled");
            match spilled.at(self.read) {
                Place::Memory(_) => return Poll::Ready(Ok(())),
                Place::Disk => {
                    if let Err(error) = ready!(self.poll_load(cx.waker())) {
                        return Poll::Ready(Err(self.fail(error)));
                    }
                }
                Place::Writing => ready!(spilled.poll_write(Some(cx.waker()))),
            }
        }
    }

    /// Loads the next unread bytes, or takes a step towards having memory for them.
    fn poll_load(&mut self, waker: &Waker) -> Poll<Result<(), BufferError>> {
        let most = match self.side {
            Side::Collect => READ_HALF,
            Side::Intake => BLOCK as u64,
        };
        let wanted = most.min(self.unread()).saturating_sub(self.free());
        let in_all = self.account.charged() + wanted;
        match self.side {
            _ if wanted == 0 => {}
            // On its way to a worker, whose slot is taken: larger steps, if there is room.
            Side::Intake if in_all <= self.in_memory_max() => {
                self.account.charge(wanted, Purpose::Whole);
            }
            Side::Collect if self.finished => {
                self.account.charge(wanted, Purpose::Window);
            }
            _ => {}
        }
        let memory = self.free().min(most);
        let spilled = self.spilled.as_mut().expect("it spills");
        if spilled.reader_memory() == 0 && memory < STAGE {
            if spilled.is_writing() {
                ready!(spilled.poll_write(Some(waker)));
                return Poll::Ready(Ok(()));
            }
            if self.blocks.tail_len() == 0 {
                drop(self.blocks.take_tail());
            } else if spilled.broken().is_none() && self.has_place() {
                let spilled = self.spilled.as_mut().expect("it spills");
                match spilled.write(self.blocks.take_tail(), Some(waker)) {
                    Handed::Writing => return Poll::Ready(Ok(())),
                    Handed::Later(tail) => {
                        self.blocks.put_back(tail);
                        return Poll::Pending;
                    }
                }
            }
            // Where the folders are full the tail stays: read through one stage more than is
            // charged, as after a failed write. The alternative is a body that can be neither read
            // nor ended.
        }
        let memory = self.free().min(most).max(STAGE);
        let spilled = self.spilled.as_mut().expect("it spills");
        spilled.poll_load(self.read, memory, waker)
    }
}
