//! Turning away early, once it is certain that not everybody can be served.
//!
//! A line first takes what comes: a crowd, a restart and a killed worker are bridged by it, and
//! nobody is shed for them. Only when somebody who waited was shed (for its deadline, for the wait,
//! or because the line was full) is it certain that more comes than can be served; and where
//! nothing is promised, when a long line grows ([`growth`]). From then on until it is over,
//! - the share of the arrivals that is too much is measured ([`ratio`]),
//! - the line is cut to what keeps the workers busy, the shorter the more comes: whoever is served
//!   then is served soon, and who is not is told at once and not after the whole wait,
//! - the least important are turned away on arrival, by class and cohort, so that the same users
//!   are shed consistently; but never while the line is short: shorter than
//!   the slots, or than four.
//!
//! Or, where it is set, CoDel ([`codel`]) takes those out of the line that waited for too long.
//!
//! Absent: the line, and who is displaced in it.

pub(super) mod codel;
mod growth;
mod phase;
pub(super) mod ratio;

use crate::time::{Duration, Instant};
use crate::units::Ratio;

use super::{Class, Order, Priority, Shedding};

use codel::Standing;
use growth::Growth;
use phase::Phases;
use ratio::{Course, Rejector};

/// The excess from which the youngest are served first. Below it most can be served, and in order,
/// after a short line; above it many must go without in any case, and the oldest are those for whom
/// least can be done. Measured at 1.4 times the capacity (an excess of 29 %): by youth the p99 of
/// good answers is 100 to 150 ms, since who is left at the bottom of a line is served when it is
/// short for a moment; by age it is below 100 ms. At twice the capacity it is the other way round.
const YOUNGEST_FIRST_FROM: Ratio = Ratio::from_percent(40);

/// A line that is short in front of however few slots: as long as it is cut to when nearly all is
/// too much. With one worker at 0.6 times the capacity somebody waits half of the time, and four do
/// in one of a hundred cases.
const SHORT: u32 = 4;

/// How hard the pool is pressed, and what follows.
#[derive(Debug)]
pub(super) struct Load {
    shedding: Shedding,
    order: Order,
    /// Some of those who come cannot be served.
    excess: bool,
    rejector: Rejector,
    standing: Standing,
    growth: Growth,
    youngest_first: bool,
    phases: Phases,
}

impl Load {
    pub(super) fn new(shedding: Shedding, order: Order) -> Self {
        Load {
            shedding,
            order,
            excess: false,
            rejector: Rejector::new(),
            standing: Standing::default(),
            growth: Growth::default(),
            youngest_first: false,
            phases: Phases::default(),
        }
    }

    /// Nobody waits. That may be chance: whether it is over, the arrivals say.
    pub(super) fn calm(&mut self) {
        self.standing.clear();
        self.rejector.emptied();
        self.youngest_first = false;
    }

    /// Somebody was shed although it would have waited.
    pub(super) fn exceeded(&mut self, now: Instant) {
        if !self.excess {
            self.excess = true;
            self.rejector.begin(now);
        }
    }

    /// Is it certain that not everybody can be served?
    pub(super) fn is_excess(&self) -> bool {
        self.excess
    }

    /// An exchange comes for the first time.
    pub(super) fn offered(&mut self, priority: Priority, mean: Duration, now: Instant) {
        if self.excess && self.rejector.offered(priority, mean, now) == Course::Over {
            self.excess = false;
            self.youngest_first = false;
            self.rejector.clear();
        }
    }

    /// An exchange has got a slot.
    pub(super) fn granted(&mut self, now: Instant) {
        if self.excess {
            self.rejector.served();
            self.phases.granted(now);
        }
    }

    /// Are kinds kept apart, so that one that is flooded takes nothing from the others? So it is
    /// in the adaptive order, under excess.
    pub(super) fn isolates(&self) -> bool {
        self.excess && self.order == Order::Adaptive
    }

    /// Until when a slot is kept for the more important than `class`; the past: it is not.
    pub(super) fn kept_until(
        &self,
        class: Class,
        (mean, expected): (Duration, Duration),
        slots: u32,
    ) -> Instant {
        let is_shed = class >= self.rejector.last_class() && self.rejector.is_any_above();
        let adaptive = self.order == Order::Adaptive && self.shedding == Shedding::Ratio;
        match self.excess && adaptive && is_shed {
            true => self.phases.kept_until(mean, expected, slots),
            false => Instant::ZERO,
        }
    }

    /// An exchange that waited so long gets a slot.
    pub(super) fn waited(&mut self, wait: Duration, mean: Duration, now: Instant) {
        self.standing.sample(wait, mean, now);
        // Where the youngest are served the least wait says nothing: the line stands at its other
        // end.
        let stands = self.youngest_first || self.standing.stands();
        self.youngest_first = self.excess && stands && self.ratio() >= YOUNGEST_FIRST_FROM;
    }

    /// So many wait for `slots` slots while one more comes: does a long line grow? Where nothing is
    /// promised that is too much.
    pub(super) fn grows(&mut self, waiting: u32, slots: u32, mean: Duration, now: Instant) -> bool {
        self.growth.grows(waiting, slots, mean, now) && self.shedding == Shedding::Ratio
    }

    /// Is an exchange of this priority turned away, while so many wait for `slots` slots?
    pub(super) fn rejects(&self, priority: Priority, waiting: u32, slots: u32) -> bool {
        self.shedding == Shedding::Ratio
            && self.excess
            && waiting >= slots.max(SHORT)
            && self.rejector.rejects(priority)
    }

    /// The most that should wait for `slots` slots.
    pub(super) fn len_max(&self, slots: u32) -> u32 {
        match self.shedding {
            Shedding::Ratio if self.excess => self.rejector.len_max(slots),
            Shedding::Ratio | Shedding::Codel | Shedding::Off => u32::MAX,
        }
    }

    /// Should an exchange that waited so long be turned away rather than served?
    pub(super) fn drops(&self, wait: Duration) -> bool {
        self.shedding == Shedding::Codel && self.standing.drops(wait)
    }

    /// Are the youngest of this class served first? In the adaptive order only those of the classes
    /// in which somebody must go without; the more important wait in order.
    pub(super) fn is_youngest_first(&self, class: Class) -> bool {
        match self.order {
            Order::Lifo => true,
            Order::Fifo | Order::Priority => false,
            Order::Adaptive => self.youngest_first && class >= self.rejector.last_class(),
        }
    }

    /// The share of the arrivals that is too much.
    pub(super) fn ratio(&self) -> Ratio {
        self.rejector.ratio()
    }
}
