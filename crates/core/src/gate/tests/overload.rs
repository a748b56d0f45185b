//! Crowds at a gate, on a virtual clock: eight workers, one exchange in each, and clients who come
//! at random whatever becomes of the others.
//!
//! What must hold here are the promises of `docs/overload.md`: goodput stays at what the workers
//! can do, the important do not notice, tenants share, and it is over as soon as it is over.

use std::collections::{BTreeMap, BTreeSet};

use crate::gate::{
    Arrival, Attempt, Change, Claim, Class, Fate, Gate, Input, Order, Outcome, Output, Permit,
    Returned, Settings, Shedding,
};
use crate::id::{Kind, ShardId, Tenant, Ticket, User, WorkerId};
use crate::rng::Rng;
use crate::time::{Duration, Instant};

use super::settings;

const WORKERS: u32 = 8;

/// What comes: so many per cent of what the workers can do, for so many milliseconds.
type Phase = (u64, u64);

struct Crowd {
    settings: Settings,
    /// What takes twenty times as long: those of this user.
    long: User,
    /// Milliseconds that an exchange takes.
    service: u64,
    within: u64,
    /// What the exchange with this random number says of itself.
    claim: fn(u64) -> Claim,
    seed: u64,
}

/// One exchange, when it is over.
struct Met {
    came: Instant,
    ended: Instant,
    claim: Claim,
    good: bool,
}

impl Crowd {
    fn new(service: u64, within: u64) -> Crowd {
        let settings = Settings {
            queue_len_max: 1000,
            answer_within: Some(Duration::from_millis(within)),
            ..settings()
        };
        let claim = |number| Claim { user: User(number % 500), kind: Kind(1), ..Claim::default() };
        Crowd { settings, long: User(u64::MAX), service, within, claim, seed: 1 }
    }

    fn run(&self, phases: &[Phase]) -> Vec<Met> {
        let mut run = Run {
            gate: Gate::new(self.settings.clone(), Instant::ZERO),
            crowd: self,
            running: BTreeMap::new(),
            ends: BTreeSet::new(),
            claims: BTreeMap::new(),
            met: Vec::new(),
            now: Instant::ZERO,
        };
        for worker in (0..WORKERS).map(WorkerId) {
            for change in [Change::JoinSupervised, Change::Ready] {
                run.tell(Input::Member { worker, change });
            }
        }
        let mut rng = Rng::new(self.seed);
        let (mut at, mut phase_end, mut ticket) = (0u64, 0, 0);
        for (percent, millis) in phases {
            phase_end += millis * 1_000_000;
            let gap = self.service * 1_000_000 * 100 / (u64::from(WORKERS) * percent);
            while at < phase_end {
                // Exponential, by the natural logarithm of a uniform number.
                at += (-(1.0 - rng.unit()).ln() * gap as f64) as u64;
                run.until(Instant::from_nanos(at));
                ticket += 1;
                run.arrive(Ticket(ticket), (self.claim)(rng.next_u64()));
            }
        }
        run.until(Instant::from_nanos(at) + Duration::from_secs(10));
        assert!(run.claims.is_empty(), "everybody is told");
        run.met
    }
}

struct Run<'c> {
    gate: Gate,
    crowd: &'c Crowd,
    running: BTreeMap<u64, (Ticket, Permit)>,
    ends: BTreeSet<(Instant, u64)>,
    claims: BTreeMap<Ticket, (Instant, Claim)>,
    met: Vec<Met>,
    now: Instant,
}

