//! The committed corpus of a fuzz target, file by file. Included by path in the tests that run it,
//! as the checks are; absent: what a check is.

use std::path::Path;

/// Call `check` with each file of a target's corpus.
pub(crate) fn run(target: &str, check: fn(&[u8])) {
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
