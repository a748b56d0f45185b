//! What a child writes, line by line, to be waited for.

use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::wait::{PATIENCE, until};

/// The lines of one stream so far. Copies see the same lines.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
    ended: AtomicBool,
}

impl Lines {
    /// Read `stream` to its end, on a thread of its own.
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Lines {
        let lines = Lines::default();
        let reader = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                reader.shared.lines.lock().expect("nobody panics with it").push(line);
                reader.shared.grown.notify_all();
            }
            reader.shared.ended.store(true, Ordering::Release);
        });
        lines
    }

    /// All lines so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.shared.lines.lock().expect("nobody panics with it").clone()
    }

    /// Wait until the stream has ended.
    #[track_caller]
    pub(crate) fn wait_end(&self) {
        until("the end of the stream", || self.shared.ended.load(Ordering::Acquire).then_some(()));
    }

    /// Wait until a line has `text` in it; returns the line.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait(text, |lines| lines.iter().find(|line| line.contains(text)).cloned())
    }

    /// Wait until `find` finds something in the lines.
    #[track_caller]
    pub(crate) fn wait<T>(&self, what: &str, mut find: impl FnMut(&[String]) -> Option<T>) -> T {
        let mut found = None;
        let lines = self.shared.lines.lock().expect("nobody panics with it");
        let (lines, _) = self
            .shared
            .grown
            .wait_timeout_while(lines, PATIENCE, |lines| {
                found = find(lines);
                found.is_none()
            })
            .expect("nobody panics with it");
        let so_far = lines.join("\n");
        // Whoever panics must not hold what others read while they clean up.
        drop(lines);
        found.unwrap_or_else(|| panic!("never came: {what}; what came:\n{so_far}"))
    }
}