impl Run<'_> {
    /// Let happen what happens before `until`.
    fn until(&mut self, until: Instant) {
        loop {
            let end = self.ends.first().copied().filter(|(at, _)| *at <= until);
            let timer = self.gate.poll_timeout().filter(|at| *at <= until);
            match (end, timer) {
                (Some((at, number)), timer) if timer.is_none_or(|timer| at <= timer) => {
                    self.ends.pop_first();
                    self.now = at;
                    let (ticket, permit) = self.running.remove(&number).expect("it runs");
                    self.end(ticket, true);
                    let (outcome, connection) = (Outcome::Success, Fate::Kept);
                    self.tell(Input::Return(Returned { permit, outcome, fault: None, connection }));
                }
                (_, Some(at)) => {
                    self.now = self.now.max(at);
                    self.gate.handle_timeout(self.now);
                    self.take_outputs();
                }
                (_, None) => break,
            }
        }
        self.now = until;
    }

    fn arrive(&mut self, ticket: Ticket, claim: Claim) {
        let (now, shard, attempt) = (self.now, ShardId(0), Attempt::First);
        self.claims.insert(ticket, (now, claim));
        self.tell(Input::Arrive(Arrival {
            ticket,
            shard,
            since: now,
            received: now,
            claim,
            attempt,
        }));
    }

    fn tell(&mut self, input: Input) {
        self.gate.handle(input, self.now);
        self.take_outputs();
    }

    fn take_outputs(&mut self) {
        if self.met.len().is_multiple_of(16) {
            self.gate.check_invariants();
        }
        while let Some(output) = self.gate.poll_output() {
            match output {
                Output::Grant(grant) => {
                    let (_, claim) = self.claims[&grant.ticket];
                    let times = if claim.user == self.crowd.long { 20 } else { 1 };
                    let end = self.now + Duration::from_millis(self.crowd.service * times);
                    let number = grant.permit.number();
                    self.ends.insert((end, number));
                    self.running.insert(number, (grant.ticket, grant.permit));
                }
                Output::Shed(shed) => self.end(shed.ticket, false),
                _ => {}
            }
        }
    }

    fn end(&mut self, ticket: Ticket, answered: bool) {
        let (came, claim) = self.claims.remove(&ticket).expect("it came");
        let within = Duration::from_millis(self.crowd.within);
        let good = answered && self.now.since(came) <= within;
        self.met.push(Met { came, ended: self.now, claim, good });
    }
}

/// Those who came between these milliseconds.
fn between(met: &[Met], from: u64, to: u64) -> impl Iterator<Item = &Met> {
    let range = Instant::from_millis(from)..Instant::from_millis(to);
    met.iter().filter(move |one| range.contains(&one.came))
}

