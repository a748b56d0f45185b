//! What the exchanges of one shard are doing now: the answer to "which request hangs my worker?".
//!
//! A slab of fixed-size entries, so that noting a stage costs a store and no allocation. Only the
//! shard itself reads it; others ask by message. Absent: anything that decides by it.

use spillgate_core::id::WorkerId;
use spillgate_core::time::Instant;

use crate::metrics::label::Stage;

/// Bytes of the request line that are kept for display.
const LINE_MAX: usize = 96;

/// One running exchange, for the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Its number on its shard.
    pub serial: u64,
    /// Index of its pool; none: a reply of our own.
    pub pool: Option<usize>,
    /// The worker that has it.
    pub worker: Option<WorkerId>,
    /// Its stage.
    pub stage: Stage,
    /// Since when it is in this stage.
    pub since: Instant,
    /// Method and target, cut to 96 bytes; bytes that are no text are replaced.
    pub line: String,
}

/// The running exchanges of one shard.
#[derive(Debug, Default)]
pub(crate) struct Active {
    places: Vec<Option<Entry>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    pool: Option<usize>,
    worker: Option<WorkerId>,
    stage: Stage,
    since: Instant,
    line: [u8; LINE_MAX],
    line_len: u8,
}

impl Active {
    /// An exchange has begun.
    pub(crate) fn begin(&mut self, serial: u64, method: &[u8], target: &[u8], now: Instant) -> u32 {
        let mut line = [0; LINE_MAX];
        let mut line_len = 0;
        for piece in [method, b" ", target] {
            let count = piece.len().min(LINE_MAX - line_len);
            line[line_len..line_len + count].copy_from_slice(&piece[..count]);
            line_len += count;
        }
        let entry = Entry {
            serial,
            pool: None,
            worker: None,
            stage: Stage::Route,
            since: now,
            line,
            line_len: u8::try_from(line_len).expect("a kept line is shorter than 256 bytes"),
        };
        match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some(entry);
                index
            }
            None => {
                self.places.push(Some(entry));
                u32::try_from(self.places.len() - 1).expect("fewer exchanges than descriptors")
            }
        }
    }

    /// It has come to `stage`.
    pub(crate) fn stage(&mut self, index: u32, stage: Stage, now: Instant) {
        if let Some(entry) = &mut self.places[index as usize] {
            entry.stage = stage;
            entry.since = now;
        }
    }

    /// It belongs to this pool.
    pub(crate) fn pool(&mut self, index: u32, pool: usize) {
        if let Some(entry) = &mut self.places[index as usize] {
            entry.pool = Some(pool);
        }
    }

    /// This worker has it.
    pub(crate) fn granted(&mut self, index: u32, worker: WorkerId, now: Instant) {
        if let Some(entry) = &mut self.places[index as usize] {
            entry.worker = Some(worker);
            entry.stage = Stage::Dispatch;
            entry.since = now;
        }
    }

    /// Its worker has failed it.
    pub(crate) fn set_back(&mut self, index: u32) {
        if let Some(entry) = &mut self.places[index as usize] {
            entry.worker = None;
        }
    }

    /// It has ended.
    pub(crate) fn end(&mut self, index: u32) {
        self.places[index as usize] = None;
        self.free.push(index);
    }

    /// All of them, for display.
    pub(crate) fn list(&self) -> Vec<Doing> {
        let show = |entry: &Entry| Doing {
            serial: entry.serial,
            pool: entry.pool,
            worker: entry.worker,
            stage: entry.stage,
            since: entry.since,
            line: String::from_utf8_lossy(&entry.line[..usize::from(entry.line_len)]).into_owned(),
        };
        self.places.iter().flatten().map(show).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_and_a_place_used_again() {
        let mut active = Active::default();
        let index = active.begin(1, b"GET", &[b'x'; 200], Instant::ZERO);
        assert_eq!(active.list()[0].line.len(), LINE_MAX);
        active.end(index);
        assert_eq!(active.begin(2, b"GET", b"/", Instant::ZERO), index);
        assert_eq!(active.list()[0].line, "GET /");
    }
}
