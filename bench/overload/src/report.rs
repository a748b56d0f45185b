//! What became of a run, as numbers: of all its tries, and of each class, tenant, path and phase.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::plan::{Arrival, Micros, Plan, micros};

/// Windows in which recovery is looked for, and how many of them in a row must be good.
const WINDOW: Micros = 500_000;
const WINDOWS_GOOD: usize = 3;

/// How one try ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Answered with 200 within the service level.
    Good,
    /// Not answered within it; the client has gone.
    GaveUp,
    /// Answered with another status.
    Status(u16),
    /// The connection was refused, or ended before the answer was whole.
    Broken,
}

/// One try of one request.
pub struct Try {
    /// Which request.
    pub request: usize,
    /// When it was meant to be sent.
    pub start: Micros,
    /// When the clients got to it.
    pub sent: Micros,
    /// When it ended.
    pub end: Micros,
    /// How.
    pub outcome: Outcome,
    /// Does the client not try again?
    pub is_last: bool,
}

/// The result of a run, one JSON object.
pub fn result(plan: &Plan, arrivals: &[Arrival], tries: &[Try]) -> Value {
    let (warm, end) = (micros(plan.warm_up_s), plan.end());
    let good = tries.iter().filter(|one| one.outcome == Outcome::Good);
    let inside = good.clone().filter(|one| (warm..end).contains(&one.end)).count();
    let seconds = (end - warm) as f64 / 1e6;
    let judged = |one: &&Try| (warm..end.saturating_sub(plan.slo())).contains(&one.start);
    let mut groups: BTreeMap<String, Vec<&Try>> = BTreeMap::new();
    for one in tries.iter().filter(judged) {
        for name in names(plan, &arrivals[one.request]) {
            groups.entry(name).or_default().push(one);
        }
    }
    let mut lags: Vec<Micros> = tries.iter().map(|one| one.sent - one.start).collect();
    lags.sort_unstable();
    let figures: Map<String, Value> =
        groups.iter().map(|(name, tries)| (name.clone(), figures(tries))).collect();
    json!({
        "goodput": round(inside as f64 / seconds / plan.capacity),
        "requests": arrivals.len(),
        "ended": tries.iter().filter(|one| one.is_last).count(),
        "good": good.count(),
        "lag_p99_ms": millis(quantile(&lags, 0.99)),
        "groups": figures,
        "fairness": fairness(plan, &groups),
        "recovery": plan.recover_from_s.map(|from| recovery(tries, micros(from), end)),
    })
}

/// The groups that a request belongs to.
fn names(plan: &Plan, arrival: &Arrival) -> Vec<String> {
    let mut names = vec!["all".to_string()];
    if plan.classes.len() > 1 {
        names.push(format!("class {}", arrival.class));
    }
    if plan.tenants.len() > 1 {
        names.push(format!("tenant {}", arrival.tenant));
    }
    if plan.services.len() > 1 {
        names.push(plan.services[arrival.service].2.clone());
    }
    if plan.phases.len() > 1 {
        names.push(format!("phase {}", arrival.phase));
    }
    names
}

fn figures(tries: &[&Try]) -> Value {
    let good = tries.iter().filter(|one| one.outcome == Outcome::Good);
    let mut times: Vec<Micros> = good.map(|one| one.end - one.start).collect();
    times.sort_unstable();
    let count = |outcome| tries.iter().filter(|one| one.outcome == outcome).count();
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for one in tries {
        if let Outcome::Status(status) = one.outcome {
            *statuses.entry(status.to_string()).or_default() += 1;
        }
    }
    let is_failed = |one: &&&Try| one.is_last && one.outcome != Outcome::Good;
    json!({
        "tries": tries.len(),
        "good": times.len(),
        "gave_up": count(Outcome::GaveUp),
        "broken": count(Outcome::Broken),
        "statuses": statuses,
        "failed": tries.iter().filter(is_failed).count(),
        "p50_ms": millis(quantile(&times, 0.5)),
        "p99_ms": millis(quantile(&times, 0.99)),
        "p999_ms": millis(quantile(&times, 0.999)),
    })
}

