//! One worker as the gate knows it.
//!
//! An incarnation is one process of the worker. Permits carry the incarnation they were granted
//! for, so one that comes back after its process ended changes no count of the next.

use std::collections::VecDeque;

use crate::id::{Ticket, WorkerId};
use crate::time::Instant;
use crate::units::Weight;

use super::State;
use super::connections::Connections;
use super::limit::Learned;
use super::load::Load;
use super::outlier::Ejection;
use super::pace::Pace;
use super::probe::Probing;
use super::ramp::{self, Ramp};
use super::report::Said;
use super::signs::Signs;

/// What an agent can make of a weight at most, in percent.
const PERCENT_MAX: u32 = 256;

/// State and counts of one worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    /// What it is treated as: the worse of `base` and its agent's word.
    pub(crate) state: State,
    /// What probes, exchanges and whoever runs it have made of it.
    pub(crate) base: State,
    /// What its agent said; none: there was no report yet.
    pub(crate) agent: Option<Said>,
    /// What it reports of its load on its answers.
    pub(crate) load: Load,
    /// What was learned of how many exchanges it can hold well; none: its limit is fixed.
    pub(crate) learned: Option<Learned>,
    pub(crate) state_since: Instant,
    /// Its weight in the file.
    pub(crate) share: Weight,
    /// What it takes for an exchange; measured where `balance` goes by that.
    pub(crate) pace: Pace,
    /// It has come, or come back, and has not its full share yet.
    pub(crate) ramp: Option<Ramp>,
    /// When it is up next it has to climb: it came when others served already, is a new process, or
    /// was up before.
    pub(crate) climbs: bool,
    /// How far it has passed in turns by weight.
    pub(super) passed: u64,
    /// Started by our supervisor: it says when the worker can serve.
    pub(crate) supervised: bool,
    /// No member any more; forgotten when nothing of it is out.
    pub(crate) leaving: bool,
    /// The number of its present process.
    pub(crate) incarnation: u32,
    /// Slots taken in this incarnation: permits that are out, stuck slots, and reserved ones.
    pub(crate) in_flight: u32,
    /// Slots whose exchange was given up while the worker may be busy with it.
    pub(crate) stuck: u32,
    /// Since when there is such a slot.
    pub(crate) stuck_since: Option<Instant>,
    /// Permits that are out, over all incarnations.
    pub(crate) permits: u32,
    /// Exchanges that have a slot here and wait for a connection to be closed, oldest first.
    pub(crate) reserved: VecDeque<Ticket>,
    pub(crate) connections: Connections,
    pub(crate) ejection: Ejection,
    pub(crate) probing: Probing,
    pub(crate) grants: u64,
    /// Is it counted in the pool's count of workers that are up?
    pub(super) counted_up: bool,
}

impl Worker {
    pub(super) fn new(id: WorkerId, supervised: bool, now: Instant) -> Self {
        Worker {
            id,
            state: State::Starting,
            base: State::Starting,
            agent: None,
            load: Load::default(),
            learned: None,
            state_since: now,
            share: Weight::ONE,
            pace: Pace::default(),
            ramp: None,
            climbs: false,
            passed: 0,
            supervised,
            leaving: false,
            incarnation: 0,
            in_flight: 0,
            stuck: 0,
            stuck_since: None,
            permits: 0,
            reserved: VecDeque::new(),
            connections: Connections::default(),
            ejection: Ejection::new(now),
            probing: Probing::default(),
            grants: 0,
            counted_up: false,
        }
    }

    /// What each of those says who have a say.
    pub(crate) fn signs(&self) -> Signs {
        let agent = self.agent.map_or(State::Up, |said| said.verdict());
        Signs::of(self.base, self.supervised, agent)
    }

    /// Exchanges that it may hold now, of `slots`.
    pub(crate) fn limit(&self, slots: u32) -> u32 {
        let granted = self.granted(slots);
        let limit = self.learned.as_ref().map_or(granted, |learned| granted.min(learned.limit()));
        self.ramp.map_or(limit, |ramp| limit.min(ramp.limit()))
    }

    /// Exchanges that it and its agent want at most, of `slots`.
    pub(crate) fn granted(&self, slots: u32) -> u32 {
        self.load.limit(self.agent.map_or(slots, |said| said.limit(slots)))
    }

    /// How much it gets beside the others: its weight, what its agent leaves of it, and how far it
    /// has climbed its ramp. At least 10, at most 2²⁶.
    pub(crate) fn weight(&self, now: Instant) -> u64 {
        let percent = self.agent.map_or(100, |said| said.percent.clamp(1, PERCENT_MAX));
        let part = self.ramp.map_or(ramp::FULL, |ramp| ramp.part(now));
        u64::from(self.share.count()) * u64::from(percent) * part
    }

    /// What its agent and its ramp leave of its weight, in percent.
    pub(crate) fn weight_percent(&self, now: Instant) -> u32 {
        (self.weight(now) / (u64::from(self.share.count()) * ramp::FULL)) as u32
    }

    /// Is nothing of it out, so that it can be forgotten?
    pub(crate) fn is_gone(&self) -> bool {
        let is_quiet = self.permits == 0 && !self.probing.is_running();
        self.leaving && is_quiet && self.connections.are_gone()
    }

    /// The exchange of one of its slots is given up, and the worker may be busy with it. A question
    /// that is under way was asked before, so its answer says nothing of this slot.
    pub(crate) fn cut(&mut self, now: Instant) {
        self.stuck += 1;
        self.stuck_since = self.stuck_since.or(Some(now));
        self.probing.outdate();
    }

    /// Its stuck slots are free again.
    pub(crate) fn free_stuck(&mut self) {
        self.in_flight -= self.stuck;
        self.stuck = 0;
        self.stuck_since = None;
    }

    pub(super) fn check_invariants(&self, slots: u32, connections_max: u32) {
        let id = self.id.0;
        assert_eq!(self.state, self.signs().worst(), "worker {id} is treated as the worst says");
        let reserved = self.reserved.len() as u32;
        assert!(self.in_flight <= slots, "worker {id} has {} in flight", self.in_flight);
        assert!(self.stuck + reserved <= self.in_flight, "stuck and reserved slots are taken");
        assert!(self.in_flight <= self.permits + self.stuck + reserved, "no slot is lost");
        assert!(self.state == State::Up || reserved == 0, "only a worker that is up is reserved");
        assert!(self.state == State::Up || self.connections.idle() == 0, "idle, but not up: {id}");
        let running = self.in_flight - self.stuck - reserved;
        assert_eq!(self.stuck > 0, self.stuck_since.is_some(), "worker {id}: since when is known");
        assert_eq!(self.connections.in_use(), running, "worker {id}: one connection each");
        self.connections.check_invariants(connections_max);
    }
}
