//! Each application of `examples/` starts with its one command and does what it promises.
//!
//! What is asked of each is in `ci/examples.sh`, so that a person can run the same by hand.

use std::path::Path;
use std::process::{Command, Stdio};

/// Fails with the command that installs what is missing.
#[track_caller]
fn need(what: &str, is_there: bool) {
    assert!(is_there, "{what} is missing; install it with: ci/install.sh");
}

fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn each_example_starts_with_one_command_and_does_what_it_promises() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for program in ["bash", "curl", "node", "python3"] {
        need(program, starts(program));
    }
    need("react", root.join("examples/react-ssr/node_modules").is_dir());
    let ended = Command::new("ci/examples.sh")
        .current_dir(&root)
        .env("SPILLGATE", env!("CARGO_BIN_EXE_spillgate"))
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let told = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&told));
}
