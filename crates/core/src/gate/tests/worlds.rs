//! Random worlds: shards that get their mail late, workers that die, close and refuse at any
//! moment.
//!
//! The world keeps its own books of what physically is: every exchange that asks is answered once,
//! no worker ever sees more connections than it may, nobody is passed over, and the timer moves on.
//! The gate checks its own invariants after every step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use crate::gate::trace::words;
use crate::gate::{
    Arrival, Attempt, Change, Claim, Class, Connection, Fate, Fault, Gate, Heard, Hedge, Input,
    Late, Order, Outcome, Output, Permit, Probed, Returned, Settings, Tried,
};
use crate::id::{Key, Kind, ShardId, Tenant, Ticket, User, WorkerId};
use crate::pool::{Admin, Health, Report, State};
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::{Slots, Weight};

use super::settings;

const SHARDS: u64 = 3;
const WORKERS: u64 = 5;
const STEPS: usize = 600;

/// A connection: to which process of its worker.
type Process = u32;

struct Running {
    arrival: Arrival,
    /// It is the second try of another.
    hedge: bool,
    permit: Permit,
    process: Process,
}

enum Mail {
    Grant(Running, Connection),
    /// Pass the grant on, with an idle connection if there is one.
    HandOver(Running),
    CloseIdle(WorkerId),
}

#[derive(Default)]
struct Shard {
    mail: VecDeque<Mail>,
    idle: BTreeMap<u32, Vec<Process>>,
    running: Vec<Running>,
}

