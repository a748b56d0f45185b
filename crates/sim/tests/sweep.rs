//! Scenarios over many seeds: the gate's invariants are checked after every step of each, and what
//! must hold of the whole is checked here.

use std::path::Path;

use spillgate_core::rng::Rng;
use spillgate_sim::{Running, Scenario, Summary, simulate, table};

const AIRBNB: &str = include_str!("../scenarios/airbnb.toml");
/// Seeds of an ordinary run; the nightly one takes more from `SPILLGATE_SEEDS`.
const SEEDS: u64 = 200;
/// Seeds that found something once: a world in which nobody comes any more before its end.
const PINNED: [u64; 1] = [450];

fn seeds() -> u64 {
    let wanted = std::env::var("SPILLGATE_SEEDS").ok();
    wanted.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

/// One run, which keeps its scenario and tells how to see it alone should the test fail in it.
struct Traced<'t> {
    text: &'t str,
    seed: u64,
}

impl Traced<'_> {
    fn run(&self) -> (Scenario, Summary) {
        let scenario = Scenario::parse(self.text).unwrap_or_else(|error| panic!("{error}"));
        let seed = self.seed;
        let running = Running { seed, configuration: 0, traced: false, progress: &mut |_| {} };
        let summary = simulate(&scenario, running).summary;
        (scenario, summary)
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Traced { text, seed } = *self;
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("seed-{seed}.toml"));
            let kept = std::fs::write(&file, text);
            eprintln!("{text}\nthis run alone (scenario kept: {kept:?}):");
            eprintln!("  cargo run --package spillgate -- sim {} --seed {seed}", file.display());
        }
    }
}

fn shown(summary: &Summary) -> String {
    table(std::slice::from_ref(summary))
}

/// What must hold of a run, in words and as a question.
type Hold = (&'static str, fn(&Summary) -> bool);

/// Run a scenario and check that all of these hold of it.
#[track_caller]
fn check(text: &str, seed: u64, holds: &[Hold]) -> Summary {
    let traced = Traced { text, seed };
    let (_, summary) = traced.run();
    for (what, hold) in holds {
        assert!(hold(&summary), "{what}, in this run:\n{}", shown(&summary));
    }
    summary
}

#[test]
fn a_killed_and_a_hanging_worker_cost_nobody_an_answer() {
    for seed in 0..seeds() / 20 {
        check(
            AIRBNB,
            seed,
            &[
                ("all are served", |summary| summary.served() == summary.arrivals()),
                ("there is a queue", |summary| summary.largest(|pool| pool.queue_len_max) >= 20),
                ("one at a time", |summary| summary.largest(|pool| pool.inside_max) == 1),
                ("one connection at a time", |summary| summary.largest(|pool| pool.open_max) == 1),
            ],
        );
    }
}

#[test]
fn nobody_is_starved_when_all_are_busy() {
    let text = r#"
        name = "saturated"
        shards = 3
        time = "20s"
        clients = [{ rate = 200 }]
        [pool.app]
        queue_len_max = 30
        workers = { count = 7, service = "50ms", spread_percent = 50 }
    "#;
    check(
        text,
        1,
        &[
            ("there is too much load", |summary| summary.shed() > 0),
            ("the shares are even", |summary| summary.pools[0].largest_share_percent() <= 130),
        ],
    );
}

#[test]
fn answers_come_in_time_whatever_the_load() {
    let text = r#"
        name = "overload"
        shards = 2
        time = "20s"
        clients = [{ rate = 300, slo = "200ms" }]
        [pool.app]
        answer_within = "200ms"
        workers = { count = 5, service = "50ms", spread_percent = 20 }
    "#;
    // Five workers of 50 ms make 100 answers a second.
    check(
        text,
        1,
        &[
            ("the workers are kept busy", |summary| summary.served() >= 1900),
            ("answers are in time", |summary| {
                let late = summary.total(|group| group.late);
                late * 100 <= (summary.served() + late) * 3
            }),
        ],
    );
}

/// A scenario that is a function of its seed: what there is, how it is set and what goes wrong are
/// all drawn, and each may be left out, so that rare things meet (the swarm testing of Groce and
/// others, 2012).
fn random_scenario(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = format!("name = 'random'\nshards = {}\ntime = '4s'\n", 1 + rng.below(3));
    let pools: &[&str] = if rng.below(4) == 0 { &["app", "web"] } else { &["app"] };
    let database = rng.below(4) == 0;
    if database {
        text.push_str(&format!("[database.main]\ncapacity = {}\n", 1 + rng.below(20)));
    }
    for pool in pools {
        random_pool(&mut rng, &mut text, pool, database);
    }
    if seed % 2 == 1 { with_second_tries(&text) } else { text }
}

/// All clients ask for one path, so that it is known what is slow, and second tries are made, of
/// unsafe methods too.
fn with_second_tries(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push(line);
        if line.starts_with("unsafe_percent") {
            lines.push("paths = [{ path = '/', service = '30ms', spread_percent = 60 }]");
        } else if line.starts_with("exchange_time_max") {
            lines.push("hedge = 'all'");
        }
    }
    lines.join("\n")
}

