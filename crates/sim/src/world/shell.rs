//! What shards, workers and the supervisor do: the parts of the product that are not decisions, in
//! the fewest lines that behave like them.
//!
//! Must hold: whatever the gate wants done is done, in its order, with the delays that real threads
//! have; and each permit comes back exactly once.

use spillgate_core::gate::{Attempt, Change, Connection, Fate, Fault, Input, Outcome, Permit};
use spillgate_core::gate::{Heard, Probe, ProbeKind, Probed, Returned};
use spillgate_core::id::{ShardId, Ticket, WorkerId};
use spillgate_core::time::Duration;

use crate::scenario::What;

use super::clients::End;
use super::exchange::{Exchange, Place};
use super::{Happening, Job, World};

/// A probe that is not answered ends after this: the product's default.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// Time that a worker takes to answer a probe, or to refuse an exchange.
const SHORT_ANSWER: Duration = Duration::from_millis(1);
/// Time from the end of a process until its supervisor knows.
const NOTICE: Duration = Duration::from_millis(5);
/// Time from a stall until the supervisor has ended the process.
const KILL: Duration = Duration::from_millis(10);

/// Parts per million in a percent.
const PPM_OF_PERCENT: u32 = 10_000;

impl World<'_> {
    pub(super) fn start(&mut self, pool: u16, worker: u32) {
        self.worker(pool, worker).start();
        self.set_speed(pool, worker);
        if self.setup.pools[usize::from(pool)].workers.supervised {
            self.member(pool, worker, Change::Ready);
        }
    }

    pub(super) fn befall(&mut self, index: usize) {
        let event = self.setup.events[index];
        let (pool, worker, until) = (event.pool as u16, event.worker, self.now + event.lasts);
        match event.what {
            What::Crowd => {
                let first = self.setup.groups.iter().position(|group| group.pool == event.pool);
                if let Some(group) = first {
                    (0..event.clients).for_each(|_| self.arrive(group as u16, None, 0));
                }
                return;
            }
            What::Crash => {
                if !self.worker(pool, worker).gone {
                    self.crash(pool, worker);
                }
                return;
            }
            What::Pause => {
                for worker in 0..self.pool(pool).workers.len() as u32 {
                    self.worker(pool, worker).halt(until);
                    self.set_speed(pool, worker);
                    self.plan(event.lasts, Happening::Recover { pool, worker });
                }
                return;
            }
            What::Report => {
                let (worker, report) = (WorkerId(worker), event.says.report());
                return self.tell(pool, Input::Report { worker, report });
            }
            What::Load => {
                let (worker, utilization) = (WorkerId(worker), event.percent * PPM_OF_PERCENT);
                return self.tell(pool, Input::Load { worker, utilization });
            }
            What::Error => self.worker(pool, worker).err(until, event.status, event.percent),
            What::Hang => self.worker(pool, worker).halt(until),
            What::Refuse => self.worker(pool, worker).refuse(until),
            What::Slow => self.worker(pool, worker).slow_down(until, event.factor),
        }
        self.set_speed(pool, worker);
        self.plan(event.lasts, Happening::Recover { pool, worker });
    }

    /// The shard got a permit: it connects and sends.
    pub(super) fn granted(&mut self, ticket: Ticket) {
        let exchange = self.exchanges.at(ticket);
        let (pool, shard, ended) = (exchange.pool, exchange.shard, exchange.ended);
        let Place::Granted { permit, connection } =
            std::mem::replace(&mut exchange.place, Place::Moving)
        else {
            unreachable!("nothing happens to a permit before its exchange has it");
        };
        let worker = permit.worker().0;
        let (gone, process) = (self.worker(pool, worker).gone, self.worker(pool, worker).process);
        let keeper = match connection {
            Connection::Idle => Some(shard),
            Connection::Moved(from) => Some(from),
            Connection::New => None,
        };
        let is_idle = keeper.is_some_and(|from| self.take_idle(pool, worker, from, process));
        if ended {
            let is_kept = is_idle && connection == Connection::Idle;
            if is_kept {
                self.keep(pool, worker, shard, process);
            } else if is_idle {
                self.worker(pool, worker).disconnect(process);
            }
            self.forget(ticket);
            let fate = if is_kept { Fate::Kept } else { Fate::Closed };
            return self.give_back(pool, permit, (Outcome::Ignore, None), fate);
        }
        if gone {
            let refused = (Outcome::Ignore, Some(Fault::Refused));
            self.give_back(pool, permit, refused, Fate::Closed);
            return self.refused(ticket, worker);
        }
        if !is_idle {
            self.worker(pool, worker).connect();
        }
        self.enter(ticket, Some(permit), worker);
        let attempt = self.exchanges.at(ticket).attempt;
        let time = self.setup.pools[usize::from(pool)].exchange_time_max;
        self.plan(time, Happening::GiveUp { ticket, attempt });
    }

    /// An exchange goes into a worker.
    pub(super) fn enter(&mut self, ticket: Ticket, permit: Option<Permit>, worker: u32) {
        let exchange = self.exchanges.at(ticket);
        let (pool, attempt) = (exchange.pool, exchange.attempt);
        let now = self.now;
        let inside = self.worker(pool, worker);
        inside.enter();
        let (process, refusing) = (inside.process, inside.is_refusing(now));
        self.exchanges.at(ticket).place = Place::Inside { permit, worker, process };
        let error = if refusing { None } else { self.error_at_once(pool, worker) };
        let at_once = refusing || error.is_some();
        let work = if at_once { SHORT_ANSWER } else { self.work(ticket) };
        self.exchanges.at(ticket).work = work;
        let error = error.or_else(|| self.error_after_work(pool));
        let station = self.pool(pool).stations + worker as usize;
        self.begin_work(station, Job { ticket, attempt, pool, worker, process, error }, work);
    }

    /// The status with which a worker answers instead of working.
    fn error_at_once(&mut self, pool: u16, worker: u32) -> Option<u16> {
        let now = self.now;
        let (status, percent) = self.worker(pool, worker).error(now)?;
        (self.rng.below(100) < u64::from(percent)).then_some(status)
    }

    /// The status with which a worker answers in vain.
    fn error_after_work(&mut self, pool: u16) -> Option<u16> {
        let percent = self.setup.pools[usize::from(pool)].workers.error_percent.0;
        (percent > 0 && self.rng.below(100) < u64::from(percent)).then_some(500)
    }

    fn begin_work(&mut self, station: usize, job: Job, work: Duration) {
        let (own, _) = &mut self.stations[station];
        match self.setup.step {
            Some(_) => own.begin_here(job, work),
            None => own.begin(job, work, self.now),
        }
        self.plan_done(station);
    }

    /// Plan the next end of work at a station.
    fn plan_done(&mut self, station: usize) {
        if self.setup.step.is_some() {
            return;
        }
        let (own, planned) = &mut self.stations[station];
        let next = own.next_done();
        if next != *planned {
            *planned = next;
            if let Some(at) = next {
                self.agenda.plan(at, Happening::Done { station });
            }
        }
    }

    /// Something at a station may be done.
    pub(super) fn done(&mut self, station: usize) {
        if self.stations[station].1 != Some(self.now) {
            return;
        }
        self.stations[station].1 = None;
        while let Some(job) = self.stations[station].0.take_done(self.now) {
            self.job_done(station, job);
        }
        self.plan_done(station);
    }

    /// All stations work for one step.
    pub(super) fn work_on(&mut self) {
        let step = self.setup.step.expect("only a world in steps takes them");
        for station in 0..self.stations.len() {
            if self.stations[station].0.len() > 0 {
                self.stations[station].0.step(step.as_secs_f64());
            }
        }
        for station in 0..self.stations.len() {
            // Jobs that begin here meanwhile have a step before them.
            while let Some(job) = self.stations[station].0.take_passed() {
                self.job_done(station, job);
            }
        }
        self.agenda.plan_first(self.now + step, Happening::Step);
    }

    /// Work is done: in the worker, or in the database behind it.
    fn job_done(&mut self, station: usize, job: Job) {
        let setup = &self.setup.pools[usize::from(job.pool)];
        let first = self.stations.len() - self.setup.databases.len();
        let is_database = station >= first;
        let own = self.pool(job.pool).stations + job.worker as usize;
        let now = self.now;
        let worker = self.worker(job.pool, job.worker);
        if worker.process != job.process {
            return;
        }
        let refusing = worker.is_refusing(now);
        match setup.database {
            Some(database) if !is_database && !refusing && job.error.is_none() => {
                return self.begin_work(first + database, job, setup.workers.database_time.0);
            }
            // It answers when it runs again.
            _ if is_database && worker.is_halted(now) => {
                return self.begin_work(own, job, Duration::ZERO);
            }
            _ => {}
        }
        self.answer(job, refusing);
    }

    /// A worker has finished with an exchange.
    fn answer(&mut self, job: Job, refusing: bool) {
        let Job { ticket, attempt, pool, worker, process, error } = job;
        self.worker(pool, worker).leave(process);
        let Some(permit) = self.take_inside(ticket, attempt) else {
            return self.worker(pool, worker).end_orphan();
        };
        let shard = self.exchanges.at(ticket).shard;
        let Some(permit) = permit else {
            match refusing {
                true => self.end(ticket, End::Failed),
                false => self.answered(ticket, pool, worker, error),
            }
            return self.left_plainly(pool);
        };
        self.keep(pool, worker, shard, process);
        if refusing {
            let refused = (Outcome::Overload, Some(Fault::Refusal));
            self.give_back(pool, permit, refused, Fate::Kept);
            return self.try_again(ticket, worker, false);
        }
        let fault = error.map(|_| Fault::Error);
        if error == Some(503) && self.is_better_elsewhere(ticket, pool, worker) {
            self.give_back(pool, permit, (Outcome::Ignore, fault), Fate::Kept);
            return self.try_again(ticket, worker, false);
        }
        self.end_race(ticket);
        self.answered(ticket, pool, worker, error);
        self.give_back(pool, permit, (Outcome::Success, fault), Fate::Kept);
    }

    /// As the proxy asks before it passes a 503 on.
    fn is_better_elsewhere(&mut self, ticket: Ticket, pool: u16, worker: u32) -> bool {
        let Exchange { tried, repeatable, ended, .. } = *self.exchanges.at(ticket);
        let may = repeatable && !ended && self.setup.pools[usize::from(pool)].retry_unavailable;
        may && self.pool(pool).gate.is_better_elsewhere(WorkerId(worker), &tried)
    }

    fn answered(&mut self, ticket: Ticket, pool: u16, worker: u32, error: Option<u16>) {
        self.worker(pool, worker).answers += 1;
        self.end(ticket, if error.is_some() { End::Error } else { End::Answered });
    }

    /// The shard has waited long enough for an answer.
    pub(super) fn give_up(&mut self, ticket: Ticket, attempt: u32) {
        let place = self.exchanges.find(ticket).map(|exchange| &exchange.place);
        let Some(Place::Inside { worker, process, .. }) = place else { return };
        let (worker, process) = (*worker, *process);
        let Some(Some(permit)) = self.take_inside(ticket, attempt) else { return };
        let pool = self.exchanges.at(ticket).pool;
        self.worker(pool, worker).disconnect(process);
        self.worker(pool, worker).orphan(process);
        let stuck = (Outcome::Overload, Some(Fault::Stuck));
        self.give_back(pool, permit, stuck, Fate::Cut);
        self.try_again(ticket, worker, true);
        if self.setup.pools[usize::from(pool)].workers.supervised {
            self.plan(KILL, Happening::Kill { pool, worker, process });
        }
    }

    /// The worker's process ends, and everything in it.
    pub(super) fn crash(&mut self, pool: u16, worker: u32) {
        let process = self.worker(pool, worker).process;
        self.worker(pool, worker).end();
        let station = self.pool(pool).stations + worker as usize;
        let mut jobs = self.stations[station].0.take_all(self.now);
        self.set_speed(pool, worker);
        let setup = &self.setup.pools[usize::from(pool)];
        if let Some(database) = setup.database {
            let first = self.stations.len() - self.setup.databases.len();
            let queries = self.stations[first + database].0.jobs();
            let own = |job: &&Job| (job.pool, job.worker, job.process) == (pool, worker, process);
            jobs.extend(queries.into_iter().filter(own).copied());
        }
        for Job { ticket, attempt, .. } in jobs {
            match self.take_inside(ticket, attempt) {
                None => {}
                Some(None) => {
                    self.end(ticket, End::Failed);
                    self.left_plainly(pool);
                }
                Some(Some(permit)) => {
                    let reset = (Outcome::Ignore, Some(Fault::Reset));
                    self.give_back(pool, permit, reset, Fate::Closed);
                    self.try_again(ticket, worker, true);
                }
            }
        }
        for shard in (0..self.setup.shards).map(ShardId) {
            let idle = std::mem::take(self.idle(pool, worker, shard));
            for _ in idle {
                self.tell(pool, Input::Closed { worker: WorkerId(worker), shard });
            }
        }
        if setup.workers.supervised {
            self.plan(NOTICE, Happening::Down { pool, worker });
        }
        self.plan(setup.workers.boot.0, Happening::Start { pool, worker });
    }

    /// Nothing of an exchange reached a worker.
    fn refused(&mut self, ticket: Ticket, worker: u32) {
        let tried = &mut self.exchanges.at(ticket).tried;
        tried.insert(WorkerId(worker));
        let attempt = Attempt::Unsent(*tried);
        match self.exchanges.at(ticket).is_second {
            true => self.second_failed(ticket, worker, false),
            false => self.ask(ticket, attempt),
        }
    }

    pub(super) fn try_again(&mut self, ticket: Ticket, worker: u32, died: bool) {
        let exchange = self.exchanges.at(ticket);
        if exchange.is_second && !exchange.ended {
            return self.second_failed(ticket, worker, died);
        }
        if exchange.beside.is_some() {
            // The other try goes on alone.
            exchange.tried.insert(WorkerId(worker));
            exchange.tried.deaths += u8::from(died);
            return;
        }
        if exchange.ended || (died && !exchange.repeatable) {
            return self.end(ticket, End::Failed);
        }
        exchange.tried.insert(WorkerId(worker));
        exchange.tried.deaths += u8::from(died);
        exchange.tried.charged += 1;
        let attempt = Attempt::Sent(exchange.tried);
        self.ask(ticket, attempt);
    }

    pub(super) fn ask_worker(&mut self, pool: u16, place: usize) {
        let probe = self.pool(pool).probes[place].as_ref().expect("the probe is under way");
        let (worker, permit) = (probe.worker.0, probe.permit.is_some());
        let exchange = probe.kind == ProbeKind::Exchange;
        let (now, mail) = (self.now, self.setup.mail);
        let asked = self.worker(pool, worker);
        let process = asked.process;
        if asked.gone {
            return self.asked(pool, place, process, Heard::Nothing);
        }
        if exchange || permit {
            asked.connect();
        }
        // A worker that is at something which was given up says nothing before it has done.
        let silent = asked.is_halted(now) || asked.has_orphans();
        let (time, heard) = match exchange {
            false => (mail, Heard::Well),
            true if silent => (PROBE_TIME_MAX, Heard::Nothing),
            true if asked.is_refusing(now) => (SHORT_ANSWER, Heard::Badly),
            true => (SHORT_ANSWER, Heard::Well),
        };
        if exchange && heard == Heard::Well {
            asked.enter();
        }
        self.plan(time, Happening::Asked { pool, probe: place, process, heard });
    }

    pub(super) fn asked(&mut self, pool: u16, place: usize, process: u32, heard: Heard) {
        let probe = self.pool(pool).probes[place].take().expect("the probe is under way");
        let exchange = probe.kind == ProbeKind::Exchange;
        let Probe { worker, permit, .. } = probe;
        let asked = self.worker(pool, worker.0);
        let alive = !asked.gone && asked.process == process;
        if alive && (exchange || permit.is_some()) {
            asked.disconnect(process);
        }
        if alive && exchange && heard == Heard::Well {
            asked.leave(process);
        }
        let heard = if alive { heard } else { Heard::Nothing };
        self.tell(pool, Input::Probed(Probed { worker, heard, permit }));
    }

    fn give_back(
        &mut self,
        pool: u16,
        permit: Permit,
        (outcome, fault): (Outcome, Option<Fault>),
        connection: Fate,
    ) {
        self.held -= 1;
        self.tell(pool, Input::Return(Returned { permit, outcome, fault, connection }));
    }

    /// What an exchange that is inside a worker in this attempt holds: a permit, where there is a
    /// gate.
    fn take_inside(&mut self, ticket: Ticket, attempt: u32) -> Option<Option<Permit>> {
        let exchange = self.exchanges.find(ticket)?;
        if exchange.attempt != attempt || !matches!(exchange.place, Place::Inside { .. }) {
            return None;
        }
        match std::mem::replace(&mut exchange.place, Place::Moving) {
            Place::Inside { permit, .. } => Some(permit),
            Place::Waiting | Place::Granted { .. } | Place::Moving => None,
        }
    }

    /// A worker's speed has changed, or may have.
    pub(super) fn set_speed(&mut self, pool: u16, worker: u32) {
        let now = self.now;
        let speed = self.worker(pool, worker).speed(now);
        let station = self.pool(pool).stations + worker as usize;
        self.stations[station].0.set_speed(speed, now);
        self.plan_done(station);
    }

    fn idle(&mut self, pool: u16, worker: u32, shard: ShardId) -> &mut Vec<u32> {
        let own = self.pool(pool);
        let place = usize::from(shard.0) * own.workers.len() + worker as usize;
        &mut own.idle[place]
    }

    pub(super) fn close_idle(&mut self, pool: u16, worker: u32, shard: ShardId) {
        let idle = self.idle(pool, worker, shard);
        if !idle.is_empty() {
            let process = idle.remove(0);
            self.worker(pool, worker).disconnect(process);
        }
        self.tell(pool, Input::Closed { worker: WorkerId(worker), shard });
    }

    fn keep(&mut self, pool: u16, worker: u32, shard: ShardId, process: u32) {
        self.idle(pool, worker, shard).push(process);
    }

    fn take_idle(&mut self, pool: u16, worker: u32, shard: ShardId, process: u32) -> bool {
        let idle = self.idle(pool, worker, shard);
        let fit = idle.iter().position(|idle| *idle == process);
        fit.map(|place| idle.remove(place)).is_some()
    }

    /// How much work an exchange is.
    fn work(&mut self, ticket: Ticket) -> Duration {
        let Exchange { pool, group, path, service, .. } = *self.exchanges.at(ticket);
        if let Some(recorded) = service {
            return recorded;
        }
        let takes = match path {
            Some(path) => {
                self.setup.groups[usize::from(group)].clients.paths[usize::from(path)].takes()
            }
            None => {
                let workers = &self.setup.pools[usize::from(pool)].workers;
                workers.takes(self.rng.below(100) < u64::from(workers.slow_percent.0))
            }
        };
        takes.draw(&mut self.rng)
    }
}
