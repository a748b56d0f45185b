//! What the program prints, compared with files kept in the tree.
//!
//! `config/NAME.toml` is a configuration with problems (or none), `config/NAME.txt` is what
//! `spillgate check` says about it; `help/NAME.txt` is the help of a command. Refresh all of them
//! with `UPDATE_GOLDEN=1 cargo test -p spillgate`, and read the difference before committing it.

#[path = "../../src/golden.rs"]
mod golden;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs the program within `folder`, so that messages name files without their folder. It finds no
/// programs but those that are in the tree.
fn spillgate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spillgate"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("PATH", self::folder().join("programs"))
        .output()
        .expect("the program can be started")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("the program prints UTF-8")
}

fn finish(failures: &[String]) {
    assert!(failures.is_empty(), "{} stale:\n\n{}\n", failures.len(), failures.join("\n\n"));
}

/// The configurations of the folder, by name, ordered.
fn cases(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is in the tree");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("the folder can be listed").file_name())
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    names
}

#[test]
fn check_says_what_is_wrong_and_how_to_mend_it() {
    let folder = folder().join("config");
    let cases = cases(&folder);
    assert!(cases.len() >= 40, "{} cases of configurations", cases.len());
    let mut failures = Vec::new();
    for case in cases {
        let file = format!("{case}.toml");
        let output = spillgate(&folder, &["check", "--config", &file]);
        let code = output.status.code().expect("the program ends by itself");
        let said = text(output.stderr) + &text(output.stdout);
        let made = format!("{said}exit {code}\n");
        failures.extend(golden::compare(&folder.join(format!("{case}.txt")), &made).err());
    }
    finish(&failures);
}

#[test]
fn what_is_no_file_is_said_so_at_once() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let fifo = scratch.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO can be made");
    let large = scratch.path().join("large");
    let file = std::fs::File::create(&large).expect("a file can be made");
    file.set_len(1 << 40).expect("a file can have holes");
    for (path, said) in [
        (fifo.to_str().expect("a path of letters"), "no ordinary file"),
        (large.to_str().expect("a path of letters"), "larger than"),
        ("/dev/zero", "no ordinary file"),
        ("/", "a folder"),
        ("/nowhere", "No such file"),
    ] {
        for command in ["check", "serve"] {
            let output = spillgate(scratch.path(), &[command, "--config", path]);
            let text = text(output.stderr) + &text(output.stdout);
            assert!(!output.status.success() && text.contains(said), "{path}: {text}");
        }
    }
}

#[test]
fn examples_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config");
    let cases = cases(&folder);
    assert!(!cases.is_empty(), "there are examples");
    for case in cases {
        let output = spillgate(&folder, &["check", "--config", &format!("{case}.toml")]);
        assert!(output.status.success(), "{case}:\n{}", text(output.stderr));
    }
}

#[test]
fn help_is_fresh() {
    let mut failures = Vec::new();
    for name in ["", "run", "serve", "check", "ctl", "ctl restart", "demo", "sim"] {
        let mut arguments: Vec<&str> = name.split_whitespace().collect();
        arguments.push("--help");
        let output = spillgate(&folder(), &arguments);
        assert!(output.status.success(), "{name}: {}", text(output.stderr));
        let file = if name.is_empty() { "spillgate".to_owned() } else { name.replace(' ', "-") };
        let path = folder().join("help").join(format!("{file}.txt"));
        failures.extend(golden::compare(&path, &text(output.stdout)).err());
    }
    finish(&failures);
}
