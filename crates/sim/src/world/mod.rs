//! The world: a list of things to come, a clock that leaps from one to the next, and gates.
//!
//! Everything passes through [`World::tell`], which also writes the trace and sweeps over the
//! gate's invariants. What clients do is in `clients.rs`, what shards, workers and the supervisor
//! do in `shell.rs`, who admits where there is no gate in `plain.rs`.

mod clients;
mod exchange;
mod hedge;
mod plain;
mod shell;
mod worker;

use std::collections::VecDeque;

use spillgate_core::gate::trace::TraceWriter;
use spillgate_core::gate::{Arrival, Attempt, Change, Gate, Heard, Input, Output, Probe, Shed};
use spillgate_core::id::{ShardId, Ticket, User, WorkerId};
use spillgate_core::rng::Rng;
use spillgate_core::time::{Duration, Instant};

use crate::agenda::Agenda;
use crate::arrivals::{Arrivals, Coming};
use crate::scenario::{Admission, Scenario, Setup};
use crate::station::Station;
use crate::summary::{
    GroupSummary, PathSummary, PhaseSummary, PoolSummary, Series, Summary, TenantSummary,
};

use clients::End;
use exchange::{Exchanges, Place};
use worker::Worker;

/// Time after the last arrival within which everything must have ended: a server without a limit
/// works off what piled up over a whole run.
const FINISH_MAX: Duration = Duration::from_secs(20 * 86_400);
/// Calls of a gate after each of which it is swept over: more than any scenario of the sweep has.
const SWEPT: u64 = 20_000;
/// As long as no more wait: a sweep looks at each.
const SWEPT_WAITING: u32 = 200;
/// One in so many of the others is.
const SWEPT_LATER: u64 = 256;
/// How many happenings there are between two words about the progress.
const PROGRESS: u64 = 100_000;

/// A run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    /// What came of it.
    pub summary: Summary,
    /// What the gate of the first pool was told and said; empty where it was not wanted.
    pub trace: String,
}

/// How a scenario is run.
pub struct Running<'r> {
    /// What its chances are a function of.
    pub seed: u64,
    /// Which configuration.
    pub configuration: usize,
    /// Keep what the gate of the first pool is told and says.
    pub traced: bool,
    /// Is told how much of the time is over, in thousandths, again and again.
    pub progress: &'r mut dyn FnMut(u32),
}

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The stations of a world in steps work for one step.
    Step,
    Arrive {
        group: u16,
        service: Option<Duration>,
    },
    AskAgain {
        group: u16,
        asked: u8,
    },
    Event(usize),
    Leave(Ticket),
    Granted(Ticket),
    Hedge {
        ticket: Ticket,
        attempt: u32,
    },
    CloseIdle {
        pool: u16,
        worker: u32,
        shard: ShardId,
    },
    Done {
        station: usize,
    },
    GiveUp {
        ticket: Ticket,
        attempt: u32,
    },
    Ask {
        pool: u16,
        probe: usize,
    },
    Asked {
        pool: u16,
        probe: usize,
        process: u32,
        heard: Heard,
    },
    Recover {
        pool: u16,
        worker: u32,
    },
    Kill {
        pool: u16,
        worker: u32,
        process: u32,
    },
    Down {
        pool: u16,
        worker: u32,
    },
    Start {
        pool: u16,
        worker: u32,
    },
}

/// What a station works on: an exchange in a process of a worker.
#[derive(Clone, Copy, Debug)]
struct Job {
    ticket: Ticket,
    attempt: u32,
    pool: u16,
    worker: u32,
    process: u32,
    /// What the worker will answer; none: that all is well.
    error: Option<u16>,
}

/// A pool as the world sees it.
struct Pool {
    gate: Gate,
    admission: Admission,
    trace: Option<TraceWriter<String>>,
    told: u64,
    workers: Vec<Worker>,
    /// Index of the first worker's station; the others follow.
    stations: usize,
    /// Idle connections, by shard and worker: the processes they lead to, oldest first.
    idle: Vec<Vec<u32>>,
    /// Probes that are under way.
    probes: Vec<Option<Probe>>,
    /// Exchanges that wait for the gate's word.
    waiting: u32,
    /// Who waits where there is no gate.
    line: VecDeque<Ticket>,
    busy: u32,
    turn: u32,
    concurrency: u32,
    summary: PoolSummary,
}

