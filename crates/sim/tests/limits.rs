//! Limits that are learned: where they settle, and how they get there.

use std::path::Path;
use std::time::Duration;

use spillgate_sim::{Point, Running, Scenario, Summary, simulate};

const SEEDS: std::ops::Range<u64> = 1..4;

fn run(text: &str, seed: u64, configuration: usize) -> Summary {
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let running = Running { seed, configuration, traced: false, progress: &mut |_| {} };
    simulate(&scenario, running).summary
}

/// The points of a pool from one second to another.
fn points(summary: &Summary, pool: usize, seconds: std::ops::Range<u64>) -> Vec<&Point> {
    let series = &summary.pools[pool].series;
    let place = |second: u64| {
        let time = Duration::from_secs(second);
        time.as_nanos().div_ceil(series.length.as_nanos()) as usize
    };
    let (from, to) = (place(seconds.start), place(seconds.end));
    series.points.iter().take(to).skip(from).collect()
}

/// Hundredths of slots that the workers of a pool had together, in the mean over these seconds.
fn slots(summary: &Summary, pool: usize, seconds: std::ops::Range<u64>) -> u64 {
    let points = points(summary, pool, seconds);
    points.iter().map(|point| u64::from(point.slots) * 100).sum::<u64>() / points.len() as u64
}

fn served(summary: &Summary, pool: usize, seconds: std::ops::Range<u64>) -> u64 {
    points(summary, pool, seconds).iter().map(|point| point.served).sum()
}

#[test]
fn sixteen_slots_for_four_find_the_four() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/overload/limits.toml");
    let text = std::fs::read_to_string(file).expect("the example is there");
    for seed in SEEDS {
        let [learned, by_hand, wide] = [0, 1, 2].map(|at| run(&text, seed, at));
        for (phase, seconds) in [(1, 11..20), (2, 20..30), (3, 30..40)] {
            let of_two = slots(&learned, 0, seconds);
            assert!((800..=1200).contains(&of_two), "{of_two} in phase {phase}, seed {seed}");
            let good = |run: &Summary| run.phases[phase].served;
            let (good, best, worst) = (good(&learned), good(&by_hand), good(&wide));
            assert!(good * 100 >= best * 95, "{good} of {best} in phase {phase}, seed {seed}");
            assert!(worst * 100 <= best * 50, "{worst} of {best} in phase {phase}, seed {seed}");
        }
    }
}

/// One worker of 16 slots that can do `capacity` at full speed, with so many arrivals a second.
fn one_worker(time: u64, rate: u64, work: &str, rest: &str) -> String {
    format!(
        "name = 'one'\ntime = '{time}s'\n[[clients]]\nrate = {rate}\nslo = '1s'\n{rest}\n\
         [pool.app]\nslots = 16\nlimit = 'gradient'\n[pool.app.workers]\ncount = 1\n{work}\n"
    )
}

/// Three minutes of twice the capacity: the overload does not become what is normal.
#[test]
fn an_overload_that_lasts_is_not_learned() {
    let text = one_worker(180, 160, "service = '50ms'\nspread_percent = 20\ncapacity = 4", "");
    let summary = run(&text, 1, 0);
    for seconds in [5..30, 90..120, 150..180] {
        let slots = slots(&summary, 0, seconds);
        assert!((400..=600).contains(&slots), "{slots}");
    }
}

/// Slower by itself for twenty seconds, at twice the capacity, and then as before.
#[test]
fn a_worker_that_recovers_has_its_limit_back_within_seconds() {
    let event = "[[event]]\nat = '10s'\nwhat = 'slow'\nworker = 0\nlasts = '20s'\nfactor = 4";
    let work = format!("service = '50ms'\nspread_percent = 20\ncapacity = 16\n{event}");
    for seed in SEEDS {
        let summary = run(&one_worker(40, 640, &work, ""), seed, 0);
        let at = |seconds| slots(&summary, 0, seconds);
        assert!(at(5..10) >= 1500, "{}", at(5..10));
        assert!(at(11..30) >= 700, "about half of what slows down nothing: {}", at(11..30));
        assert!(at(32..40) >= 1500, "{}", at(32..40));
    }
}

