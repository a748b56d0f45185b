//! One reading of all cells: sums over shards, put beside the records of the table.
//!
//! Runs on the control side only and may allocate. Absent: text formats (the admin page writes
//! them) and locks: cells are read while their shards go on counting ([`sums`](super::sums)).

use std::sync::Arc;
use std::time::Duration;

use spillgate_core::gate::{Class, View, WorkerView};
use spillgate_core::pool::State;
use spillgate_core::units::ByteSize;
use spillgate_runtime::metrics::{
    Counters, Described, Distribution, Family, Histogram, LabelSet, Sample, Value,
};

use super::label::{AgentOutcome, Stage};
use super::sums::{by_member, connections_of, open_of};
use super::{ControlMetrics, ListenerMetrics, PoolMetrics, ShardMetrics, table};

/// What a scrape reads.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The cells of every shard.
    pub shards: &'a [Arc<ShardMetrics>],
    /// The cells of the control side.
    pub control: &'a ControlMetrics,
    /// The names of the listeners, in the order of the settings.
    pub listeners: &'a [String],
    /// The pools, in the order of the settings.
    pub pools: &'a [PoolReading],
    /// The byte budget.
    pub budget: BudgetReading,
    /// The writer of the access log.
    pub log: LogReading,
    /// Time since the start of the process.
    pub uptime: Duration,
}

/// One pool of a [`Reading`].
#[derive(Clone, Debug)]
pub struct PoolReading {
    /// Its name.
    pub name: String,
    /// The numbers of its gate.
    pub view: View,
}

/// The byte budget at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetReading {
    /// Granted, in memory.
    pub memory_used: ByteSize,
    /// The most that may be.
    pub memory_max: ByteSize,
    /// Spill files in use, or reserved for a body whose length is known.
    pub spill_used: ByteSize,
    /// The most that may be; zero: nothing spills.
    pub spill_max: ByteSize,
    /// Held by the kernel for clients that read slowly.
    pub sockets: ByteSize,
    /// Bodies that wait for bytes.
    pub waiting: u64,
    /// Written to spill files so far.
    pub spilled_bytes: ByteSize,
    /// Bodies so far of which something was spilled.
    pub spilled_bodies: u64,
}

/// The writer of the access log at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Lines thrown away, by shards and by the writer.
    pub dropped: u64,
    /// Times that opening or writing failed.
    pub errors: u64,
}

/// Every metric of the table, with its samples.
pub fn families(reading: &Reading<'_>) -> Vec<Family> {
    let mut families = exchanges(reading);
    families.extend(gates(reading));
    families.extend(workers(reading));
    families.extend(connections(reading));
    families.extend(buffers(reading));
    families
}

fn exchanges(reading: &Reading<'_>) -> Vec<Family> {
    vec![
        // Ends before arrivals, as in `sums`.
        reading.by_member(&table::SUCCESSES, |cells| &cells.successes),
        reading.by_member(&table::SHED, |cells| &cells.shed),
        reading.by_member(&table::REFUSED, |cells| &cells.refused),
        reading.by_member(&table::FAILED, |cells| &cells.failed),
        reading.by_member(&table::ABANDONED, |cells| &cells.abandoned),
        reading.by_pool(&table::ARRIVALS, |cells| cells.arrivals.value()),
        reading.by_pool(&table::IN_PROGRESS, PoolMetrics::in_progress),
        reading.by_pool(&table::LATE, |cells| cells.late.value()),
        reading.by_member(&table::CLASS_SUCCESSES, |cells| &cells.class_successes),
        reading.by_member(&table::CLASS_SHED, |cells| &cells.class_shed),
        reading.by_member(&table::CLASS_ARRIVALS, |cells| &cells.class_arrivals),
        reading.durations(),
        reading.stages(),
        reading.by_member(&table::RETRIES, |cells| &cells.retries),
        reading.by_member(&table::HEDGES, |cells| &cells.hedges),
        reading.by_member(&table::RELAYS, |cells| &cells.relayed),
        reading.by_pool(&table::REQUEST_BODY_BYTES, |cells| cells.request_body_bytes.value()),
        reading.by_pool(&table::SPLICED_BYTES, |cells| cells.spliced_bytes.value()),
        reading.by_pool(&table::RESPONSE_BODY_BYTES, |cells| cells.response_body_bytes.value()),
    ]
}