/// Everything there is.
struct World<'s> {
    setup: &'s Setup,
    agenda: Agenda<Happening>,
    now: Instant,
    end: Instant,
    rng: Rng,
    arrivals: Vec<Arrivals>,
    pools: Vec<Pool>,
    stations: Vec<(Station<Job>, Option<Instant>)>,
    exchanges: Exchanges,
    /// Permits that are out.
    held: u32,
    /// Clients that will ask again.
    coming_back: u32,
    groups: Vec<GroupSummary>,
    tenants: Vec<TenantSummary>,
    phases: Vec<PhaseSummary>,
}

/// Run a scenario.
///
/// # Panics
///
/// When an invariant of a gate or one of the world's books does not hold.
pub fn simulate(scenario: &Scenario, running: Running<'_>) -> Run {
    let setup = scenario.setup(running.configuration);
    let mut run = simulate_setup(&setup, running.seed, running.traced, running.progress);
    run.summary.name.clone_from(&scenario.name);
    run
}

/// Run what is set up.
pub(crate) fn simulate_setup(
    setup: &Setup,
    seed: u64,
    traced: bool,
    progress: &mut dyn FnMut(u32),
) -> Run {
    let mut world = World::new(setup, seed, traced);
    world.begin();
    let mut happened = 0;
    while world.step() {
        happened += 1;
        if happened % PROGRESS == 0 {
            let (now, end) = (world.now.as_nanos(), world.end.as_nanos().max(1));
            progress((now.min(end) as u128 * 1000 / u128::from(end)) as u32);
        }
    }
    let mut run = world.finish();
    run.summary.configuration.clone_from(&setup.name);
    run.summary.seed = seed;
    run
}

impl<'s> World<'s> {
    fn new(setup: &'s Setup, seed: u64, traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let end = Instant::ZERO + setup.time;
        let own = |group| Arrivals::new(group, setup.step, end, Rng::new(rng.next_u64()));
        let arrivals = setup.groups.iter().map(own).collect();
        let mut stations = Vec::new();
        let mut pools = Vec::new();
        for (index, pool) in setup.pools.iter().enumerate() {
            let trace = traced && index == 0;
            pools.push(Pool::new(setup, index, stations.len(), trace));
            let capacity = pool.workers.capacity.map(|capacity| capacity.0);
            let own = (0..pool.workers.count.0).map(|_| (Station::new(capacity), None));
            stations.extend(own);
        }
        stations.extend(setup.databases.iter().map(|(_, most)| (Station::new(Some(*most)), None)));
        let group = |group: &crate::scenario::Group| GroupSummary {
            name: group.clients.name.clone(),
            pool: group.pool,
            class: group.clients.class.0,
            paths: group.clients.paths.iter().map(|path| PathSummary::new(&path.path)).collect(),
            ..GroupSummary::default()
        };
        World {
            setup,
            agenda: Agenda::new(),
            now: Instant::ZERO,
            end,
            rng,
            arrivals,
            pools,
            stations,
            exchanges: Exchanges::default(),
            held: 0,
            coming_back: 0,
            groups: setup.groups.iter().map(group).collect(),
            tenants: setup.tenants.iter().map(|name| TenantSummary::new(name)).collect(),
            phases: PhaseSummary::all(&setup.phases, setup.time),
        }
    }

    fn begin(&mut self) {
        for (index, pool) in self.setup.pools.iter().enumerate() {
            let index = index as u16;
            for worker in 0..pool.workers.count.0 {
                if pool.workers.supervised {
                    self.member(index, worker, Change::JoinSupervised);
                    self.plan(pool.workers.boot.0, Happening::Start { pool: index, worker });
                } else {
                    self.pool(index).workers[worker as usize].start();
                    self.member(index, worker, Change::Join);
                }
            }
        }
        for (index, event) in self.setup.events.iter().enumerate() {
            self.plan(event.at, Happening::Event(index));
        }
        if let Some(step) = self.setup.step {
            self.agenda.plan_first(Instant::ZERO + step, Happening::Step);
        }
        (0..self.arrivals.len() as u16).for_each(|group| self.plan_arrival(group));
    }

