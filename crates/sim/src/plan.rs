//! What to set for a load that was recorded, and what would come of it.
//!
//! Slots come from how service times grow with what a worker holds; the queue from the time that
//! the SLO leaves beside the service time, for a longer queue serves everybody too late; and the
//! prediction from the real gate in a simulated world, with the service times of the log. Absent: a
//! judgement whether that is enough workers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use spillgate_core::rng::Rng;
use spillgate_core::time::Duration;

use crate::access_log::{Recorded, Request};
use crate::curve;
use crate::report::{count, percent, time};
use crate::scenario::{Load, Scenario};
use crate::summary::Summary;
use crate::world;

/// Exchanges of each simulated load: the 99 % quantile rests on two hundred.
const EXCHANGES: f64 = 20_000.0;
/// Loads that are simulated, in percent of what the workers can do.
const LOADS: [u32; 7] = [50, 80, 100, 140, 200, 500, 1000];
/// Samples that must be there before a number of exchanges in a worker is judged.
const SAMPLES_MIN: usize = 30;
/// Moments of a log are whole milliseconds: what overlaps by less may not have overlapped.
const RESOLUTION: Duration = Duration::from_millis(1);
/// Share of the best throughput, in percent, that fewer slots may give: less in a worker is faster
/// for each, and a measurement is not exact.
const GOOD_ENOUGH: f64 = 95.0;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Answers later than this are of no use.
    pub slo: Duration,
    /// Workers; none: as many as the log names.
    pub workers: Option<u32>,
    /// Time that an exchange takes in a worker; none: as the log says.
    pub service: Option<Duration>,
    /// The seed of the prediction.
    pub seed: u64,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The log does not say how long requests took, and neither does the question.
    NoService,
    /// The log does not say which worker a request had, and the question not how many there are.
    NoWorkers,
    /// Half of the answers take longer than the SLO by themselves.
    Slo(Duration),
    /// There are fewer than two requests, or all came at once.
    TooShort,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NoService => write!(
                f,
                "the log does not say how long requests were in a worker: say it with --service, \
                 such as --service 50ms"
            ),
            PlanError::NoWorkers => write!(
                f,
                "the log does not say which worker had a request: say how many there are with \
                 --workers"
            ),
            PlanError::Slo(median) => write!(
                f,
                "half of the requests are in a worker for {} or longer: no queue meets this SLO",
                time(*median)
            ),
            PlanError::TooShort => write!(f, "the log is too short to plan from"),
        }
    }
}

impl std::error::Error for PlanError {}

/// What to set, and why.
struct Advice {
    workers: u32,
    slots: u32,
    slots_why: String,
    /// Sorted.
    services: Vec<Duration>,
    queue_wait_max: Duration,
    queue_len_max: u32,
    /// Exchanges a second.
    capacity: f64,
}

/// What to set for a log, with the prediction; as text for a terminal.
///
/// # Errors
///
/// When the log and the question together do not say enough.
///
/// # Panics
///
/// As [`crate::simulate`].
pub fn plan(log: &Recorded, question: &Question) -> Result<String, PlanError> {
    let span = log.requests.last().map(|request| request.at).unwrap_or_default();
    if log.requests.len() < 2 || span.is_zero() {
        return Err(PlanError::TooShort);
    }
    let advice = Advice::of(log, question)?;
    let mut text = String::new();
    write_log(&mut text, log, span, &advice);
    advice.write(&mut text, question);
    advice.write_prediction(&mut text, log, question);
    Ok(text)
}

