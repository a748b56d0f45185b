//! What the exchanges of one shard share, and the messages that reach it from outside.
//!
//! Everything here belongs to one thread: cells and no locks, except for what is inside `Pool`. A
//! borrow of a cell never lasts over a wait, nor over a call that could come back here. Absent: the
//! accept loops and the end of the shard (`serve.rs`).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use spillgate_core::gate::{Connection, Fate, Grant, Input, Outcome, Returned};
use spillgate_core::id::{ShardId, WorkerId};
use spillgate_core::rng::Rng;
use spillgate_core::time::Instant;
use spillgate_runtime::buffer::Storage;
use spillgate_runtime::clock;
use spillgate_runtime::events::{LineBuffer, json};

use crate::active::{Active, Doing};
use crate::idle::IdleConnections;
use crate::metrics::ShardMetrics;
use crate::metrics::label::IdleEnd;
use crate::pool::{Decision, Pool};
use crate::record::Log;
use crate::route::Router;
use crate::settings::Settings;
use crate::waiters::{Delivered, Waiters};

/// Something that a shard has to know or do.
#[derive(Debug)]
pub enum ShardMessage {
    /// A gate has decided about one of this shard's exchanges.
    Decided {
        /// Index of the pool.
        pool: usize,
        /// What it decided.
        decision: Decision,
    },
    /// A gate has granted an idle connection of this shard to an exchange of another: hand it over.
    HandOver {
        /// Index of the pool.
        pool: usize,
        /// What it granted.
        grant: Grant,
    },
    /// Close an idle connection and tell the gate.
    CloseIdle {
        /// Index of the pool.
        pool: usize,
        /// Whose connection.
        worker: WorkerId,
    },
    /// Tell what the exchanges are doing.
    Report(Report),
    /// Stop: accept what has come, finish what is running, then end.
    Stop,
}

/// Where a shard's report goes.
pub struct Report(pub Box<dyn FnOnce(Vec<Doing>) + Send>);

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Report")
    }
}

/// What the exchanges of one shard share.
pub struct Shard {
    /// Its id.
    pub id: ShardId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) router: Arc<Router>,
    pub(crate) pools: Vec<LocalPool>,
    pub(crate) metrics: Arc<ShardMetrics>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) waiters: RefCell<Waiters>,
    pub(crate) active: RefCell<Active>,
    pub(crate) log: Option<RefCell<Log>>,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) serial: Cell<u64>,
    this: Weak<Shard>,
}

/// One pool as one shard knows it.
pub(crate) struct LocalPool {
    pub(crate) shared: Arc<Pool>,
    /// Its name as a JSON string, for the log.
    pub(crate) name: Vec<u8>,
    pub(crate) idle: RefCell<IdleConnections>,
}

/// What a shard is made of.
pub struct Parts {
    /// The settings.
    pub settings: Arc<Settings>,
    /// The routes.
    pub router: Arc<Router>,
    /// The pools.
    pub pools: Vec<Arc<Pool>>,
    /// Its cells.
    pub metrics: Arc<ShardMetrics>,
    /// Where bodies are kept.
    pub storage: Arc<Storage>,
    /// Where access records go.
    pub log: Option<LineBuffer>,
    /// Where its random numbers begin.
    pub seed: u64,
}

impl Shard {
    /// A shard without exchanges. To be called on its own thread.
    pub fn new(id: ShardId, parts: Parts) -> Rc<Shard> {
        let local = |shared: Arc<Pool>| LocalPool {
            name: json::quoted(&shared.settings.name),
            shared,
            idle: RefCell::default(),
        };
        Rc::new_cyclic(|this| Shard {
            id,
            settings: parts.settings,
            router: parts.router,
            pools: parts.pools.into_iter().map(local).collect(),
            metrics: parts.metrics,
            storage: parts.storage,
            waiters: RefCell::default(),
            active: RefCell::default(),
            log: parts.log.map(|lines| RefCell::new(Log::new(lines))),
            rng: RefCell::new(Rng::new(parts.seed)),
            serial: Cell::new(0),
            this: Weak::clone(this),
        })
    }