fn gates(reading: &Reading<'_>) -> Vec<Family> {
    vec![
        reading.by_gate(&table::QUEUE_LEN, |view| view.queue_len.into()),
        reading.by_gate(&table::QUEUE_LEN_MAX, |view| view.queue_len_max.into()),
        reading.queues_by_class(),
        reading.shed_ratios(),
        reading.by_gate(&table::SLOTS, |view| view.slots.into()),
        reading.by_gate(&table::SLOTS_TAKEN, |view| view.in_flight.into()),
    ]
}

fn workers(reading: &Reading<'_>) -> Vec<Family> {
    vec![
        reading.by_worker(&table::SLOTS_STUCK, |worker| worker.stuck.into()),
        reading.by_worker(&table::GRANTS, |worker| worker.grants),
        reading.by_worker(&table::WORKER_UP, |worker| u64::from(worker.state == State::Up)),
        reading.by_worker(&table::WORKER_EXCHANGES, |worker| worker.in_flight.into()),
        reading.by_worker(&table::WORKER_CONNECTIONS, |worker| worker.open.into()),
        reading.by_worker(&table::WORKER_FAILURES, |worker| worker.failures.into()),
        reading.probes(),
        reading.agents(),
        reading.by_worker(&table::WORKER_SLOTS, |worker| worker.slots.into()),
        reading.by_worker(&table::WORKER_SLOTS_GRANTED, |worker| worker.granted.into()),
        reading.by_worker(&table::WORKER_SLOTS_LEARNED, |worker| {
            worker.learned.unwrap_or(worker.slots_max).into()
        }),
        reading.by_member(&table::CONNECTS, |cells| &cells.connects),
        reading.by_member(&table::IDLE_CLOSED, |cells| &cells.idle_ends),
    ]
}

fn connections(reading: &Reading<'_>) -> Vec<Family> {
    vec![
        reading.by_listener_member(&table::PAUSES, |cells| &cells.pauses),
        reading.by_listener_member(&table::CLOSED, |cells| &cells.closed),
        reading.by_listener(&table::ACCEPTED, |cells| cells.accepted.value()),
        reading.by_listener(&table::OPEN, open_of),
        reading.by_shard(&table::SHARD_OPEN, connections_of),
    ]
}

fn buffers(reading: &Reading<'_>) -> Vec<Family> {
    let budget = &reading.budget;
    vec![
        single(&table::BUFFER_BYTES, Value::Whole(budget.memory_used.as_bytes())),
        single(&table::BUFFER_MAX_BYTES, Value::Whole(budget.memory_max.as_bytes())),
        single(&table::SOCKET_BYTES, Value::Whole(budget.sockets.as_bytes())),
        single(&table::BUDGET_WAITING, Value::Whole(budget.waiting)),
        single(&table::SPILL_BYTES, Value::Whole(budget.spill_used.as_bytes())),
        single(&table::SPILL_MAX_BYTES, Value::Whole(budget.spill_max.as_bytes())),
        single(&table::SPILLED_BYTES, Value::Whole(budget.spilled_bytes.as_bytes())),
        single(&table::SPILLED_BODIES, Value::Whole(budget.spilled_bodies)),
        single(&table::RECORDS_DROPPED, Value::Whole(reading.log.dropped)),
        single(&table::LOG_ERRORS, Value::Whole(reading.log.errors)),
        single(&table::UPTIME, Value::Real(reading.uptime.as_secs_f64())),
    ]
}

/// Which of a pool's histograms is meant.
type PickHistogram = fn(&PoolMetrics) -> &Histogram;