impl Advice {
    fn of(log: &Recorded, question: &Question) -> Result<Advice, PlanError> {
        let answered = log.requests.iter().filter(|request| request.answered);
        let known: BTreeSet<_> = log.requests.iter().filter_map(|request| request.worker).collect();
        let workers = question.workers.or((!known.is_empty()).then_some(known.len() as u32));
        let workers = workers.ok_or(PlanError::NoWorkers)?;
        let (slots, slots_why, mut services) = match question.service {
            Some(service) => {
                (1, "nothing is known of more: one is always safe".to_owned(), vec![service])
            }
            None => {
                let services: Vec<_> = answered.filter_map(|request| request.service).collect();
                let (slots, why, within) = slots(log);
                (slots, why, if within.is_empty() { services } else { within })
            }
        };
        if services.is_empty() {
            return Err(PlanError::NoService);
        }
        services.sort_unstable();
        let at = |share: usize| services[(services.len() * share / 100).min(services.len() - 1)];
        if at(50) >= question.slo {
            return Err(PlanError::Slo(at(50)));
        }
        let mean = services.iter().sum::<Duration>().as_secs_f64() / services.len() as f64;
        let capacity = f64::from(workers * slots) / mean.max(1e-6);
        // The gate reckons with the 90 % quantile; where that leaves nothing, with half of them.
        let usual = if at(90) < question.slo { at(90) } else { at(50) };
        let queue_wait_max = question.slo - usual;
        let queue_len_max = (capacity * queue_wait_max.as_secs_f64()).ceil() as u32;
        let queue_len_max = queue_len_max.max(workers * slots);
        Ok(Advice { workers, slots, slots_why, services, queue_wait_max, queue_len_max, capacity })
    }

    fn quantile(&self, share: usize) -> Duration {
        self.services[(self.services.len() * share / 100).min(self.services.len() - 1)]
    }

    fn write(&self, text: &mut String, question: &Question) {
        let millis = |time: Duration| match time.as_millis().max(1) {
            millis if millis % 1000 == 0 => format!("\"{}s\"", millis / 1000),
            millis => format!("\"{millis}ms\""),
        };
        let mut line = |key: &str, value: String, why: &str| {
            put(text, format_args!("{:<28}# {why}\n", format!("{key} = {value}")));
        };
        line("slots", self.slots.to_string(), &self.slots_why);
        let why = "as long as can be served within queue_wait_max: more would be served too late";
        line("queue_len_max", self.queue_len_max.to_string(), why);
        let why = "what the SLO leaves beside the time in a worker";
        line("queue_wait_max", millis(self.queue_wait_max), why);
        let why = "the SLO: who cannot be answered by then is told at once";
        line("answer_within", millis(question.slo), why);
    }

    fn write_prediction(&self, text: &mut String, log: &Recorded, question: &Question) {
        let capacity = self.capacity;
        put(text, format_args!("\nWith these, {capacity:.0} a second can be answered. "));
        put(text, format_args!("Predicted, each with the service times of the log:\n\n"));
        put(text, format_args!("{:>10} {:>10} {:>9} ", "load", "offered/s", "in time"));
        put(text, format_args!("{:>12} {:>8} {:>9} {:>9}\n", "of capacity", "shed", "p50", "p99"));
        let span = log.requests.last().map_or(0.0, |request| request.at.as_secs_f64());
        let mut rng = Rng::new(question.seed);
        let again = self.again(log, &mut rng);
        let summary = self.simulate(again, question);
        self.write_load(text, "this log", span, &summary);
        for load in LOADS {
            let rate = capacity * f64::from(load) / 100.0;
            let synthetic = self.synthetic(rate, &mut rng);
            let summary = self.simulate(synthetic, question);
            let name = format!("{}.{}x", load / 100, load % 100 / 10);
            self.write_load(text, &name, EXCHANGES / rate, &summary);
        }
    }

    fn write_load(&self, text: &mut String, name: &str, span: f64, summary: &Summary) {
        let (all, good) = (summary.arrivals(), summary.served());
        let goodput = good as f64 / span / self.capacity * 100.0;
        put(text, format_args!("{name:>10} {:>10.1} ", all as f64 / span));
        put(text, format_args!("{:>9} {goodput:>10.1} % ", percent(good, all)));
        put(text, format_args!("{:>8} ", percent(summary.shed(), all)));
        put(text, format_args!("{:>9} {:>9}\n", time(summary.time(50)), time(summary.time(99))));
    }

    /// The log once more; what it does not say of service times is drawn from what it says.
    fn again(&self, log: &Recorded, rng: &mut Rng) -> Vec<Request> {
        let mut requests = log.requests.clone();
        for request in &mut requests {
            let known = request.service.filter(|_| request.answered && self.services.len() > 1);
            request.service = Some(known.unwrap_or_else(|| self.draw(rng)));
        }
        requests
    }

