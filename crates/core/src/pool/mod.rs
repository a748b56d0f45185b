//! Which workers there are and whether each is worth sending to.
//!
//! Data and pure rules of the gate, not a second machine: which worker an exchange gets and whether
//! it gets one are a single decision, so they live behind one face, [`crate::gate::Gate`].
//!
//! ```text
//!              a probe answers, or Ready        a fault, failed probes, ejection
//! Starting ────────────────────────────▶ Up ──────────────────────────────────▶ Out
//!    ▲                                   │▲ ◀────────────────────────────────── │
//!    │ Join                       Drain  ▼│ Ready    a probe answers, or Ready  │
//!                                      Draining ◀──────────── Drain ────────────┘
//!
//! Down is entered from everywhere when the process ends, and left to Up by Ready.
//! ```
//!
//! That is a worker's base. What its agent says comes on top: its state is the worse of the two.
//!
//! Invariants: workers are sorted by id; `free` holds exactly the workers that are up and have a
//! slot left, and `up` counts those that are up. `Pool::refresh` restores both after each change.

mod balance;
mod connections;
mod free;
mod limit;
mod load;
mod outlier;
mod pace;
mod probe;
mod ramp;
mod report;
mod ring;
mod signs;
mod worker;

pub(crate) use balance::{Choice, Seeker, Way};
pub(crate) use limit::{Answer, Went};
pub(crate) use load::Load;
pub(crate) use outlier::{Ejection, is_outlier, may_eject};
pub(crate) use pace::Pace;
pub(crate) use probe::{is_asking_broken, verdict};
pub(crate) use ramp::Ramp;
pub use report::{Admin, Health, Report, Said};
pub use signs::Signs;
pub(crate) use worker::Worker;

use std::cell::OnceCell;

use crate::gate::{Balance, Limit, Settings};
use crate::id::WorkerId;
use crate::time::Instant;
use crate::units::Ratio;

use free::FreeSet;
use limit::{Bounds, Learned};
use ring::Ring;

/// Whether a worker gets exchanges, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not known to serve yet: no probe has succeeded, or the supervisor has not said ready.
    Starting,
    /// Gets exchanges.
    Up,
    /// Gets none until a probe succeeds.
    Out(OutReason),
    /// Gets no new ones; the running ones end.
    Draining,
    /// Its process is not running.
    Down,
}

/// Why a worker is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutReason {
    /// A connection was refused.
    Refused,
    /// It broke an exchange off.
    Reset,
    /// It said that it cannot take more.
    Refusal,
    /// It did not answer in time.
    Stuck,
    /// Probes failed.
    Probe,
    /// Too many failures in a row.
    Ejected,
    /// Its agent says that it does not work.
    Agent,
    /// Its agent says that it is being worked on.
    Maint,
}

/// The workers of one pool.
#[derive(Debug)]
pub(crate) struct Pool {
    workers: Vec<Worker>,
    /// Slots of each worker: the lesser of `slots` and `connections_max`, for an exchange without
    /// a connection is no use.
    slots: u32,
    connections_max: u32,
    /// Between what the limit of each worker is learned.
    bounds: Bounds,
    free: FreeSet,
    up: u32,
    /// Where the next search begins, so that equals take turns.
    turn: usize,
    rules: Rules,
    /// How far those have passed who take turns by weight.
    passed: u64,
    /// Whose each key is; drawn when it is asked for, since members come and weights grow one by
    /// one, and sorting all points each time is what a short lock cannot have.
    ring: OnceCell<Ring>,
}

/// How it is chosen among free workers.
#[derive(Clone, Copy, Debug)]
struct Rules {
    balance: Balance,
    hash_excess_max: Ratio,
}

impl Pool {
    pub(crate) fn new(settings: &Settings) -> Self {
        let Settings { balance, hash_excess_max, .. } = *settings;
        let connections_max = settings.connections_max.count();
        let slots = settings.slots.count().min(connections_max);
        let min = settings.limit_min.count().min(slots);
        Pool {
            workers: Vec::new(),
            slots,
            connections_max,
            bounds: Bounds { by: settings.limit, min, max: slots },
            free: FreeSet::default(),
            up: 0,
            turn: 0,
            rules: Rules { balance, hash_excess_max },
            passed: 0,
            ring: OnceCell::new(),
        }
    }

    /// Slots of each worker.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Connections that each worker may see.
    pub(crate) fn connections_max(&self) -> u32 {
        self.connections_max
    }

