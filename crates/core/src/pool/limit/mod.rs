//! How many exchanges a worker can hold well, learned from what it does with them.
//!
//! `slots` is a promise: more than that a worker never gets. How many of them it can use without
//! being slowed down depends on its processors, its locks and the database behind it, and changes.
//! With [`Limit::Gradient`] and [`Limit::Aimd`] that is learned, for each worker, from the answers
//! that come anyhow. What a worker may hold is the least of what is configured, what the worker
//! grants and what is learned ([`super::Worker::limit`]).
//!
//! Absent: windows in which the limit is lowered to measure (their authors' users report that they
//! cost answers: Envoy's issues 8337 and 18152), a floor that is tied to anything else, and any
//! reckoning where the limit is fixed.

mod aimd;
mod gradient;

use crate::gate::Limit;
use crate::stats::octave::Octaves;
use crate::time::Instant;

use aimd::Aimd;
use gradient::Gradient;

/// Between what a limit is learned, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) by: Limit,
    /// At least 1.
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// An exchange that came back from its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) granted: Instant,
    /// Exchanges in the worker, this one among them.
    pub(crate) inside: u32,
    /// Somebody waits for a slot.
    pub(crate) wanted: bool,
    pub(crate) went: Went,
}

/// What an exchange says of how its worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Went {
    /// It was answered; how long it took beside what its kind takes. None: too little is known of
    /// the kind.
    Well(Option<Octaves>),
    /// It was not answered in time, or turned away.
    Overload,
}

/// The learned limit of one worker.
#[derive(Debug)]
pub(crate) enum Learned {
    Gradient(Box<Gradient>),
    Aimd(Aimd),
}

impl Learned {
    /// What is learned of a process of which nothing is known; none: its limit is fixed.
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Option<Learned> {
        match bounds.by {
            Limit::Fixed => None,
            Limit::Gradient => Some(Learned::Gradient(Box::new(Gradient::new(bounds.min, now)))),
            Limit::Aimd => Some(Learned::Aimd(Aimd::new(bounds.max, now))),
        }
    }

    /// Exchanges that the worker should hold at most.
    pub(crate) fn limit(&self) -> u32 {
        match self {
            Learned::Gradient(gradient) => gradient.limit(),
            Learned::Aimd(aimd) => aimd.limit(),
        }
    }

    /// By how much the worker is slowed down, for those who learn what its kinds of exchanges take;
    /// none where that is not followed.
    pub(crate) fn level(&self) -> Option<Octaves> {
        match self {
            Learned::Gradient(gradient) => Some(gradient.level()),
            Learned::Aimd(_) => None,
        }
    }

    /// An exchange came back.
    pub(crate) fn hear(&mut self, answer: Answer, bounds: Bounds, now: Instant) {
        match self {
            Learned::Gradient(gradient) => gradient.hear(answer, bounds, now),
            Learned::Aimd(aimd) => aimd.hear(answer, bounds, now),
        }
    }

    pub(super) fn check_invariants(&self, bounds: Bounds) {
        let limit = self.limit();
        assert!((bounds.min..=bounds.max).contains(&limit), "a learned limit of {limit}");
    }
}

/// Nine tenths of a limit, one less at least: what is left of it after an overload. AIMD's factor
/// in Netflix's concurrency-limits.
fn back_off(limit: u32, min: u32) -> u32 {
    let left = (u64::from(limit) * 9 / 10) as u32;
    left.min(limit - 1).max(min)
}
