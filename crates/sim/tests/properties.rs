//! What must hold of fairness and recovery in worlds that are drawn at random.

use spillgate_core::rng::Rng;
use spillgate_sim::{Point, Running, Scenario, Summary, simulate, table};
use std::time::Duration;

/// Worlds of each kind in an ordinary run; the nightly one takes a tenth of `SPILLGATE_SEEDS`.
const SEEDS: u64 = 6;

/// Run the world that `text` makes of each seed, and check it.
fn each(text: fn(&mut Rng) -> String, check: fn(&Summary) -> Result<(), String>) {
    let wanted = std::env::var("SPILLGATE_SEEDS").ok().and_then(|seeds| seeds.parse::<u64>().ok());
    for seed in 0..wanted.map_or(SEEDS, |seeds| seeds / 10) {
        let text = text(&mut Rng::new(seed));
        let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let running = Running { seed, configuration: 0, traced: false, progress: &mut |_| {} };
        let summary = simulate(&scenario, running).summary;
        if let Err(what) = check(&summary) {
            panic!("{what}, with seed {seed} of\n{text}\n{}", table(&[summary]));
        }
    }
}

/// Workers and their capacity a second: a few of some tens of milliseconds.
struct Workers {
    text: String,
    service: u64,
    capacity: u64,
}

fn workers(rng: &mut Rng) -> Workers {
    let (count, service) = (2 + rng.below(10), 10 + rng.below(40));
    let text = workers_of(count, service, rng);
    Workers { text, service, capacity: count * 1000 / service }
}

fn workers_of(count: u64, service: u64, rng: &mut Rng) -> String {
    let spread = rng.below(60);
    format!(
        "[pool.app.workers]\ncount = {count}\nservice = '{service}ms'\nspread_percent = {spread}\n"
    )
}

fn shedding(rng: &mut Rng) -> &'static str {
    ["ratio", "codel", "off"][rng.below(3) as usize]
}

/// One tenant asks a hundred times as often as each of the others, and alone for more than there
/// is.
fn one_greedy(rng: &mut Rng) -> String {
    let Workers { text, service, capacity } = workers(rng);
    let others = 2 + rng.below(9);
    // Of the capacity, what the greedy one asks for, in percent.
    let greedy = capacity * (200 + rng.below(600)) / 100;
    let small = (greedy * others) as f64 / 100.0;
    let slo = service * (6 + rng.below(10));
    let shedding = shedding(rng);
    format!(
        "name = 'greedy'\ntime = '30s'\n\
         [[clients]]\nname = 'greedy'\ntenants = 1\nrate = {greedy}\nslo = '{slo}ms'\n\
         [[clients]]\nname = 'small'\ntenants = {others}\nrate = {small}\nslo = '{slo}ms'\n\
         [pool.app]\nqueue_len_max = 200\nanswer_within = '{slo}ms'\n\
         shedding = '{shedding}'\n{text}"
    )
}

#[test]
fn one_tenant_at_a_hundred_times_gets_no_more_than_its_share() {
    each(one_greedy, |summary| {
        let jain = summary.jain().unwrap_or(0.0);
        (jain >= 0.98).then_some(()).ok_or_else(|| format!("Jain's index is {jain}"))
    });
}

/// One endpoint is asked for several times what there is, another for a part of its share; what
/// they take differs.
fn one_flooded(rng: &mut Rng) -> String {
    // In front of few workers the line is too short for what chance does to the calm one.
    let count = 6 + rng.below(8);
    let (flooded, other) = (10 + rng.below(40), 10 + rng.below(40));
    let rate = |service: u64, percent: u64| (count * 10 * percent) as f64 / service as f64;
    let flood = rate(flooded, 200 + rng.below(600));
    let calm = rate(other, 10 + rng.below(20));
    let slo = flooded.max(other) * (8 + rng.below(8));
    format!(
        "name = 'flooded'\ntime = '40s'\n\
         [[clients]]\nname = 'flood'\nrate = 0\nsteps = [{{ at = '5s', rate = {flood} }}]\n\
         slo = '{slo}ms'\nusers = 200\npaths = [{{ path = '/f', service = '{flooded}ms' }}]\n\
         [[clients]]\nname = 'calm'\nrate = {calm}\n\
         slo = '{slo}ms'\nusers = 200\npaths = [{{ path = '/c', service = '{other}ms' }}]\n\
         [pool.app]\nanswer_within = '{slo}ms'\nworkers = {{ count = {count} }}\n"
    )
}

#[test]
fn an_endpoint_keeps_its_goodput_while_another_is_flooded() {
    each(one_flooded, |summary| {
        let calm = &summary.groups[1];
        let kept = calm.served * 100 >= calm.arrivals * 97;
        kept.then_some(()).ok_or_else(|| format!("{} of {}", calm.served, calm.arrivals))
    });
}

