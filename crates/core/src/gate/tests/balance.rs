//! How exchanges spread over workers, by each rule.

use std::collections::BinaryHeap;

use crate::gate::{Arrival, Attempt, Balance, Change, Claim, Fate, Fault, Gate, Input, Outcome};
use crate::gate::{Output, Permit, Returned, Settings};
use crate::id::{Key, ShardId, Ticket, WorkerId};
use crate::pool::Report;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::Weight;

use super::script::check;
use super::with_slots;

fn balanced(balance: Balance, slots: u32) -> Settings {
    Settings { balance, ..with_slots(slots) }
}

/// What becomes of an exchange in a worker: after how long, and how.
type Fares = fn(u32, Instant, &mut Rng) -> (Duration, Option<Fault>);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Ten milliseconds, more or less, wherever it is.
fn alike(_: u32, _: Instant, rng: &mut Rng) -> (Duration, Option<Fault>) {
    (Duration::from_micros(5000 + rng.below(10_000)), None)
}

/// One that ends; the earliest is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct End {
    at: std::cmp::Reverse<Instant>,
    ticket: u64,
}

/// Workers that do what they are given, and clients who come at random.
struct World {
    gate: Gate,
    now: Instant,
    rng: Rng,
    fares: Fares,
    inside: Vec<u32>,
    grants: Vec<u64>,
    ends: BinaryHeap<End>,
    permits: std::collections::BTreeMap<u64, (Permit, Option<Fault>)>,
    tickets: u64,
    /// Looks at the world after each grant to this worker.
    look: fn(&World, usize),
}

impl World {
    fn new(settings: Settings, workers: u32, fares: Fares) -> World {
        let mut world = World {
            gate: Gate::new(settings, Instant::ZERO),
            now: Instant::ZERO,
            rng: Rng::new(1),
            fares,
            inside: vec![0; workers as usize],
            grants: vec![0; workers as usize],
            ends: BinaryHeap::new(),
            permits: std::collections::BTreeMap::new(),
            tickets: 0,
            look: |_, _| {},
        };
        for worker in (0..workers).map(WorkerId) {
            for change in [Change::Join, Change::Ready] {
                world.tell(Input::Member { worker, change });
            }
        }
        world
    }

    fn tell(&mut self, input: Input) {
        self.gate.handle(input, self.now);
        self.heed();
    }

    fn heed(&mut self) {
        while let Some(output) = self.gate.poll_output() {
            match output {
                Output::Grant(grant) => {
                    let worker = grant.permit.worker().0;
                    self.inside[worker as usize] += 1;
                    self.grants[worker as usize] += 1;
                    let (takes, fault) = (self.fares)(worker, self.now, &mut self.rng);
                    let (ticket, at) = (grant.ticket.0, std::cmp::Reverse(self.now + takes));
                    self.ends.push(End { at, ticket });
                    self.permits.insert(ticket, (grant.permit, fault));
                    (self.look)(self, worker as usize);
                }
                Output::CloseIdle { worker, shard } => {
                    self.tell(Input::Closed { worker, shard });
                }
                Output::Probe(_) | Output::Shed(_) | Output::Withheld(_) | Output::State { .. } => {
                }
            }
        }
        self.gate.check_invariants();
    }

    /// Let all that happens until then happen.
    fn pass(&mut self, until: Instant) {
        loop {
            let end = self.ends.peek().map_or(Instant::FAR_FUTURE, |end| end.at.0);
            let timer = self.gate.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
            let next = end.min(timer.max(self.now));
            if next > until {
                break;
            }
            self.now = next;
            if timer <= next {
                self.gate.handle_timeout(self.now);
                self.heed();
                continue;
            }
            let ticket = self.ends.pop().expect("one ends").ticket;
            let (permit, fault) = self.permits.remove(&ticket).expect("it is inside");
            self.inside[permit.worker().0 as usize] -= 1;
            let (outcome, connection) = (Outcome::Success, Fate::Kept);
            self.tell(Input::Return(Returned { permit, outcome, fault, connection }));
        }
        self.now = until;
    }

    fn arrive(&mut self, key: u64) {
        self.tickets += 1;
        let (ticket, shard, attempt) = (Ticket(self.tickets), ShardId(0), Attempt::First);
        let claim = Claim { key: Key(key), ..Claim::default() };
        let (since, received) = (self.now, self.now);
        self.tell(Input::Arrive(Arrival { ticket, shard, since, received, claim, attempt }));
    }

