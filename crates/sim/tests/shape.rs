//! What the model must show: the traces, the table and the curves that are known of it, each from
//! its scenario; and what each scenario prints, to the byte.

use std::path::Path;
use std::time::Duration;

use spillgate_sim::{Played, Scenario, Summary, report};

fn text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.toml"));
    std::fs::read_to_string(file).expect("the scenario is there")
}

fn scenario(name: &str) -> Scenario {
    Scenario::parse(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn run(name: &str) -> Vec<Summary> {
    scenario(name).run(1, &mut |_, _| {})
}

/// Compare with the committed file, or write it where `UPDATE_GOLDEN` is set.
fn golden(name: &str) {
    let printed = report(&scenario(name), 1);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, printed).expect("the golden file can be written");
        return;
    }
    let kept = std::fs::read_to_string(file).expect("the golden file is there");
    assert_eq!(printed, kept, "meant? UPDATE_GOLDEN=1 cargo test -p spillgate-sim --test shape");
}

#[test]
fn scenarios_print_what_they_did() {
    let names = ["game-1", "game-2", "incident", "burst", "contagion", "recovery", "airbnb"];
    names.into_iter().for_each(golden);
}

fn game(name: &str) -> Played {
    scenario(name).play().expect("it is a game")
}

#[test]
fn a_game_without_a_limit_is_lost() {
    let played = game("game-1");
    let left: Vec<_> = played.periods.iter().map(|period| period.left().to_string()).collect();
    let known = ["2", "3", "4", "31/6", "37/6", "217/30", "247/30", "277/30", "2167/210"];
    assert_eq!(left[..9], known);
    let active: Vec<_> = played.periods.iter().map(|period| period.inside.len()).collect();
    assert_eq!(active[..9], [1, 2, 3, 4, 4, 5, 5, 6, 7]);
    let inside = |period: usize| {
        let each = &played.periods[period - 1].inside;
        each.iter().map(|(task, left)| format!("r{task} {left}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(inside(4), "r1 0, r2 5/6, r3 11/6, r4 5/2");
    assert_eq!(inside(6), "r2 0, r3 14/15, r4 8/5, r5 21/10, r6 13/5");
    assert_eq!(inside(8), "r3 1/5, r4 13/15, r5 41/30, r6 28/15, r7 34/15, r8 8/3");
    assert!(inside(9).starts_with("r3 0, r4 61/105,"));
    let answered = [(1, 4), (2, 5), (3, 7), (4, 9), (5, 10), (6, 12), (7, 13)];
    assert_eq!(played.answered, answered, "each later than the one before, for ever");
}

#[test]
fn a_game_with_a_bouncer_goes_on_for_ever() {
    let played = game("game-2");
    let show = |number: usize| {
        let period = &played.periods[number - 1];
        let inside: Vec<_> =
            period.inside.iter().map(|(task, left)| format!("r{task}:{left}")).collect();
        let names = |tasks: &[u64]| {
            tasks.iter().map(|task| format!("r{task}")).collect::<Vec<_>>().join(" ")
        };
        format!("{} | {} | {}", inside.join(" "), names(&period.queue), names(&period.refused))
    };
    let known = [
        "r1:2 |  | ",
        "r1:1 r2:2 |  | ",
        "r1:0 r2:1 | r3 | ",
        "r2:0 r3:2 | r4 | ",
        "r3:1 r4:2 | r5 | ",
        "r3:0 r4:1 | r5 r6 | ",
        "r4:0 r5:2 | r6 r7 | ",
        "r5:1 r6:2 | r7 r8 | ",
        "r5:0 r6:1 | r7 r8 | r9",
        "r6:0 r7:2 | r8 r10 | ",
        "r7:1 r8:2 | r10 r11 | ",
        "r7:0 r8:1 | r10 r11 | r12",
    ];
    for (number, known) in (1..).zip(known) {
        assert_eq!(show(number), known, "period {number}");
    }
    let times = [(1, 3), (2, 3), (3, 4), (4, 4), (5, 5), (6, 5), (7, 6), (8, 6), (10, 6), (11, 6)];
    assert_eq!(played.answered[..10], times);
    let refused: Vec<_> = played.periods.iter().flat_map(|period| &period.refused).collect();
    assert_eq!(refused, [&9, &12, &15, &18, &21, &24]);
}

/// Within 1 % of a known number.
#[track_caller]
fn near(ours: u64, known: u64, what: &str) {
    assert!(ours.abs_diff(known) * 100 <= known, "{what}: {ours}, known is {known}");
}

#[test]
fn the_incident_has_its_known_table() {
    let runs = run("incident");
    // Arrivals, in time, late, turned away, longest (ms), most at once.
    let known = [
        [57_629, 19_190, 38_358, 0, 40_100, 4182],
        [57_629, 54_683, 0, 2865, 2020, 200],
        [57_629, 41_397, 14_369, 1782, 6060, 600],
        [57_629, 28_147, 28_147, 1254, 11_100, 1100],
    ];
    for (run, known) in runs.iter().zip(known) {
        let what = &run.configuration;
        near(run.arrivals(), known[0], what);
        near(run.served(), known[1], what);
        near(run.total(|group| group.late), known[2], what);
        near(run.shed(), known[3], what);
        near(run.time(100).as_millis() as u64, known[4], what);
        near(u64::from(run.largest(|pool| pool.concurrency_max)), known[5], what);
    }
    let series = &runs[0].pools[0].series;
    let seconds = Duration::from_secs;
    let served = series.sum(seconds(240), seconds(560), |point| point.served);
    assert_eq!(served, 0, "nobody is answered in time long after the peak is over");
    assert_eq!(runs[1].largest(|pool| pool.inside_max), 100);
}

#[test]
fn an_asynchronous_server_hands_a_burst_on_to_its_database() {
    let runs = run("burst");
    let [threads, plain, limited] = &runs[..] else { panic!("three configurations") };
    let most = |run: &Summary| run.databases[0].1;
    assert_eq!((most(threads), most(limited)), (20, 20));
    assert!(most(plain) >= 200, "{}", most(plain));
    let late = |run: &Summary| run.total(|group| group.late);
    assert_eq!(late(limited), 0, "who is let in is answered in time");
    assert!(late(plain) > late(threads) && late(threads) > 0);
    assert!(limited.served() > threads.served() && threads.served() > plain.served());
}

#[test]
fn a_collapse_spreads_over_a_shared_database_unless_there_are_limits() {
    let runs = run("contagion");
    let [plain, limited] = &runs[..] else { panic!("two configurations") };
    // Pools are in the order of their names.
    let (kitchen, shop) = (0, 1);
    let seconds = Duration::from_secs;
    let served = |run: &Summary, pool: usize, from, to| {
        run.pools[pool].series.sum(seconds(from), seconds(to), |point| point.served)
    };
    assert!(served(plain, kitchen, 5, 20) > 0);
    assert_eq!(served(plain, shop, 40, 60), 0, "the shop has collapsed");
    assert_eq!(served(plain, kitchen, 40, 60), 0, "and the kitchen with it");
    let kitchen_counts = &limited.groups[1];
    assert_eq!((kitchen_counts.name.as_str(), kitchen_counts.pool), ("kitchen", kitchen));
    assert_eq!(kitchen_counts.served, kitchen_counts.arrivals, "the kitchen notices nothing");
    assert_eq!(limited.groups[0].late, 0, "the shop answers in time or says no");
    assert!(served(limited, shop, 20, 30) >= 500, "and goes on at its full capacity");
}

#[test]
fn with_a_limit_an_overload_leaves_no_trace() {
    let runs = run("recovery");
    let [plain, limited] = &runs[..] else { panic!("two configurations") };
    let seconds = Duration::from_secs;
    let served = |run: &Summary, from, to| {
        run.pools[0].series.sum(seconds(from), seconds(to), |point| point.served)
    };
    // 1000 too many, at 20 a second: fifty seconds.
    assert_eq!(served(plain, 45, 75), 0, "the load is 80 %, and nobody is answered in time");
    assert!(served(plain, 100, 120) > 1500, "when all is worked off it is as before");
    assert!(served(limited, 43, 63) >= 1580, "it is as before at once");
    assert_eq!(limited.total(|group| group.late), 0);
}