/// What takes its time without anything being short.
#[test]
fn work_that_only_waits_keeps_its_slots() {
    for work in [
        "service = '100ms'\nspread_percent = 20",
        "service = '100ms'\nexponential = true",
        "service = '100ms'\nexponential = true\ncapacity = 16",
        "service = '20ms'\nslow_percent = 5\nslow_service = '400ms'\ncapacity = 16",
    ] {
        let rate = if work.contains("slow") { 800 } else { 320 };
        for seed in SEEDS {
            let summary = run(&one_worker(40, rate, work, ""), seed, 0);
            let slots = slots(&summary, 0, 10..40);
            assert!(slots >= 1400, "{slots} with seed {seed} of {work}");
        }
    }
}

/// A cheap and a costly path, of which the one then the other is asked for: no slowdown.
#[test]
fn another_mix_of_paths_is_no_slowdown() {
    let text = r#"
        name = "mix"
        time = "40s"
        [[clients]]
        rate = 1000
        steps = [{ at = "20s", rate = 200 }]
        paths = [{ path = "/cheap", service = "10ms" }]
        [[clients]]
        rate = 20
        steps = [{ at = "20s", rate = 100 }]
        paths = [{ path = "/costly", service = "200ms" }]
        [pool.app]
        slots = 16
        limit = "gradient"
        workers = { count = 1, capacity = 16 }
    "#;
    for seed in SEEDS {
        let slots = slots(&run(text, seed, 0), 0, 10..40);
        assert!(slots >= 1400, "{slots} with seed {seed}");
    }
}

/// Two servers, each with its own gate, before one database that can do eight at full speed.
#[test]
fn two_servers_share_a_database() {
    let text = |slots: u32, limit: &str| {
        let server = |name: &str| {
            format!(
                "[pool.{name}]\nslots = {slots}\nlimit = '{limit}'\nanswer_within = '250ms'\n\
                 workers = {{ count = 1, database = 'main', database_time = '50ms' }}\n\
                 [[clients]]\npool = '{name}'\nrate = 160\nslo = '250ms'\n"
            )
        };
        let (shop, kitchen) = (server("shop"), server("kitchen"));
        format!("name = 'shared'\ntime = '60s'\n[database.main]\ncapacity = 8\n{shop}{kitchen}")
    };
    for seed in SEEDS {
        let learned = run(&text(32, "gradient"), seed, 0);
        let [by_hand, wide] = [4, 32].map(|slots| run(&text(slots, "fixed"), seed, 0));
        let both = slots(&learned, 0, 10..60) + slots(&learned, 1, 10..60);
        assert!((800..=1600).contains(&both), "{both} with seed {seed}");
        let good = |run: &Summary| served(run, 0, 10..60) + served(run, 1, 10..60);
        let (good, best, worst) = (good(&learned), good(&by_hand), good(&wide));
        assert!(good * 100 >= best * 95, "{good} of {best}, seed {seed}");
        assert!(worst * 100 <= best * 60, "{worst} of {best}, seed {seed}");
    }
}

/// Workers that say no, or are too slow, when they have too much.
#[test]
fn aimd_backs_off_from_answers_that_are_late() {
    let text = r#"
        name = "aimd"
        time = "40s"
        [[clients]]
        rate = 160
        slo = "200ms"
        [pool.app]
        slots = 16
        limit = "aimd"
        answer_within = "100ms"
        workers = { count = 1, service = "50ms", spread_percent = 20, capacity = 4 }
    "#;
    for seed in SEEDS {
        let slots = slots(&run(text, seed, 0), 0, 10..40);
        assert!((400..=900).contains(&slots), "{slots} with seed {seed}");
    }
}