/// Jain's index (Jain, Chiu, Hawe, 1984) of what each tenant got of its max-min fair share.
fn fairness(plan: &Plan, groups: &BTreeMap<String, Vec<&Try>>) -> Option<f64> {
    let tenants: Vec<&Vec<&Try>> =
        (0..plan.tenants.len()).filter_map(|one| groups.get(&format!("tenant {one}"))).collect();
    if tenants.len() < 2 {
        return None;
    }
    let seconds = (plan.end() - plan.slo() - micros(plan.warm_up_s)) as f64 / 1e6;
    let wanted: Vec<f64> = tenants.iter().map(|tries| tries.len() as f64 / seconds).collect();
    let shares = shares(&wanted, plan.capacity);
    let parts: Vec<f64> = tenants
        .iter()
        .zip(shares)
        .map(|(tries, share)| {
            let good = tries.iter().filter(|one| one.outcome == Outcome::Good).count();
            good as f64 / seconds / share
        })
        .collect();
    let (sum, squares) = (parts.iter().sum::<f64>(), parts.iter().map(|x| x * x).sum::<f64>());
    Some(if squares > 0.0 { round(sum * sum / parts.len() as f64 / squares) } else { 0.0 })
}

/// The max-min fair shares of a capacity: nobody gets more than wanted, the rest is split evenly.
fn shares(wanted: &[f64], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut shares = vec![0.0; wanted.len()];
    let mut left = capacity;
    for (position, &index) in order.iter().enumerate() {
        shares[index] = wanted[index].min(left / (wanted.len() - position) as f64);
        left -= shares[index];
    }
    shares
}

/// How soon after `from` all is well: the begin of the first windows in a row that were good, and
/// the last try that failed at all, in seconds; and how many tries failed after `from`.
fn recovery(tries: &[Try], from: Micros, end: Micros) -> Value {
    let count = (end.saturating_sub(from) / WINDOW) as usize;
    let mut windows = vec![(0_usize, 0_usize); count];
    let mut last = None;
    let mut failed = 0;
    for one in tries.iter().filter(|one| one.start >= from) {
        let is_good = one.outcome == Outcome::Good;
        if let Some((good, all)) = windows.get_mut(((one.start - from) / WINDOW) as usize) {
            *good += usize::from(is_good);
            *all += 1;
        }
        if !is_good {
            failed += 1;
            last = last.max(Some(one.start - from));
        }
    }
    let is_good = |(good, all): &(usize, usize)| *all > 0 && good * 100 >= all * 99;
    let back = windows.windows(WINDOWS_GOOD).position(|some| some.iter().all(is_good));
    json!({
        "back_s": back.map(|at| at as f64 * WINDOW as f64 / 1e6),
        "last_failure_s": last.map(|at| round(at as f64 / 1e6)),
        "failed_after": failed,
    })
}

/// A quantile of sorted values; none of no values.
pub fn quantile(sorted: &[Micros], share: f64) -> Option<Micros> {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied()
}

fn millis(time: Option<Micros>) -> Option<f64> {
    time.map(|time| (time as f64 / 100.0).round() / 10.0)
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_max_min_fair() {
        assert_eq!(shares(&[5.0, 0.1, 0.1], 1.0), [0.8, 0.1, 0.1]);
        assert_eq!(shares(&[1.0, 1.0], 1.0), [0.5, 0.5]);
        assert_eq!(shares(&[0.2, 0.3], 1.0), [0.2, 0.3]);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<Micros> = (1..=100).collect();
        assert_eq!(quantile(&values, 0.5), Some(51));
        assert_eq!(quantile(&values, 0.999), Some(100));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn recovery_is_the_first_run_of_good_windows() {
        let tries: Vec<Try> = (0..40)
            .map(|tenth| Try {
                request: 0,
                start: tenth * 100_000,
                sent: 0,
                end: 0,
                outcome: if tenth < 7 { Outcome::GaveUp } else { Outcome::Good },
                is_last: true,
            })
            .collect();
        let found = recovery(&tries, 0, 4_000_000);
        assert_eq!(found["back_s"], 1.0);
        assert_eq!(found["last_failure_s"], 0.6);
        assert_eq!(found["failed_after"], 7);
    }
}
