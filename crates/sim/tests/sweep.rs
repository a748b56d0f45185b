//! Scenarios over many seeds: the gate's invariants are checked after every step of each, and what
//! must hold of the whole is checked here.

use std::path::Path;

use spillgate_core::rng::Rng;
use spillgate_sim::{Scenario, Summary, simulate};

const AIRBNB: &str = include_str!("../scenarios/airbnb.toml");
/// Seeds of an ordinary run; the nightly one takes more from `SPILLGATE_SEEDS`.
const SEEDS: u64 = 200;

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
        let summary = simulate(&scenario, self.seed).summary;
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

/// What must hold of a run, in words and as a question.
type Hold = (&'static str, fn(&Summary) -> bool);

/// Run a scenario and check that all of these hold of it.
#[track_caller]
fn check(text: &str, seed: u64, holds: &[Hold]) -> Summary {
    let traced = Traced { text, seed };
    let (_, summary) = traced.run();
    for (what, hold) in holds {
        assert!(hold(&summary), "{what}, in this run:\n{summary}");
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
                ("all are served", |summary| summary.served == summary.arrivals),
                ("there is a queue", |summary| summary.queue_len_max >= 20),
                ("one at a time", |summary| summary.inside_max == 1),
                ("one connection at a time", |summary| summary.open_max == 1),
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
        clients = { rate = 200 }
        workers = { count = 7, service = "50ms", spread_percent = 50 }
        pool = { queue_len_max = 30 }
    "#;
    check(
        text,
        1,
        &[
            ("there is too much load", |summary| summary.shed_total() > 0),
            ("the shares are even", |summary| summary.largest_share_percent() <= 130),
        ],
    );
}

#[test]
fn answers_come_in_time_whatever_the_load() {
    let text = r#"
        name = "overload"
        shards = 2
        time = "20s"
        clients = { rate = 300 }
        workers = { count = 5, service = "50ms", spread_percent = 20 }
        pool = { answer_within = "200ms" }
    "#;
    // Five workers of 50 ms make 100 answers a second.
    let summary =
        check(text, 1, &[("the workers are kept busy", |summary| summary.served >= 1900)]);
    let in_time = summary.times.iter().filter(|time| time.as_millis() <= 200).count();
    assert!(in_time * 100 >= summary.times.len() * 97, "answers are in time:\n{summary}");
}

/// A scenario that is a function of its seed.
fn random_scenario(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let workers = 1 + rng.below(6);
    let slots = 1 + rng.below(3);
    let mut text = format!(
        "name = 'random'\nshards = {}\ntime = '4s'\nexchange_time_max = '{}ms'\n",
        1 + rng.below(3),
        200 + rng.below(800),
    );
    let service = 5 + rng.below(100);
    let capacity = workers * slots * 1000 / service;
    let rate = (capacity * (40 + rng.below(100)) / 100).clamp(1, 300);
    text.push_str(&format!("[clients]\nrate = {rate}\nunsafe_percent = {}\n", rng.below(50)));
    if rng.below(2) == 0 {
        text.push_str(&format!("patience = '{}ms'\n", 100 + rng.below(2000)));
    }
    text.push_str(&format!(
        "[workers]\ncount = {workers}\nservice = '{service}ms'\nspread_percent = {}\n",
        rng.below(80)
    ));
    text.push_str(&format!("supervised = {}\nboot = '300ms'\n", rng.below(2) == 0));
    text.push_str(&format!(
        "[pool]\nslots = {slots}\nconnections_max = {}\nqueue_len_max = {}\n",
        slots + rng.below(2),
        rng.below(60)
    ));
    text.push_str(&format!("queue_wait_max = '{}ms'\n", 50 + rng.below(2000)));
    text.push_str(&format!("probe_exchange = {}\n", rng.below(2) == 0));
    if rng.below(2) == 0 {
        text.push_str("probe_interval_up = '250ms'\n");
    }
    if rng.below(2) == 0 {
        text.push_str(&format!("answer_within = '{}ms'\n", service + 20 + rng.below(500)));
    }
    for _ in 0..rng.below(6) {
        let (at, worker) = (rng.below(4000), rng.below(workers));
        let event = match rng.below(4) {
            0 => format!("what = 'crowd'\nclients = {}", 1 + rng.below(60)),
            1 => format!("what = 'crash'\nworker = {worker}"),
            2 => format!("what = 'hang'\nworker = {worker}\nlasts = '{}ms'", rng.below(3000)),
            _ => format!("what = 'refuse'\nworker = {worker}\nlasts = '{}ms'", rng.below(500)),
        };
        text.push_str(&format!("[[event]]\nat = '{at}ms'\n{event}\n"));
    }
    text
}

#[test]
fn in_random_scenarios_no_worker_holds_more_than_it_may() {
    let mut total = Summary::default();
    for seed in 0..seeds() {
        let text = random_scenario(seed);
        let traced = Traced { text: &text, seed };
        let (scenario, summary) = traced.run();
        let settings = scenario.settings();
        assert!(summary.inside_max <= settings.slots.count(), "slots are kept:\n{summary}");
        let most = settings.connections_max.count();
        assert!(summary.open_max <= most, "connections are kept:\n{summary}");
        total.retries += summary.retries;
        total.failed += summary.failed;
        total.abandoned += summary.abandoned;
        for (reason, count) in summary.shed {
            *total.shed.entry(reason).or_default() += count;
        }
    }
    // A sweep that never gets into trouble proves nothing.
    assert!(total.retries > 0 && total.failed > 0 && total.abandoned > 0, "{total}");
    assert!(total.shed.len() >= 6, "few reasons were met: {:?}", total.shed);
}
