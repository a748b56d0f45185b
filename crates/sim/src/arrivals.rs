//! When the clients of one group come: one moment after the other, in order.
//!
//! Random arrivals are a Poisson process whose rate follows a curve: the load is summed up, and the
//! next client comes when the sum has grown by an exponential random number (time change, Çinlar
//! 1975). Even arrivals are the same with the number one. The curve is looked at once for each
//! tick.

use spillgate_core::rng::Rng;
use spillgate_core::time::{Duration, Instant};

use crate::access_log::Recorded;
use crate::curve::{self, Curve};
use crate::scenario::{Arrivals as Kind, Group, Load};

/// How often the curve is looked at where the world has no steps: so many times in a run, but not
/// more often than a spike of a tenth of a second needs, nor more rarely than a log could tell.
const TICKS: u32 = 100_000;
const TICK_MIN: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_secs(1);

/// The arrivals of one group.
#[derive(Debug)]
pub(crate) struct Arrivals {
    source: Source,
    end: Instant,
}

#[derive(Debug)]
enum Source {
    Curve(Summing),
    Recorded { log: Recorded, speed: f64, service: bool, next: usize },
}

/// A client that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coming {
    pub(crate) at: Instant,
    /// The time that its work took when it was recorded.
    pub(crate) service: Option<Duration>,
}

#[derive(Debug)]
struct Summing {
    curve: Curve,
    rng: Option<Rng>,
    /// The beginning of the present tick, its length, and the rate in it.
    tick: Instant,
    length: Duration,
    rate: f64,
    /// The part of the present tick, in clients, that is used up.
    used: f64,
    /// What is missing until the next client comes.
    missing: f64,
    /// Clients come at the beginning of the tick, not inside.
    stepped: bool,
}

impl Arrivals {
    /// The arrivals of `group` until `end`, in steps of the world's where it has them.
    pub(crate) fn new(group: &Group, step: Option<Duration>, end: Instant, rng: Rng) -> Self {
        let source = match &group.load {
            Load::Recorded { log, speed, service } => {
                Source::Recorded { log: log.clone(), speed: *speed, service: *service, next: 0 }
            }
            Load::Curve(curve) => {
                let mut summing = Summing {
                    rate: curve.rate(Instant::ZERO),
                    curve: curve.clone(),
                    rng: (group.clients.arrivals == Kind::Random).then_some(rng),
                    tick: Instant::ZERO,
                    length: step
                        .unwrap_or((end.since(Instant::ZERO) / TICKS).clamp(TICK_MIN, TICK_MAX)),
                    used: 0.0,
                    missing: 0.0,
                    stepped: step.is_some(),
                };
                summing.missing = summing.distance();
                Source::Curve(summing)
            }
        };
        Arrivals { source, end }
    }

    /// The next client; none: nobody comes any more.
    pub(crate) fn next(&mut self) -> Option<Coming> {
        let end = self.end;
        let next = match &mut self.source {
            Source::Curve(summing) => summing.next(end).map(|at| Coming { at, service: None }),
            Source::Recorded { log, speed, service, next } => {
                let request = log.requests.get(*next)?;
                *next += 1;
                let after = Duration::from_secs_f64(request.at.as_secs_f64() / *speed);
                let service = request.service.filter(|_| *service);
                Some(Coming { at: Instant::ZERO + after, service })
            }
        };
        next.filter(|coming| coming.at < end)
    }
}

impl Summing {
    fn next(&mut self, end: Instant) -> Option<Instant> {
        loop {
            let whole = self.rate * self.length.as_secs_f64();
            let left = whole - self.used;
            if left >= self.missing {
                self.used += self.missing;
                self.missing = self.distance();
                let part = if self.stepped { 0.0 } else { self.used / whole };
                let nanos = self.length.as_nanos() as f64 * part;
                return Some(self.tick + Duration::from_nanos(nanos as u64));
            }
            self.missing -= left;
            self.used = 0.0;
            self.tick = self.tick + self.length;
            if self.tick >= end {
                return None;
            }
            self.rate = self.curve.rate(self.tick);
        }
    }

    /// By how much the load has to sum up until the next client comes.
    fn distance(&mut self) -> f64 {
        match &mut self.rng {
            // Above 0 and at most 1.
            Some(rng) => -curve::ln(1.0 - rng.unit()),
            None => 1.0,
        }
    }
}