/// Workers that are configured for sixteen and can do fewer at full speed, and far too much to do.
fn one_wide(rng: &mut Rng, pool: fn(u64) -> String) -> String {
    let (count, service, can) = (1 + rng.below(3), 20 + rng.below(60), 2 + rng.below(8));
    let capacity = count * can * 1000 / service;
    let rate = capacity * (150 + rng.below(450)) / 100;
    let (slo, spread) = (service * 6, rng.below(60));
    let pool = pool(can);
    format!(
        "name = 'wide'\ntime = '20s'\n[[clients]]\nrate = {rate}\nslo = '{slo}ms'\n\
         [pool.app]\nanswer_within = '{slo}ms'\n{pool}\n[pool.app.workers]\ncount = {count}\n\
         service = '{service}ms'\nspread_percent = {spread}\ncapacity = {can}\n"
    )
}

fn learned(_: u64) -> String {
    "slots = 16\nlimit = 'gradient'".to_owned()
}

fn by_hand(can: u64) -> String {
    format!("slots = {can}")
}

#[test]
fn a_learned_limit_is_as_good_as_one_by_hand() {
    each(
        |rng| one_wide(rng, learned),
        |summary| {
            let text = one_wide(&mut Rng::new(summary.seed), by_hand);
            let scenario = Scenario::parse(&text).map_err(|error| error.to_string())?;
            let seed = summary.seed;
            let running = Running { seed, configuration: 0, traced: false, progress: &mut |_| {} };
            let best = simulate(&scenario, running).summary.served();
            let good = summary.served() * 100 >= best * 90;
            good.then_some(()).ok_or_else(|| format!("{} of {best}", summary.served()))
        },
    );
}

/// Far too much for some seconds, then what can be done, with clients that come again.
fn one_step(rng: &mut Rng) -> String {
    // Enough must come for the share that is too much to be measured several times a second.
    let (count, service) = (6 + rng.below(8), 10 + rng.below(30));
    let (text, capacity) = (workers_of(count, service, rng), count * 1000 / service);
    let times = 130 + rng.below(900);
    let (over, calm) = (capacity * times / 100, capacity * 6 / 10);
    let slo = service * (6 + rng.below(10));
    let retries = rng.below(3);
    let order = ["adaptive", "priority"][rng.below(2) as usize];
    format!(
        "name = 'step'\ntime = '20s'\n\
         [[clients]]\nrate = {calm}\nsteps = [{{ at = '3s', rate = {over} }}, \
         {{ at = '8s', rate = {calm} }}]\npatience = '{slo}ms'\nretries = {retries}\n\
         retry_wait = '50ms'\n\
         [pool.app]\nqueue_len_max = 1000\nanswer_within = '{slo}ms'\norder = '{order}'\n{text}"
    )
}

#[test]
fn a_second_after_an_overload_nobody_is_shed() {
    each(one_step, |summary| {
        let series = &summary.pools[0].series;
        let (from, to) = (Duration::from_secs(9), Duration::from_secs(20));
        let shed = series.sum(from, to, Point::shed_total);
        let before = series.sum(Duration::from_secs(3), Duration::from_secs(8), Point::shed_total);
        match (before, shed) {
            (0, _) => Err("nobody was shed at all".to_owned()),
            (_, 0) => Ok(()),
            _ => Err(format!("{shed} are shed afterwards")),
        }
    });
}

/// The same in front of one to three workers, of which each takes up to half a second.
fn one_step_of_few(rng: &mut Rng) -> String {
    let (count, service) = (1 + rng.below(3), 20 + rng.below(480));
    let per_second = |percent: u64| (count * 10 * percent) as f64 / service as f64;
    let (over, calm) = (per_second(130 + rng.below(900)), per_second(60));
    let slo = service * (6 + rng.below(10));
    let back = FEW_UNTIL + few_back(service);
    format!(
        "name = 'step of few'\ntime = '60s'\n\
         [[clients]]\nname = 'over'\nrate = {calm}\nsteps = [{{ at = '5s', rate = {over} }}, \
         {{ at = '{FEW_UNTIL}ms', rate = {calm} }}, {{ at = '{back}ms', rate = 0 }}]\n\
         slo = '{slo}ms'\n\
         [[clients]]\nname = 'after'\nrate = 0\nsteps = [{{ at = '{back}ms', rate = {calm} }}]\n\
         slo = '{slo}ms'\n\
         [pool.app]\nqueue_len_max = 1000\nanswer_within = '{slo}ms'\n\
         [pool.app.workers]\ncount = {count}\nservice = '{service}ms'\n"
    )
}

/// When too much stops coming, in milliseconds.
const FEW_UNTIL: u64 = 20_000;

/// A second after it the line is short, or where that is longer, after the time of ten exchanges.
fn few_back(service: u64) -> u64 {
    1000.max(10 * service)
}

#[test]
fn few_workers_shed_nobody_a_second_after_an_overload() {
    each(one_step_of_few, |summary| {
        let [over, after] = &summary.groups[..] else { panic!("two groups") };
        let few = after.shed_total() * 200 <= after.arrivals;
        match (over.shed_total(), few) {
            (0, _) => Err("nobody was shed at all".to_owned()),
            (_, true) => Ok(()),
            _ => Err(format!("{} are shed afterwards", after.shed_total())),
        }
    });
}