impl Reading<'_> {
    /// The label values of all pools, and last the empty one with the cells of no pool.
    fn pools(&self) -> impl Iterator<Item = (Option<usize>, &str)> {
        let named = self.pools.iter().enumerate();
        named.map(|(index, pool)| (Some(index), pool.name.as_str())).chain([(None, "")])
    }

    fn cells(&self, pool: Option<usize>) -> impl Iterator<Item = &PoolMetrics> {
        self.shards.iter().map(move |shard| shard.pool(pool))
    }

    fn by_pool(&self, described: &'static Described, of: fn(&PoolMetrics) -> u64) -> Family {
        let samples = self
            .pools()
            .map(|(pool, name)| whole([name], self.cells(pool).map(of).sum()))
            .collect();
        Family { described, samples }
    }

    fn by_member<S: LabelSet>(
        &self,
        described: &'static Described,
        of: fn(&PoolMetrics) -> &Counters<S>,
    ) -> Family {
        let samples = self
            .pools()
            .flat_map(|(pool, name)| {
                by_member(self.cells(pool).map(of))
                    .into_iter()
                    .map(move |(member, count)| whole([name, member], count))
            })
            .collect();
        Family { described, samples }
    }

    fn durations(&self) -> Family {
        let samples = self
            .pools()
            .map(|(pool, name)| spread([name], self.cells(pool).map(|cells| &cells.total)))
            .collect();
        Family { described: &table::EXCHANGE_DURATION, samples }
    }

    fn stages(&self) -> Family {
        let timed: [(Stage, PickHistogram); 5] = [
            (Stage::Intake, |cells| &cells.stages.intake),
            (Stage::Admit, |cells| &cells.stages.admit),
            (Stage::Dispatch, |cells| &cells.stages.dispatch),
            (Stage::Collect, |cells| &cells.stages.collect),
            (Stage::Deliver, |cells| &cells.stages.deliver),
        ];
        let samples = self
            .pools()
            .flat_map(|(pool, name)| {
                timed.map(|(stage, of)| spread([name, stage.name()], self.cells(pool).map(of)))
            })
            .collect();
        Family { described: &table::STAGE_DURATION, samples }
    }

    fn by_gate(&self, described: &'static Described, of: fn(&View) -> u64) -> Family {
        let samples =
            self.pools.iter().map(|pool| whole([pool.name.as_str()], of(&pool.view))).collect();
        Family { described, samples }
    }

    fn queues_by_class(&self) -> Family {
        let one = |pool: &PoolReading, class: Class| {
            let waiting = pool.view.waiting[usize::from(class.number())];
            whole([pool.name.as_str(), class.name()], waiting.into())
        };
        let samples =
            self.pools.iter().flat_map(|pool| Class::ALL.map(|class| one(pool, class))).collect();
        Family { described: &table::QUEUE_CLASS_LEN, samples }
    }

    fn shed_ratios(&self) -> Family {
        let one = |pool: &PoolReading| {
            let value = Value::Real(f64::from(pool.view.shed_ratio.as_ppm()) / 1e6);
            Sample { labels: vec![pool.name.clone()], value }
        };
        let samples = self.pools.iter().map(one).collect();
        Family { described: &table::SHED_RATIO, samples }
    }

    fn by_worker(&self, described: &'static Described, of: fn(&WorkerView) -> u64) -> Family {
        let one = |pool: &str, worker: &WorkerView| {
            let id = worker.id.0.to_string();
            whole([pool, id.as_str()], of(worker))
        };
        let samples = self
            .pools
            .iter()
            .flat_map(|pool| pool.view.workers.iter().map(move |worker| one(&pool.name, worker)))
            .collect();
        Family { described, samples }
    }

    fn probes(&self) -> Family {
        let samples = self
            .pools
            .iter()
            .zip(&self.control.pools)
            .flat_map(|(pool, cells)| {
                let name = pool.name.as_str();
                [
                    whole([name, "succeeded"], cells.succeeded.value()),
                    whole([name, "failed"], cells.failed.value()),
                ]
            })
            .collect();
        Family { described: &table::PROBES, samples }
    }

    fn agents(&self) -> Family {
        let pools = self.pools.iter().zip(&self.control.pools);
        let samples = pools
            .flat_map(|(pool, cells)| {
                AgentOutcome::ALL.iter().zip(&cells.agents).map(|(outcome, count)| {
                    whole([pool.name.as_str(), outcome.name()], count.value())
                })
            })
            .collect();
        Family { described: &table::AGENT_REPORTS, samples }
    }

    fn listener(&self, index: usize) -> impl Iterator<Item = &ListenerMetrics> {
        self.shards.iter().filter_map(move |shard| shard.listeners.get(index))
    }

    fn by_listener(
        &self,
        described: &'static Described,
        of: fn(&ListenerMetrics) -> u64,
    ) -> Family {
        let samples = self
            .listeners
            .iter()
            .enumerate()
            .map(|(index, name)| whole([name.as_str()], self.listener(index).map(of).sum()))
            .collect();
        Family { described, samples }
    }

    fn by_listener_member<S: LabelSet>(
        &self,
        described: &'static Described,
        of: fn(&ListenerMetrics) -> &Counters<S>,
    ) -> Family {
        let samples = self
            .listeners
            .iter()
            .enumerate()
            .flat_map(|(index, name)| {
                by_member(self.listener(index).map(of))
                    .into_iter()
                    .map(move |(reason, count)| whole([name.as_str(), reason], count))
            })
            .collect();
        Family { described, samples }
    }

    fn by_shard(&self, described: &'static Described, of: fn(&ShardMetrics) -> u64) -> Family {
        let samples = self
            .shards
            .iter()
            .enumerate()
            .map(|(index, shard)| whole([index.to_string().as_str()], of(shard)))
            .collect();
        Family { described, samples }
    }
}

