//! What shards, workers and the supervisor do: the parts of the product that are not decisions, in
//! the fewest lines that behave like them.
//!
//! Must hold: whatever the gate wants done is done, in its order, with the delays that real threads
//! have; and each permit comes back exactly once.

use spillgate_core::gate::{Attempt, Change, Connection, Fate, Fault, Input, Outcome, Permit};
use spillgate_core::gate::{Heard, Probe, ProbeKind, Probed, Returned};
use spillgate_core::id::{ShardId, Ticket, WorkerId};
use spillgate_core::time::Duration;

use crate::scenario::Event;
use crate::worker::Mood;
use crate::world::{End, Happening, MAIL, Place, World};

/// A probe that is not answered ends after this: the product's default.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// Time that a worker takes to answer a probe, or to refuse an exchange.
const SHORT_ANSWER: Duration = Duration::from_millis(1);
/// Time from the end of a process until its supervisor knows.
const NOTICE: Duration = Duration::from_millis(5);
/// Time from a stall until the supervisor has ended the process.
const KILL: Duration = Duration::from_millis(10);

impl World<'_> {
    pub(crate) fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive => self.arrive(),
            Happening::Event(event) => self.befall(event),
            Happening::Leave(ticket) => self.leave(ticket),
            Happening::Granted { ticket, permit, connection } => {
                self.dispatch(ticket, permit, connection);
            }
            Happening::CloseIdle { worker, shard } => self.close_idle(worker, shard),
            Happening::Answer { ticket, attempt, worker, process } => {
                self.answer(ticket, attempt, worker, process);
            }
            Happening::GiveUp { ticket, attempt } => self.give_up(ticket, attempt),
            Happening::Ask(probe) => self.ask_worker(probe),
            Happening::Asked { probe, process, heard } => self.asked(probe, process, heard),
            Happening::Kill { worker, process } => {
                if self.worker(worker).process == process {
                    self.crash(worker);
                }
            }
            Happening::Down { worker } => {
                self.tell(Input::Member { worker, change: Change::Down });
            }
            Happening::Start { worker } => {
                self.start(worker);
                if self.scenario.workers.supervised {
                    self.tell(Input::Member { worker, change: Change::Ready });
                }
            }
        }
    }

    pub(crate) fn start(&mut self, worker: WorkerId) {
        self.worker(worker).start();
    }

    fn befall(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Crowd { clients, .. } => (0..clients).for_each(|_| self.arrive_one()),
            Event::Crash { worker, .. } => {
                if self.mood(WorkerId(worker)) != Mood::Gone {
                    self.crash(WorkerId(worker));
                }
            }
            Event::Hang { worker, lasts, .. } => {
                self.worker(WorkerId(worker)).set_mood(Mood::Hanging(now + lasts.0), now);
            }
            Event::Refuse { worker, lasts, .. } => {
                self.worker(WorkerId(worker)).set_mood(Mood::Refusing(now + lasts.0), now);
            }
        }
    }

    /// The shard got a permit: it connects and sends.
    fn dispatch(&mut self, ticket: Ticket, permit: Permit, connection: Connection) {
        let worker = permit.worker();
        let shard = self.exchanges[ticket.0 as usize].shard;
        let (mood, process) = (self.mood(worker), self.worker(worker).process);
        let is_idle = connection == Connection::Idle && self.take_idle(worker, shard, process);
        if self.exchanges[ticket.0 as usize].left {
            if is_idle {
                self.keep(worker, shard, process);
            }
            let connection = if is_idle { Fate::Kept } else { Fate::Closed };
            self.give_back(permit, Outcome::Ignore, None, connection);
            return self.end(ticket, End::Abandoned);
        }
        if mood == Mood::Gone {
            self.give_back(permit, Outcome::Ignore, Some(Fault::Refused), Fate::Closed);
            let tried = &mut self.exchanges[ticket.0 as usize].tried;
            tried.insert(worker);
            let attempt = Attempt::Unsent(*tried);
            return self.ask(ticket, attempt);
        }
        if !is_idle {
            self.worker(worker).connect();
        }
        self.worker(worker).enter();
        let exchange = &mut self.exchanges[ticket.0 as usize];
        exchange.place = Place::Inside { permit, process };
        let attempt = exchange.attempt;
        let time = self.service_time(mood);
        self.plan(time, Happening::Answer { ticket, attempt, worker, process });
        let give_up = Happening::GiveUp { ticket, attempt };
        self.plan(self.scenario.exchange_time_max.0, give_up);
    }

    /// A worker has finished with an exchange.
    fn answer(&mut self, ticket: Ticket, attempt: u32, worker: WorkerId, process: u32) {
        if let Mood::Hanging(until) = self.mood(worker)
            && self.worker(worker).process == process
        {
            let rest = until.since(self.now);
            return self.plan(rest, Happening::Answer { ticket, attempt, worker, process });
        }
        self.worker(worker).leave(process);
        let Some((permit, _)) = self.take_inside(ticket, attempt) else {
            return;
        };
        let shard = self.exchanges[ticket.0 as usize].shard;
        self.keep(worker, shard, process);
        if matches!(self.mood(worker), Mood::Refusing(_)) {
            self.give_back(permit, Outcome::Overload, Some(Fault::Refusal), Fate::Kept);
            return self.try_again(ticket, worker, false);
        }
        self.worker(worker).served += 1;
        self.give_back(permit, Outcome::Success, None, Fate::Kept);
        self.end(ticket, End::Served);
    }

    /// The shard has waited long enough for an answer.
    fn give_up(&mut self, ticket: Ticket, attempt: u32) {
        let Some((permit, process)) = self.take_inside(ticket, attempt) else {
            return;
        };
        let worker = permit.worker();
        self.worker(worker).disconnect(process);
        self.give_back(permit, Outcome::Overload, Some(Fault::Stuck), Fate::Cut);
        self.try_again(ticket, worker, true);
        if self.scenario.workers.supervised {
            self.plan(KILL, Happening::Kill { worker, process });
        }
    }

    /// The worker's process ends, and everything in it.
    fn crash(&mut self, worker: WorkerId) {
        self.worker(worker).end();
        for ticket in (0..self.exchanges.len() as u64).map(Ticket) {
            let exchange = &self.exchanges[ticket.0 as usize];
            let attempt = exchange.attempt;
            let inside = match &exchange.place {
                Place::Inside { permit, .. } => permit.worker() == worker,
                _ => false,
            };
            if inside && let Some((permit, _)) = self.take_inside(ticket, attempt) {
                self.give_back(permit, Outcome::Ignore, Some(Fault::Reset), Fate::Closed);
                self.try_again(ticket, worker, true);
            }
        }
        for shard in (0..self.scenario.shards).map(ShardId) {
            let idle = self.idle.remove(&(shard.0, worker.0)).unwrap_or_default();
            idle.iter().for_each(|_| self.tell(Input::Closed { worker, shard }));
        }
        if self.scenario.workers.supervised {
            self.plan(NOTICE, Happening::Down { worker });
        }
        self.plan(self.scenario.workers.boot.0, Happening::Start { worker });
    }

    fn try_again(&mut self, ticket: Ticket, worker: WorkerId, died: bool) {
        let exchange = &mut self.exchanges[ticket.0 as usize];
        if exchange.left || (died && !exchange.repeatable) {
            return self.end(ticket, End::Failed);
        }
        exchange.tried.insert(worker);
        exchange.tried.deaths += u8::from(died);
        exchange.tried.charged += 1;
        let attempt = Attempt::Sent(exchange.tried);
        self.ask(ticket, attempt);
    }

    fn ask_worker(&mut self, probe: Probe) {
        let (mood, process) = (self.mood(probe.worker), self.worker(probe.worker).process);
        if mood == Mood::Gone {
            return self.asked(probe, process, Heard::Nothing);
        }
        let exchange = probe.kind == ProbeKind::Exchange;
        if exchange || probe.permit.is_some() {
            self.worker(probe.worker).connect();
        }
        let (time, heard) = match mood {
            Mood::Hanging(_) if exchange => (PROBE_TIME_MAX, Heard::Nothing),
            Mood::Refusing(_) if exchange => (SHORT_ANSWER, Heard::Badly),
            _ if exchange => (SHORT_ANSWER, Heard::Well),
            _ => (MAIL, Heard::Well),
        };
        if exchange && heard == Heard::Well {
            self.worker(probe.worker).enter();
        }
        self.plan(time, Happening::Asked { probe, process, heard });
    }

    fn asked(&mut self, probe: Probe, process: u32, heard: Heard) {
        let exchange = probe.kind == ProbeKind::Exchange;
        let Probe { worker, permit, .. } = probe;
        let alive = self.mood(worker) != Mood::Gone && self.worker(worker).process == process;
        if alive && (exchange || permit.is_some()) {
            self.worker(worker).disconnect(process);
        }
        if alive && exchange && heard == Heard::Well {
            self.worker(worker).leave(process);
        }
        let heard = if alive { heard } else { Heard::Nothing };
        self.tell(Input::Probed(Probed { worker, heard, permit }));
    }

    fn give_back(
        &mut self,
        permit: Permit,
        outcome: Outcome,
        fault: Option<Fault>,
        connection: Fate,
    ) {
        self.held -= 1;
        self.tell(Input::Return(Returned { permit, outcome, fault, connection }));
    }

    /// The permit of an exchange that is inside a worker in this attempt, and in which process.
    fn take_inside(&mut self, ticket: Ticket, attempt: u32) -> Option<(Permit, u32)> {
        let exchange = &mut self.exchanges[ticket.0 as usize];
        if exchange.attempt != attempt || !matches!(exchange.place, Place::Inside { .. }) {
            return None;
        }
        match std::mem::replace(&mut exchange.place, Place::Granted) {
            Place::Inside { permit, process } => Some((permit, process)),
            Place::Waiting | Place::Granted | Place::Ended => None,
        }
    }

    fn close_idle(&mut self, worker: WorkerId, shard: ShardId) {
        let idle = self.idle.entry((shard.0, worker.0)).or_default();
        if !idle.is_empty() {
            let process = idle.remove(0);
            self.worker(worker).disconnect(process);
        }
        self.tell(Input::Closed { worker, shard });
    }

    fn keep(&mut self, worker: WorkerId, shard: ShardId, process: u32) {
        self.idle.entry((shard.0, worker.0)).or_default().push(process);
    }

    fn take_idle(&mut self, worker: WorkerId, shard: ShardId, process: u32) -> bool {
        let idle = self.idle.entry((shard.0, worker.0)).or_default();
        let fit = idle.iter().position(|idle| *idle == process);
        fit.map(|place| idle.remove(place)).is_some()
    }

    fn service_time(&mut self, mood: Mood) -> Duration {
        let workers = &self.scenario.workers;
        let service = workers.service.0.as_nanos() as u64;
        let spread = service / 100 * u64::from(workers.spread_percent);
        let time = Duration::from_nanos(service - spread + self.rng.below(2 * spread + 1));
        match mood {
            Mood::Refusing(_) => SHORT_ANSWER,
            // What it took in while it hung, it finishes before it answers anybody else.
            Mood::Hanging(until) => until.since(self.now),
            Mood::Serving | Mood::Gone => time,
        }
    }
}
