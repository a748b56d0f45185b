//! The committed corpus of the fuzz targets whose files the simulator reads, run through the very
//! checks that the targets make; and a recorded trace with slips in it.

#[path = "../../../fuzz/src/texts.rs"]
#[allow(unreachable_pub, reason = "a library of its own, included here")]
mod checks;

use std::path::Path;

use proptest::prelude::*;

const RECORDED: &str = include_str!("golden/short.trace");

/// Call `check` with each file of a target's corpus.
fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("each target has a corpus") {
        let path = entry.expect("the folder can be read").path();
        let input = std::fs::read(&path).expect("the file can be read");
        println!("{}", path.display());
        check(&input);
        count += 1;
    }
    assert!(count >= 10, "{target}: only {count} files");
}

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
