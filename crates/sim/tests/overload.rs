//! The stories of `examples/overload`: what each promises, over some seeds.

use std::path::Path;
use std::time::Duration;

use spillgate_core::gate::Class;
use spillgate_sim::{
    GroupSummary, PhaseSummary, Running, Scenario, Summary, page, simulate, table,
};

const SEEDS: std::ops::Range<u64> = 1..4;

fn scenario(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/overload").join(name);
    let text = std::fs::read_to_string(file).expect("the example is there");
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Run the first configuration of an example with some seeds.
fn each(name: &str, check: fn(&Summary)) {
    let scenario = scenario(name);
    for seed in SEEDS {
        let running = Running { seed, configuration: 0, traced: false, progress: &mut |_| {} };
        let summary = simulate(&scenario, running).summary;
        println!("{}", table(std::slice::from_ref(&summary)));
        let inside = summary.largest(|pool| pool.inside_max);
        assert_eq!(inside, 1, "one at a time");
        check(&summary);
    }
}

fn per_second(phase: &PhaseSummary) -> f64 {
    phase.served as f64 / phase.length.as_secs_f64()
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn goodput_is_flat_from_half_to_ten_times_the_capacity() {
    each("s1-goodput.toml", |summary| {
        let [half, most, all, more, twice, five, ten] = &summary.phases[..] else {
            panic!("seven loads")
        };
        for calm in [half, most] {
            assert_eq!((calm.served, calm.shed), (calm.arrivals, 0), "nobody is shed");
            assert!(calm.time(99) <= millis(50), "{:?}", calm.time(99));
        }
        assert!(all.served * 100 >= all.arrivals * 97, "what chance does is bridged");
        // The first seconds of it are those in which the line is still as long as the deadline.
        assert!(per_second(more) >= 0.96 * 400.0, "{}", per_second(more));
        for full in [twice, five, ten] {
            assert!(per_second(full) >= 0.985 * 400.0, "{}", per_second(full));
            assert!(full.time(99) <= millis(110), "{:?}", full.time(99));
        }
    });
}

#[test]
fn a_queue_without_anything_else_serves_nobody_in_time() {
    let scenario = scenario("s1-goodput.toml");
    assert_eq!(scenario.configurations(), ["Spillgate", "a queue alone"]);
    let running = Running { seed: 1, configuration: 1, traced: false, progress: &mut |_| {} };
    let phases = simulate(&scenario, running).summary.phases;
    for phase in &phases[3..] {
        assert!(per_second(phase) <= 0.05 * 400.0, "{}", per_second(phase));
    }
}

#[test]
fn it_is_over_when_it_is_over_although_clients_retry() {
    each("s2-recovery.toml", |summary| {
        let series = &summary.pools[0].series;
        for end in [9, 25] {
            let (from, to) = (Duration::from_secs(end), Duration::from_secs(end + 8));
            let bad = |point: &spillgate_sim::Point| point.shed_total() + point.timeouts;
            let soon = from + millis(500);
            assert_eq!(series.sum(soon, to, bad), 0, "nobody is shed half a second later");
        }
        let [_, step, ..] = &summary.phases[..] else { panic!("five loads") };
        assert!(per_second(step) >= 0.98 * 160.0, "{}", per_second(step));
    });
}

#[test]
fn the_important_are_all_answered() {
    each("s3-classes.toml", |summary| {
        let classes: Vec<_> = summary.groups.iter().map(|group| group.class).collect();
        assert_eq!(classes, Class::ALL);
        let [important @ .., bulk] = &summary.groups[..] else { panic!("four classes") };
        for group in important {
            assert_eq!(group.served, group.arrivals, "all of {}", group.name);
        }
        // Slots are put out of step: a whole service time of waiting is rare.
        assert!(important[0].time(50) <= millis(62), "{:?}", important[0].time(50));
        assert!(important[0].time(99) <= millis(92), "{:?}", important[0].time(99));
        assert!(bulk.shed_total() > 0);
        let good = summary.served() as f64 / 10.0;
        assert!(good >= 0.97 * 160.0, "{good} a second");
    });
}

#[test]
fn short_requests_are_fast_beside_long_ones() {
    each("s4-bimodal.toml", |summary| {
        assert_eq!(summary.served(), summary.arrivals(), "nobody is shed");
        let [short, long] = &summary.groups[0].paths[..] else { panic!("two paths") };
        assert!(short.time(99) <= millis(125), "{:?}", short.time(99));
        assert!(long.time(99) <= millis(420), "{:?}", long.time(99));
    });
}

#[test]
fn a_greedy_tenant_takes_nothing_from_the_others() {
    each("s5-tenants.toml", |summary| {
        let [greedy, small @ ..] = &summary.tenants[..] else { panic!("ten tenants") };
        assert!(greedy.shed > 0);
        for tenant in small {
            assert_eq!(tenant.served, tenant.arrivals, "all of {}", tenant.name);
        }
        let jain = summary.jain().expect("there are tenants");
        assert!(jain >= 0.99, "{jain}");
        let good = summary.served() as f64 / 8.0;
        assert!(good >= 0.96 * 400.0, "{good} a second");
    });
}

#[test]
fn a_flooded_endpoint_takes_nothing_from_another() {
    each("isolation.toml", |summary| {
        let [cards, apply] = &summary.groups[..] else { panic!("two endpoints") };
        assert!(cards.shed_total() > 0);
        assert!(apply.served * 1000 >= apply.arrivals * 990, "{}", apply.served);
        assert!(per_second(&summary.phases[1]) >= 0.985 * 400.0);
    });
}

/// A crowd at a pool that has just begun: there is hardly any budget for retries, and the failing
/// worker is free first each time.
#[test]
fn a_lone_503_costs_nobody_an_answer_at_the_very_beginning() {
    let text = r#"
        name = "lone 503"
        time = "20s"
        [[clients]]
        rate = 1
        slo = "1s"
        [pool.app.workers]
        count = 8
        service = "20ms"
        [[event]]
        at = "0s"
        what = "error"
        worker = 3
        status = 503
        lasts = "1min"
        [[event]]
        at = "1s"
        what = "crowd"
        clients = 40
    "#;
    let scenario = Scenario::parse(text).expect("it can be read");
    for seed in SEEDS {
        let running = Running { seed, configuration: 0, traced: false, progress: &mut |_| {} };
        let summary = simulate(&scenario, running).summary;
        let errors = summary.total(|group: &GroupSummary| group.errors);
        assert_eq!((errors, summary.served()), (0, summary.arrivals()), "seed {seed}");
        assert!(summary.pools[0].retries > 3, "{}", summary.pools[0].retries);
    }
}

#[test]
fn what_befalls_workers_costs_nobody_an_answer() {
    each("s6-faults.toml", |summary| {
        assert_eq!(summary.served(), summary.arrivals(), "everybody is answered in time");
        assert!(summary.pools[0].retries > 0);
    });
}

#[test]
fn second_tries_keep_a_worker_that_stands_still_from_the_clients() {
    let scenario = scenario("hedging.toml");
    for seed in SEEDS {
        let runs = scenario.run(seed, &mut |_, _| {});
        println!("{}", table(&runs));
        let [without, with] = &runs[..] else { panic!("two configurations") };
        assert_eq!(with.served(), with.arrivals());
        assert_eq!((without.pools[0].hedges, with.largest(|pool| pool.inside_max)), (0, 1));
        let ms = Duration::from_millis;
        let [before, after] = [without, with].map(|summary| summary.time_per_mille(999));
        assert!(before >= ms(350) && after <= ms(200), "{before:?} {after:?}");
        let hedges = with.pools[0].hedges;
        assert!(hedges * 100 <= with.arrivals() * 8, "{hedges} of {}", with.arrivals());
    }
}

#[test]
fn reports_show_classes_tenants_and_paths() {
    let check = |name, rows: &[&str], charts: &[&str]| {
        let summaries = scenario(name).run(1, &mut |_, _| {});
        let (text, page) = (table(&summaries), page(&summaries));
        rows.iter().for_each(|row| assert!(text.contains(row), "{row} in\n{text}"));
        charts.iter().for_each(|chart| assert!(page.contains(chart), "{chart} in {name}"));
    };
    check(
        "s3-classes.toml",
        &["[crawlers] class 3 bulk", "    deadline_unmeetable"],
        &["Turned away a second, by class", "class=\"area class3\""],
    );
    check("s5-tenants.toml", &["  small 9", "  Jain index"], &["Jain index"]);
    check("s4-bimodal.toml", &["/heavy of clients"], &["/heavy of clients"]);
    check("s1-goodput.toml", &["from 36.0 s"], &["from 36.0 s"]);
}

/// The books add up, by group and by tenant, when workers answer errors.
#[test]
fn errors_of_workers_are_counted() {
    let text = r#"
        name = "errors"
        time = "20s"
        [[clients]]
        rate = 50
        tenants = 3
        unsafe_percent = 50
        deadline = "2s"
        [pool.app.workers]
        count = 4
        service = "20ms"
        error_percent = 3
        [[event]]
        at = "5s"
        what = "error"
        worker = 1
        lasts = "3s"
        status = 503
        percent = 60
        [[event]]
        at = "6s"
        what = "load"
        worker = 2
        percent = 150
    "#;
    let scenario = Scenario::parse(text).expect("it can be read");
    let running = Running { seed: 1, configuration: 0, traced: false, progress: &mut |_| {} };
    let summary = simulate(&scenario, running).summary;
    let errors = summary.total(|group: &GroupSummary| group.errors);
    assert!(errors > 20, "{errors}");
    assert!(summary.pools[0].retries > 0, "a lone 503 is tried elsewhere");
    let tenants: u64 = summary.tenants.iter().map(|tenant| tenant.arrivals).sum();
    assert_eq!(tenants, summary.arrivals());
}
