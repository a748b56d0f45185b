//! One thread writes the access records of all shards.
//!
//! A shard formats its records into a [`LineBuffer`] of its own and hands the buffer over when it
//! is full or old. The hand-over is a swap of two buffers under a lock that is only tried, never
//! waited for, so a slow disk, a stalled pipe or a descheduled writer never stops a shard: its
//! lines are thrown away and counted once its buffer is full too.
//!
//! Absent: the content of records, rotation, compression. Lock rule: `Shared::state` is held for
//! moves of vectors only, never over a system call.
//!
//! Invariants: a file never has two records glued into one line, also after a write that stopped in
//! the middle; memory is bounded by `QUEUE_LEN_MAX` buffers and one for each shard.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::program;

mod file;

use file::Output;

/// A buffer that has grown to this size is handed over. 128 KiB: some 300 records for one wake-up
/// of the writer, which costs as much as writing fifty of them.
const BATCH_SIZE: usize = 128 * 1024;
/// Room for the record that crosses `BATCH_SIZE`, so that buffers rarely grow.
const BATCH_CAPACITY: usize = BATCH_SIZE + 4 * 1024;
/// Buffers that may wait for the writer: 4 MiB, more than a second of 10,000 records each.
const QUEUE_LEN_MAX: usize = 32;

/// Where access records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A file, opened for appending and made (mode 640) where it is missing.
    File(PathBuf),
}

/// The writer of access records. Dropping it stops the writer as [`AccessLog::stop`] does, with a
/// second of grace.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

/// The numbers of the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogView {
    /// Lines written.
    pub written: u64,
    /// Lines thrown away, by shards and by the writer.
    pub dropped: u64,
    /// Times that opening or writing failed.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// The writer waits here for work, and whoever stops it waits here for its end.
    changed: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Batch>,
    /// Written buffers, to be filled again.
    spare: Vec<Vec<u8>>,
    reopen: bool,
    stopping: bool,
    ended: bool,
}

#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    lines: u64,
}

impl AccessLog {
    /// Opens `destination` and starts the writer.
    ///
    /// Errors: the file cannot be opened for appending, or the system refuses a thread.
    pub fn start(destination: Destination) -> io::Result<AccessLog> {
        let output = Output::open(destination)?;
        let shared = Arc::new(Shared::default());
        let writer = std::thread::Builder::new().name("access-log".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(output)
        })?;
        Ok(AccessLog { shared, writer: Some(writer) })
    }

    /// A buffer for one shard.
    pub fn line_buffer(&self) -> LineBuffer {
        LineBuffer {
            shared: Arc::clone(&self.shared),
            bytes: Vec::with_capacity(BATCH_CAPACITY),
            committed: 0,
            lines: 0,
        }
    }

    /// Makes the writer open its file anew, once what is queued is written: a log file was renamed.
    /// When that fails, the old file is written on, and the error is counted.
    pub fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.changed.notify_all();
    }

    /// Its numbers, for somebody who outlives it.
    pub fn watch(&self) -> LogWatch {
        LogWatch { shared: Arc::clone(&self.shared) }
    }

    /// Writes what was handed over and ends the writer. Shards hand over their last lines when
    /// their buffers are dropped, so drop those first.
    ///
    /// False when the destination took longer than `grace`; the writer is then left behind, and
    /// what it has not written is lost with the process.
    pub fn stop(mut self, grace: Duration) -> bool {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> bool {
        let Some(writer) = self.writer.take() else { return true };
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.changed.notify_all();
        let waited = self.shared.changed.wait_timeout_while(state, grace, |state| !state.ended);
        let ended = waited.unwrap_or_else(PoisonError::into_inner).0.ended;
        if ended && writer.join().is_err() {
            program::error("access log", "the writer ended with a panic");
        }
        ended
    }
}

/// The numbers of a writer.
#[derive(Clone, Debug)]
pub struct LogWatch {
    shared: Arc<Shared>,
}

impl LogWatch {
    /// The numbers now.
    pub fn view(&self) -> LogView {
        LogView {
            written: self.shared.written.load(Relaxed),
            dropped: self.shared.dropped.load(Relaxed),
            errors: self.shared.errors.load(Relaxed),
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.end(Duration::from_secs(1));
    }
}

/// The access records of one shard that are not handed over yet.
///
/// Dropping it hands them over; that one time it waits for the lock.
#[derive(Debug)]
pub struct LineBuffer {
    shared: Arc<Shared>,
    bytes: Vec<u8>,
    /// Everything before this is whole lines.
    committed: usize,
    lines: u64,
}

impl LineBuffer {
    /// The buffer to append one record to, without a line feed. What was appended since the last
    /// [`LineBuffer::commit`] is taken back.
    pub fn line(&mut self) -> &mut Vec<u8> {
        self.bytes.truncate(self.committed);
        &mut self.bytes
    }

