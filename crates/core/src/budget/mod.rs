//! The budget: who may hold how many of the bytes that all buffers together may have in memory.
//!
//! Two sides draw on it. **Intake** (request bodies) may wait; **collect** (response bodies) never
//! does: it is told "full" at once and then reads from its worker only as fast as its client takes.
//! That asymmetry, and these rules, are why the budget cannot deadlock:
//!
//! 1. Intake holds at most [`INTAKE_SHARE`]; a share that only collect windows may use
//!    ([`WINDOW_SHARE`]) is left over by everything else.
//! 2. A body of known length is charged whole, once; it will not ask again, so it will end.
//! 3. Bodies of unknown length grow in steps. The oldest of them is guaranteed to finish: nobody
//!    else may take what it still needs to reach `body_memory_max`.
//! 4. Who waits is served by age, after the guaranteed one, and is shed after `body_wait_max`.
//! 5. What the kernel holds for slow clients is paid from the budget, too, up to [`SOCKET_SHARE`]:
//!    the shares of intake and of windows are left whole, so slow readers can neither keep uploads
//!    out nor bring back relays. A step that 3 promises is given all the same.
//!
//! Proof sketch of 3: let `g` be the guaranteed body, `c` its largest size. Bytes that are free,
//! plus bytes of bodies that will end by themselves, are never less than `c` minus what `g` holds:
//! a grant to `g` lowers both sides alike, a grant to another is only given when the free bytes
//! alone still satisfy it, and when `g` is whole or gone its own bytes join the left side, so
//! whoever is the oldest then finds `c` and is the next `g`. Nor can an older waiter stand before
//! `g`. The banker's algorithm (Dijkstra 1965) does this for every claim; here one claim is kept,
//! because bodies end in any order and one that can always finish is enough.
//!
//! What is in the spill folders is charged here, too, by rules of its own (`disk`).
//!
//! Absent: the bytes themselves, spill extents, wakers (all `runtime`).

mod disk;
mod message;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use message::{BodyId, Charge, Input, Output, Purpose, Side};

use disk::{Disk, Next};

use crate::time::{Duration, Instant};
use crate::units::{ByteSize, Ratio};

/// The most that one side may hold: uploads cannot starve responses, nor slow readers uploads.
///
/// Plain choice: responses of web applications are larger than requests, and windows need room.
pub const INTAKE_SHARE: Ratio = Ratio::from_percent(70);

/// The most that intake may hold while it is given bytes that could be in the spill folder instead.
/// Half of [`INTAKE_SHARE`]: so long as half of it is free, no request that fits into memory goes
/// through a disk. The other half is for the small stages through which bodies spill, so that
/// thousands of slow bodies find room for theirs.
pub const INTAKE_SPARE_SHARE: Ratio = Ratio::from_percent(35);

/// The same for collect. Plain choice: enough for answers that come and go at once; those of a
/// crowd of slow readers stay for long, and are left to the page cache, which knows better what is
/// worth its memory.
pub const COLLECT_SPARE_SHARE: Ratio = Ratio::from_percent(10);

/// The same for the larger pieces in which an answer is written to the spill folder. More than what
/// stays in memory may hold, since it is needed for no longer than the worker sends.
pub const COLLECT_STAGE_SHARE: Ratio = Ratio::from_percent(20);

/// What the kernel's bytes for slow clients may take from the budget: what the other two shares
/// leave. There may be more of them (each client's are capped); the rest is told and not paid.
pub const SOCKET_SHARE: Ratio = Ratio::from_percent(20);

/// What only collect windows may use. Plain choice: 400 windows at the default budget of 256 MiB.
pub const WINDOW_SHARE: Ratio = Ratio::from_percent(10);

/// What each response that has to be buffered is granted first, out of a share that nothing else
/// may use, so that collect has something to work with. The size of one buffer block.
pub const COLLECT_WINDOW: ByteSize = ByteSize::from_kib(64);

/// What a budget can be told before it starts. Every combination is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes that all buffers together may hold in memory. Default 256 MiB.
    pub memory_max: ByteSize,
    /// Bytes of one body that stay in memory, and the size up to which a growing body is guaranteed
    /// to finish; there rounded up to blocks of 64 KiB. More than the intake share counts as that
    /// share. Default 1 MiB.
    pub body_memory_max: ByteSize,
    /// Longest time that one charge waits. Default 5 s.
    pub body_wait_max: Duration,
    /// Most bytes that all bodies together may hold in the spill folders. Zero: there are none.
    pub spill_max: ByteSize,
}

