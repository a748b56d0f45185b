//! The I/O threads of the spill folders, and the bounded queue of their jobs.
//!
//! A shard hands over a `Vec` by value and gets it back when its job is done; it never touches a
//! file and never waits for one. A queue that is full says so at once ([`Jobs::submit`]); who wants
//! to is woken when it is half empty. A job that nobody waits for any more is still done: its
//! extents are freed after it, and its `Vec` is dropped with it.
//!
//! Bound: [`QUEUE_MAX`] jobs wait, and `threads` are being done, each with at most one block of
//! memory. That memory belongs to the budget of the body that handed it over; it can outlive a
//! dropped body by the time of its job, so at most 8 MiB are in use beyond the budget.
//!
//! Sharing rule: one short lock around the queue; it is never held during I/O or while waking.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::extent::{Extent, Extents};
use super::segment::{read_all, write_all};

/// Jobs that may wait for an I/O thread. Plain choice: at 50 µs a job the last one waits 6 ms.
pub const QUEUE_MAX: usize = 128;

/// Between two looks for disk space to give back, while there is nothing else to do.
const PAUSE: Duration = Duration::from_millis(250);

/// Why a lock cannot be poisoned.
const UNPOISONED: &str = "nothing panics under this lock";

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
}

/// A part of a job that lies in one extent.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(super) extent: Arc<Extent>,
    /// Where in the extent.
    pub(super) offset: u64,
    /// Which bytes of the job's data.
    pub(super) range: Range<usize>,
}

/// Something for an I/O thread to do.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) direction: Direction,
    pub(super) pieces: Vec<Piece>,
    pub(super) data: Vec<u8>,
    cell: Arc<Cell>,
}

/// What came of a job: the memory that was handed over, and whether it worked.
#[derive(Debug)]
pub(crate) struct Done {
    /// The same memory, filled by a read.
    pub(crate) data: Vec<u8>,
    /// Whether all of it was transferred.
    pub(crate) result: io::Result<()>,
}

/// A job under way. Dropping it forgets the result, not the job.
#[derive(Debug)]
pub(crate) struct Transfer {
    cell: Arc<Cell>,
}

/// Where an I/O thread leaves the result.
#[derive(Debug, Default)]
struct Cell {
    state: Mutex<CellState>,
}

#[derive(Debug, Default)]
struct CellState {
    done: Option<Done>,
    waker: Option<Waker>,
}

/// The queue and its threads' common memory.
#[derive(Debug)]
pub(super) struct Jobs {
    queue: Mutex<Queue>,
    /// Rung for each job, and when the queue is closed.
    filled: Condvar,
    extents: Arc<Extents>,
    pub(super) counts: Counts,
}

/// What the I/O threads have done so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written: AtomicU64,
    pub(super) read: AtomicU64,
    pub(super) failed: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// A place among those who wait for the queue; given up when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    jobs: Arc<Jobs>,
    number: u64,
}

impl Job {
    pub(super) fn new(direction: Direction, pieces: Vec<Piece>, data: Vec<u8>) -> Job {
        Job { direction, pieces, data, cell: Arc::default() }
    }

    fn run(&mut self) -> io::Result<()> {
        for piece in &self.pieces {
            let (file, start) = piece.extent.place();
            let offset = start + piece.offset;
            match self.direction {
                Direction::Write => write_all(file, &self.data[piece.range.clone()], offset)?,
                Direction::Read => read_all(file, &mut self.data[piece.range.clone()], offset)?,
            }
        }
        Ok(())
    }

    /// Lets go of the extents, then leaves the result: who sees it finds what it freed free.
    fn finish(self, result: io::Result<()>) {
        drop(self.pieces);
        let mut state = self.cell.lock();
        state.done = Some(Done { data: self.data, result });
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Cell {
    fn lock(&self) -> MutexGuard<'_, CellState> {
        self.state.lock().expect(UNPOISONED)
    }
}

impl Transfer {
    /// The result, once. Without a waker: only looks.
    pub(crate) fn poll(&mut self, waker: Option<&Waker>) -> Poll<Done> {
        let mut state = self.cell.lock();
        if let Some(done) = state.done.take() {
            return Poll::Ready(done);
        }
        if let Some(waker) = waker {
            state.waker = Some(waker.clone());
        }
        Poll::Pending
    }
}

impl Jobs {
    /// Starts `threads` I/O threads. They end when the queue is closed and empty.
    pub(super) fn start(extents: Arc<Extents>, threads: u16) -> io::Result<Arc<Jobs>> {
        let jobs = Arc::new(Jobs {
            queue: Mutex::default(),
            filled: Condvar::new(),
            extents,
            counts: Counts::default(),
        });
        for number in 0..threads {
            let own = Arc::clone(&jobs);
            let name = format!("spill-{number}");
            if let Err(error) = std::thread::Builder::new().name(name).spawn(move || own.work()) {
                jobs.close();
                return Err(error);
            }
        }
        Ok(jobs)
    }

    /// Queues `job`, or gives it back when the queue is full. With `turn` and a waker the caller is
    /// woken when it is worth trying again.
    pub(super) fn submit(
        self: &Arc<Self>,
        job: Job,
        turn: &mut Option<Turn>,
        waker: Option<&Waker>,
    ) -> Result<Transfer, Job> {
        let mut queue = self.lock();
        if queue.jobs.len() >= QUEUE_MAX {
            if let Some(waker) = waker {
                let number = turn.as_ref().map_or(queue.next, |turn| turn.number);
                queue.next += 1;
                queue.waiting.insert(number, waker.clone());
                drop(queue);
                turn.get_or_insert_with(|| Turn { jobs: Arc::clone(self), number });
            }
            return Err(job);
        }
        let transfer = Transfer { cell: Arc::clone(&job.cell) };
        queue.jobs.push_back(job);
        drop(queue);
        self.filled.notify_one();
        *turn = None;
        Ok(transfer)
    }

    /// Jobs that wait now.
    pub(super) fn waiting(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Lets the threads end once the queue is empty.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    fn work(&self) {
        while let Some(mut job) = self.next_job() {
            let result = job.run();
            self.count(&job, result.is_ok());
            job.finish(result);
        }
    }

    fn count(&self, job: &Job, worked: bool) {
        let (counter, count) = match (worked, job.direction) {
            (false, _) => (&self.counts.failed, 1),
            (true, Direction::Read) => (&self.counts.read, job.data.len() as u64),
            (true, Direction::Write) => (&self.counts.written, job.data.len() as u64),
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// The oldest job; none when the queue is closed and empty.
    fn next_job(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                let woken = match queue.jobs.len() <= QUEUE_MAX / 2 {
                    true => std::mem::take(&mut queue.waiting),
                    false => BTreeMap::new(),
                };
                drop(queue);
                woken.into_values().for_each(Waker::wake);
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            drop(queue);
            let punched = self.extents.punch_one();
            queue = self.lock();
            if !punched && queue.jobs.is_empty() && !queue.closed {
                queue = self.rest(queue);
            }
        }
    }

    /// Sleeps until a job comes; where extents may become a surplus, not longer than [`PAUSE`]: who
    /// frees them rings no bell.
    fn rest<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        if self.extents.may_have_surplus() {
            let (queue, _) = self.filled.wait_timeout(queue, PAUSE).expect(UNPOISONED);
            return queue;
        }
        self.filled.wait(queue).expect(UNPOISONED)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect(UNPOISONED)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.jobs.lock().waiting.remove(&self.number);
    }
}
