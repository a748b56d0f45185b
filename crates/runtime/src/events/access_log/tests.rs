//! The writer against real files and pipes that misbehave.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::*;

const GRACE: Duration = Duration::from_secs(30);

fn start(path: &Path) -> AccessLog {
    AccessLog::start(Destination::File(path.to_owned())).expect("the file can be opened")
}

fn put(buffer: &mut LineBuffer, text: &str) {
    buffer.line().extend_from_slice(text.as_bytes());
    buffer.commit();
}

/// Waits until the writer has done what it had to do when this is called: it takes the second
/// reopening only after the work that came with the first.
fn settle(log: &AccessLog) {
    for _ in 0..2 {
        log.reopen();
        let taken = |state: &State| !state.reopen && state.queue.is_empty();
        while !taken(&log.shared.lock()) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn lines_of_all_shards_reach_the_file_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = start(&path);
    std::thread::scope(|scope| {
        for shard in 0..4 {
            let mut buffer = log.line_buffer();
            scope.spawn(move || {
                for number in 0..5_000 {
                    put(&mut buffer, &format!("shard {shard} line {number}"));
                }
            });
        }
    });
    let view = log.watch().view();
    assert!(log.stop(GRACE));
    let text = fs::read_to_string(&path).expect("it is text");
    let found = text.lines().count() as u64;
    assert_eq!(found + view.dropped, 20_000);
    assert!(
        text.lines().all(|line| line.starts_with("shard ") && line.matches("line").count() == 1)
    );
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o007, 0, "others may not read it");
}

#[test]
fn a_record_that_was_not_committed_is_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = start(&path);
    let mut buffer = log.line_buffer();
    put(&mut buffer, "first");
    buffer.line().extend_from_slice(b"half a rec");
    put(&mut buffer, "second");
    buffer.line().extend_from_slice(b"another ha");
    drop(buffer);
    assert!(log.stop(GRACE));
    assert_eq!(fs::read_to_string(&path).expect("it is text"), "first\nsecond\n");
}

#[test]
fn a_renamed_file_is_left_and_a_new_one_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let log = start(&path);
    let mut buffer = log.line_buffer();
    put(&mut buffer, "before");
    buffer.flush();
    settle(&log);
    fs::rename(&path, &moved).expect("it can be moved");
    log.reopen();
    settle(&log);
    put(&mut buffer, "after");
    drop(buffer);
    assert!(log.stop(GRACE));
    assert_eq!(fs::read_to_string(&moved).expect("it is text"), "before\n");
    assert_eq!(fs::read_to_string(&path).expect("it is text"), "after\n");
}

#[test]
fn a_full_disk_costs_lines_and_nothing_else() {
    let log = start(Path::new("/dev/full"));
    let mut buffer = log.line_buffer();
    put(&mut buffer, "lost");
    put(&mut buffer, "lost too");
    buffer.flush();
    settle(&log);
    assert_eq!(log.watch().view(), LogView { written: 0, dropped: 2, errors: 1 });
    put(&mut buffer, "also lost");
    drop(buffer);
    let shared = Arc::clone(&log.shared);
    assert!(log.stop(GRACE));
    assert_eq!(shared.dropped.load(Relaxed), 3);
}

#[test]
fn a_missing_folder_is_an_error_at_the_start_and_a_count_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("logs/access.log");
    assert!(AccessLog::start(Destination::File(path.clone())).is_err());
    fs::create_dir(folder.path().join("logs")).expect("a folder");
    let log = start(&path);
    fs::rename(folder.path().join("logs"), folder.path().join("old")).expect("it can be moved");
    settle(&log);
    assert!(log.watch().view().errors >= 1);
    let mut buffer = log.line_buffer();
    put(&mut buffer, "still written");
    drop(buffer);
    assert!(log.stop(GRACE));
    let text = fs::read_to_string(folder.path().join("old/access.log")).expect("it is text");
    assert_eq!(text, "still written\n");
}

/// A writer whose reader stands still takes what fits and throws the rest away; shards go on.
#[test]
fn a_stalled_reader_costs_lines_and_stops_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
    let mut reader = fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(&path)
        .expect("both ends of the pipe");
    let log = start(&path);
    let mut buffer = log.line_buffer();
    let record = "x".repeat(1023);
    for _ in 0..2 * QUEUE_LEN_MAX * BATCH_SIZE / 1024 {
        put(&mut buffer, &record);
    }
    assert!(log.watch().view().dropped > 0);
    assert!(log.shared.lock().queue.len() <= QUEUE_LEN_MAX);
    drop(buffer);
    let shared = Arc::clone(&log.shared);
    assert!(!log.stop(Duration::from_millis(1)), "the reader stands still");
    let mut sink = vec![0; 1 << 20];
    while !shared.lock().ended {
        if reader.read(&mut sink).is_err() {
            std::thread::yield_now();
        }
    }
    let seen = shared.written.load(Relaxed) + shared.dropped.load(Relaxed);
    assert_eq!(seen, (2 * QUEUE_LEN_MAX * BATCH_SIZE / 1024) as u64);
}

#[test]
fn a_line_torn_by_an_error_is_ended_before_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut output = Output::open(Destination::File(path.clone())).expect("it can be opened");
    assert!(output.write(b"whole\n").is_ok());
    output.tear(b"torn in the mid");
    assert!(output.write(b"whole again\n").is_ok());
    let text = fs::read_to_string(&path).expect("it is text");
    assert_eq!(text, "whole\ntorn in the mid\nwhole again\n");
}

#[test]
fn buffers_are_used_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = start(&folder.path().join("access.log"));
    let mut buffer = log.line_buffer();
    for _ in 0..10 {
        put(&mut buffer, "line");
        buffer.flush();
        settle(&log);
    }
    assert!(log.shared.lock().spare.len() <= 2);
}
