//! Membership: who belongs to the pool, and what the supervisor or an operator says of them.
//!
//! A worker keeps its id over restarts of its process. Each new process is an incarnation: counts
//! begin at zero, faults are forgotten, and what is still out from before comes back without
//! effect.

use crate::id::WorkerId;
use crate::pool::{Ejection, Load, Pace, State};
use crate::time::Instant;
use crate::units::Weight;

use super::{Change, Gate, Output};

impl Gate {
    pub(super) fn member(&mut self, worker: WorkerId, change: Change) {
        let known = self.pool.find(worker);
        match (change, known) {
            (Change::Join, known) => self.join(worker, known, false),
            (Change::JoinSupervised, known) => self.join(worker, known, true),
            (_, None) => {}
            (Change::Ready, Some(index)) => self.ready(index),
            (Change::Down, Some(index)) => self.down(index),
            (Change::Drain, Some(index)) => self.drain_worker(index),
            (Change::Leave, Some(index)) => self.leave(index),
        }
    }

    /// How much a worker gets beside the others.
    pub(super) fn weigh_worker(&mut self, worker: WorkerId, weight: Weight) {
        if let Some(index) = self.pool.find(worker) {
            self.pool.worker_mut(index).share = weight;
            self.pool.redraw();
        }
    }

    fn join(&mut self, worker: WorkerId, known: Option<usize>, supervised: bool) {
        let index = match known {
            Some(index) if !self.pool.worker(index).leaving => return,
            Some(index) => {
                self.renew(index);
                let worker = self.pool.worker_mut(index);
                worker.leaving = false;
                worker.agent = None;
                worker.share = Weight::ONE;
                worker.supervised = supervised;
                self.enter(index, State::Starting);
                index
            }
            None => {
                let index = self.pool.insert(worker, supervised, self.now);
                self.pool.worker_mut(index).climbs = self.served_since.is_some();
                self.outputs.push_back(Output::State { worker, state: State::Starting });
                index
            }
        };
        if !supervised {
            self.hasten(index);
        }
    }

    /// A new process can serve. One that is up already is the one that is known.
    fn ready(&mut self, index: usize) {
        let worker = self.pool.worker(index);
        if worker.leaving || worker.base == State::Up {
            return;
        }
        self.renew(index);
        self.enter(index, State::Up);
        self.after(index);
    }

    fn down(&mut self, index: usize) {
        self.renew(index);
        self.enter(index, State::Down);
        self.after(index);
    }

    fn drain_worker(&mut self, index: usize) {
        if self.pool.worker(index).base != State::Down {
            self.enter(index, State::Draining);
            self.after(index);
        }
    }

    fn leave(&mut self, index: usize) {
        self.pool.worker_mut(index).leaving = true;
        self.enter(index, State::Draining);
        self.after(index);
    }

    /// The process of the worker at `index` is no more: nothing that was counted of it holds.
    fn renew(&mut self, index: usize) {
        self.unreserve_all(index);
        let now = self.now;
        let learned = self.pool.unlearned(now);
        let worker = self.pool.worker_mut(index);
        worker.incarnation += 1;
        worker.learned = learned;
        worker.free_stuck();
        worker.in_flight = 0;
        worker.ejection = Ejection::new(now);
        worker.load = Load::default();
        worker.pace = Pace::default();
        worker.climbs = true;
        worker.probing.outdate();
        worker.probing.clear_fails();
        worker.probing.not_before = Instant::ZERO;
        let (id, idle) = (worker.id, worker.connections.retire());
        for shard in idle {
            self.outputs.push_back(Output::CloseIdle { worker: id, shard });
        }
        self.pool.refresh(index);
    }
}