/// The time within which 99 of 100 good answers came.
fn p99<'m>(met: impl Iterator<Item = &'m Met>) -> Duration {
    let good = met.filter(|one| one.good);
    let mut times: Vec<_> = good.map(|one| one.ended.since(one.came)).collect();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Good answers that ended between these milliseconds, in per mille of what could be.
fn goodput(crowd: &Crowd, met: &[Met], from: u64, to: u64) -> u64 {
    let range = Instant::from_millis(from)..Instant::from_millis(to);
    let good = met.iter().filter(|one| one.good && range.contains(&one.ended)).count() as u64;
    good * crowd.service * 1000 / (u64::from(WORKERS) * (to - from))
}

#[test]
fn goodput_is_flat_and_answers_are_soon() {
    for percent in [140, 200, 500, 1000] {
        for seed in 1..4 {
            let crowd = Crowd { seed, ..Crowd::new(20, 200) };
            let met = crowd.run(&[(percent, 6000)]);
            let good = goodput(&crowd, &met, 1000, 6000);
            assert!(good >= 990, "{percent} %, seed {seed}: {good} of 1000");
            let p99 = p99(between(&met, 1000, 5800));
            assert!(p99 <= Duration::from_millis(100), "{percent} %, seed {seed}: {p99:?}");
        }
    }
}

#[test]
fn at_the_capacity_the_line_bridges_what_chance_does() {
    for seed in 1..6 {
        let crowd = Crowd { seed, ..Crowd::new(20, 200) };
        let met = crowd.run(&[(100, 20_000)]);
        let good = between(&met, 1000, 19_800).filter(|one| one.good).count();
        let came = between(&met, 1000, 19_800).count();
        assert!(good * 100 >= came * 95, "seed {seed}: {good} of {came}");
    }
}

#[test]
fn a_burst_that_fits_is_not_shed() {
    for seed in 1..4 {
        let crowd = Crowd { seed, ..Crowd::new(20, 1000) };
        let met = crowd.run(&[(50, 2000), (120, 2000), (50, 4000)]);
        assert_eq!(met.iter().filter(|one| !one.good).count(), 0, "seed {seed}");
    }
}

/// Nothing is promised, the line is long enough for everybody, and any answer is a good one.
fn patient(seed: u64) -> Crowd {
    let mut crowd = Crowd { seed, ..Crowd::new(50, 60_000) };
    crowd.settings.answer_within = None;
    crowd
}

#[test]
fn without_a_promise_a_line_that_grows_is_cut() {
    for percent in [120, 200, 1000] {
        for seed in 1..4 {
            let crowd = patient(seed);
            let met = crowd.run(&[(70, 2000), (percent, 10_000)]);
            let good = goodput(&crowd, &met, 3000, 12_000);
            assert!(good >= 985, "{percent} %, seed {seed}: {good} of 1000");
            let p99 = p99(between(&met, 4000, 12_000));
            assert!(p99 <= Duration::from_secs(1), "{percent} %, seed {seed}: {p99:?}");
        }
    }
}

#[test]
fn without_a_promise_a_crowd_at_once_is_not_shed() {
    for seed in 1..6 {
        let met = patient(seed).run(&[(50, 2000), (2000, 100), (60, 10_000)]);
        let longest = met.iter().map(|one| one.ended.since(one.came)).max();
        assert_eq!(met.iter().filter(|one| !one.good).count(), 0, "seed {seed}");
        assert!(longest >= Some(Duration::from_millis(800)), "{longest:?}");
    }
}

#[test]
fn it_is_over_when_it_is_over() {
    let orders = [Order::Adaptive, Order::Priority];
    for (percent, order) in [140, 1000].into_iter().flat_map(|p| orders.map(|order| (p, order))) {
        for seed in 1..4 {
            let mut crowd = Crowd { seed, ..Crowd::new(50, 500) };
            crowd.settings.order = order;
            let met = crowd.run(&[(70, 2000), (percent, 5000), (70, 5000)]);
            let shed = met.iter().filter(|one| !one.good).map(|one| one.ended);
            let last = shed.max().expect("somebody was shed");
            let after = last.since(Instant::from_millis(7000));
            let most = Duration::from_millis(300);
            assert!(after <= most, "{percent} %, {order:?}, seed {seed}: {after:?}");
        }
    }
}

#[test]
fn the_important_notice_nothing() {
    let mut crowd = Crowd::new(50, 500);
    crowd.claim = |number| {
        let class = match number % 200 {
            0..2 => Class::Critical,
            2..5 => Class::Normal,
            5..10 => Class::Degraded,
            _ => Class::Bulk,
        };
        Claim { class, user: User(number / 200 % 500), kind: Kind(1), ..Claim::default() }
    };
    for seed in 1..4 {
        crowd.seed = seed;
        let met = crowd.run(&[(1200, 8000)]);
        let important = || between(&met, 1000, 7800).filter(|one| one.claim.class < Class::Bulk);
        assert!(important().all(|one| one.good), "seed {seed}");
        // The workers began together and take equally long; their slots are put out of step.
        let critical = || important().filter(|one| one.claim.class == Class::Critical);
        assert!(p99(critical()) <= Duration::from_millis(85), "{:?}", p99(critical()));
        assert!(p99(important()) <= Duration::from_millis(120), "{:?}", p99(important()));
        let good = goodput(&crowd, &met, 1000, 8000);
        assert!(good >= 990, "seed {seed}: {good} of 1000");
    }
}

#[test]
fn a_flooded_endpoint_leaves_the_other_alone() {
    let mut crowd = Crowd::new(20, 500);
    // Twenty in 21 are of the first.
    crowd.claim = |number| {
        let kind = Kind(if number % 21 == 0 { 2 } else { 1 });
        Claim { user: User(number / 21 % 500), kind, ..Claim::default() }
    };
    for seed in 1..4 {
        crowd.seed = seed;
        let met = crowd.run(&[(40, 3000), (525, 8000)]);
        let good = |from| {
            let other = between(&met, from, 10_500).filter(|one| one.claim.kind == Kind(2));
            let (mut good, mut all) = (0, 0);
            other.for_each(|one| (good, all) = (good + u32::from(one.good), all + 1));
            (good, all)
        };
        let (served, came) = good(4000);
        assert!(served * 1000 >= came * 995, "seed {seed}: {served} of {came} once it is known");
        let (served, came) = good(0);
        assert!(served * 100 >= came * 98, "seed {seed}: {served} of {came}");
        let all = goodput(&crowd, &met, 4000, 11_000);
        assert!(all >= 985, "seed {seed}: {all} of 1000");
    }
}

#[test]
fn who_invents_paths_gains_nothing() {
    let mut crowd = Crowd::new(20, 500);
    // Half of it is a kind that is known, the other half never the same twice.
    crowd.claim = |number| {
        let kind = if number % 2 == 0 { Kind(1) } else { Kind(number) };
        Claim { user: User(number / 2 % 500), kind, ..Claim::default() }
    };
    let met = crowd.run(&[(400, 8000)]);
    let known = between(&met, 2000, 7500).filter(|one| one.claim.kind == Kind(1) && one.good);
    let invented = between(&met, 2000, 7500).filter(|one| one.claim.kind != Kind(1) && one.good);
    let (known, invented) = (known.count(), invented.count());
    assert!(invented * 10 <= known * 11, "{invented} invented, {known} known");
}

#[test]
fn one_tenant_at_a_hundred_times_leaves_the_others_alone() {
    let mut crowd = Crowd::new(20, 200);
    crowd.claim = |number| {
        let tenant = match number % 109 {
            small @ 0..9 => Tenant(small + 2),
            _ => Tenant(1),
        };
        Claim { tenant, user: User(tenant.0), kind: Kind(1), ..Claim::default() }
    };
    for shedding in [Shedding::Ratio, Shedding::Codel, Shedding::Off] {
        crowd.settings.shedding = shedding;
        let met = crowd.run(&[(545, 7000)]);
        let small = || between(&met, 1000, 6800).filter(|one| one.claim.tenant > Tenant(1));
        let lost = small().filter(|one| !one.good).count();
        assert_eq!(lost, 0, "{shedding:?}: of {}", small().count());
        let good = goodput(&crowd, &met, 1000, 7000);
        assert!(good >= 970, "{shedding:?}: {good} of 1000");
    }
}

/// One in twenty.
fn one_in_twenty(number: u64) -> User {
    User(u64::from(number.is_multiple_of(20)))
}

#[test]
fn short_ones_are_fast_beside_long_ones() {
    // One in twenty takes 200 ms, so the mean is 19.5 ms, and this is 0.8 of what can be done.
    let run = |claim, seed| {
        let crowd = Crowd { long: User(1), claim, seed, ..Crowd::new(10, 1000) };
        let met = crowd.run(&[(41, 40_000)]);
        assert!(met.iter().all(|one| one.good), "nobody is shed");
        [false, true].map(|long| p99(met.iter().filter(|one| (one.claim.user == User(1)) == long)))
    };
    let alike: fn(u64) -> Claim =
        |number| Claim { user: one_in_twenty(number), ..Claim::default() };
    let told: fn(u64) -> Claim = |number| Claim {
        user: one_in_twenty(number),
        kind: Kind(1 + one_in_twenty(number).0),
        ..Claim::default()
    };
    for seed in 1..4 {
        let ([unknown, _], [short, long]) = (run(alike, seed), run(told, seed));
        assert!(short < unknown * 3 / 4, "{short:?} rather than {unknown:?}");
        assert!(long <= Duration::from_millis(420), "{long:?}");
    }
}
