//! Where work is done: a worker's processor, or a database that several workers share.
//!
//! Processor sharing: up to `capacity` jobs run at full speed; with more, each runs slower in
//! proportion, and nothing is lost by their number. That is the best case of a server without a
//! limit; real ones lose more. Virtual time makes it cheap (Demers, Keshav, Shenker 1989, "Analysis
//! and simulation of a fair queueing algorithm"): a clock that runs as fast as each job does, on
//! which a job's end never changes once it has begun. Ours differs in the cap: below `capacity` the
//! virtual clock runs no faster than the real one.
//!
//! Absent: what a job is. Work is in seconds of a machine with one job; only sums, products and
//! quotients are used, so the results are the same on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spillgate_core::time::{Duration, Instant};

/// What is left of a job when it counts as done: moments are whole nanoseconds.
const ROUNDING: f64 = 1e-9;
/// What the last digits of a sum may be off, in nanoseconds: less than a thousandth over days.
const DIGITS: f64 = 1e-3;

/// A place where jobs share a processor.
#[derive(Debug)]
pub(crate) struct Station<J> {
    /// Jobs that run at full speed.
    capacity: f64,
    /// 1 as usual, less when it is slow, 0 when it stands still.
    speed: f64,
    /// The virtual clock, at `at`.
    clock: f64,
    at: Instant,
    jobs: BinaryHeap<Reverse<Job<J>>>,
    begun: u64,
    /// The most jobs that there ever were.
    pub(crate) most: usize,
}

#[derive(Debug)]
struct Job<J> {
    end: f64,
    number: u64,
    what: J,
}

impl<J> Station<J> {
    /// A station without jobs. None: any number of jobs runs at full speed.
    pub(crate) fn new(capacity: Option<u32>) -> Self {
        Station {
            capacity: capacity.map_or(f64::INFINITY, f64::from),
            speed: 1.0,
            clock: 0.0,
            at: Instant::ZERO,
            jobs: BinaryHeap::new(),
            begun: 0,
            most: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// A job of this much work begins.
    pub(crate) fn begin(&mut self, what: J, work: Duration, now: Instant) {
        self.advance(now);
        self.begin_here(what, work);
    }

    /// A job begins at the present of the virtual clock.
    pub(crate) fn begin_here(&mut self, what: J, work: Duration) {
        self.begun += 1;
        let end = self.clock + work.as_secs_f64();
        self.jobs.push(Reverse(Job { end, number: self.begun, what }));
        self.most = self.most.max(self.jobs.len());
    }

    /// The next job that is done at `now`; none: there is no more.
    pub(crate) fn take_done(&mut self, now: Instant) -> Option<J> {
        self.advance(now);
        self.take_until(self.clock + ROUNDING)
    }

    /// Let the virtual clock run for one step of this many seconds, all at the speed of its
    /// beginning.
    pub(crate) fn step(&mut self, seconds: f64) {
        self.clock += seconds * self.rate();
    }

    /// The next job whose end the virtual clock has reached, to the last digit.
    pub(crate) fn take_passed(&mut self) -> Option<J> {
        self.take_until(self.clock)
    }

    fn take_until(&mut self, clock: f64) -> Option<J> {
        let Reverse(next) = self.jobs.peek()?;
        if next.end > clock || self.speed == 0.0 {
            return None;
        }
        self.jobs.pop().map(|Reverse(job)| job.what)
    }

    /// When the next job will be done if nothing changes; none: never.
    pub(crate) fn next_done(&self) -> Option<Instant> {
        let Reverse(next) = self.jobs.peek()?;
        let rate = self.rate();
        if rate == 0.0 {
            return None;
        }
        let nanos = ((next.end - self.clock).max(0.0) / rate * 1e9 - DIGITS).ceil();
        Some(self.at + Duration::from_nanos(nanos as u64))
    }

    /// Change the speed from `now` on.
    pub(crate) fn set_speed(&mut self, speed: f64, now: Instant) {
        self.advance(now);
        self.speed = speed;
    }

    /// Take every job out, in the order in which they would have ended.
    pub(crate) fn take_all(&mut self, now: Instant) -> Vec<J> {
        self.advance(now);
        std::iter::from_fn(|| self.jobs.pop()).map(|Reverse(job)| job.what).collect()
    }

    /// What is being worked on, in the order in which it began.
    pub(crate) fn jobs(&self) -> Vec<&J> {
        let mut jobs: Vec<_> = self.jobs.iter().map(|Reverse(job)| job).collect();
        jobs.sort_unstable_by_key(|job| job.number);
        jobs.into_iter().map(|job| &job.what).collect()
    }

    /// The share of its full speed at which each job runs.
    fn rate(&self) -> f64 {
        self.speed * (self.capacity / self.jobs.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.at);
        if passed > Duration::ZERO {
            if !self.jobs.is_empty() {
                self.clock += passed.as_secs_f64() * self.rate();
            }
            self.at = now;
        }
    }
}

impl<J> Job<J> {
    fn precedes(&self, other: &Self) -> std::cmp::Ordering {
        self.end.total_cmp(&other.end).then(self.number.cmp(&other.number))
    }
}

impl<J> PartialEq for Job<J> {
    fn eq(&self, other: &Self) -> bool {
        self.precedes(other).is_eq()
    }
}

impl<J> Eq for Job<J> {}

impl<J> PartialOrd for Job<J> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Ord for Job<J> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.precedes(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Run to the end: which job was done at which millisecond.
    fn ends(station: &mut Station<u32>) -> Vec<(u32, u64)> {
        let mut ends = Vec::new();
        while let Some(at) = station.next_done() {
            while let Some(job) = station.take_done(at) {
                ends.push((job, at.as_nanos().div_ceil(1_000_000)));
            }
        }
        ends
    }

    #[test]
    fn jobs_within_the_capacity_run_at_full_speed() {
        let mut station = Station::new(Some(2));
        station.begin(1, millis(100), Instant::from_millis(0));
        station.begin(2, millis(100), Instant::from_millis(50));
        assert_eq!(ends(&mut station), [(1, 100), (2, 150)]);
    }

    #[test]
    fn twice_as_many_jobs_take_twice_as_long() {
        let mut station = Station::new(Some(2));
        (0..4).for_each(|job| station.begin(job, millis(100), Instant::ZERO));
        assert_eq!(ends(&mut station), [(0, 200), (1, 200), (2, 200), (3, 200)]);
        assert_eq!(station.most, 4);
    }

    #[test]
    fn who_comes_later_slows_down_those_who_are_there() {
        let mut station = Station::new(Some(1));
        station.begin(1, millis(100), Instant::ZERO);
        station.begin(2, millis(100), Instant::from_millis(50));
        assert_eq!(ends(&mut station), [(1, 150), (2, 200)]);
    }

    #[test]
    fn a_station_that_stands_still_goes_on_where_it_was() {
        let mut station = Station::new(None);
        station.begin(1, millis(100), Instant::ZERO);
        station.set_speed(0.0, Instant::from_millis(40));
        assert_eq!(station.next_done(), None);
        station.set_speed(0.5, Instant::from_millis(240));
        assert_eq!(ends(&mut station), [(1, 360)]);
    }
}