fn random_pool(rng: &mut Rng, text: &mut String, pool: &str, database: bool) {
    let workers = 1 + rng.below(6);
    let slots = 1 + rng.below(3);
    let service = 5 + rng.below(100);
    let capacity = workers * slots * 1000 / service;
    let rate = (capacity * (40 + rng.below(100)) / 100).clamp(1, 300);
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("[[clients]]\npool = '{pool}'\nrate = {rate}"));
    line(format!("unsafe_percent = {}", rng.below(50)));
    if rng.below(2) == 0 {
        line(format!("patience = '{}ms'\nhangs_up = {}", 100 + rng.below(2000), rng.below(4) > 0));
        line(format!("retries = {}\nretry_after = {}", rng.below(3), rng.below(2) == 0));
    }
    if rng.below(3) == 0 {
        line(format!("spikes = [{{ at = '2s', rate = {}, width = '300ms' }}]", rate * 4));
    }
    line(format!("[pool.{pool}]\nslots = {slots}\nconnections_max = {}", slots + rng.below(2)));
    // Drawn from what is drawn already, so that a seed is still the world that it was.
    let limit = ["fixed", "gradient", "aimd"][(service % 3) as usize];
    line(format!("limit = '{limit}'"));
    line(format!("exchange_time_max = '{}ms'", 200 + rng.below(800)));
    line(format!("queue_len_max = {}", rng.below(60)));
    line(format!("queue_wait_max = '{}ms'", 50 + rng.below(2000)));
    line(format!("probe_exchange = {}", rng.below(2) == 0));
    if rng.below(2) == 0 {
        line(format!("probe_interval_up = '{}ms'", 50 + rng.below(400)));
    }
    if rng.below(2) == 0 {
        line(format!("answer_within = '{}ms'", service + 20 + rng.below(500)));
    }
    if rng.below(3) == 0 {
        line(format!("retry_max = {}\neject_after = {}", rng.below(4), rng.below(4)));
        line(format!("eject_time = '{}ms'", 100 + rng.below(2000)));
    }
    line(format!("[pool.{pool}.workers]\ncount = {workers}\nservice = '{service}ms'"));
    line(format!("spread_percent = {}", rng.below(80)));
    line(format!("supervised = {}\nboot = '300ms'", rng.below(2) == 0));
    if rng.below(3) == 0 {
        line(format!("slow_percent = {}\nslow_service = '{}ms'", rng.below(20), 5 * service));
    }
    if rng.below(3) == 0 {
        line(format!("capacity = {}", 1 + rng.below(slots)));
    }
    if database {
        line(format!("database = 'main'\ndatabase_time = '{service}ms'"));
    }
    for _ in 0..rng.below(6) {
        let (at, worker) = (rng.below(4000), rng.below(workers));
        let event = match rng.below(7) {
            0 => format!("what = 'crowd'\nclients = {}", 1 + rng.below(60)),
            1 => format!("what = 'crash'\nworker = {worker}"),
            2 => format!("what = 'hang'\nworker = {worker}\nlasts = '{}ms'", rng.below(3000)),
            3 => format!("what = 'pause'\nlasts = '{}ms'", rng.below(500)),
            4 => format!("what = 'slow'\nworker = {worker}\nlasts = '1s'\nfactor = 4"),
            5 => report(worker, rng),
            _ => format!("what = 'refuse'\nworker = {worker}\nlasts = '{}ms'", rng.below(500)),
        };
        line(format!("[[event]]\nat = '{at}ms'\npool = '{pool}'\n{event}"));
    }
}

/// What an agent may say, mostly that things are well.
fn report(worker: u64, rng: &mut Rng) -> String {
    let words = [
        "admin = 'ready', health = 'up'",
        "percent = 50",
        "slots = 1",
        "percent = 100, slots = 0, admin = 'ready'",
        "admin = 'drain'",
        "health = 'down'",
        "admin = 'maint'",
    ];
    let says = words[rng.below(words.len() as u64) as usize];
    format!("what = 'report'\nworker = {worker}\nsays = {{ {says} }}")
}

/// Checked in each: the gates' invariants after every step, the world's books, and what is here.
#[test]
fn in_random_scenarios_no_worker_holds_more_than_it_may() {
    let (mut retries, mut hedges, mut failed, mut abandoned) = (0, 0, 0, 0);
    let mut reasons = std::collections::BTreeSet::new();
    for seed in (0..seeds()).chain(PINNED) {
        let text = random_scenario(seed);
        let traced = Traced { text: &text, seed };
        let (scenario, summary) = traced.run();
        for (pool, settings) in summary.pools.iter().zip(scenario.settings()) {
            let (slots, open) = (settings.slots.count(), settings.connections_max.count());
            assert!(pool.inside_max <= slots, "slots are kept:\n{}", shown(&summary));
            assert!(pool.open_max <= open, "connections are kept:\n{}", shown(&summary));
        }
        retries += summary.pools.iter().map(|pool| pool.retries).sum::<u64>();
        hedges += summary.pools.iter().map(|pool| pool.hedges).sum::<u64>();
        failed += summary.total(|group| group.failed);
        abandoned += summary.total(|group| group.abandoned);
        reasons.extend(summary.reasons().into_keys());
    }
    // A sweep that never gets into trouble proves nothing.
    assert!(retries > 0 && failed > 0 && abandoned > 0, "{retries} {failed} {abandoned}");
    assert!(hedges > 100, "{hedges}");
    assert!(reasons.len() >= 6, "few reasons were met: {reasons:?}");
}
