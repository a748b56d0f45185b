//! The picture made from the views of gates, supervisors and shards: pure functions.

use std::collections::BTreeMap;

use spillgate_core::gate::{Class, Quantiles, View, WorkerView};
use spillgate_core::id::WorkerId;
use spillgate_core::pool::{Admin, OutReason, Said, Signs, State};
use spillgate_core::supervise;
use spillgate_core::time::{Duration, Instant};
use spillgate_proxy::active::Doing;
use spillgate_proxy::agent::Asked;
use spillgate_proxy::metrics::label::Stage;
use spillgate_proxy::metrics::scrape::BudgetReading;
use spillgate_proxy::metrics::sums::PoolSums;
use spillgate_runtime::metrics::LabelSet;
use spillgate_runtime::process::memory_of;

use super::{
    AgentStatus, BudgetStatus, DoingStatus, EndStatus, PoolStatus, QuantileStatus, RestartStatus,
    SignStatus, WorkerStatus,
};
use crate::supervisor;

/// Waiting exchanges that are listed for each pool: the oldest ones.
const WAITING_SHOWN: usize = 5;

/// What the status of one pool is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolParts<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its gate.
    pub(crate) view: &'a View,
    /// Its counters.
    pub(crate) sums: &'a PoolSums,
    /// What came of asking its agents.
    pub(crate) asked: &'a BTreeMap<WorkerId, Asked>,
    /// Where its workers are reached.
    pub(crate) endpoints: &'a [(WorkerId, String)],
    /// Its supervisor; none: its workers are started by others.
    pub(crate) supervisor: Option<&'a supervise::View>,
    /// Its running exchanges, of all shards.
    pub(crate) doing: &'a [Doing],
    /// The moment of the picture.
    pub(crate) now: Instant,
}

/// The status of one pool.
pub(crate) fn pool_from_view(parts: &PoolParts<'_>) -> PoolStatus {
    let view = parts.view;
    PoolStatus {
        name: parts.name.to_owned(),
        queue_len: view.queue_len,
        queue_len_max: view.queue_len_max,
        waiting_by_class: waiting_by_class(view),
        shed_ratio: f64::from(view.shed_ratio.as_ppm()) / 1e6,
        youngest_first: view.youngest_first,
        slots: view.slots,
        in_flight: view.in_flight,
        wait: quantiles(&view.wait),
        service: quantiles(&view.service),
        retries: view.retries,
        ends: ends(parts.sums),
        waiting: waiting(parts),
        restart: parts
            .supervisor
            .and_then(|supervisor| supervisor.restart)
            .map(|restart| RestartStatus { worker: restart.worker.0, done: restart.done }),
        workers: view.workers.iter().map(|worker| worker_from_view(parts, worker)).collect(),
    }
}

/// How exchanges ended.
pub(crate) fn ends(sums: &PoolSums) -> EndStatus {
    EndStatus {
        arrivals: sums.arrivals,
        in_progress: sums.in_progress,
        successes: counted(&sums.successes),
        shed: counted(&sums.shed),
        refused: counted(&sums.refused),
        failed: counted(&sums.failed),
        abandoned: counted(&sums.abandoned),
    }
}

/// The byte budget.
pub(crate) fn budget(reading: &BudgetReading) -> BudgetStatus {
    BudgetStatus {
        memory_used: reading.memory_used.as_bytes(),
        memory_max: reading.memory_max.as_bytes(),
        spill_used: reading.spill_used.as_bytes(),
        spill_max: reading.spill_max.as_bytes(),
        sockets: reading.sockets.as_bytes(),
        waiting: reading.waiting,
    }
}

