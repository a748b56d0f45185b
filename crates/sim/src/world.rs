//! The world: a list of things to come, a clock that leaps from one to the next, and a gate.
//!
//! Everything passes through [`World::tell`], which also writes the trace and sweeps over the
//! gate's invariants. Messages between threads take [`MAIL`]; what the shards and workers then do
//! is in [`crate::shell`].

use std::collections::BTreeMap;

use spillgate_core::gate::trace::TraceWriter;
use spillgate_core::gate::{Arrival, Attempt, Change, Connection, Gate, Input, Output, Permit};
use spillgate_core::gate::{Heard, Probe, Tried};
use spillgate_core::id::{ShardId, Ticket, WorkerId};
use spillgate_core::rng::Rng;
use spillgate_core::time::{Duration, Instant};

use crate::report::Summary;
use crate::scenario::{Event, Scenario};
use crate::worker::{Mood, Worker};

/// Time that a message takes from one thread to another: some tens of microseconds, measured on
/// ordinary machines with a wake-up.
pub(crate) const MAIL: Duration = Duration::from_micros(50);
/// Clients come at random within steps of this length.
const TICK: Duration = Duration::from_micros(100);
/// Time after the last arrival within which everything must have ended.
const FINISH_MAX: Duration = Duration::from_secs(600);

/// A run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    /// What came of it.
    pub summary: Summary,
    /// What the gate was told and said.
    pub trace: String,
}

/// Something that is going to happen.
pub(crate) enum Happening {
    Arrive,
    Event(Event),
    Leave(Ticket),
    Granted { ticket: Ticket, permit: Permit, connection: Connection },
    CloseIdle { worker: WorkerId, shard: ShardId },
    Answer { ticket: Ticket, attempt: u32, worker: WorkerId, process: u32 },
    GiveUp { ticket: Ticket, attempt: u32 },
    Ask(Probe),
    Asked { probe: Probe, process: u32, heard: Heard },
    Kill { worker: WorkerId, process: u32 },
    Down { worker: WorkerId },
    Start { worker: WorkerId },
}

/// Where an exchange is.
pub(crate) enum Place {
    Waiting,
    Granted,
    Inside { permit: Permit, process: u32 },
    Ended,
}

/// An exchange.
pub(crate) struct Exchange {
    pub(crate) shard: ShardId,
    pub(crate) arrived: Instant,
    pub(crate) repeatable: bool,
    pub(crate) tried: Tried,
    /// Which try this is.
    pub(crate) attempt: u32,
    pub(crate) place: Place,
    /// The client left while a worker was at it.
    pub(crate) left: bool,
}

/// How an exchange ended.
pub(crate) enum End {
    Served,
    Shed(spillgate_core::gate::Reason),
    Failed,
    Abandoned,
}

/// Everything there is.
pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    gate: Gate,
    trace: TraceWriter<String>,
    pub(crate) rng: Rng,
    pub(crate) now: Instant,
    to_come: BTreeMap<(Instant, u64), Happening>,
    planned: u64,
    pub(crate) workers: Vec<Worker>,
    /// Idle connections: by shard and worker, the processes they lead to, oldest first.
    pub(crate) idle: BTreeMap<(u16, u32), Vec<u32>>,
    pub(crate) exchanges: Vec<Exchange>,
    waiting: u32,
    /// Exchanges with a permit.
    pub(crate) held: u32,
    /// Exchanges that have not ended.
    open: u32,
    pub(crate) summary: Summary,
}