    /// So many come, one after this time in the mean; the grants of each worker meanwhile.
    fn crowd(&mut self, count: u64, every: Duration, key: fn(u64) -> u64) -> Vec<u64> {
        let before = self.grants.clone();
        for number in 0..count {
            let wait = self.rng.below(2 * every.as_micros() as u64);
            self.pass(self.now + Duration::from_micros(wait));
            self.arrive(key(number));
        }
        self.grants.iter().zip(before).map(|(after, before)| after - before).collect()
    }
}

fn no_key(_: u64) -> u64 {
    0
}

/// Parts per thousand of each.
fn shares(counts: &[u64]) -> Vec<u64> {
    let sum: u64 = counts.iter().sum();
    counts.iter().map(|count| (count * 1000 + sum / 2) / sum).collect()
}

#[test]
fn weights_are_kept_to_within_a_hundredth() {
    let mut world = World::new(balanced(Balance::Weighted, 64), 3, alike);
    for (worker, weight) in [(0, 1), (1, 2), (2, 5)] {
        let weight = Weight::new(weight).expect("a weight");
        world.tell(Input::Weight { worker: WorkerId(worker), weight });
    }
    assert_eq!(shares(&world.crowd(8000, millis(1), no_key)), [125, 250, 625]);
    let half = Report { percent: Some(40), ..Report::default() };
    world.tell(Input::Report { worker: WorkerId(2), report: half });
    // 1, 2, and 40 % of 5.
    let found = shares(&world.crowd(8000, millis(1), no_key));
    let near = found.iter().zip([200, 400, 400]).all(|(found, right)| found.abs_diff(right) <= 4);
    assert!(near, "{found:?}");
}

#[test]
fn turns_by_weight_are_evenly_spread() {
    check(
        &balanced(Balance::Weighted, 8),
        "0 up 0 1
         0 weight 1 2
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         0 arrive 3 -> grant 3 1 new
         0 arrive 4 -> grant 4 0 new
         0 arrive 5 -> grant 5 1 new
         0 arrive 6 -> grant 6 1 new",
    );
}

#[test]
fn first_fills_one_after_the_other() {
    check(
        &balanced(Balance::First, 2),
        "0 up 0 1 2
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 0 new
         0 arrive 3 -> grant 3 1 new
         1 ok 2
         1 arrive 4 -> grant 4 0 idle
         2 arrive 5 -> grant 5 1 new
         2 arrive 6 -> grant 6 2 new",
    );
}

/// Looks, after each grant, at the load of the worker that got it.
fn is_within_the_bound(world: &World, worker: usize) {
    let all: u32 = world.inside.iter().sum();
    let mean = f64::from(all) / world.inside.len() as f64;
    let own = f64::from(world.inside[worker]);
    assert!(own <= 1.25 * mean + 1.0, "{own} in one, {mean} in the mean");
}

#[test]
fn a_key_stays_with_its_worker_and_no_worker_gets_too_much() {
    let mut world = World::new(balanced(Balance::Hash, 64), 8, alike);
    world.look = is_within_the_bound;
    // One exchange at a time: each key has one worker.
    for key in 1..=50 {
        let of_key = world.crowd(6, millis(40), |_| 0);
        assert!(of_key.iter().sum::<u64>() == 6);
        world.tickets = key * 1000;
        let before = world.grants.clone();
        for _ in 0..3 {
            world.pass(world.now + millis(40));
            world.arrive(key);
        }
        let got = world.grants.iter().zip(before).filter(|(after, before)| *after - before == 3);
        assert_eq!(got.count(), 1, "key {key}");
    }
    // Everybody wants the same: the bound spreads it.
    let same = world.crowd(4000, Duration::from_micros(100), |_| 7);
    assert!(same.iter().all(|grants| *grants < 700), "{same:?}");
    let many = world.crowd(4000, Duration::from_micros(100), |number| number % 97 + 1);
    assert!(many.iter().all(|grants| (200..700).contains(grants)), "{many:?}");
}

#[test]
fn a_worker_that_goes_moves_its_own_keys_only() {
    const KEYS: u64 = 300;
    let owners = |world: &mut World| -> Vec<usize> {
        let one = |key| {
            let before = world.grants.clone();
            world.pass(world.now + millis(40));
            world.arrive(key);
            let mut all = world.grants.iter().zip(before);
            all.position(|(after, before)| *after > before).expect("it was granted")
        };
        (1..=KEYS).map(one).collect()
    };
    let mut world = World::new(balanced(Balance::Hash, 64), 10, alike);
    let before = owners(&mut world);
    let (worker, change) = (WorkerId(3), Change::Down);
    world.tell(Input::Member { worker, change });
    let without = owners(&mut world);
    let moved: Vec<_> = before.iter().zip(&without).filter(|(was, is)| was != is).collect();
    assert!(moved.iter().all(|(was, _)| **was == 3), "{moved:?}");
    assert!(moved.len() as u64 <= KEYS * 2 / 10, "{} moved", moved.len());
    world.tell(Input::Member { worker, change: Change::Ready });
    assert_eq!(owners(&mut world), before, "it has its keys again");
}

