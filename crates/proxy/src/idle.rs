//! Idle connections to workers, kept by one shard.
//!
//! The last one put aside is the first one used: it is warm in every cache, and the others get the
//! chance to age out. The gate knows how many there are on each shard; this list and the gate's
//! count agree because each change of one is told to the other.

use spillgate_core::id::WorkerId;
use spillgate_core::time::Instant;
use spillgate_runtime::http::client::{Detached, WorkerConnection};

use crate::metrics::label::IdleEnd;

/// A connection with the process it leads to.
pub(crate) struct Idle {
    /// Boxed: it is handed from stage to stage, and a pointer is cheaper to hand on.
    pub(crate) connection: Box<WorkerConnection>,
    pub(crate) generation: u64,
}

/// An idle connection on its way to another shard. Boxed where it travels: most grants have none.
#[derive(Debug)]
pub struct Moved {
    connection: Detached,
    generation: u64,
}

impl Moved {
    /// Take it into this shard; none where the engine refuses it.
    pub(crate) fn attach(self) -> Option<Idle> {
        let connection = WorkerConnection::attach(self.connection).ok()?;
        Some(Idle { connection: Box::new(connection), generation: self.generation })
    }
}

/// The idle connections of one pool on one shard, by worker.
#[derive(Default)]
pub(crate) struct IdleConnections {
    by_worker: Vec<Vec<Idle>>,
}

impl IdleConnections {
    /// Put one aside.
    pub(crate) fn put(&mut self, worker: WorkerId, idle: Idle) {
        let index = worker.0 as usize;
        if self.by_worker.len() <= index {
            self.by_worker.resize_with(index + 1, Vec::new);
        }
        self.by_worker[index].push(idle);
    }

    /// Take the one used last.
    pub(crate) fn take(&mut self, worker: WorkerId) -> Option<Idle> {
        self.by_worker.get_mut(worker.0 as usize)?.pop()
    }

    /// Take the one used last, to hand it over to another shard; none where its worker has closed
    /// it.
    pub(crate) fn take_to_move(&mut self, worker: WorkerId) -> Option<Box<Moved>> {
        let Idle { connection, generation } = self.take(worker)?;
        if connection.is_ended() {
            return None;
        }
        Some(Box::new(Moved { connection: connection.detach(), generation }))
    }

    /// Take one to close it: one that leads to an earlier process than `generation` if there is
    /// any, else the one unused for longest.
    pub(crate) fn take_to_close(&mut self, worker: WorkerId, generation: u64) -> Option<Idle> {
        let list = self.by_worker.get_mut(worker.0 as usize)?;
        let stale = list.iter().position(|idle| idle.generation != generation).unwrap_or(0);
        (!list.is_empty()).then(|| list.remove(stale))
    }

    /// Close all; one entry for each.
    pub(crate) fn take_all(&mut self) -> Vec<WorkerId> {
        let mut closed = Vec::new();
        for (id, list) in (0..).zip(&mut self.by_worker) {
            closed.extend(list.drain(..).map(|_| WorkerId(id)));
        }
        closed
    }

    /// Close those that are too old, or that their worker has closed; one entry for each, with the
    /// cause.
    pub(crate) fn sweep(&mut self, now: Instant) -> Vec<(WorkerId, IdleEnd)> {
        let mut closed = Vec::new();
        for (id, list) in (0..).zip(&mut self.by_worker) {
            list.retain(|idle| {
                let end = end_of(&idle.connection, now);
                closed.extend(end.map(|end| (WorkerId(id), end)));
                end.is_none()
            });
        }
        closed
    }
}

/// Why a connection cannot be kept any longer; none: it can.
fn end_of(connection: &WorkerConnection, now: Instant) -> Option<IdleEnd> {
    if connection.is_ended() {
        return Some(IdleEnd::Worker);
    }
    connection.is_expired(now).then_some(IdleEnd::Age)
}
