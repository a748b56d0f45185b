//! A recorded trace gives the same outputs, byte for byte, or the test says where it does not.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spillgate_sim::{ReplayError, Running, Scenario, replay, report, simulate};

const AIRBNB: &str = include_str!("../scenarios/airbnb.toml");
/// Small, and in it: a first probe, a queue before and after enough is known of service times,
/// crashes, one exchange of which two workers die, a refusal, a hang, deadlines, retries.
const SHORT: &str = include_str!("../scenarios/short.toml");
const LONG: &str = include_str!("../scenarios/long.toml");
/// A pool whose workers come up late, or not at all in time, and one that keeps on failing.
const LATE: &str = include_str!("../scenarios/late.toml");
/// Keys, and workers that climb.
const SPREAD: &str = include_str!("../scenarios/spread.toml");
/// Limits that are learned.
const LEARNED: &str = include_str!("../scenarios/learned.toml");
/// Second tries: in the first configuration none are made.
const HEDGING: &str = include_str!("../../../examples/overload/hedging.toml");
const RECORDED: &str = include_str!("golden/short.trace");

fn trace(scenario: &str, seed: u64) -> String {
    trace_of(scenario, seed, 0)
}

fn trace_of(scenario: &str, seed: u64, configuration: usize) -> String {
    let scenario = Scenario::parse(scenario).expect("the scenario is right");
    let running = Running { seed, configuration, traced: true, progress: &mut |_| {} };
    simulate(&scenario, running).trace
}

fn run(scenario: &str, seed: u64) -> String {
    report(&Scenario::parse(scenario).expect("the scenario is right"), seed)
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let first = run(AIRBNB, 7);
    assert_eq!(run(AIRBNB, 7), first);
    assert_ne!(run(AIRBNB, 8), first);
    assert_eq!(trace(SHORT, 7), trace(SHORT, 7));
}

#[test]
fn a_trace_replays_byte_for_byte() {
    for seed in 0..20 {
        let trace = trace(SHORT, seed);
        let outputs = replay(&trace).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let recorded = trace.lines().filter_map(|line| line.strip_prefix("out "));
        assert!(outputs.lines().eq(recorded));
    }
}

#[test]
fn second_tries_are_replayed() {
    let trace = trace_of(HEDGING, 1, 1);
    let outputs = replay(&trace).unwrap_or_else(|error| panic!("{error}"));
    assert!(trace.contains(" hedge ") && outputs.contains("withheld "), "both are in it");
}

/// Fails when a decision of the gate changes, or a constant that decided something in this trace
/// (tried by hand: samples before anybody is late, samples kept, deaths that are final). If that is
/// meant, record anew:
/// `UPDATE_GOLDEN=1 cargo test -p spillgate-sim --test replay`.
#[test]
fn the_gate_decides_as_it_did_when_the_trace_was_recorded() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/short.trace");
        std::fs::write(path, trace(SHORT, 1)).expect("the golden file can be written");
        return;
    }
    if let Err(error) = replay(RECORDED) {
        panic!("{error}");
    }
}

/// A trace that is too long to be kept, as a sum of its bytes (FNV-1a, Fowler, Noll, Vo 1991) and
/// what is in it.
fn sum_up(trace: &str) -> String {
    let hash = trace.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut words = BTreeMap::new();
    for line in trace.lines().filter(|line| !line.starts_with("set")) {
        let mut fields = line.split(' ');
        let kind = fields.next().expect("no line is empty");
        let verb = if kind == "out" { fields.next() } else { fields.nth(1) };
        let reason = fields.nth(2).filter(|_| verb == Some("shed"));
        let name = [Some(kind), verb, reason].into_iter().flatten().collect::<Vec<_>>().join(" ");
        *words.entry(name).or_insert(0) += 1;
    }
    let counts: String = words.iter().map(|(name, count)| format!("{count:>7} {name}\n")).collect();
    format!("{hash:016x}\n{counts}")
}