    /// How many workers are up.
    pub(crate) fn up(&self) -> u32 {
        self.up
    }

    /// Has any worker that is up a slot left?
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn workers(&self) -> &[Worker] {
        &self.workers
    }

    pub(crate) fn worker(&self, index: usize) -> &Worker {
        &self.workers[index]
    }

    /// The worker at `index`, to be changed; [`Pool::refresh`] must follow.
    pub(crate) fn worker_mut(&mut self, index: usize) -> &mut Worker {
        &mut self.workers[index]
    }

    /// Where `id` is. Ids are mostly 0, 1, 2 and so on, so its own number is the first guess.
    pub(crate) fn find(&self, id: WorkerId) -> Option<usize> {
        let guess = id.0 as usize;
        if self.workers.get(guess).is_some_and(|worker| worker.id == id) {
            return Some(guess);
        }
        self.workers.binary_search_by_key(&id, |worker| worker.id).ok()
    }

    /// Add a worker that is not there yet; where it is.
    pub(crate) fn insert(&mut self, id: WorkerId, supervised: bool, now: Instant) -> usize {
        let index = self.workers.partition_point(|worker| worker.id < id);
        let learned = self.unlearned(now);
        self.workers.insert(index, Worker { learned, ..Worker::new(id, supervised, now) });
        self.recount();
        index
    }

    /// Forget a worker.
    pub(crate) fn remove(&mut self, index: usize) {
        self.workers.remove(index);
        self.recount();
    }

    /// Is the worker at `index` one that could be granted now?
    pub(crate) fn is_free(&self, index: usize) -> bool {
        let worker = &self.workers[index];
        worker.state == State::Up && worker.in_flight < self.limit(index)
    }

    /// Exchanges that the worker at `index` may hold now.
    pub(crate) fn limit(&self, index: usize) -> u32 {
        self.workers[index].limit(self.slots)
    }

    /// The limit of a process of which nothing is known; none: limits are fixed.
    pub(crate) fn unlearned(&self, now: Instant) -> Option<Learned> {
        Learned::new(self.bounds, now)
    }

    /// An exchange came back from the worker at `index`, whose limit is learned.
    pub(crate) fn learn(&mut self, index: usize, answer: Answer, now: Instant) {
        if let Some(learned) = &mut self.workers[index].learned {
            learned.hear(answer, self.bounds, now);
        }
    }

    /// Slots of all workers that are up.
    pub(crate) fn slots_up(&self) -> u32 {
        let up = self.workers.iter().filter(|worker| worker.state == State::Up);
        up.fold(0, |sum, worker| sum.saturating_add(worker.limit(self.slots)))
    }

    /// Take over what changed in the worker at `index`.
    pub(crate) fn refresh(&mut self, index: usize) {
        self.free.set(index, self.is_free(index));
        let worker = &mut self.workers[index];
        let is_up = worker.state == State::Up;
        if worker.counted_up != is_up {
            worker.counted_up = is_up;
            self.up = if is_up { self.up + 1 } else { self.up - 1 };
        }
    }

    /// Members or their weights have changed.
    pub(crate) fn redraw(&mut self) {
        self.ring = OnceCell::new();
    }

    /// The circle of the members as they are now.
    fn ring(&self) -> &Ring {
        self.ring.get_or_init(|| {
            let workers = self.workers.iter().zip(0..);
            Ring::of(workers.map(|(worker, place)| (place, worker.id, worker.share)))
        })
    }

    fn recount(&mut self) {
        self.free.clear(self.workers.len());
        self.turn = self.turn.min(self.workers.len());
        for index in 0..self.workers.len() {
            self.free.set(index, self.is_free(index));
        }
        self.up = self.workers.iter().filter(|worker| worker.counted_up).count() as u32;
        self.redraw();
    }

    /// Full sweep over the derived numbers.
    pub(crate) fn check_invariants(&self) {
        assert!(self.workers.is_sorted_by_key(|worker| worker.id), "workers are sorted by id");
        let up = self.workers.iter().filter(|worker| worker.state == State::Up).count();
        assert_eq!(self.up as usize, up, "the count of workers that are up is true");
        for (index, worker) in self.workers.iter().enumerate() {
            assert_eq!(self.free.contains(index), self.is_free(index), "{} in `free`", worker.id.0);
            worker.check_invariants(self.slots, self.connections_max);
            assert_eq!(worker.learned.is_some(), self.bounds.by != Limit::Fixed);
            worker.learned.iter().for_each(|learned| learned.check_invariants(self.bounds));
        }
    }
}
