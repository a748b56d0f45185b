//! The committed corpus of the fuzz targets whose files the simulator reads, run through the very
//! checks that the targets make; and a recorded trace with slips in it.

#[path = "../../../fuzz/src/texts.rs"]
#[allow(unreachable_pub, reason = "a library of its own, included here")]
mod checks;

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

use corpus::run;
use proptest::prelude::*;

const RECORDED: &str = include_str!("golden/short.trace");

#[test]
fn trace() {
    run("trace", checks::trace);
}

#[test]
fn scenario() {
    run("scenario", checks::scenario);
}

#[test]
fn access_log() {
    run("access_log", checks::access_log);
}

proptest! {
    /// A recorded trace in which one word is another, or one line is missing or stands twice.
    #[test]
    fn no_slip_in_a_trace_makes_the_replay_panic(
        line in any::<prop::sample::Index>(),
        word in any::<prop::sample::Index>(),
        slip in prop_oneof![
            Just(None),
            prop_oneof![
                any::<u64>().prop_map(|number| number.to_string()),
                (0_u64..5).prop_map(|number| number.to_string()),
                "[a-z-]{0,9}",
            ].prop_map(Some),
        ],
        twice in any::<bool>(),
    ) {
        let mut lines: Vec<String> = RECORDED.lines().take(300).map(str::to_owned).collect();
        let line = line.index(lines.len());
        match slip {
            Some(slip) => {
                let mut words: Vec<&str> = lines[line].split(' ').collect();
                let word = word.index(words.len());
                words[word] = &slip;
                lines[line] = words.join(" ");
            }
            None if twice => lines.insert(line, lines[line].clone()),
            None => drop(lines.remove(line)),
        }
        checks::trace(lines.join("\n").as_bytes());
    }
}