    /// Ends the record. Hands the buffer over when it is full.
    pub fn commit(&mut self) {
        self.bytes.push(b'\n');
        self.committed = self.bytes.len();
        self.lines += 1;
        if self.committed >= BATCH_SIZE {
            self.hand_over_now();
        }
    }

    /// Hands over what is there, if the writer can take it. For a timer of the shard.
    pub fn flush(&mut self) {
        if self.lines > 0 && self.committed < BATCH_SIZE {
            self.try_hand_over();
        }
    }

    /// A full buffer is handed over or, after a second buffer's worth of lock contention or at once
    /// when the queue is full, thrown away.
    fn hand_over_now(&mut self) {
        let refused = !self.try_hand_over();
        let queue_is_full = refused && self.shared.queue_is_full();
        if refused && (queue_is_full || self.committed >= 2 * BATCH_SIZE) {
            self.shared.dropped.fetch_add(self.lines, Relaxed);
            self.bytes.clear();
            (self.committed, self.lines) = (0, 0);
        }
    }

    fn try_hand_over(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let state = match shared.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.hand_over(state)
    }

    fn hand_over(&mut self, mut state: MutexGuard<'_, State>) -> bool {
        if state.queue.len() >= QUEUE_LEN_MAX || state.ended {
            return false;
        }
        let fresh = state.spare.pop().unwrap_or_else(|| Vec::with_capacity(BATCH_CAPACITY));
        self.bytes.truncate(self.committed);
        let bytes = std::mem::replace(&mut self.bytes, fresh);
        state.queue.push_back(Batch { bytes, lines: self.lines });
        drop(state);
        (self.committed, self.lines) = (0, 0);
        self.shared.changed.notify_all();
        true
    }
}

impl Drop for LineBuffer {
    fn drop(&mut self) {
        if self.lines == 0 {
            return;
        }
        let shared = Arc::clone(&self.shared);
        if !self.hand_over(shared.lock()) {
            shared.dropped.fetch_add(self.lines, Relaxed);
        }
    }
}

/// What the writer has to do next.
struct Work {
    batches: VecDeque<Batch>,
    reopen: bool,
    stopping: bool,
}

impl Shared {
    /// Nothing is left half done under this lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_is_full(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.queue.len() >= QUEUE_LEN_MAX)
    }

    /// The life of the writer.
    fn run(&self, mut output: Output) {
        let mut written = VecDeque::with_capacity(QUEUE_LEN_MAX);
        loop {
            let mut work = self.next_work(written);
            for batch in &work.batches {
                self.write(&mut output, batch);
            }
            if work.reopen
                && let Err(error) = output.reopen()
            {
                self.errors.fetch_add(1, Relaxed);
                program::error("access log", format_args!("cannot open {output}: {error}"));
            }
            if work.stopping && work.batches.is_empty() {
                break;
            }
            self.recycle(&mut work.batches);
            written = work.batches;
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits for something to do. `empty` is a drained queue, given in exchange for the full one.
    fn next_work(&self, empty: VecDeque<Batch>) -> Work {
        let idle = |state: &mut State| state.queue.is_empty() && !state.reopen && !state.stopping;
        let waited = self.changed.wait_while(self.lock(), idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let batches = std::mem::replace(&mut state.queue, empty);
        Work { batches, reopen: std::mem::take(&mut state.reopen), stopping: state.stopping }
    }

    fn write(&self, output: &mut Output, batch: &Batch) {
        match output.write(&batch.bytes) {
            Ok(()) => {
                self.written.fetch_add(batch.lines, Relaxed);
            }
            Err(failure) => {
                let lost = batch.bytes[failure.written..].iter().filter(|byte| **byte == b'\n');
                let lost = lost.count() as u64;
                self.written.fetch_add(batch.lines.saturating_sub(lost), Relaxed);
                self.dropped.fetch_add(lost, Relaxed);
                self.errors.fetch_add(1, Relaxed);
                let error = failure.error;
                program::error("access log", format_args!("cannot write {output}: {error}"));
            }
        }
    }

    fn recycle(&self, batches: &mut VecDeque<Batch>) {
        let mut state = self.lock();
        for mut batch in batches.drain(..) {
            batch.bytes.clear();
            let is_usual = batch.bytes.capacity() <= 2 * BATCH_CAPACITY;
            if is_usual && state.spare.len() < QUEUE_LEN_MAX {
                state.spare.push(batch.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests;
