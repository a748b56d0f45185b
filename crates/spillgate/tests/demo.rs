//! `spillgate demo`, shortened: its story must come to its end, and nobody in it may fail.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The names of the summary's rows, and which column is which.
const ROWS: [&str; 8] =
    ["calm", "rush", "kill", "ebb", "uploads", "restart", "calm again", "(uploads)"];
const ANSWERED: usize = 1;
const SHED: usize = 3;
const FAILED: usize = 4;

fn demo(folder: &std::path::Path, seconds: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spillgate"));
    command.args(["demo", "--free-ports", "--seconds", seconds]).env("TMPDIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// The numbers of the row with this name.
fn row(text: &str, name: &str) -> Vec<u64> {
    let is_row = |line: &&str| {
        let rest = line.strip_prefix(name).unwrap_or_default();
        rest.trim_start().starts_with(|c: char| c.is_ascii_digit())
    };
    let rows = text.lines().skip_while(|line| !line.starts_with("phase "));
    let line = rows.take_while(|line| !line.is_empty()).find(is_row);
    let line = line.unwrap_or_else(|| panic!("no row {name:?} in\n{text}"));
    line[name.len()..].split_whitespace().map_while(|word| word.parse().ok()).collect()
}

#[test]
fn everybody_is_answered_or_told_so() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let output = demo(folder.path(), "10").output().expect("it can be started");
    let text = String::from_utf8(output.stdout).expect("it prints UTF-8");
    assert!(output.status.success(), "{}\n{text}", output.status);
    for name in ROWS {
        let numbers = row(&text, name);
        assert!(numbers[ANSWERED] > 0, "nobody was answered in {name:?}\n{text}");
        assert_eq!(numbers[FAILED], 0, "somebody failed in {name:?}\n{text}");
    }
    assert!(row(&text, "rush")[SHED] > 0, "a rush that is no rush\n{text}");
    assert!(text.contains("got SIGKILL while busy"), "{text}");
    assert!(text.contains("workers were replaced in"), "{text}");
    assert!(text.contains(" + 0 in progress."), "{text}");
    assert!(text.contains("\nfailed requests: 0\n"), "{text}");
}

#[test]
fn an_interrupt_ends_it_well() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut running = demo(folder.path(), "600").spawn().expect("it can be started");
    let mut lines = BufReader::new(running.stdout.take().expect("it is piped")).lines();
    let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("in time")));
    assert!(line.is_some(), "it begins");
    interrupt(&running);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let exit = running.wait().expect("it ends");
    assert!(exit.success(), "{exit}\n{}", rest.join("\n"));
    assert!(rest.iter().any(|line| line == "Ended early."), "{}", rest.join("\n"));
}

fn interrupt(running: &Child) {
    kill_process(Pid::from_child(running), Signal::INT).expect("it runs");
}