fn whole<const N: usize>(labels: [&str; N], count: u64) -> Sample {
    Sample { labels: labels.map(str::to_owned).to_vec(), value: Value::Whole(count) }
}

fn spread<'a, const N: usize>(
    labels: [&str; N],
    shards: impl Iterator<Item = &'a Histogram>,
) -> Sample {
    let mut total = Box::new(Distribution::new());
    shards.for_each(|histogram| histogram.add_to(&mut total));
    Sample { labels: labels.map(str::to_owned).to_vec(), value: Value::Spread(total) }
}

fn single(described: &'static Described, value: Value) -> Family {
    Family { described, samples: vec![Sample { labels: Vec::new(), value }] }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spillgate_core::id::WorkerId;
    use spillgate_core::pool::Signs;
    use spillgate_core::time::Instant;
    use spillgate_core::units::Weight;
    use spillgate_runtime::metrics::{Kind, Unit};

    use super::super::Sizes;
    use super::*;

    fn shards() -> Vec<Arc<ShardMetrics>> {
        let sizes = Sizes { listeners: 1, pools: 1 };
        (0..2).map(|_| Arc::new(ShardMetrics::new(sizes))).collect()
    }

    fn worker() -> WorkerView {
        let up = State::Up;
        WorkerView {
            signs: Signs { probe: up, passive: up, admin: up, agent: up },
            said: None,
            slots: 2,
            slots_max: 2,
            granted: 2,
            learned: Some(2),
            weight: Weight::ONE,
            weight_percent: 100,
            pace: None,
            id: WorkerId(3),
            state: State::Up,
            state_since: Instant::ZERO,
            in_flight: 1,
            stuck: 0,
            open: 1,
            idle: 0,
            grants: 9,
            failures: 0,
        }
    }

    fn read(shards: &[Arc<ShardMetrics>]) -> Vec<Family> {
        let view = View { workers: vec![worker()], ..View::default() };
        families(&Reading {
            shards,
            control: &ControlMetrics::new(1),
            listeners: &["web".to_owned()],
            pools: &[PoolReading { name: "app".to_owned(), view }],
            budget: BudgetReading::default(),
            log: LogReading::default(),
            uptime: Duration::from_secs(1),
        })
    }

    #[test]
    fn a_scrape_tells_the_table_and_nothing_else() {
        let told: Vec<&str> = read(&shards()).iter().map(|family| family.described.name).collect();
        let known: BTreeSet<&str> = table::ALL.iter().map(|described| described.name).collect();
        assert_eq!(told.len(), known.len(), "each once");
        assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), known);
        assert_eq!(known.len(), table::ALL.len(), "no name twice");
    }

    #[test]
    fn names_say_kind_and_unit() {
        for described in table::ALL {
            let name = described.name;
            assert!(name.starts_with("spillgate_"), "{name}");
            assert_eq!(name.ends_with("_total"), described.kind == Kind::Counter, "{name}");
            let stem = name.strip_suffix("_total").unwrap_or(name);
            assert_eq!(stem.ends_with("_bytes"), described.unit == Unit::Bytes, "{name}");
            assert_eq!(stem.ends_with("_seconds"), described.unit == Unit::Seconds, "{name}");
            assert!(!described.help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn samples_have_the_labels_of_their_family() {
        for family in read(&shards()) {
            let name = family.described.name;
            assert!(!family.samples.is_empty(), "{name}");
            for sample in &family.samples {
                assert_eq!(sample.labels.len(), family.described.labels.len(), "{name}");
                let fits = match sample.value {
                    Value::Spread(_) => family.described.kind == Kind::Histogram,
                    _ => family.described.kind != Kind::Histogram,
                };
                assert!(fits, "{name}");
            }
        }
    }
}
