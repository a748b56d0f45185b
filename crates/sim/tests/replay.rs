//! A recorded trace gives the same outputs, byte for byte, or the test says where it does not.

use proptest::prelude::*;
use spillgate_sim::{ReplayError, Running, Scenario, replay, report, simulate};

const AIRBNB: &str = include_str!("../scenarios/airbnb.toml");
/// Small, and in it: a first probe, a queue before and after enough is known of service times,
/// crashes, one exchange of which two workers die, a refusal, a hang, deadlines, retries.
const SHORT: &str = include_str!("../scenarios/short.toml");
const RECORDED: &str = include_str!("golden/short.trace");

fn trace(scenario: &str, seed: u64) -> String {
    let scenario = Scenario::parse(scenario).expect("the scenario is right");
    let running = Running { seed, configuration: 0, traced: true, progress: &mut |_| {} };
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

#[test]
fn a_trace_of_other_settings_does_not_replay() {
    let settings = [
        ("set connections_max 1", "set connections_max 2"),
        ("set queue_len_max 12", "set queue_len_max 11"),
        ("set probe_interval 100000000", "set probe_interval 110000000"),
        ("set answer_quantile 900000", "set answer_quantile 500000"),
        ("set retry_max 2", "set retry_max 0"),
    ];
    for (recorded, other) in settings {
        assert!(RECORDED.contains(recorded), "the trace has '{recorded}'");
        let changed = RECORDED.replace(recorded, other);
        assert!(replay(&changed).is_err(), "'{other}' changes nothing");
    }
}

#[test]
fn a_broken_trace_is_an_error_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = replay(text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    };
    check("", "line 1: expected 'spillgate gate trace 2'");
    check(
        "spillgate gate trace 2",
        "line 1: expected 'set', 'begin', 'in', 'at' or 'out' in order",
    );
    check("spillgate gate trace 2\nbegin 0\n", "line 2: expected the setting 'slots' in its range");
    check("spillgate gate trace 2\nset slots x\nbegin 0\n", "line 2: expected the field 'value'");
    let head: Vec<_> = RECORDED.lines().take_while(|line| !line.starts_with("in")).collect();
    let (head, line) = (head.join("\n"), head.len() + 1);
    let after = |text: &str, expected: &str| {
        check(&format!("{head}\n{text}\n"), &format!("line {line}: {expected}"));
    };
    after("in 1 leap", "expected the field 'verb'");
    after("in 1 arrive 1 0 0 0 second", "expected the field 'attempt'");
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