/// Words with a count; those that never happened are left out.
fn counted(counts: &[(&'static str, u64)]) -> BTreeMap<String, u64> {
    counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

fn waiting_by_class(view: &View) -> BTreeMap<String, u32> {
    let waiting = Class::ALL.into_iter().zip(view.waiting);
    let some = waiting.filter(|(_, count)| *count > 0);
    some.map(|(class, count)| (class.name().to_owned(), count)).collect()
}

fn quantiles(of: &Quantiles) -> QuantileStatus {
    QuantileStatus {
        p50_ms: millis(of.p50),
        p90_ms: millis(of.p90),
        p99_ms: millis(of.p99),
        samples: of.samples,
    }
}

/// Milliseconds with three decimals at most: more would only be noise in the JSON.
fn millis(duration: Duration) -> f64 {
    (duration.as_micros() as f64) / 1000.0
}

fn waiting(parts: &PoolParts<'_>) -> Vec<DoingStatus> {
    let mut waiting: Vec<&Doing> = parts
        .doing
        .iter()
        .filter(|doing| doing.stage == Stage::Admit && doing.worker.is_none())
        .collect();
    waiting.sort_by_key(|doing| doing.since);
    waiting.into_iter().take(WAITING_SHOWN).map(|doing| doing_at(doing, parts.now)).collect()
}

fn worker_from_view(parts: &PoolParts<'_>, worker: &WorkerView) -> WorkerStatus {
    let endpoint = parts.endpoints.iter().find(|(id, _)| *id == worker.id);
    let process = parts
        .supervisor
        .and_then(|supervisor| supervisor.workers.iter().find(|process| process.id == worker.id));
    let mut doing: Vec<&Doing> =
        parts.doing.iter().filter(|doing| doing.worker == Some(worker.id)).collect();
    doing.sort_by_key(|doing| doing.since);
    WorkerStatus {
        id: worker.id.0,
        endpoint: endpoint.map(|(_, endpoint)| endpoint.clone()).unwrap_or_default(),
        state: state_word(worker.state).to_owned(),
        state_for_s: millis(parts.now.since(worker.state_since)) / 1000.0,
        in_flight: worker.in_flight,
        signs: signs(&worker.signs),
        agent: parts.asked.get(&worker.id).map(|asked| agent(worker, asked, parts.now)),
        slots: worker.slots,
        slots_max: worker.slots_max,
        granted: worker.granted,
        learned: worker.learned,
        weight: worker.weight.count(),
        weight_percent: worker.weight_percent,
        pace_ms: worker.pace.map(millis),
        stuck: worker.stuck,
        connections: worker.open,
        grants: worker.grants,
        failures_in_row: worker.failures,
        process: process.map(|process| process.state.word().to_owned()),
        pid: process.and_then(|process| process.pid),
        restarts: process.map(|process| process.ends),
        last_end: process
            .filter(|process| process.ends > 0)
            .map(|process| supervisor::ending(process.last_exit)),
        memory: process
            .and_then(|process| memory_of(process.pid?))
            .map(spillgate_core::units::ByteSize::as_bytes),
        doing: doing.into_iter().map(|doing| doing_at(doing, parts.now)).collect(),
    }
}

fn signs(signs: &Signs) -> SignStatus {
    let [probe, passive, admin, agent] =
        [signs.probe, signs.passive, signs.admin, signs.agent].map(|s| state_word(s).to_owned());
    SignStatus { probe, passive, admin, agent }
}

fn agent(worker: &WorkerView, asked: &Asked, now: Instant) -> AgentStatus {
    let said = worker.said.unwrap_or(Said::NOTHING);
    let admin = match said.admin {
        Admin::Ready => "ready",
        Admin::Drain => "drain",
        Admin::Maint => "maint",
    };
    AgentStatus {
        endpoint: asked.endpoint.to_string(),
        outcome: asked.outcome.map(|outcome| outcome.name().to_owned()).unwrap_or_default(),
        heard_s_ago: asked.heard.map(|heard| millis(now.since(heard)) / 1000.0),
        admin: admin.to_owned(),
        weight_percent: said.percent,
        maxconn: said.slots,
        health: asked.health.clone(),
        unknown: asked.unknown.clone(),
    }
}

fn doing_at(doing: &Doing, now: Instant) -> DoingStatus {
    let (method, path) = doing.line.split_once(' ').unwrap_or((&doing.line, ""));
    DoingStatus {
        id: doing.serial,
        method: method.to_owned(),
        path: path.to_owned(),
        stage: doing.stage.name().to_owned(),
        for_ms: millis(now.since(doing.since)),
    }
}

/// The word for a worker's state.
pub(crate) fn state_word(state: State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Up => "up",
        State::Out(OutReason::Refused) => "out: refused",
        State::Out(OutReason::Reset) => "out: reset",
        State::Out(OutReason::Refusal) => "out: refusal",
        State::Out(OutReason::Stuck) => "out: stuck",
        State::Out(OutReason::Probe) => "out: probe",
        State::Out(OutReason::Ejected) => "out: ejected",
        State::Out(OutReason::Agent) => "out: agent",
        State::Out(OutReason::Maint) => "out: maint",
        State::Draining => "draining",
        State::Down => "down",
    }
}

#[cfg(test)]
mod tests {
    use spillgate_core::units::Weight;

    use super::*;

    fn doing(serial: u64, stage: Stage, worker: Option<u32>, since_ms: u64) -> Doing {
        Doing {
            serial,
            pool: Some(0),
            worker: worker.map(WorkerId),
            stage,
            since: Instant::from_millis(since_ms),
            line: format!("GET /page/{serial}"),
        }
    }

    fn worker(id: u32) -> WorkerView {
        WorkerView {
            id: WorkerId(id),
            state: State::Up,
            state_since: Instant::from_millis(500),
            signs: Signs {
                probe: State::Up,
                passive: State::Up,
                admin: State::Up,
                agent: State::Up,
            },
            said: None,
            slots: 1,
            slots_max: 1,
            granted: 1,
            learned: Some(1),
            weight: Weight::ONE,
            weight_percent: 100,
            pace: None,
            in_flight: 1,
            stuck: 0,
            open: 1,
            idle: 0,
            grants: 4,
            failures: 0,
        }
    }

    #[test]
    fn a_pool_shows_what_each_worker_does_and_who_waits_longest() {
        let view = View { workers: vec![worker(0), worker(1)], queue_len: 7, ..View::default() };
        let mut running: Vec<Doing> =
            (0..7).map(|serial| doing(serial, Stage::Admit, None, 900 - serial)).collect();
        running.push(doing(8, Stage::Dispatch, Some(1), 250));
        let sums = PoolSums {
            arrivals: 9,
            shed: vec![("queue_full", 1), ("draining", 0)],
            ..PoolSums::default()
        };
        let pool = pool_from_view(&PoolParts {
            name: "app",
            view: &view,
            sums: &sums,
            asked: &BTreeMap::new(),
            endpoints: &[(WorkerId(1), "127.0.0.1:9001".to_owned())],
            supervisor: None,
            doing: &running,
            now: Instant::from_millis(1000),
        });
        let waiting: Vec<u64> = pool.waiting.iter().map(|doing| doing.id).collect();
        assert_eq!(waiting, [6, 5, 4, 3, 2]);
        assert_eq!(pool.workers[0].doing, []);
        assert_eq!(pool.workers[1].endpoint, "127.0.0.1:9001");
        assert_eq!(pool.workers[1].state_for_s, 0.5);
        let shown = &pool.workers[1].doing[0];
        assert_eq!((shown.method.as_str(), shown.path.as_str()), ("GET", "/page/8"));
        assert_eq!((shown.stage.as_str(), shown.for_ms), ("dispatch", 750.0));
        assert_eq!(pool.ends.shed.len(), 1, "what never happened is left out");
    }
}