    /// The next thing happens; is there more to come?
    fn step(&mut self) -> bool {
        let over = self.now >= self.end && self.coming_back == 0;
        if over && self.exchanges.len() == 0 && self.held == 0 {
            return false;
        }
        assert!(self.now <= self.end + FINISH_MAX, "something does not end");
        let next = self.agenda.next_at();
        let timers = self.pools.iter().zip(0u16..);
        let timers = timers.filter_map(|(pool, index)| Some((pool.gate.poll_timeout()?, index)));
        match (next, timers.min()) {
            (next, Some((timer, pool))) if next.is_none_or(|next| timer <= next) => {
                self.now = self.now.max(timer);
                self.expire(pool);
            }
            _ => match self.agenda.pop() {
                Some((at, happening)) => {
                    self.now = at;
                    self.happen(happening);
                }
                // Nobody comes any more before the end.
                None => {
                    let left = (self.exchanges.len(), self.held, self.coming_back);
                    assert!(left == (0, 0, 0), "{left:?} wait for what does not come");
                    self.now = self.now.max(self.end);
                }
            },
        }
        true
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Step => self.work_on(),
            Happening::Arrive { group, service } => {
                self.arrive(group, service, 0);
                self.plan_arrival(group);
            }
            Happening::AskAgain { group, asked } => {
                self.coming_back -= 1;
                self.arrive(group, None, asked);
            }
            Happening::Event(index) => self.befall(index),
            Happening::Leave(ticket) => self.lose_patience(ticket),
            Happening::Granted(ticket) => self.granted(ticket),
            Happening::Hedge { ticket, attempt } => self.hedge(ticket, attempt),
            Happening::CloseIdle { pool, worker, shard } => self.close_idle(pool, worker, shard),
            Happening::Done { station } => self.done(station),
            Happening::GiveUp { ticket, attempt } => self.give_up(ticket, attempt),
            Happening::Ask { pool, probe } => self.ask_worker(pool, probe),
            Happening::Asked { pool, probe, process, heard } => {
                self.asked(pool, probe, process, heard);
            }
            Happening::Recover { pool, worker } => self.set_speed(pool, worker),
            Happening::Kill { pool, worker, process } => {
                if self.worker(pool, worker).process == process {
                    self.crash(pool, worker);
                }
            }
            Happening::Down { pool, worker } => self.member(pool, worker, Change::Down),
            Happening::Start { pool, worker } => self.start(pool, worker),
        }
    }

    fn finish(mut self) -> Run {
        let mut trace = String::new();
        let mut pools = Vec::new();
        for mut pool in std::mem::take(&mut self.pools) {
            let view = pool.gate.view(self.now);
            assert_eq!(view.queue_len, 0, "nobody is forgotten in the queue");
            assert_eq!(pool.concurrency, 0, "nobody is forgotten in the world");
            if pool.admission == Admission::Gate {
                let own = self.groups.iter().filter(|group| group.pool == pools.len());
                let arrivals: u64 = own.map(|group| group.arrivals).sum();
                assert_eq!(arrivals, view.arrivals, "the gate counts the same arrivals");
            }
            let mut summary = pool.summary;
            summary.retries = view.retries;
            summary.hedges = view.hedges;
            summary.inside_max = pool.workers.iter().map(|own| own.inside_max).max().unwrap_or(0);
            summary.open_max = pool.workers.iter().map(|own| own.open_max).max().unwrap_or(0);
            summary.answers_by_worker = pool.workers.iter().map(|own| own.answers).collect();
            summary.series.finish();
            pools.push(summary);
            trace.extend(pool.trace.map(TraceWriter::into_sink));
        }
        for group in &mut self.groups {
            let answers = group.served + group.late;
            let unanswered = group.shed_total() + group.failed + group.errors + group.abandoned;
            let ends = answers + unanswered;
            assert_eq!(group.arrivals, ends, "every exchange ends once");
            group.times.sort_unstable();
            group.paths.iter_mut().for_each(|path| path.times.sort_unstable());
        }
        let first = self.stations.len() - self.setup.databases.len();
        let names = self.setup.databases.iter().map(|(name, _)| name.clone());
        let most = self.stations[first..].iter().map(|(station, _)| station.most);
        let databases = names.zip(most).collect();
        let finished = self.now.since(Instant::ZERO);
        self.phases.iter_mut().for_each(|phase| phase.times.sort_unstable());
        let (groups, phases, tenants) = (self.groups, self.phases, self.tenants);
        let summary =
            Summary { groups, phases, tenants, pools, databases, finished, ..Summary::default() };
        Run { summary, trace }
    }

    fn plan(&mut self, after: Duration, happening: Happening) {
        self.agenda.plan(self.now + after, happening);
    }

    fn plan_arrival(&mut self, group: u16) {
        if let Some(Coming { at, service }) = self.arrivals[usize::from(group)].next() {
            self.agenda.plan(at, Happening::Arrive { group, service });
        }
    }

    fn pool(&mut self, pool: u16) -> &mut Pool {
        &mut self.pools[usize::from(pool)]
    }

    fn worker(&mut self, pool: u16, worker: u32) -> &mut Worker {
        &mut self.pool(pool).workers[worker as usize]
    }

    fn member(&mut self, pool: u16, worker: u32, change: Change) {
        if self.pool(pool).admission != Admission::Gate {
            return;
        }
        self.tell(pool, Input::Member { worker: WorkerId(worker), change });
    }

    /// Tell a gate something, and plan what it says.
    fn tell(&mut self, pool: u16, input: Input) {
        let now = self.now;
        let own = self.pool(pool);
        if let Some(trace) = &mut own.trace {
            trace.input(&input, now).expect("a string takes everything");
        }
        own.gate.handle(input, now);
        self.take_outputs(pool);
    }

    /// The moment that a gate named has come.
    fn expire(&mut self, pool: u16) {
        let now = self.now;
        let own = self.pool(pool);
        if let Some(trace) = &mut own.trace {
            trace.timeout(now).expect("a string takes everything");
        }
        own.gate.handle_timeout(now);
        self.take_outputs(pool);
    }

    fn take_outputs(&mut self, pool: u16) {
        let own = self.pool(pool);
        own.told += 1;
        let small = own.told <= SWEPT && own.waiting <= SWEPT_WAITING;
        if small || own.told.is_multiple_of(SWEPT_LATER) {
            own.gate.check_invariants();
        }
        let mail = self.setup.mail;
        while let Some(output) = self.pool(pool).gate.poll_output() {
            if let Some(trace) = &mut self.pool(pool).trace {
                trace.output(&output).expect("a string takes everything");
            }
            match output {
                Output::Grant(grant) => {
                    self.held += 1;
                    let place =
                        Place::Granted { permit: grant.permit, connection: grant.connection };
                    let exchange = self.exchanges.at(grant.ticket);
                    exchange.place = place;
                    if !exchange.is_second {
                        self.pool(pool).waiting -= 1;
                    }
                    self.plan(mail, Happening::Granted(grant.ticket));
                    self.plan_hedge(grant.ticket, grant.hedge_after);
                }
                Output::Shed(Shed { ticket, reason, retry_after, .. }) => {
                    self.pool(pool).waiting -= 1;
                    self.end(ticket, End::Shed { reason, retry_after });
                }
                Output::Withheld(withheld) => self.withheld(&withheld),
                Output::CloseIdle { worker: WorkerId(worker), shard } => {
                    self.plan(mail, Happening::CloseIdle { pool, worker, shard });
                }
                Output::Probe(probe) => {
                    let probe = self.pool(pool).keep_probe(probe);
                    self.plan(mail, Happening::Ask { pool, probe });
                }
                Output::State { .. } => {}
            }
        }
    }

    /// Ask for a slot.
    fn ask(&mut self, ticket: Ticket, attempt: Attempt) {
        let exchange = self.exchanges.at(ticket);
        exchange.place = Place::Waiting;
        exchange.attempt += 1;
        let (pool, shard, since) = (exchange.pool, exchange.shard, exchange.arrived);
        let mut claim = exchange.claim;
        if self.pool(pool).admission != Admission::Gate {
            return self.admit_plainly(pool, ticket);
        }
        self.pool(pool).waiting += 1;
        if claim.user == User::default() {
            // A client is a user of its own.
            claim.user = User(ticket.0);
        }
        let arrival = Arrival { ticket, shard, since, received: since, claim, attempt };
        self.tell(pool, Input::Arrive(arrival));
        let own = self.pool(pool);
        own.summary.queue_len_max = own.summary.queue_len_max.max(own.waiting);
    }
}

impl Pool {
    fn new(setup: &Setup, index: usize, stations: usize, traced: bool) -> Self {
        let own = &setup.pools[index];
        let trace = TraceWriter::begin(String::new(), &own.settings, Instant::ZERO);
        let count = own.workers.count.0 as usize;
        Pool {
            gate: Gate::new(own.settings.clone(), Instant::ZERO),
            admission: own.admission,
            trace: traced.then(|| trace.expect("a string takes everything")),
            told: 0,
            workers: (0..count).map(|_| Worker::new()).collect(),
            stations,
            idle: vec![Vec::new(); count * usize::from(setup.shards)],
            probes: Vec::new(),
            waiting: 0,
            line: VecDeque::new(),
            busy: 0,
            turn: 0,
            concurrency: 0,
            summary: PoolSummary {
                name: own.name.clone(),
                series: Series::new(setup.time),
                ..PoolSummary::default()
            },
        }
    }

    fn keep_probe(&mut self, probe: Probe) -> usize {
        let free = self.probes.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.probes.push(None);
            self.probes.len() - 1
        });
        self.probes[place] = Some(probe);
        place
    }
}
