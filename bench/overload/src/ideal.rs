//! What a perfect tier would reach with the very arrivals of a run: one queue before the workers,
//! service times known, no time lost but a given turnaround, nobody sent to a worker who would be
//! answered too late, and everybody told so at the moment when that becomes certain.
//!
//! An upper bound to read results against, not a gate: it knows what no gate can know.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::plan::{Arrival, Ideal, Micros, Order, Plan};
use crate::report::{Outcome, Try};

/// What happens next, in the order in which things of one moment happen.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker is free again.
    Free,
    /// A try of a request comes: request, number of the try.
    Come(usize, u32),
    /// One that waits could not be answered in time any more: its queue and key.
    Expire(usize, Key),
}

/// Place in a queue, and a number that makes it unique.
type Key = (u64, Micros, usize);

/// One that waits.
struct Waiting {
    request: usize,
    tried: u32,
    start: Micros,
}

struct Tier<'a> {
    plan: &'a Plan,
    arrivals: &'a [Arrival],
    ideal: &'a Ideal,
    events: BinaryHeap<Reverse<(Micros, Event)>>,
    /// One, or one for each tenant.
    queues: Vec<BTreeMap<Key, Waiting>>,
    /// Requests taken from each queue so far.
    taken: Vec<usize>,
    free: usize,
    tries: Vec<Try>,
}

/// Every try of every request, as the ideal tier answers it.
pub fn simulate(plan: &Plan, arrivals: &[Arrival], ideal: &Ideal) -> Vec<Try> {
    let queues = if ideal.order == Order::Fair { plan.tenants.len() } else { 1 };
    let come = arrivals.iter().enumerate();
    let mut tier = Tier {
        plan,
        arrivals,
        ideal,
        events: come.map(|(request, one)| Reverse((one.at, Event::Come(request, 1)))).collect(),
        queues: (0..queues).map(|_| BTreeMap::new()).collect(),
        taken: vec![0; queues],
        free: plan.workers,
        tries: Vec::with_capacity(arrivals.len()),
    };
    while let Some(Reverse((now, event))) = tier.events.pop() {
        match event {
            Event::Free => tier.free += 1,
            Event::Come(request, tried) => tier.wait(now, request, tried),
            Event::Expire(queue, key) => {
                if let Some(waiting) = tier.queues[queue].remove(&key) {
                    tier.end(now, &waiting, Outcome::Status(503));
                }
            }
        }
        tier.serve(now);
    }
    tier.tries
}

impl Tier<'_> {
    fn wait(&mut self, now: Micros, request: usize, tried: u32) {
        let arrival = &self.arrivals[request];
        let place = match self.ideal.order {
            Order::Oldest | Order::Fair => 0,
            Order::Youngest => u64::MAX - now,
            Order::Class => arrival.class as u64,
            Order::Shortest => arrival.service_time,
        };
        let queue = if self.ideal.order == Order::Fair { arrival.tenant } else { 0 };
        let key = (place, now, request);
        self.queues[queue].insert(key, Waiting { request, tried, start: now });
        let last = (now + self.plan.slo()).saturating_sub(arrival.service_time);
        self.events.push(Reverse((last, Event::Expire(queue, key))));
    }

    fn serve(&mut self, now: Micros) {
        while self.free > 0 {
            let filled = (0..self.queues.len()).filter(|queue| !self.queues[*queue].is_empty());
            let Some(queue) = filled.min_by_key(|queue| self.taken[*queue]) else { return };
            let Some((_, waiting)) = self.queues[queue].pop_first() else { return };
            self.taken[queue] += 1;
            self.free -= 1;
            let answered = now + self.arrivals[waiting.request].service_time;
            self.events.push(Reverse((answered + self.ideal.turnaround_us, Event::Free)));
            self.end(answered, &waiting, Outcome::Good);
        }
    }

    fn end(&mut self, now: Micros, waiting: &Waiting, outcome: Outcome) {
        let is_last = outcome == Outcome::Good || waiting.tried == self.plan.tries;
        self.tries.push(Try {
            request: waiting.request,
            start: waiting.start,
            sent: waiting.start,
            end: now,
            outcome,
            is_last,
        });
        if !is_last {
            let next = waiting.tried + 1;
            let at = now + self.plan.backoff(waiting.request, next);
            self.events.push(Reverse((at, Event::Come(waiting.request, next))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(load: f64, order: &str) -> Plan {
        let text = format!(
            r#"{{"seed": 1, "workers": 8, "capacity": 400, "phases": [[{load}, 5]],
                "services": [[1, 20, "/"]], "slo_ms": 200, "tries": 1, "backoff_ms": 50,
                "classes": [1, 9], "tenants": [1], "warm_up_s": 1, "recover_from_s": null,
                "faults": [], "ideal": {{"order": "{order}", "turnaround_us": 0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Answers in time, per worker and second, and the longest of them.
    fn check(load: f64, order: &str) -> (f64, Micros) {
        let plan = plan(load, order);
        let arrivals = plan.arrivals();
        let tries = simulate(&plan, &arrivals, plan.ideal.as_ref().unwrap());
        assert_eq!(tries.len(), arrivals.len(), "each request ends once");
        let good = tries.iter().filter(|one| one.outcome == Outcome::Good);
        let longest = good.clone().map(|one| one.end - one.start).max().unwrap();
        (good.count() as f64 / 5.0 / 8.0, longest)
    }

    #[test]
    fn workers_are_never_idle_under_overload_and_nobody_is_late() {
        for order in ["oldest", "youngest", "class", "shortest", "fair"] {
            let (rate, longest) = check(3.0, order);
            assert!((49.0..=52.0).contains(&rate), "{order}: {rate}");
            assert!(longest <= 200_000, "{order}: {longest}");
        }
    }

    #[test]
    fn everybody_is_answered_below_capacity() {
        let (rate, _) = check(0.5, "oldest");
        assert!((23.0..=27.0).contains(&rate), "{rate}");
    }
}