    /// Requests that come at random, so many a second.
    fn synthetic(&self, rate: f64, rng: &mut Rng) -> Vec<Request> {
        let mut at = 0.0;
        let request = |_| {
            at -= curve::ln(1.0 - rng.unit()) / rate;
            let service = Some(self.draw(rng));
            Request { at: Duration::from_secs_f64(at), service, ..Request::default() }
        };
        (0..EXCHANGES as u32).map(request).collect()
    }

    fn draw(&self, rng: &mut Rng) -> Duration {
        self.services[rng.below(self.services.len() as u64) as usize]
    }

    fn simulate(&self, requests: Vec<Request>, question: &Question) -> Summary {
        let last = requests.last().map(|request| request.at).unwrap_or_default();
        let millis = |time: Duration| time.as_millis().max(1);
        let (wait, slo) = (millis(self.queue_wait_max), millis(question.slo));
        let text = format!(
            "name = 'plan'\ntime = '1s'\nshards = 2\n[[clients]]\nslo = '{slo}ms'\n\
             [pool.app]\nslots = {}\nqueue_len_max = {}\nqueue_wait_max = '{wait}ms'\n\
             answer_within = '{slo}ms'\nworkers = {{ count = {} }}\n",
            self.slots, self.queue_len_max, self.workers
        );
        let scenario = Scenario::parse(&text).expect("what is planned can be set");
        let mut setup = scenario.setup(0);
        setup.time = last + Duration::from_millis(1);
        let log = Recorded { requests, ..Recorded::default() };
        setup.groups[0].load = Load::Recorded { log, speed: 1.0, service: true };
        world::simulate_setup(&setup, question.seed, false, &mut |_| {}).summary
    }
}

/// How many exchanges a worker should hold: the fewest that give nearly the best throughput, as
/// the service times of the log say. With the reason, and the service times of those that were with
/// no more in a worker.
fn slots(log: &Recorded) -> (u32, String, Vec<Duration>) {
    let mut by_worker: BTreeMap<u32, Vec<(Duration, Duration)>> = BTreeMap::new();
    for request in log.requests.iter().filter(|request| request.answered) {
        if let (Some(worker), Some(service)) = (request.worker, request.service) {
            let begin = request.at + request.waited;
            by_worker.entry(worker).or_default().push((begin, begin + service));
        }
    }
    let mut by_number: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    for times in by_worker.values() {
        let mut begins: Vec<_> = times.iter().map(|(begin, _)| *begin).collect();
        let mut ends: Vec<_> = times.iter().map(|(_, end)| *end).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        for (begin, end) in times {
            // As many as were there in the middle of its time.
            let middle = *begin + (*end - *begin) / 2;
            let begun = begins.partition_point(|begin| *begin + RESOLUTION <= middle);
            let ended = ends.partition_point(|end| *end <= middle + RESOLUTION);
            let number = begun.saturating_sub(ended).max(1) as u32;
            by_number.entry(number).or_default().push(*end - *begin);
        }
    }
    by_number.retain(|_, services| services.len() >= SAMPLES_MIN);
    let throughput: Vec<(u32, f64)> = by_number
        .iter()
        .map(|(number, services)| {
            let mean = services.iter().sum::<Duration>().as_secs_f64() / services.len() as f64;
            (*number, f64::from(*number) / mean.max(1e-9))
        })
        .collect();
    let best = throughput.iter().map(|(_, throughput)| *throughput).fold(0.0, f64::max);
    let enough = throughput.iter().find(|(_, one)| *one * 100.0 >= best * GOOD_ENOUGH);
    let Some((slots, one)) = enough.copied() else {
        return (1, "nothing is known of more: one is always safe".to_owned(), Vec::new());
    };
    let most = throughput.last().map_or(slots, |(number, _)| *number);
    let why = match most {
        1 => "no worker of the log ever had more at once: nothing is known of more".to_owned(),
        _ if slots == most => {
            format!("a worker with {most} did most, {one:.0}/s; more was not seen")
        }
        _ => format!("a worker with {slots} did {one:.0}/s; more at once did not raise that"),
    };
    let within = by_number.range(..=slots).flat_map(|(_, services)| services).copied().collect();
    (slots, why, within)
}

