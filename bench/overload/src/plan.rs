//! What happens in a run, drawn before it begins: the same seed gives the same arrivals, service
//! times, classes and tenants for every proxy, and for the simulated optimum.

use serde::Deserialize;

/// Microseconds since the begin of the run.
pub type Micros = u64;

/// One run, as `run.py` describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// How many workers there are, each one request at a time.
    pub workers: usize,
    /// What the workers can answer, requests a second.
    pub capacity: f64,
    /// Loads one after the other: multiple of the capacity, seconds.
    pub phases: Vec<(f64, f64)>,
    /// Service times: weight, milliseconds, path that is asked for.
    pub services: Vec<(f64, f64, String)>,
    /// An answer within this, in milliseconds, is good; then a client gives up.
    pub slo_ms: u64,
    /// Tries of a client for a request, the first one included.
    pub tries: u32,
    /// Pause before the second try, in milliseconds; twice that before the third, and so on.
    pub backoff_ms: f64,
    /// Weights of the classes 0, 1, …
    pub classes: Vec<f64>,
    /// Weights of the tenants.
    pub tenants: Vec<f64>,
    /// Seconds at the begin that are not judged.
    pub warm_up_s: f64,
    /// When the trigger of an overload ends, in seconds: from there on recovery is timed.
    pub recover_from_s: Option<f64>,
    /// What befalls the workers.
    pub faults: Vec<Fault>,
    /// Simulate an ideal tier instead of asking a real one.
    pub ideal: Option<Ideal>,
}

/// Something that befalls one worker.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When, in seconds.
    pub at_s: f64,
    /// Which one, counted from 0.
    pub worker: usize,
    /// What.
    pub what: What,
    /// For how long, in seconds.
    pub for_s: f64,
}

/// Kinds of fault.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// All connections break, nothing listens; then a new one listens.
    Kill,
    /// Nothing listens, what is inside is still answered; then a new one listens.
    Restart,
    /// Takes requests and answers none.
    Hang,
    /// Takes four times as long.
    Slow,
    /// Answers 503 at once.
    Refuse,
}

/// An ideal tier: it knows each service time, and nothing costs it time but the turnaround.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ideal {
    /// Who of those that wait is next.
    pub order: Order,
    /// What a worker loses between two requests.
    pub turnaround_us: Micros,
}

/// Orders of the ideal tier's queue.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// First come, first served.
    Oldest,
    /// Last come, first served.
    Youngest,
    /// By class, the oldest of a class first.
    Class,
    /// By service time.
    Shortest,
    /// The tenant with the fewest answers first.
    Fair,
}

/// One request.
pub struct Arrival {
    /// When it is meant to be sent.
    pub at: Micros,
    /// Into which phase that falls.
    pub phase: usize,
    /// Its class; 0 matters most.
    pub class: usize,
    /// Who sends it.
    pub tenant: usize,
    /// Which of the services.
    pub service: usize,
    /// The time that a worker spends on it.
    pub service_time: Micros,
}

impl Plan {
    /// The service level, in microseconds.
    pub fn slo(&self) -> Micros {
        self.slo_ms * 1000
    }

    /// When the last phase ends.
    pub fn end(&self) -> Micros {
        micros(self.phases.iter().map(|(_, seconds)| seconds).sum())
    }

    /// All requests, in time order: a Poisson process in each phase.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut random = Random(self.seed);
        let services: Vec<f64> = self.services.iter().map(|(weight, ..)| *weight).collect();
        let mut arrivals = Vec::new();
        let mut start = 0.0;
        for (phase, &(multiple, seconds)) in self.phases.iter().enumerate() {
            let mean = 1.0 / (multiple * self.capacity);
            let mut at = start + random.exponential(mean);
            while at < start + seconds {
                let service = random.weighted(&services);
                arrivals.push(Arrival {
                    at: micros(at),
                    phase,
                    class: random.weighted(&self.classes),
                    tenant: random.weighted(&self.tenants),
                    service,
                    service_time: (self.services[service].1 * 1000.0) as Micros,
                });
                at += random.exponential(mean);
            }
            start += seconds;
        }
        arrivals
    }

    /// The pause before try `next`, a half to one and a half of its mean, so that clients that
    /// failed together do not come back together.
    pub fn backoff(&self, request: usize, next: u32) -> Micros {
        let mut random = Random(self.seed ^ (request as u64) << 8 ^ u64::from(next));
        let mean = self.backoff_ms * f64::from(1_u32 << (next - 2));
        (mean * 1000.0 * (0.5 + random.share())) as Micros
    }
}

/// Seconds as microseconds.
pub fn micros(seconds: f64) -> Micros {
    (seconds * 1e6) as Micros
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Above 0, below 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.share().ln()
    }

    /// An index, as often as its weight says.
    fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.share() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len() - 1
    }
}
