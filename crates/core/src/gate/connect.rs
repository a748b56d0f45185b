//! Connections: which grant uses which, and who waits for one to be closed.
//!
//! A worker that sees `connections_max` connections gets no new one before another is closed. An
//! idle one that another shard keeps is handed over to the shard of the exchange. Where none is
//! idle, because they are being closed, the exchange has its slot meanwhile (it is *reserved*),
//! stays in the queue, and is granted when one is closed or becomes idle.

use crate::id::{ShardId, Ticket, WorkerId};
use crate::pool::{Choice, Way};
use crate::time::Duration;

use super::admit::Recipient;
use super::queue::Place;
use super::{Connection, Gate, Output};

impl Gate {
    /// A connection that a shard kept is closed.
    pub(super) fn closed(&mut self, worker: WorkerId, shard: ShardId) {
        let Some(index) = self.pool.find(worker) else {
            return;
        };
        self.pool.worker_mut(index).connections.closed(shard);
        self.settle(index);
        self.ask_waiting(index);
        self.forget_if_gone(index);
    }

    /// Give the exchange at `place` a slot of the worker at `index`, where no connection is to be
    /// had yet.
    pub(super) fn reserve(&mut self, place: Place, index: usize) {
        let ticket = self.queue.get(place).ticket;
        let worker = self.pool.worker_mut(index);
        worker.in_flight += 1;
        worker.reserved.push_back(ticket);
        self.queue.reserve(place, worker.id);
        self.pool.refresh(index);
        self.pool.pass_turn(index);
        self.settle(index);
    }

    /// The exchange that had a slot of `worker` has left the queue.
    pub(super) fn unreserve(&mut self, worker: WorkerId, ticket: Ticket) {
        let index = self.pool.find(worker).expect("a worker with a reserved slot is a member");
        let worker = self.pool.worker_mut(index);
        worker.reserved.retain(|reserved| *reserved != ticket);
        worker.in_flight -= 1;
        self.pool.refresh(index);
    }

    /// Those who had a slot of the worker at `index` wait like the others.
    pub(super) fn unreserve_all(&mut self, index: usize) {
        while let Some(ticket) = self.pool.worker_mut(index).reserved.pop_front() {
            self.pool.worker_mut(index).in_flight -= 1;
            self.queue.unreserve(self.place(ticket));
        }
        self.pool.refresh(index);
    }

    /// Grant what can be granted to those who have a slot of the worker at `index`. The others wait
    /// on, for a connection that comes back or is being closed.
    pub(super) fn settle(&mut self, index: usize) {
        let mut turn = 0;
        while let Some(ticket) = self.pool.worker(index).reserved.get(turn).copied() {
            let place = self.place(ticket);
            let connections = &self.pool.worker(index).connections;
            let connection = if connections.idle_on(self.queue.get(place).shard) > 0 {
                Connection::Idle
            } else if connections.open() < self.pool.connections_max() {
                Connection::New
            } else if let Some(from) = connections.most_idle() {
                Connection::Moved(from)
            } else {
                turn += 1;
                continue;
            };
            let worker = self.pool.worker_mut(index);
            worker.reserved.remove(turn);
            worker.in_flight -= 1;
            let waiter = self.queue.remove(place);
            let to = Recipient::of_line(&waiter, Duration::ZERO);
            self.grant(to, index, connection);
        }
    }

    /// Which connection a grant by this choice uses.
    pub(super) fn connection(&self, choice: Choice) -> Connection {
        let connections = &self.pool.worker(choice.index).connections;
        match choice.way {
            Way::Idle => Connection::Idle,
            Way::Moved => connections.most_idle().map_or(Connection::New, Connection::Moved),
            Way::Room | Way::Full => Connection::New,
        }
    }

    /// Have one idle connection of the worker at `index` closed; is there one?
    pub(super) fn close_one(&mut self, index: usize) -> bool {
        let worker = self.pool.worker_mut(index);
        let Some(shard) = worker.connections.start_close() else {
            return false;
        };
        self.outputs.push_back(Output::CloseIdle { worker: worker.id, shard });
        true
    }

    /// Have all idle connections of the worker at `index` closed.
    pub(super) fn close_all(&mut self, index: usize) {
        while self.close_one(index) {}
    }

    fn place(&self, ticket: Ticket) -> Place {
        self.queue.find(ticket).expect("an exchange with a reserved slot waits in the queue")
    }
}