struct World {
    gate: Gate,
    settings: Settings,
    rng: Rng,
    /// Its shards say that they closed a connection even where they found none.
    sloppy: bool,
    now: Instant,
    shards: Vec<Shard>,
    waiting: BTreeMap<u64, Arrival>,
    /// Those that ask for a second try in this step, with the workers that it is not to get.
    hedging: BTreeMap<u64, Arrival>,
    probes: Vec<(WorkerId, Option<Permit>)>,
    /// Slots of probes that were given up.
    slow: Vec<Permit>,
    processes: BTreeMap<u32, Process>,
    /// Those who had a slot before this step.
    reserved: BTreeSet<u64>,
    tickets: u64,
    draining: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let slots = Slots::new(rng.below(3) as u32 + 1).expect("at least one");
        let connections = slots.count() + rng.below(3) as u32;
        let millis = |range: u64, rng: &mut Rng| Duration::from_millis(1 + rng.below(range));
        let settings = Settings {
            slots,
            limit: words::LIMITS[rng.below(3) as usize],
            limit_min: Slots::new(1 + rng.below(2) as u32).expect("at least one"),
            connections_max: Slots::new(connections).expect("at least one"),
            queue_len_max: rng.below(12) as u32,
            queue_wait_max: millis(400, &mut rng),
            answer_within: (rng.below(2) == 0).then(|| millis(300, &mut rng)),
            order: words::ORDERS[rng.below(4) as usize],
            balance: words::BALANCES[rng.below(5) as usize],
            ramp_time: (rng.below(2) == 0).then(|| millis(200, &mut rng)),
            shedding: words::SHEDDINGS[rng.below(3) as usize],
            eject_after: rng.below(4) as u32,
            eject_time: millis(200, &mut rng),
            probe_interval: millis(50, &mut rng),
            probe_exchange: rng.below(2) == 0,
            probe_interval_up: (rng.below(2) == 0).then(|| millis(80, &mut rng)),
            ..settings()
        };
        let gate = Gate::new(settings.clone(), Instant::ZERO);
        World {
            gate,
            settings,
            sloppy: rng.below(4) == 0,
            rng,
            now: Instant::ZERO,
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            waiting: BTreeMap::new(),
            hedging: BTreeMap::new(),
            probes: Vec::new(),
            slow: Vec::new(),
            processes: BTreeMap::new(),
            reserved: BTreeSet::new(),
            tickets: 0,
            draining: false,
        }
    }

    fn step(&mut self) {
        self.pass_time();
        match self.rng.below(100) {
            0..30 => self.arrive(),
            30..55 => self.deliver(),
            55..72 => self.end_one(),
            72..75 => self.hedge_one(),
            75..80 => self.abandon(),
            80..85 => self.close_one(),
            85..92 => self.answer_probe(),
            92 => self.end_late(),
            93..97 => self.change_member(),
            97..99 => self.report(),
            _ => self.handle(Input::Abandon(Ticket(u64::MAX))),
        }
    }

    fn pass_time(&mut self) {
        let until = self.now + Duration::from_micros(self.rng.below(20_000));
        while let Some(at) = self.gate.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.reserved.clear();
            self.gate.handle_timeout(self.now);
            self.take_outputs();
            let next = self.gate.poll_timeout();
            assert!(next.is_none_or(|next| next > self.now), "the timer rings for ever");
        }
        self.now = until;
    }

    fn handle(&mut self, input: Input) {
        let reserved = self.gate.queue.iter().filter(|waiter| waiter.reserved.is_some());
        self.reserved = reserved.map(|waiter| waiter.ticket.0).collect();
        // Shards cache their clocks: some inputs come with a moment that is past.
        let early = Duration::from_micros(self.rng.below(500));
        self.gate.handle(input, self.now - early);
        self.take_outputs();
    }

    fn arrive(&mut self) {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let shard = ShardId(self.rng.below(SHARDS) as u16);
        let (since, received, attempt) = (self.now, self.now, Attempt::First);
        let claim = self.claim();
        self.ask(Arrival { ticket, shard, since, received, claim, attempt });
    }

    /// One that runs asks for a second try.
    fn hedge_one(&mut self) {
        let number = self.rng.below(SHARDS) as usize;
        let place = self.rng.below(self.shards[number].running.len() as u64) as usize;
        let Some(running) = self.shards[number].running.get(place) else { return };
        let ticket = Ticket(self.tickets);
        let mut tried = tried(&running.arrival, running.permit.worker(), 0);
        tried.charged = tried.charged.saturating_add(1);
        let arrival = Arrival { ticket, attempt: Attempt::Sent(tried), ..running.arrival };
        self.tickets += 1;
        let Arrival { shard, received, claim, .. } = arrival;
        self.hedging.insert(ticket.0, arrival);
        self.handle(Input::Hedge(Hedge { ticket, shard, received, claim, tried }));
        assert!(self.hedging.is_empty(), "a second try is decided about at once");
    }

    /// A second try gets a slot that nobody waits for, of a worker that does not have it.
    fn take_hedge(&mut self, ticket: Ticket, worker: WorkerId) -> Arrival {
        let arrival = self.hedging.remove(&ticket.0).expect("it asked");
        assert!(self.waiting.is_empty(), "{ticket:?} took somebody's place");
        assert!(!arrival.attempt.tried().contains(worker), "{ticket:?} is where it was");
        let index = self.gate.pool.find(worker).expect("it is a member");
        assert_eq!(self.gate.pool.worker(index).state, State::Up);
        arrival
    }

    fn claim(&mut self) -> Claim {
        let mut number = |bound: u64| self.rng.below(bound);
        let class = Class::ALL[number(4) as usize];
        let (user, tenant) = (User(number(50)), Tenant(number(3)));
        let (kind, key, deadline) = (Kind(number(3)), Key(number(4)), number(4));
        let deadline = (deadline == 0).then(|| self.now + Duration::from_millis(number(300)));
        Claim { class, user, tenant, kind, key, deadline }
    }

    fn ask(&mut self, arrival: Arrival) {
        // The gate's clock may be behind that of the shard.
        let since = arrival.since.min(self.gate.now);
        let arrival = Arrival { since, ..arrival };
        self.waiting.insert(arrival.ticket.0, arrival);
        self.handle(Input::Arrive(arrival));
    }

    /// A shard opens its next letter.
    fn deliver(&mut self) {
        let number = self.rng.below(SHARDS) as usize;
        let shard = &mut self.shards[number];
        match shard.mail.pop_front() {
            None => {}
            Some(Mail::Grant(running, connection)) => {
                let worker = running.permit.worker();
                let idle = shard.idle.entry(worker.0).or_default();
                let fit = idle.iter().position(|process| *process == running.process);
                if connection == Connection::Idle {
                    fit.map(|place| idle.remove(place));
                }
                shard.running.push(running);
                self.check_connections(worker);
            }
            Some(Mail::HandOver(running)) => {
                let idle = shard.idle.entry(running.permit.worker().0).or_default();
                let fit = idle.iter().position(|process| *process == running.process);
                fit.map(|place| idle.remove(place));
                let to = usize::from(running.arrival.shard.0);
                self.shards[to].mail.push_back(Mail::Grant(running, Connection::New));
            }
            Some(Mail::CloseIdle(worker)) => {
                let idle = shard.idle.entry(worker.0).or_default();
                let process = self.processes[&worker.0];
                let unfit = idle.iter().position(|idle| *idle != process).unwrap_or(0);
                let closed = !idle.is_empty();
                if closed {
                    idle.remove(unfit);
                }
                if closed || self.sloppy {
                    self.handle(Input::Closed { worker, shard: ShardId(number as u16) });
                }
            }
        }
    }

    fn end_one(&mut self) {
        let number = self.rng.below(SHARDS) as usize;
        let running = self.shards[number].running.len() as u64;
        if running == 0 {
            return;
        }
        let index = self.rng.below(running) as usize;
        let Running { arrival, hedge, permit, process } =
            self.shards[number].running.swap_remove(index);
        let worker = permit.worker();
        let (outcome, fault) = match self.rng.below(20) {
            0 => (Outcome::Ignore, Some(Fault::Refused)),
            1 => (Outcome::Ignore, Some(Fault::Reset)),
            2 => (Outcome::Overload, Some(Fault::Refusal)),
            3 => (Outcome::Overload, Some(Fault::Stuck)),
            4..6 => (Outcome::Success, Some(Fault::Error)),
            6 => (Outcome::Ignore, None),
            _ => (Outcome::Success, None),
        };
        let broken = !matches!(fault, None | Some(Fault::Error | Fault::Refusal));
        let says_nothing = outcome == Outcome::Ignore && fault.is_none();
        let cut = says_nothing && self.rng.below(2) == 0;
        let kept = !broken && !cut && self.rng.below(4) > 0;
        if kept {
            self.shards[number].idle.entry(worker.0).or_default().push(process);
        }
        let connection = match (kept, cut) {
            (true, _) => Fate::Kept,
            (false, true) => Fate::Cut,
            (false, false) => Fate::Closed,
        };
        self.handle(Input::Return(Returned { permit, outcome, fault, connection }));
        let again = match fault {
            Some(Fault::Refused) => Attempt::Unsent(tried(&arrival, worker, 0)),
            Some(Fault::Reset) => Attempt::Sent(tried(&arrival, worker, 1)),
            _ => return,
        };
        if hedge {
            return;
        }
        self.ask(Arrival { attempt: again, ..arrival });
    }

    fn abandon(&mut self) {
        let place = self.rng.below(self.waiting.len() as u64) as usize;
        if let Some(ticket) = self.waiting.keys().nth(place).copied() {
            self.waiting.remove(&ticket);
            self.handle(Input::Abandon(Ticket(ticket)));
        }
    }

    /// A worker, or a shard by itself, closes an idle connection.
    fn close_one(&mut self) {
        let number = self.rng.below(SHARDS) as usize;
        let worker = self.rng.below(WORKERS) as u32;
        let idle = self.shards[number].idle.entry(worker).or_default();
        if idle.pop().is_some() {
            let (worker, shard) = (WorkerId(worker), ShardId(number as u16));
            self.handle(Input::Closed { worker, shard });
        }
    }

    fn answer_probe(&mut self) {
        let place = self.rng.below(self.probes.len() as u64) as usize;
        if place < self.probes.len() {
            let (worker, permit) = self.probes.swap_remove(place);
            let heard = match self.rng.below(6) {
                0 => Heard::Nothing,
                1 => Heard::Badly,
                _ => Heard::Well,
            };
            let given_up = heard == Heard::Nothing && self.rng.below(2) == 0;
            let (permit, slow) = if given_up { (None, permit) } else { (permit, None) };
            self.slow.extend(slow);
            self.handle(Input::Probed(Probed { worker, heard, permit }));
        }
    }

    /// A worker has done with a probe that was given up, or it was waited for long enough.
    fn end_late(&mut self) {
        if let Some(permit) = self.slow.pop() {
            let heard = words::HEARD[self.rng.below(3) as usize];
            self.handle(Input::Late(Late { permit, heard }));
        }
    }

    fn change_member(&mut self) {
        let worker = WorkerId(self.rng.below(WORKERS) as u32);
        let change = match self.rng.below(8) {
            0 => Change::Join,
            1 => Change::JoinSupervised,
            2..5 => Change::Ready,
            5 => Change::Down,
            6 => Change::Drain,
            _ => Change::Leave,
        };
        let known = self.gate.pool.find(worker).map(|index| self.gate.pool.worker(index));
        let staying = known.filter(|worker| !worker.leaving);
        let new_process = match change {
            Change::Ready => staying.is_some_and(|worker| worker.base != State::Up),
            Change::Down => known.is_some(),
            Change::Join | Change::JoinSupervised => staying.is_none(),
            Change::Drain | Change::Leave => false,
        };
        if new_process {
            *self.processes.entry(worker.0).or_default() += 1;
        }
        self.handle(Input::Member { worker, change });
    }

    /// An agent speaks, or a worker says how busy it is.
    fn report(&mut self) {
        let rng = &mut self.rng;
        let worker = WorkerId(rng.below(WORKERS) as u32);
        if rng.below(4) == 0 {
            let weight = Weight::new(rng.below(4) as u32 + 1).expect("at least one");
            return self.handle(Input::Weight { worker, weight });
        }
        if rng.below(3) == 0 {
            let utilization = rng.below(2_500_000) as u32;
            return self.handle(Input::Load { worker, utilization });
        }
        // Mostly well, so that the pool does not stand still.
        let report = Report {
            admin: [None, Some(Admin::Ready), Some(Admin::Ready), Some(Admin::Drain)]
                [rng.below(4) as usize]
                .or((rng.below(4) == 0).then_some(Admin::Maint)),
            percent: (rng.below(2) == 0).then(|| rng.below(4) as u32 * 50),
            slots: (rng.below(2) == 0).then(|| rng.below(4) as u32),
            health: [None, Some(Health::Up), Some(Health::Up), Some(Health::Down)]
                [rng.below(4) as usize],
        };
        self.handle(Input::Report { worker, report });
    }

    fn take_outputs(&mut self) {
        let mut granted = Vec::new();
        while let Some(output) = self.gate.poll_output() {
            match output {
                Output::Grant(grant) => {
                    let worker = grant.permit.worker();
                    let waited = self.waiting.remove(&grant.ticket.0);
                    let hedge = waited.is_none();
                    let arrival = waited.unwrap_or_else(|| self.take_hedge(grant.ticket, worker));
                    assert_eq!(grant.shard, arrival.shard);
                    assert!(!hedge || grant.hedge_after.is_none(), "there are two tries at most");
                    self.check_deadline(&arrival);
                    granted.push((arrival, worker));
                    let process = self.processes[&worker.0];
                    let running = Running { arrival, hedge, permit: grant.permit, process };
                    let (to, mail) = match grant.connection {
                        Connection::Moved(from) => (from, Mail::HandOver(running)),
                        connection => (grant.shard, Mail::Grant(running, connection)),
                    };
                    self.shards[usize::from(to.0)].mail.push_back(mail);
                }
                Output::Shed(shed) => {
                    self.waiting.remove(&shed.ticket.0).expect("it asked");
                }
                Output::Withheld(withheld) => {
                    self.hedging.remove(&withheld.ticket.0).expect("it asked");
                }
                Output::CloseIdle { worker, shard } => {
                    self.shards[usize::from(shard.0)].mail.push_back(Mail::CloseIdle(worker));
                }
                Output::Probe(probe) => {
                    let busy = self.probes.iter().any(|(worker, _)| *worker == probe.worker);
                    assert!(!busy, "one probe at a time");
                    self.probes.push((probe.worker, probe.permit));
                }
                Output::State { .. } => {}
            }
        }
        self.gate.check_invariants();
        assert_eq!(self.gate.queue.len(), self.waiting.len(), "who has no answer waits");
        assert!(self.waiting.is_empty() || !self.draining);
        granted.iter().for_each(|(arrival, worker)| self.check_order(arrival, *worker));
    }

    /// Nobody is given to a worker after the moment that its client had said.
    fn check_deadline(&self, granted: &Arrival) {
        if !self.reserved.contains(&granted.ticket.0) {
            let deadline = granted.claim.deadline.unwrap_or(Instant::FAR_FUTURE);
            assert!(self.gate.now <= deadline, "{:?} is too late", granted.ticket);
            self.check_end(granted);
        }
    }

    /// Nobody is given to a worker whose answer is expected too late, by what was promised or by
    /// what the client said; but for trials, of a kind that takes longer than what was promised.
    fn check_end(&self, granted: &Arrival) {
        let Arrival { received, claim, .. } = granted;
        let (answers, now) = (&self.gate.answers, self.gate.now);
        let Some(expected) = answers.expected(claim.kind, now) else { return };
        let is_trial = self.settings.answer_within.is_some_and(|within| expected > within);
        if is_trial && claim.deadline.is_none() {
            return;
        }
        let deadline = claim.deadline.unwrap_or(Instant::FAR_FUTURE);
        let latest = answers.promised(*received).min(deadline);
        let late = latest < Instant::FAR_FUTURE && now + expected > latest;
        assert!(!late, "{:?} is expected to be answered too late", granted.ticket);
    }

    /// Nobody waits who is more important and could have had this worker, nor, in an order by age,
    /// anybody older of the same tenant and kind.
    fn check_order(&self, granted: &Arrival, worker: WorkerId) {
        if self.reserved.contains(&granted.ticket.0) {
            return;
        }
        let Some(index) = self.gate.pool.find(worker) else {
            return;
        };
        let claim = &granted.claim;
        let class = self.gate.lane_of(claim.class);
        let by_age = matches!(self.settings.order, Order::Fifo | Order::Priority);
        for waiter in self.gate.queue.iter().filter(|waiter| waiter.reserved.is_none()) {
            let alike =
                (waiter.class, waiter.tenant) == (class, claim.tenant) && waiter.kind == claim.kind;
            let older = by_age && alike && waiter.since < granted.since;
            let first = waiter.class < class || older;
            let passed_over = first && self.gate.pool.may_take(index, &waiter.tried);
            assert!(!passed_over, "{:?} was passed over by {:?}", waiter.ticket, granted.ticket);
        }
    }

    /// The worker's present process sees no more connections than it may.
    fn check_connections(&self, worker: WorkerId) {
        if self.sloppy {
            return;
        }
        let process = self.processes[&worker.0];
        let mut seen = 0;
        for shard in &self.shards {
            let running = shard.running.iter().filter(|running| running.permit.worker() == worker);
            seen += running.filter(|running| running.process == process).count();
            let idle = shard.idle.get(&worker.0).into_iter().flatten();
            seen += idle.filter(|idle| **idle == process).count();
        }
        let most = self.settings.connections_max.count() as usize;
        assert!(seen <= most, "{worker:?} sees {seen} connections");
    }

    /// Let everything come home; nothing may be left.
    fn finish(&mut self) {
        self.draining = true;
        self.handle(Input::Drain);
        while self.shards.iter().any(|shard| !shard.mail.is_empty() || !shard.running.is_empty()) {
            self.deliver();
            self.end_one();
        }
        while !self.probes.is_empty() || !self.slow.is_empty() {
            self.answer_probe();
            self.end_late();
        }
        let view = self.gate.view(self.now);
        let stuck: u32 = view.workers.iter().map(|worker| worker.stuck).sum();
        assert_eq!((view.queue_len, view.in_flight), (0, stuck), "no permit is lost");
    }
}

fn tried(arrival: &Arrival, worker: WorkerId, charge: u8) -> Tried {
    let mut tried = arrival.attempt.tried();
    tried.insert(worker);
    tried.deaths = tried.deaths.saturating_add(charge);
    tried.charged = tried.charged.saturating_add(charge);
    tried
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_happens_the_books_balance(seed in any::<u64>()) {
        let mut world = World::new(seed);
        for worker in 0..WORKERS {
            world.processes.insert(worker as u32, 0);
            let (worker, change) = (WorkerId(worker as u32), Change::Join);
            world.handle(Input::Member { worker, change });
        }
        (0..STEPS).for_each(|_| world.step());
        world.finish();
    }
}