    /// It, for a task that outlives the exchange which begins it; none while the shard ends.
    pub(crate) fn shared(&self) -> Option<Rc<Shard>> {
        self.this.upgrade()
    }

    /// Tell a gate something that happened here.
    pub(crate) fn tell(&self, pool: usize, input: Input, now: Instant) {
        let shared = &self.pools[pool].shared;
        shared.tell(input, now, Some(self.id), &mut |message| self.handle(message));
    }

    /// A message has come, from outside or from a decision made here.
    pub fn handle(&self, message: ShardMessage) {
        match message {
            ShardMessage::Decided { pool, decision } => self.decided(pool, decision),
            ShardMessage::HandOver { pool, grant } => {
                let local = &self.pools[pool];
                let moved = local.idle.borrow_mut().take_to_move(grant.permit.worker());
                local.shared.pass_on(grant, moved);
            }
            ShardMessage::CloseIdle { pool, worker } => {
                let local = &self.pools[pool];
                let generation = local.shared.generation(worker);
                let closed = local.idle.borrow_mut().take_to_close(worker, generation);
                if closed.is_some() {
                    self.metrics.pools[pool].idle_ends.increment(IdleEnd::Gate);
                }
                drop(closed);
                self.tell(pool, Input::Closed { worker, shard: self.id }, clock::now());
            }
            ShardMessage::Report(Report(tell)) => tell(self.active.borrow().list()),
            // The accept loops and the drain belong to whoever runs the shard.
            ShardMessage::Stop => {}
        }
    }

    fn decided(&self, pool: usize, decision: Decision) {
        let ticket = match &decision {
            Decision::Granted(grant, _) => grant.ticket,
            Decision::Shed(shed) => shed.ticket,
            Decision::Withheld(withheld) => withheld.ticket,
        };
        let delivered = self.waiters.borrow_mut().deliver(ticket, decision);
        match delivered {
            Delivered::To(Some(waker)) => waker.wake(),
            Delivered::To(None) => {}
            Delivered::Nobody(decision) => self.hand_back(pool, decision),
        }
    }

    /// A decision came for an exchange that has left: its permit goes back unused.
    pub(crate) fn hand_back(&self, pool: usize, decision: Decision) {
        let Decision::Granted(grant, moved) = decision else { return };
        let connection = unused(grant.connection);
        drop(moved);
        let outcome = Outcome::Ignore;
        let returned = Returned { permit: grant.permit, outcome, fault: None, connection };
        self.tell(pool, Input::Return(returned), clock::now());
    }

    /// The drain has taken too long: who waits is told so, and so is who comes.
    pub(crate) fn shed_waiting(&self) {
        for pool in 0..self.pools.len() {
            self.tell(pool, Input::Drain, clock::now());
        }
    }

    /// Close all idle connections to workers: this shard ends.
    pub fn close_idle(&self) {
        for (index, pool) in self.pools.iter().enumerate() {
            let closed = pool.idle.borrow_mut().take_all();
            for worker in closed {
                self.tell(index, Input::Closed { worker, shard: self.id }, clock::now());
            }
        }
    }

    /// Close idle connections to workers that are too old or closed by their worker.
    pub fn sweep_idle(&self, now: Instant) {
        for (index, pool) in self.pools.iter().enumerate() {
            let closed = pool.idle.borrow_mut().sweep(now);
            for (worker, end) in closed {
                self.metrics.pools[index].idle_ends.increment(end);
                self.tell(index, Input::Closed { worker, shard: self.id }, now);
            }
        }
    }

    /// Hand the access records written so far to their writer.
    pub fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().lines.flush();
        }
    }

    /// A number that no other exchange of this shard had.
    pub(crate) fn next_serial(&self) -> u64 {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        serial
    }
}

/// What becomes of the connection of a grant if nothing is done with it. One that was handed over
/// is dropped: that its client leaves just then is rare.
pub(crate) fn unused(connection: Connection) -> Fate {
    match connection {
        Connection::Idle => Fate::Kept,
        Connection::Moved(_) | Connection::New => Fate::Closed,
    }
}
