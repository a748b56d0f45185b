//! What came of a run, in numbers.
//!
//! A function of scenario, configuration and seed, to the byte: no wall time, no machine. Absent:
//! judgement (tests say what must hold of a summary) and how it is shown (`report`).

use std::collections::BTreeMap;

use spillgate_core::gate::{Class, Reason};
use spillgate_core::time::{Duration, Instant};

/// How many parts the time of a run has in its charts.
const POINTS: u32 = 200;
/// The shortest part: fewer exchanges make no percentile.
const POINT_MIN: Duration = Duration::from_millis(10);

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The scenario.
    pub name: String,
    /// The configuration; empty where there is only one.
    pub configuration: String,
    /// The seed.
    pub seed: u64,
    /// By group of clients.
    pub groups: Vec<GroupSummary>,
    /// By the steps of the load, where it has any.
    pub phases: Vec<PhaseSummary>,
    /// By tenant.
    pub tenants: Vec<TenantSummary>,
    /// By pool.
    pub pools: Vec<PoolSummary>,
    /// The most queries that each database ever had at once.
    pub databases: Vec<(String, usize)>,
    /// When the last exchange had ended.
    pub finished: Duration,
}

/// What became of the exchanges of one group of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// Index of its pool.
    pub pool: usize,
    /// How important it is.
    pub class: Class,
    /// Exchanges that came.
    pub arrivals: u64,
    /// Those of them with which a client asked again.
    pub asked_again: u64,
    /// Those that were answered in time.
    pub served: u64,
    /// Those that were answered too late to be of use.
    pub late: u64,
    /// Those that were turned away, by reason.
    pub shed: BTreeMap<Reason, u64>,
    /// Those that were tried and did not work.
    pub failed: u64,
    /// Those that a worker answered with a 5xx.
    pub errors: u64,
    /// Those whose client left first, where it was noticed.
    pub abandoned: u64,
    /// Clients that gave up, noticed or not.
    pub timeouts: u64,
    /// Times from arrival to answer, sorted; late ones too.
    pub times: Vec<Duration>,
    /// By what was asked for, where the group has paths.
    pub paths: Vec<PathSummary>,
}

/// What became of the exchanges that asked for one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSummary {
    /// The path.
    pub path: String,
    /// Exchanges that came.
    pub arrivals: u64,
    /// Those that were answered in time.
    pub served: u64,
    /// Times from arrival to answer, sorted; late ones too.
    pub times: Vec<Duration>,
}

/// What became of those who came between two steps of the load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseSummary {
    /// When it began.
    pub from: Duration,
    /// How long it was.
    pub length: Duration,
    /// Exchanges that came.
    pub arrivals: u64,
    /// Those that were answered in time.
    pub served: u64,
    /// Those that were turned away.
    pub shed: u64,
    /// Times from arrival to an answer in time, sorted.
    pub times: Vec<Duration>,
}

/// What became of the exchanges of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantSummary {
    /// Its name.
    pub name: String,
    /// Exchanges that came.
    pub arrivals: u64,
    /// Those that were answered in time.
    pub served: u64,
    /// Those that were turned away.
    pub shed: u64,
}

/// What was seen of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSummary {
    /// Its name.
    pub name: String,
    /// Tries after the first.
    pub retries: u64,
    /// Second tries beside a first.
    pub hedges: u64,
    /// Those of them that were answered first.
    pub hedges_won: u64,
    /// The most exchanges that were ever inside one worker.
    pub inside_max: u32,
    /// The most connections that a worker ever saw.
    pub open_max: u32,
    /// The longest queue.
    pub queue_len_max: u32,
    /// The most exchanges that there ever were, waiting and in workers together.
    pub concurrency_max: u32,
    /// Answers by worker.
    pub answers_by_worker: Vec<u64>,
    /// What happened when.
    pub series: Series,
}

/// What happened to a pool over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The length of each part.
    pub length: Duration,
    /// The parts, in order of time.
    pub points: Vec<Point>,
}