/// The proof at length: from two shards, with everything in it that can go wrong. Fails when a
/// decision of the gate, or of the world around it, is another than it was; to be refreshed as
/// the short one.
#[test]
fn a_long_trace_is_what_it_was_and_replays() {
    let trace = trace(LONG, 1);
    let inputs = trace.lines().filter(|line| line.starts_with("in ")).count();
    assert!(inputs >= 100_000, "only {inputs} inputs");
    let sum = sum_up(&trace);
    for present in ["in abandon", "out shed worker-failed", "out shed queue-full", "at timeout"] {
        assert!(sum.contains(present), "nothing of '{present}' in it:\n{sum}");
    }
    if let Err(error) = replay(&trace) {
        panic!("{error}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/long.sum");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(path, sum).expect("the golden file can be written");
    }
    assert_eq!(sum, std::fs::read_to_string(path).expect("the golden file is there"));
}

/// The simulated world has neither endless answers whose client has left nor answers with a 5xx, so
/// what is decided about those is not in any of its traces.
const UNSEEN: [&str; 2] = ["stuck_time_max", "eject_error_share"];

/// Each setting that a trace names, a little different: some trace shows it. A setting that decides
/// nothing in any of them needs a scenario in which it does.
#[test]
fn a_trace_of_other_settings_does_not_replay() {
    let made = [LATE, AIRBNB, SPREAD, LEARNED, LONG, HEDGING].map(|scenario| trace(scenario, 1));
    let traces: Vec<_> = [RECORDED.to_owned()].into_iter().chain(made).collect();
    let head = |trace: &str| -> Vec<(String, String)> {
        let lines = trace.lines().filter_map(|line| line.strip_prefix("set "));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    for (name, _) in head(RECORDED) {
        if UNSEEN.contains(&name.as_str()) {
            continue;
        }
        let shown = traces.iter().any(|trace| {
            let value = head(trace).into_iter().find(|(other, _)| *other == name);
            let value = value.expect("all traces have the same settings").1;
            let others = match value.parse::<u64>() {
                Err(_) => vec![200_000_000],
                Ok(number) => vec![number / 2, number + 1, number * 2],
            };
            others.into_iter().any(|other| {
                let (was, is) = (format!("set {name} {value}\n"), format!("set {name} {other}\n"));
                matches!(replay(&trace.replacen(&was, &is, 1)), Err(ReplayError::Differs { .. }))
            })
        });
        assert!(shown, "'{name}' could be anything");
    }
}

#[test]
fn a_broken_trace_is_an_error_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = replay(text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    };
    check("", "line 1: expected 'spillgate gate trace 5'");
    check(
        "spillgate gate trace 5",
        "line 1: expected 'set', 'begin', 'in', 'at' or 'out' in order",
    );
    check("spillgate gate trace 5\nbegin 0\n", "line 2: expected the setting 'slots' in its range");
    check("spillgate gate trace 5\nset slots x\nbegin 0\n", "line 2: expected the field 'value'");
    let head: Vec<_> = RECORDED.lines().take_while(|line| !line.starts_with("in")).collect();
    let (head, line) = (head.join("\n"), head.len() + 1);
    let after = |text: &str, expected: &str| {
        check(&format!("{head}\n{text}\n"), &format!("line {line}: {expected}"));
    };
    after("in 1 leap", "expected the field 'verb'");
    after("in 1 arrive 1 0 0 0 1 0 0 0 0 - second", "expected the field 'attempt'");
    after("in 1 return 77 success - kept", "permit 77 is not out");
    after("in 1 drain now", "expected the end of the line");
    after("at 1 noon", "expected the field 'timeout'");
    let recorded = format!("{head}\nin 1 drain\nout shed 1 0 draining -\n");
    let differs = replay(&recorded).expect_err("nothing was to be shed");
    assert!(matches!(differs, ReplayError::Differs { output: 1, .. }));
}

proptest! {
    /// Lines lost, doubled and moved: a shell that errs must not break the gate.
    #[test]
    fn a_mangled_trace_breaks_nothing(
        changes in prop::collection::vec((0usize..1000, 0usize..1000, 0u8..3), 1..4),
    ) {
        let mut lines: Vec<_> = RECORDED.lines().collect();
        let first = lines.iter().position(|line| line.starts_with("in")).expect("inputs");
        for (from, to, change) in changes {
            let place = |number: usize, len: usize| first + number % (len - first);
            let (from, to) = (place(from, lines.len()), place(to, lines.len()));
            match change {
                0 => {
                    lines.remove(from);
                }
                1 => lines.insert(to, lines[from]),
                _ => lines.swap(from, to),
            }
        }
        // Any error will do; what the gate did was checked after every step.
        let _ = replay(&lines.join("\n"));
    }
}