/// The numbers of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The most that may be held.
    pub memory_max: ByteSize,
    /// Held by request bodies now.
    pub intake: ByteSize,
    /// Held by response bodies now, reserved windows included.
    pub collect: ByteSize,
    /// Held in the spill folders now, with what is reserved there.
    pub spilled: ByteSize,
    /// Held by the kernel for clients that read slowly, now. Not limited by `memory_max`.
    pub sockets: ByteSize,
    /// Bodies that wait now.
    pub waiting: u32,
    /// Charges granted so far.
    pub granted: u64,
    /// Charges granted so far that had to wait.
    pub waited: u64,
    /// Charges that were answered "full" so far.
    pub full: u64,
    /// Bodies shed so far: they waited too long, asked for more than there can be, or held up an
    /// older one.
    pub shed: u64,
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    charge: Charge,
    until: Instant,
}

/// The machine. See the module for its rules.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    intake: ByteSize,
    collect: ByteSize,
    sockets: ByteSize,
    /// Bodies of unknown length that are not whole yet, with what they hold. The first is the
    /// oldest.
    growing: BTreeMap<BodyId, ByteSize>,
    /// The one of them that is guaranteed to finish. It stays so even when an older one begins to
    /// grow after it: the promise holds for one at a time.
    guaranteed: Option<BodyId>,
    /// Those who wait for memory. The first is the oldest.
    waiters: BTreeMap<BodyId, Waiter>,
    disk: Disk,
    /// Those who wait for the disk, and until when. A body waits for one of the two at a time.
    at_disk: BTreeMap<BodyId, Instant>,
    deadlines: BTreeSet<(Instant, BodyId)>,
    outputs: VecDeque<Output>,
    now: Instant,
    counts: View,
}

/// The settings, turned into bytes once.
#[derive(Debug)]
struct Limits {
    memory: ByteSize,
    /// What one side may hold.
    side: ByteSize,
    /// Up to where intake is given bytes that could spill.
    intake_spare: ByteSize,
    /// Up to where collect is.
    collect_spare: ByteSize,
    /// Up to where collect is given bytes to write in larger pieces.
    collect_stage: ByteSize,
    /// What sockets may take.
    sockets: ByteSize,
    /// What only windows may use.
    window: ByteSize,
    /// The size up to which the oldest growing body is guaranteed to finish.
    claim: ByteSize,
    wait: Duration,
}

impl Budget {
    /// A budget of which nothing is held.
    pub fn new(settings: &Settings) -> Self {
        let memory = settings.memory_max;
        let share = |ratio: Ratio| ByteSize::from_bytes(ratio.of(memory.as_bytes()));
        let limits = Limits {
            memory,
            side: share(INTAKE_SHARE),
            intake_spare: share(INTAKE_SPARE_SHARE),
            collect_spare: share(COLLECT_SPARE_SHARE),
            collect_stage: share(COLLECT_STAGE_SHARE),
            sockets: share(SOCKET_SHARE),
            window: share(WINDOW_SHARE),
            claim: whole_blocks(settings.body_memory_max).min(share(INTAKE_SHARE)),
            wait: settings.body_wait_max,
        };
        Budget {
            limits,
            intake: ByteSize::ZERO,
            collect: ByteSize::ZERO,
            sockets: ByteSize::ZERO,
            growing: BTreeMap::new(),
            guaranteed: None,
            waiters: BTreeMap::new(),
            disk: Disk::new(settings.spill_max),
            at_disk: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            outputs: VecDeque::new(),
            now: Instant::ZERO,
            counts: View { memory_max: memory, ..View::default() },
        }
    }

    /// Something happened. `now` that goes backwards counts as standing still.
    pub fn handle(&mut self, input: Input, now: Instant) {
        self.now = self.now.max(now);
        match input {
            Input::Charge(charge) => self.charge(charge),
            Input::Wait(charge) => self.wait(charge),
            Input::Complete(body) => self.stop_growing(body),
            Input::Return { side, bytes } => self.give_back(side, bytes),
            Input::ReturnSpill { bytes } => self.disk.give_back(bytes),
            Input::Sockets { before, after } => self.sockets = self.sockets + after - before,
            Input::Close { body, side, bytes, spilled } => {
                self.stop_growing(body);
                self.forget_waiter(body);
                self.give_back(side, bytes);
                self.disk.give_back(spilled);
            }
        }
        self.settle();
    }