/// What happened in one part of the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Exchanges that came.
    pub arrivals: u64,
    /// Answers in time.
    pub served: u64,
    /// Answers too late.
    pub late: u64,
    /// Clients that gave up.
    pub timeouts: u64,
    /// Exchanges that were turned away, by reason.
    pub shed: BTreeMap<Reason, u64>,
    /// Answers in time, by class.
    pub served_by_class: [u64; Class::COUNT],
    /// Exchanges that were turned away, by class.
    pub shed_by_class: [u64; Class::COUNT],
    /// Exchanges that failed, or were answered with a 5xx.
    pub failed: u64,
    /// The most exchanges at once, waiting and in workers together.
    pub concurrency: u32,
    /// Exchanges that the workers may hold together, at the last arrival.
    pub slots: u32,
    /// Half of the answers took no longer.
    pub p50: Duration,
    /// Ninety-nine in a hundred took no longer.
    pub p99: Duration,
    pub(crate) times: Vec<Duration>,
}

impl Summary {
    /// The sum of a number over all groups.
    pub fn total(&self, number: impl Fn(&GroupSummary) -> u64) -> u64 {
        self.groups.iter().map(number).sum()
    }

    /// Exchanges that came.
    pub fn arrivals(&self) -> u64 {
        self.total(|group| group.arrivals)
    }

    /// Exchanges that were answered in time.
    pub fn served(&self) -> u64 {
        self.total(|group| group.served)
    }

    /// Exchanges that were turned away.
    pub fn shed(&self) -> u64 {
        self.total(GroupSummary::shed_total)
    }

    /// Exchanges that were turned away, by reason.
    pub fn reasons(&self) -> BTreeMap<Reason, u64> {
        let mut reasons = BTreeMap::new();
        for (reason, count) in self.groups.iter().flat_map(|group| &group.shed) {
            *reasons.entry(*reason).or_default() += count;
        }
        reasons
    }

    /// The time within which so many percent of the answers came; zero without answers.
    pub fn time(&self, percent: usize) -> Duration {
        self.time_per_mille(percent * 10)
    }

    /// The time within which so many of a thousand answers came; zero without answers.
    pub fn time_per_mille(&self, per_mille: usize) -> Duration {
        match &self.groups[..] {
            [group] => quantile(&group.times, per_mille),
            groups => {
                let mut times: Vec<_> =
                    groups.iter().flat_map(|group| &group.times).copied().collect();
                times.sort_unstable();
                quantile(&times, per_mille)
            }
        }
    }

    /// How evenly the tenants were served, from 1 divided by their number to 1; none: there are
    /// not several. Jain's index (Jain, Chiu and Hawe, 1984) of what each got as a part of its
    /// max-min fair share of what all got together: who asks for less than an even share is due no
    /// more than that.
    pub fn jain(&self) -> Option<f64> {
        if self.tenants.len() < 2 {
            return None;
        }
        let parts = self.tenants.iter().zip(self.fair_shares());
        let parts = parts.filter(|(_, fair)| *fair > 0.0);
        let parts: Vec<_> = parts.map(|(tenant, fair)| tenant.served as f64 / fair).collect();
        let sum: f64 = parts.iter().sum();
        let squares: f64 = parts.iter().map(|part| part * part).sum();
        (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
    }

    /// What each tenant is due of what all got together.
    fn fair_shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.tenants.len()];
        let mut order: Vec<_> = (0..shares.len()).collect();
        order.sort_by_key(|index| self.tenants[*index].arrivals);
        let mut left = self.tenants.iter().map(|tenant| tenant.served as f64).sum::<f64>();
        for (place, index) in order.iter().enumerate() {
            let even = left / (order.len() - place) as f64;
            shares[*index] = even.min(self.tenants[*index].arrivals as f64);
            left -= shares[*index];
        }
        shares
    }

    /// The largest of a number over all pools.
    pub fn largest(&self, number: impl Fn(&PoolSummary) -> u32) -> u32 {
        self.pools.iter().map(number).max().unwrap_or_default()
    }
}

impl GroupSummary {
    /// Exchanges that were turned away.
    pub fn shed_total(&self) -> u64 {
        self.shed.values().sum()
    }

    /// The time within which so many percent of the answers came; zero without answers.
    pub fn time(&self, percent: usize) -> Duration {
        quantile(&self.times, percent * 10)
    }
}

impl PhaseSummary {
    /// The phases that begin at these moments, in a run of this length.
    pub(crate) fn all(starts: &[Duration], time: Duration) -> Vec<Self> {
        let ends = starts.iter().skip(1).copied().chain([time]);
        let phase = |(from, end): (&Duration, Duration)| PhaseSummary {
            from: *from,
            length: end.saturating_sub(*from),
            ..PhaseSummary::default()
        };
        starts.iter().zip(ends).map(phase).collect()
    }