#[test]
fn a_retry_goes_on_along_the_circle() {
    // Two keys that begin at different workers meet the same workers in their own order.
    let order = |key: u64| {
        let mut world = World::new(balanced(Balance::Hash, 4), 4, alike);
        let mut tried = crate::gate::Tried::default();
        let mut order = Vec::new();
        for _ in 0..3 {
            world.tickets += 1;
            let ticket = Ticket(world.tickets);
            let claim = Claim { key: Key(key), ..Claim::default() };
            let attempt = if order.is_empty() { Attempt::First } else { Attempt::Unsent(tried) };
            let (shard, since, received) = (ShardId(0), world.now, world.now);
            let before = world.grants.clone();
            world.tell(Input::Arrive(Arrival { ticket, shard, since, received, claim, attempt }));
            let mut all = world.grants.iter().zip(before);
            let got = all.position(|(after, before)| *after > before).expect("it was granted");
            tried.insert(WorkerId(got as u32));
            order.push(got);
            world.pass(world.now + millis(40));
        }
        order
    };
    let orders: Vec<_> = (1..20).map(order).collect();
    assert!(orders.iter().any(|order| order[0] != orders[0][0]));
    for order in orders {
        assert!(order[0] != order[1] && order[1] != order[2] && order[0] != order[2]);
    }
}

#[test]
fn the_least_loaded_is_not_the_slow_one() {
    for workers in [4, 40] {
        let slow: Fares = |worker, _, _| (millis(if worker == 0 { 200 } else { 10 }), None);
        let mut world = World::new(balanced(Balance::LeastLoaded, 16), workers, slow);
        let every = Duration::from_micros(10_000 / u64::from(workers));
        let counts = world.crowd(8000, every, no_key);
        let fair = 8000 / u64::from(workers);
        assert!(counts[0] * 5 < fair, "{workers}: the slow one got {} of {fair}", counts[0]);
        let others = counts[1..].iter().all(|count| (fair / 2..fair * 2).contains(count));
        assert!(others, "{workers}: {counts:?}");
    }
}

#[test]
fn who_fails_at_once_is_not_the_least_loaded() {
    let fails: Fares = |worker, _, _| match worker {
        0 => (Duration::from_micros(100), Some(Fault::Error)),
        _ => (millis(10), None),
    };
    for balance in [Balance::LeastLoaded, Balance::Turns] {
        let settings = Settings {
            eject_after: 0,
            eject_error_share: Default::default(),
            ..balanced(balance, 16)
        };
        let mut world = World::new(settings, 4, fails);
        let counts = world.crowd(4000, millis(1), no_key);
        match balance {
            Balance::LeastLoaded => assert!(counts[0] < 100, "{counts:?}"),
            _ => assert!(counts[0] > 1000, "it swallows more than its share: {counts:?}"),
        }
    }
}

#[test]
fn a_share_grows_evenly_with_the_time() {
    let ramp_time = Some(millis(10_000));
    let settings = Settings { ramp_time, ..balanced(Balance::Weighted, 64) };
    let mut world = World::new(settings, 4, alike);
    // The pool began long ago.
    world.pass(Instant::from_millis(20_000));
    let worker = WorkerId(3);
    for change in [Change::Down, Change::Ready] {
        world.tell(Input::Member { worker, change });
    }
    // Each second it gets w of 3 + w, where w is the part of the time in the middle of it.
    for second in 0..10u64 {
        let end = world.now + millis(1000);
        let before = world.grants.clone();
        while world.now < end {
            world.pass(world.now + Duration::from_micros(500));
            world.arrive(0);
        }
        let grants: Vec<_> = world.grants.iter().zip(before).map(|(a, b)| a - b).collect();
        let part = second as f64 / 10.0 + 0.05;
        let expected = 2000.0 * part / (3.0 + part);
        let got = grants[3] as f64;
        assert!((got - expected).abs() < 0.15 * expected + 6.0, "{second}: {got}, {expected}");
    }
    assert_eq!(shares(&world.crowd(4000, millis(1), no_key)), [250; 4]);
}

#[test]
fn slots_come_one_by_one() {
    let ramp_time = Some(millis(4000));
    let settings = Settings { ramp_time, ..balanced(Balance::LeastLoaded, 4) };
    check(
        &settings,
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2
         0 arrive 3
         2000 timeout -> grant 2 0 new waited 2000
         3000 timeout -> grant 3 0 new waited 3000
         4000 timeout
         4000 arrive 4 -> grant 4 0 new
         4000 arrive 5",
    );
}