    /// The next answer, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When somebody will have waited too long.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Sheds who has waited too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some((until, body)) = self.deadlines.first().copied() {
            if until > self.now {
                break;
            }
            self.forget_waiter(body);
            self.disk.stop_growing(body);
            self.shed(body);
        }
        self.settle();
    }

    /// Would `side` be refused one more block that could be in the spill folder? Then memory is
    /// short for it, and bytes that spill anyway are better written early. Whoever finds room for
    /// whole bodies need not ask.
    pub fn is_short(&self, side: Side) -> bool {
        let purpose = Purpose::Spare(side);
        !self.fits(&Charge { body: BodyId(u64::MAX), bytes: COLLECT_WINDOW, purpose })
    }

    /// The numbers.
    pub fn view(&self) -> View {
        View {
            intake: self.intake,
            collect: self.collect,
            spilled: self.disk.held(),
            sockets: self.sockets,
            waiting: u32::try_from(self.deadlines.len()).unwrap_or(u32::MAX),
            ..self.counts
        }
    }

    /// Panics when a rule of the module is broken. Full sweep, for tests and the simulator.
    pub fn check_invariants(&self) {
        let limits = &self.limits;
        assert!(self.used() <= limits.memory, "more held than there is");
        assert!(self.intake <= limits.side, "intake holds more than its share");
        let grown = self.growing.values().fold(ByteSize::ZERO, |sum, held| sum + *held);
        assert!(grown <= self.intake, "growing bodies hold more than intake");
        assert_eq!(self.guaranteed.is_some(), !self.growing.is_empty(), "nobody is guaranteed");
        assert!(self.guaranteed.is_none_or(|body| self.growing.contains_key(&body)));
        let waiting = self.waiters.len() + self.at_disk.len();
        assert_eq!(waiting, self.deadlines.len(), "a waiter without a deadline");
        self.disk.check_invariants(&self.at_disk.keys().copied().collect());
        for (body, waiter) in &self.waiters {
            assert!(self.deadlines.contains(&(waiter.until, *body)), "a deadline is lost");
            assert!(waiter.charge.bytes <= limits.side, "waits for more than there can be");
        }
        for (body, until) in &self.at_disk {
            assert!(self.deadlines.contains(&(*until, *body)), "a deadline is lost");
        }
        if let Some(waiter) = self.first_waiter() {
            assert!(!self.fits(&waiter.charge), "the first waiter could be served");
        }
    }

    fn charge(&mut self, charge: Charge) {
        if self.fits(&charge) {
            self.grant(charge);
        } else {
            self.counts.full += 1;
            self.outputs.push_back(Output::Full(charge.body));
        }
    }

    fn wait(&mut self, charge: Charge) {
        if charge.purpose.is_spill() {
            return self.wait_for_disk(charge);
        }
        let held = self.growing.get(&charge.body).copied().unwrap_or_default();
        if held + charge.bytes > self.limits.side {
            return self.shed(charge.body);
        }
        if self.fits(&charge) {
            return self.grant(charge);
        }
        let until = self.now + self.limits.wait;
        self.forget_waiter(charge.body);
        self.waiters.insert(charge.body, Waiter { charge, until });
        self.deadlines.insert((until, charge.body));
    }

    fn wait_for_disk(&mut self, charge: Charge) {
        if !self.disk.is_possible(&charge) {
            self.disk.stop_growing(charge.body);
            return self.shed(charge.body);
        }
        if self.disk.fits(&charge) {
            return self.grant(charge);
        }
        let until = self.now + self.limits.wait;
        self.forget_waiter(charge.body);
        self.disk.wait(&charge);
        self.at_disk.insert(charge.body, until);
        self.deadlines.insert((until, charge.body));
    }

    fn used(&self) -> ByteSize {
        self.intake + self.collect
    }

    /// Whether `charge` can be granted now.
    fn fits(&self, charge: &Charge) -> bool {
        if charge.purpose.is_spill() {
            return self.disk.fits(charge);
        }
        let limits = &self.limits;
        let free = limits.memory.saturating_sub(self.used());
        if charge.purpose == Purpose::Window {
            return charge.bytes <= free;
        }
        let sockets = match self.is_promised(charge) {
            true => ByteSize::ZERO,
            false => self.sockets.min(limits.sockets),
        };
        let free = free.saturating_sub(sockets);
        let (held, share) = match charge.purpose {
            Purpose::Spare(Side::Intake) => (self.intake, limits.intake_spare),
            Purpose::Spare(Side::Collect) => (self.collect, limits.collect_spare),
            Purpose::Stage => (self.collect, limits.collect_stage),
            Purpose::Growth | Purpose::Window => (self.collect, limits.side),
            Purpose::Whole | Purpose::Step => (self.intake, limits.side),
            Purpose::SpillWhole | Purpose::SpillStep | Purpose::SpillGrowth => {
                unreachable!("the disk answers for itself, above")
            }
        };
        let room = share.saturating_sub(held).min(free.saturating_sub(limits.window));
        let mine = match charge.purpose {
            Purpose::Whole | Purpose::Step => self.comes_first(charge),
            _ => self.waiters.is_empty(),
        };
        mine && room >= charge.bytes + self.promised_to_other(charge.body)
    }

    /// Whether nobody who waits comes before `charge`.
    fn comes_first(&self, charge: &Charge) -> bool {
        match self.first_waiter() {
            _ if self.is_promised(charge) => true,
            None => true,
            Some(first) => charge.body <= first.charge.body && !self.is_promised(&first.charge),
        }
    }

    /// Whether `charge` is a step of the guaranteed body, within its guarantee.
    fn is_promised(&self, charge: &Charge) -> bool {
        self.guaranteed == Some(charge.body)
            && self.growing.get(&charge.body).copied().unwrap_or_default() + charge.bytes
                <= self.limits.claim
    }

    /// The waiter who is served next: the guaranteed body, else the oldest.
    fn first_waiter(&self) -> Option<&Waiter> {
        self.guaranteed
            .and_then(|body| self.waiters.get(&body))
            .filter(|waiter| self.is_promised(&waiter.charge))
            .or_else(|| self.waiters.values().next())
    }

    /// What the guaranteed body still needs, unless `body` is that one.
    fn promised_to_other(&self, body: BodyId) -> ByteSize {
        match self.guaranteed {
            Some(other) if other != body => {
                let held = self.growing.get(&other).copied().unwrap_or_default();
                self.limits.claim.saturating_sub(held)
            }
            _ => ByteSize::ZERO,
        }
    }

    fn grant(&mut self, charge: Charge) {
        match charge.purpose.side() {
            _ if charge.purpose.is_spill() => self.disk.grant(&charge),
            Side::Intake => self.intake += charge.bytes,
            Side::Collect => self.collect += charge.bytes,
        }
        if charge.purpose == Purpose::Step {
            *self.growing.entry(charge.body).or_default() += charge.bytes;
            self.guaranteed.get_or_insert(charge.body);
        }
        self.counts.granted += 1;
        self.outputs.push_back(Output::Granted(charge.body));
    }

    fn give_back(&mut self, side: Side, bytes: ByteSize) {
        match side {
            Side::Intake => self.intake -= bytes,
            Side::Collect => self.collect -= bytes,
        }
    }

    fn stop_growing(&mut self, body: BodyId) {
        self.disk.stop_growing(body);
        self.growing.remove(&body);
        if self.guaranteed == Some(body) {
            self.guaranteed = self.growing.keys().next().copied();
        }
    }

    /// Grants to waiters in their order, up to the first for whom there is not enough.
    fn settle(&mut self) {
        self.settle_disk();
        while let Some(waiter) = self.first_waiter().copied() {
            if !self.fits(&waiter.charge) {
                return;
            }
            self.forget_waiter(waiter.charge.body);
            self.counts.waited += 1;
            self.grant(waiter.charge);
        }
    }

    /// The same for those who wait for the disk.
    fn settle_disk(&mut self) {
        while let Some(next) = self.disk.next() {
            match next {
                Next::Grant(charge) => {
                    self.forget_waiter(charge.body);
                    self.counts.waited += 1;
                    self.grant(charge);
                }
                Next::Shed(body) => {
                    self.forget_waiter(body);
                    // Its bytes come back when it is closed, which is soon.
                    self.disk.stop_growing(body);
                    self.shed(body);
                }
            }
        }
    }

    fn forget_waiter(&mut self, body: BodyId) {
        if let Some(waiter) = self.waiters.remove(&body) {
            self.deadlines.remove(&(waiter.until, body));
        }
        if let Some(until) = self.at_disk.remove(&body) {
            self.disk.forget_waiter(body);
            self.deadlines.remove(&(until, body));
        }
    }

    fn shed(&mut self, body: BodyId) {
        self.counts.shed += 1;
        self.outputs.push_back(Output::Shed(body));
    }
}

/// `size`, rounded up to the steps in which large bodies grow.
fn whole_blocks(size: ByteSize) -> ByteSize {
    let block = COLLECT_WINDOW.as_bytes();
    ByteSize::from_bytes(size.as_bytes().div_ceil(block).saturating_mul(block))
}