    /// The time within which so many percent of the answers in time came; zero without any.
    pub fn time(&self, percent: usize) -> Duration {
        quantile(&self.times, percent * 10)
    }
}

impl PathSummary {
    pub(crate) fn new(path: &str) -> Self {
        PathSummary { path: path.to_owned(), ..PathSummary::default() }
    }

    /// The time within which so many percent of the answers came; zero without answers.
    pub fn time(&self, percent: usize) -> Duration {
        quantile(&self.times, percent * 10)
    }
}

impl TenantSummary {
    pub(crate) fn new(name: &str) -> Self {
        TenantSummary { name: name.to_owned(), ..TenantSummary::default() }
    }
}

impl PoolSummary {
    /// The largest share of a worker, in percent of the mean; 0 without answers.
    pub fn largest_share_percent(&self) -> u64 {
        let most = self.answers_by_worker.iter().max().copied().unwrap_or_default();
        let total: u64 = self.answers_by_worker.iter().sum();
        (most * 100 * self.answers_by_worker.len() as u64).checked_div(total).unwrap_or_default()
    }
}

impl Series {
    /// An empty series for a run of this length.
    pub(crate) fn new(time: Duration) -> Self {
        Series { length: (time / POINTS).max(POINT_MIN), points: Vec::new() }
    }

    /// The part of the time that `now` is in.
    pub(crate) fn at(&mut self, now: Instant) -> &mut Point {
        let index = (now.as_nanos() / self.length.as_nanos() as u64) as usize;
        if index >= self.points.len() {
            self.points.resize_with(index + 1, Point::default);
        }
        &mut self.points[index]
    }

    /// Nothing more comes: the percentiles of each part.
    pub(crate) fn finish(&mut self) {
        for point in &mut self.points {
            let mut times = std::mem::take(&mut point.times);
            times.sort_unstable();
            (point.p50, point.p99) = (quantile(&times, 500), quantile(&times, 990));
        }
    }

    /// The sum of a number over the parts that begin within these moments.
    pub fn sum(&self, from: Duration, to: Duration, number: impl Fn(&Point) -> u64) -> u64 {
        let place = |time: Duration| time.as_nanos().div_ceil(self.length.as_nanos()) as usize;
        let within = self.points.iter().take(place(to)).skip(place(from));
        within.map(number).sum()
    }
}

impl Point {
    /// Exchanges that were turned away.
    pub fn shed_total(&self) -> u64 {
        self.shed.values().sum()
    }
}

/// The nearest-rank quantile of sorted times; zero where there are none.
fn quantile(times: &[Duration], per_mille: usize) -> Duration {
    let rank = (times.len() * per_mille).div_ceil(1000).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        let check = |per_mille, millis| {
            assert_eq!(quantile(&times, per_mille), Duration::from_millis(millis), "{per_mille}");
        };
        check(500, 100);
        check(990, 198);
        check(999, 200);
        check(1000, 200);
        check(0, 1);
        assert_eq!(quantile(&[], 500), Duration::ZERO);
    }

    #[test]
    fn tenants_are_served_evenly_when_each_gets_its_due() {
        let check = |tenants: &[(u64, u64)], expected: f64| {
            let tenant = |(arrivals, served): &(u64, u64)| TenantSummary {
                arrivals: *arrivals,
                served: *served,
                ..TenantSummary::default()
            };
            let tenants = tenants.iter().map(tenant).collect();
            let jain = Summary { tenants, ..Summary::default() }.jain().expect("there are some");
            assert!((jain - expected).abs() < 0.001, "{jain}, not {expected}");
        };
        check(&[(100, 50), (100, 50)], 1.0);
        check(&[(1000, 90), (10, 10)], 1.0);
        check(&[(1000, 100), (100, 0)], 0.5);
        check(&[(1000, 75), (1000, 25)], 0.8);
    }

    #[test]
    fn a_series_is_summed_over_whole_parts() {
        let mut series = Series::new(Duration::from_secs(200));
        for second in 0..10 {
            series.at(Instant::ZERO + Duration::from_secs(second)).arrivals += second + 1;
        }
        let seconds = Duration::from_secs;
        assert_eq!(series.sum(seconds(2), seconds(4), |point| point.arrivals), 3 + 4);
        assert_eq!(series.sum(seconds(8), seconds(100), |point| point.arrivals), 9 + 10);
    }
}