/// Run a scenario with a seed.
///
/// # Panics
///
/// When an invariant of the gate or one of the world's books does not hold.
pub fn simulate(scenario: &Scenario, seed: u64) -> Run {
    let settings = scenario.settings();
    let trace = TraceWriter::begin(String::new(), &settings, Instant::ZERO);
    let mut world = World {
        scenario,
        gate: Gate::new(settings, Instant::ZERO),
        trace: trace.expect("a string takes everything"),
        rng: Rng::new(seed),
        now: Instant::ZERO,
        to_come: BTreeMap::new(),
        planned: 0,
        workers: (0..scenario.workers.count).map(|_| Worker::new()).collect(),
        idle: BTreeMap::new(),
        exchanges: Vec::new(),
        waiting: 0,
        held: 0,
        open: 0,
        summary: Summary { name: scenario.name.clone(), seed, ..Summary::default() },
    };
    world.begin();
    while world.step() {}
    world.finish()
}

impl World<'_> {
    fn begin(&mut self) {
        for worker in 0..self.scenario.workers.count {
            let worker = WorkerId(worker);
            if self.scenario.workers.supervised {
                self.tell(Input::Member { worker, change: Change::JoinSupervised });
                self.plan(self.scenario.workers.boot.0, Happening::Start { worker });
            } else {
                self.start(worker);
                self.tell(Input::Member { worker, change: Change::Join });
            }
        }
        for event in &self.scenario.event {
            self.plan(event.at().since(Instant::ZERO), Happening::Event(*event));
        }
        self.plan_arrival();
    }

    /// The next thing happens; is there more to come?
    fn step(&mut self) -> bool {
        let end = self.scenario.time.after_start();
        if self.now >= end && self.open == 0 && self.held == 0 {
            return false;
        }
        assert!(self.now <= end + FINISH_MAX, "something does not end");
        let next = self.to_come.first_key_value().map(|((at, _), _)| *at);
        let timer = self.gate.poll_timeout();
        match (next, timer) {
            (next, Some(timer)) if next.is_none_or(|next| timer <= next) => {
                self.now = self.now.max(timer);
                self.trace.timeout(self.now).expect("a string takes everything");
                self.gate.handle_timeout(self.now);
                self.take_outputs();
            }
            _ => {
                let ((at, _), happening) = self.to_come.pop_first().expect("something comes");
                self.now = at;
                self.happen(happening);
            }
        }
        true
    }

    fn finish(mut self) -> Run {
        let view = self.gate.view(self.now);
        let mut summary = self.summary;
        let ends = summary.served + summary.shed_total() + summary.failed + summary.abandoned;
        assert_eq!(summary.arrivals, ends, "every exchange ends once");
        assert_eq!(summary.arrivals, view.arrivals, "the gate counts the same arrivals");
        assert_eq!(view.queue_len, 0, "nobody is forgotten in the queue");
        summary.retries = view.retries;
        summary.inside_max = self.workers.iter().map(|worker| worker.inside_max).max().unwrap_or(0);
        summary.open_max = self.workers.iter().map(|worker| worker.open_max).max().unwrap_or(0);
        summary.served_by_worker = self.workers.iter().map(|worker| worker.served).collect();
        summary.times.sort_unstable();
        Run { summary, trace: self.trace.into_sink() }
    }

    pub(crate) fn plan(&mut self, after: Duration, happening: Happening) {
        self.planned += 1;
        self.to_come.insert((self.now + after, self.planned), happening);
    }

    /// Tell the gate something, and plan what it says.
    pub(crate) fn tell(&mut self, input: Input) {
        self.trace.input(&input, self.now).expect("a string takes everything");
        self.gate.handle(input, self.now);
        self.take_outputs();
    }

    /// Ask the gate for a permit.
    pub(crate) fn ask(&mut self, ticket: Ticket, attempt: Attempt) {
        let exchange = &mut self.exchanges[ticket.0 as usize];
        exchange.place = Place::Waiting;
        exchange.attempt += 1;
        let (shard, since, received) = (exchange.shard, exchange.arrived, exchange.arrived);
        self.waiting += 1;
        self.tell(Input::Arrive(Arrival { ticket, shard, since, received, attempt }));
        self.summary.queue_len_max = self.summary.queue_len_max.max(self.waiting);
    }

    /// An exchange ends, if it has not yet.
    pub(crate) fn end(&mut self, ticket: Ticket, end: End) {
        let exchange = &mut self.exchanges[ticket.0 as usize];
        if exchange.left {
            exchange.place = Place::Ended;
            return;
        }
        self.open -= 1;
        match end {
            End::Served => {
                self.summary.served += 1;
                self.summary.times.push(self.now.since(exchange.arrived));
            }
            End::Shed(reason) => *self.summary.shed.entry(reason).or_default() += 1,
            End::Failed => self.summary.failed += 1,
            End::Abandoned => {
                self.summary.abandoned += 1;
                exchange.left = true;
                return;
            }
        }
        exchange.place = Place::Ended;
    }

    pub(crate) fn worker(&mut self, worker: WorkerId) -> &mut Worker {
        &mut self.workers[worker.0 as usize]
    }

    pub(crate) fn mood(&self, worker: WorkerId) -> Mood {
        self.workers[worker.0 as usize].mood(self.now)
    }

    fn take_outputs(&mut self) {
        self.gate.check_invariants();
        while let Some(output) = self.gate.poll_output() {
            self.trace.output(&output).expect("a string takes everything");
            match output {
                Output::Grant(grant) => {
                    let (ticket, connection) = (grant.ticket, grant.connection);
                    self.exchanges[ticket.0 as usize].place = Place::Granted;
                    self.waiting -= 1;
                    self.held += 1;
                    let permit = grant.permit;
                    self.plan(MAIL, Happening::Granted { ticket, permit, connection });
                }
                Output::Shed(shed) => {
                    self.waiting -= 1;
                    self.end(shed.ticket, End::Shed(shed.reason));
                }
                Output::CloseIdle { worker, shard } => {
                    self.plan(MAIL, Happening::CloseIdle { worker, shard });
                }
                Output::Probe(probe) => self.plan(MAIL, Happening::Ask(probe)),
                Output::State { .. } => {}
            }
        }
    }

    /// The next client comes after a random number of ticks.
    fn plan_arrival(&mut self) {
        let ticks_per_second = Duration::from_secs(1).as_nanos() / TICK.as_nanos();
        let mut ticks = 1;
        while self.rng.below(ticks_per_second as u64) >= u64::from(self.scenario.clients.rate) {
            ticks += 1;
        }
        if self.now + TICK * ticks < self.scenario.time.after_start() {
            self.plan(TICK * ticks, Happening::Arrive);
        }
    }

    pub(crate) fn arrive(&mut self) {
        self.arrive_one();
        self.plan_arrival();
    }

    pub(crate) fn arrive_one(&mut self) {
        let ticket = Ticket(self.exchanges.len() as u64);
        let clients = &self.scenario.clients;
        let shard = ShardId(self.rng.below(u64::from(self.scenario.shards)) as u16);
        self.exchanges.push(Exchange {
            shard,
            arrived: self.now,
            repeatable: self.rng.below(100) >= u64::from(clients.unsafe_percent),
            tried: Tried::default(),
            attempt: 0,
            place: Place::Waiting,
            left: false,
        });
        self.summary.arrivals += 1;
        self.open += 1;
        if let Some(patience) = clients.patience {
            self.plan(patience.0, Happening::Leave(ticket));
        }
        self.ask(ticket, Attempt::First);
    }

    /// The client of an exchange leaves.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        let exchange = &self.exchanges[ticket.0 as usize];
        match exchange.place {
            Place::Ended => {}
            _ if exchange.left => {}
            Place::Waiting => {
                self.waiting -= 1;
                self.end(ticket, End::Abandoned);
                self.exchanges[ticket.0 as usize].place = Place::Ended;
                self.tell(Input::Abandon(ticket));
            }
            Place::Granted | Place::Inside { .. } => self.end(ticket, End::Abandoned),
        }
    }
}
