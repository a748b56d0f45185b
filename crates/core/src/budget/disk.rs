//! Who may hold how many of the bytes in the spill folders.
//!
//! The rules are not those of memory, since here a body may want all that there is, and may be as
//! slow as a client likes:
//!
//! 1. A body of known length is charged whole before its first byte is written, or waits; it will
//!    not ask again, so it will end. What could never fit is shed at once.
//! 2. Bodies of unknown length take steps, and use what is free. Who holds something comes before
//!    who holds nothing: waiting steps are served first, by age, then waiting wholes, by age.
//! 3. When the oldest waiting step cannot be served, every other body of unknown length waits, too,
//!    and what all others give back would not do, the youngest of those that wait is shed, until it
//!    does. So the oldest is never stopped by younger ones, and one always finishes.
//! 4. Responses never wait, and take only what nobody waits for.
//!
//! Rejected: the promise that the oldest growing body has in memory. It would have to be as large
//! as the largest body allowed, and one slow client could keep that much of the disk idle for as
//! long as it likes.
//!
//! Absent: extents and files (`runtime`), and waiting itself (the parent).

use std::collections::{BTreeMap, BTreeSet};

use super::message::{BodyId, Charge, Purpose};
use crate::units::ByteSize;

/// What came of looking at who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This one is served.
    Grant(Charge),
    /// This one has to go, so that an older one can go on.
    Shed(BodyId),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Disk {
    max: ByteSize,
    held: ByteSize,
    /// Bodies of unknown length that are not whole yet, with what they hold.
    growing: BTreeMap<BodyId, ByteSize>,
    /// Who waits, by age: those that hold something, and those that hold nothing yet.
    steps: BTreeMap<BodyId, ByteSize>,
    wholes: BTreeMap<BodyId, ByteSize>,
}

impl Disk {
    /// Nothing is held of `max`; zero: nothing spills.
    pub(super) fn new(max: ByteSize) -> Disk {
        Disk {
            max,
            held: ByteSize::ZERO,
            growing: BTreeMap::new(),
            steps: BTreeMap::new(),
            wholes: BTreeMap::new(),
        }
    }

    pub(super) fn held(&self) -> ByteSize {
        self.held
    }

    /// Whether `charge` could be granted if nobody else held anything.
    pub(super) fn is_possible(&self, charge: &Charge) -> bool {
        self.held_by(charge.body) + charge.bytes <= self.max
    }

    /// Whether `charge` can be granted now.
    pub(super) fn fits(&self, charge: &Charge) -> bool {
        let comes_first = match charge.purpose {
            Purpose::SpillStep => first(&self.steps).is_none_or(|first| charge.body <= first),
            Purpose::SpillWhole => {
                self.steps.is_empty()
                    && first(&self.wholes).is_none_or(|first| charge.body <= first)
            }
            _ => self.steps.is_empty() && self.wholes.is_empty(),
        };
        comes_first && charge.bytes <= self.free()
    }

    pub(super) fn grant(&mut self, charge: &Charge) {
        self.held += charge.bytes;
        if charge.purpose == Purpose::SpillStep {
            *self.growing.entry(charge.body).or_default() += charge.bytes;
        }
    }

    pub(super) fn wait(&mut self, charge: &Charge) {
        match charge.purpose {
            Purpose::SpillStep => self.steps.insert(charge.body, charge.bytes),
            _ => self.wholes.insert(charge.body, charge.bytes),
        };
    }

    pub(super) fn forget_waiter(&mut self, body: BodyId) {
        self.steps.remove(&body);
        self.wholes.remove(&body);
    }

    /// The body will not ask again: what it holds comes back by itself.
    pub(super) fn stop_growing(&mut self, body: BodyId) {
        self.growing.remove(&body);
    }

    pub(super) fn give_back(&mut self, bytes: ByteSize) {
        self.held -= bytes;
    }

    /// What can be done for those who wait, if anything.
    pub(super) fn next(&self) -> Option<Next> {
        if let Some((body, bytes)) = self.steps.first_key_value() {
            let charge = Charge { body: *body, bytes: *bytes, purpose: Purpose::SpillStep };
            return match self.fits(&charge) {
                true => Some(Next::Grant(charge)),
                false => self.in_the_way(&charge).map(Next::Shed),
            };
        }
        let (body, bytes) = self.wholes.first_key_value()?;
        let charge = Charge { body: *body, bytes: *bytes, purpose: Purpose::SpillWhole };
        self.fits(&charge).then_some(Next::Grant(charge))
    }

    /// Whom rule 3 sheds so that the first step can go on.
    fn in_the_way(&self, first: &Charge) -> Option<BodyId> {
        let grown = self.growing.values().fold(ByteSize::ZERO, |sum, held| sum + *held);
        let will_be_free = self.max.saturating_sub(grown);
        let all_wait = self.growing.keys().all(|body| self.steps.contains_key(body));
        if first.bytes <= will_be_free || !all_wait {
            return None;
        }
        let holds = |body: &&BodyId| **body != first.body && self.growing.contains_key(*body);
        self.steps.keys().rev().find(holds).copied()
    }

    fn free(&self) -> ByteSize {
        self.max.saturating_sub(self.held)
    }

    fn held_by(&self, body: BodyId) -> ByteSize {
        self.growing.get(&body).copied().unwrap_or_default()
    }

    /// Panics when a rule is broken. `waiting` are those that the parent knows to wait.
    pub(super) fn check_invariants(&self, waiting: &BTreeSet<BodyId>) {
        assert!(self.held <= self.max, "more is spilled than there is room");
        let grown = self.growing.values().fold(ByteSize::ZERO, |sum, held| sum + *held);
        assert!(grown <= self.held, "growing bodies hold more than is held");
        let all: BTreeSet<BodyId> = self.steps.keys().chain(self.wholes.keys()).copied().collect();
        assert_eq!(&all, waiting, "a waiter for the disk is lost");
        assert_eq!(self.next(), None, "somebody could be served, or is in the way");
    }
}

fn first(waiting: &BTreeMap<BodyId, ByteSize>) -> Option<BodyId> {
    waiting.first_key_value().map(|(body, _)| *body)
}