fn write_log(text: &mut String, log: &Recorded, span: Duration, advice: &Advice) {
    let rate = log.requests.len() as f64 / span.as_secs_f64();
    let busiest = busiest(log, Duration::from_secs(1)).min(log.requests.len());
    let requests = count(log.requests.len() as u64);
    let noun = if log.requests.len() == 1 { "request" } else { "requests" };
    put(text, format_args!("# {requests} {noun} in {}: {rate:.1} a second, ", time(span)));
    put(text, format_args!("{busiest} in the busiest one\n"));
    if let Some(line) = log.unread_first {
        let lines = if log.unread == 1 { "line was" } else { "lines were" };
        put(text, format_args!("# {} {lines} not understood, the first ", log.unread));
        put(text, format_args!("is line {line}\n"));
    }
    let [p50, p90, p99] = [50, 90, 99].map(|share| time(advice.quantile(share)));
    put(text, format_args!("# in a worker: p50 {p50}, p90 {p90}, p99 {p99}; "));
    put(text, format_args!("workers: {}\n\n", advice.workers));
}

/// The most requests in any window of this length.
fn busiest(log: &Recorded, window: Duration) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, request) in log.requests.iter().enumerate() {
        while log.requests[first].at + window <= request.at {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most
}

fn put(text: &mut String, line: fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Two workers of which each holds `together` at a time, `service` long.
    fn log(together: u64, service: u64) -> Recorded {
        let request = |number: u64| Request {
            at: millis(number / together / 2 * service),
            service: Some(millis(service)),
            worker: Some((number % 2) as u32),
            answered: true,
            waited: Duration::ZERO,
        };
        Recorded { requests: (0..400 * together).map(request).collect(), ..Recorded::default() }
    }

    const QUESTION: Question = Question { slo: millis(300), workers: None, service: None, seed: 1 };

    #[test]
    fn slots_are_as_many_as_raise_the_throughput() {
        let check = |logs: &[Recorded], expected| {
            let mut all = Recorded::default();
            for log in logs {
                let last = all.requests.last().map_or(Duration::ZERO, |one: &Request| one.at);
                let later = log.requests.iter().copied().map(|mut request| {
                    request.at += last + Duration::from_secs(1);
                    request
                });
                all.requests.extend(later);
            }
            assert_eq!(slots(&all).0, expected);
        };
        check(&[log(1, 50)], 1);
        check(&[log(1, 50), log(2, 50)], 2);
        check(&[log(1, 50), log(2, 100), log(3, 150)], 1);
        check(&[], 1);
    }

    #[test]
    fn the_queue_is_what_the_slo_leaves() {
        let advice = Advice::of(&log(1, 50), &QUESTION).expect("the log says everything");
        assert_eq!((advice.workers, advice.slots), (2, 1));
        assert_eq!(advice.queue_wait_max, millis(250));
        assert_eq!(advice.queue_len_max, 10, "40 a second for a quarter of one");
    }

    #[test]
    fn what_is_planned_holds_at_ten_times_the_load() {
        let text = plan(&log(1, 50), &QUESTION).expect("the log says everything");
        let row = |load: &str| {
            let row = text.lines().find(|line| line.trim_start().starts_with(load));
            row.unwrap_or_else(|| panic!("{text}")).split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(row("0.5x")[2], "100.0", "{text}");
        for load in ["1.4x", "2.0x", "10.0x"] {
            let goodput: f64 = row(load)[4].parse().expect("a share of the capacity");
            assert!(goodput >= 95.0, "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_asked_for() {
        let mut log = log(1, 50);
        log.requests.iter_mut().for_each(|request| request.service = None);
        assert_eq!(plan(&log, &QUESTION), Err(PlanError::NoService));
        let slow = Question { service: Some(millis(400)), ..QUESTION };
        assert_eq!(plan(&log, &slow), Err(PlanError::Slo(millis(400))));
        log.requests.iter_mut().for_each(|request| request.worker = None);
        assert_eq!(plan(&log, &slow), Err(PlanError::NoWorkers));
        log.requests.truncate(1);
        assert_eq!(plan(&log, &slow), Err(PlanError::TooShort));
    }
}
