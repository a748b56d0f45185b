//! The I/O threads of the spill folders, and the bounded queue of their jobs.
//!
//! A shard hands over a `Vec` by value and gets it back when its job is done (a write that worked
//! frees it); it never touches a file and never waits for one. A queue that is full says so at once
//! ([`Jobs::submit`]); who wants to is woken when it is half empty. A job that nobody waits for any
//! more is still done: its extents are freed after it, and its `Vec` is dropped with it.
//!
//! Bound: [`QUEUE_MAX`] jobs wait, and `threads` are being done, each with at most one extent of
//! memory. That memory belongs to the budget of the body that handed it over; it can outlive a
//! dropped body by the time of its job, so at most 32 MiB are in use beyond the budget.
//!
//! What a small job costs is mostly the wakes of the threads on both ends of it. So a burst rings
//! one thread, a shard is rung once for all that it has not seen, and lazy jobs ([`Haste`]) are
//! left for a thread that looks by itself. Their ends are told together, by whichever thread looks
//! next in vain: a job that a disk holds up holds up no word of others while one thread is free.
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
use crate::shard::Bell;
use crate::{clock, events};

/// Jobs that may wait for an I/O thread. Plain choice: at 50 µs a job the last one waits 6 ms.
pub const QUEUE_MAX: usize = 128;

/// Jobs that wait for each thread that is awake before another is rung. Plain choice: a thread does
/// as many in the time that it takes to wake one.
const BURST: usize = 8;

/// Longest time until a dozing thread looks for jobs by itself.
/// So long a lazy job waits, or one behind another that a disk holds up; and so long the word of a
/// lazy job's end.
const DOZE: Duration = Duration::from_millis(10);

/// Looks in vain after which a thread no longer looks for jobs by itself: a second.
const DOZES_MAX: u32 = 100;

/// Longest time until a thread that sleeps looks for disk space to give back.
const SLEEP: Duration = Duration::from_secs(1);

/// Lazy jobs for which a dozing thread is rung all the same, and lazy ends that are told at once.
const LAZY_MAX: usize = 32;

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
    /// Nobody is in a hurry.
    lazy: bool,
    cell: Arc<Cell>,
}

/// How soon a job has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// At once.
    Now,
    /// Within some ten milliseconds, together with others: most of what a small job costs is the
    /// wakes of the threads on both ends of it.
    Lazy,
}

/// What came of a job: the memory that was handed over, and whether it worked.
#[derive(Debug)]
pub(crate) struct Done {
    /// The same memory: filled by a read, and still full after a write that failed. A write that
    /// worked frees it at once, however late somebody looks.
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
    waker: Option<(Waker, Bell)>,
}

/// The queue and its threads' common memory.
#[derive(Debug)]
pub(super) struct Jobs {
    queue: Mutex<Queue>,
    /// Rung as [`Queue::bell`] says, and when the queue is closed.
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
    /// Threads with a job, or looking for one.
    awake: usize,
    /// Threads that look by themselves soon.
    dozing: usize,
    /// Threads that look when they are rung, and not before.
    sleeping: usize,
    /// Threads that were rung and are not awake yet.
    rung: usize,
    /// Who waits for lazy jobs that have ended. At most [`LAZY_MAX`].
    told: Vec<(Waker, Bell)>,
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// Whom a new job rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Nobody,
    One,
    All,
}

/// A place among those who wait for the queue; given up when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    jobs: Arc<Jobs>,
    number: u64,
}

impl Queue {
    /// Is there nothing to do and nobody to tell?
    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.told.is_empty() && !self.closed
    }

    /// Whom to ring for the job that was just added. One bell costs as much as a small job, so a
    /// burst rings one thread, and more only where that one cannot keep up; but nobody is left
    /// asleep who could be needed while a disk holds the others up.
    fn bell(&mut self, lazy: bool) -> Ring {
        if self.sleeping > 0 {
            (self.dozing, self.sleeping) = (self.dozing + self.sleeping, 0);
            self.rung = self.dozing;
            return Ring::All;
        }
        let looks_soon = lazy && self.jobs.len() < LAZY_MAX;
        let busy = self.awake + self.rung;
        if !looks_soon && self.dozing > self.rung && self.jobs.len() > BURST * busy {
            self.rung += 1;
            return Ring::One;
        }
        Ring::Nobody
    }
}

impl Job {
    pub(super) fn new(
        direction: Direction,
        haste: Haste,
        pieces: Vec<Piece>,
        data: Vec<u8>,
    ) -> Job {
        Job { direction, pieces, data, lazy: haste == Haste::Lazy, cell: Arc::default() }
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

    /// Lets go of the extents and of memory that nobody needs, then leaves the result: who sees it
    /// finds what it freed free. Returns whom to wake.
    fn finish(mut self, result: io::Result<()>) -> Option<(Waker, Bell)> {
        drop(self.pieces);
        if self.direction == Direction::Write && result.is_ok() {
            self.data = Vec::new();
        }
        let mut state = self.cell.lock();
        state.done = Some(Done { data: self.data, result });
        state.waker.take()
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
            match &mut state.waker {
                Some((kept, _)) => kept.clone_from(waker),
                None => state.waker = Some((waker.clone(), Bell::of_this_thread())),
            }
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
        let lazy = job.lazy;
        queue.jobs.push_back(job);
        let ring = queue.bell(lazy);
        drop(queue);
        match ring {
            Ring::All => self.filled.notify_all(),
            Ring::One => self.filled.notify_one(),
            Ring::Nobody => {}
        }
        *turn = None;
        Ok(transfer)
    }

    /// Jobs that wait now.
    pub(super) fn waiting(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Threads that look only when they are rung.
    #[cfg(test)]
    pub(super) fn sleeping(&self) -> usize {
        self.lock().sleeping
    }

    /// Lets the threads end once the queue is empty.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        (queue.dozing, queue.sleeping) = (queue.dozing + queue.sleeping, 0);
        drop(queue);
        self.filled.notify_all();
    }

    fn work(&self) {
        self.lock().awake += 1;
        while let Some(mut job) = self.next_job() {
            let result = job.run();
            self.count(&job, result.is_ok());
            if let Err(error) = &result {
                tell(job.direction, error);
            }
            let lazy = job.lazy;
            match job.finish(result) {
                Some(waiter) if lazy => self.tell_later(waiter),
                Some((waker, bell)) => bell.wake(waker),
                None => {}
            }
        }
        self.lock().awake -= 1;
    }

    fn tell_later(&self, waiter: (Waker, Bell)) {
        let mut queue = self.lock();
        queue.told.push(waiter);
        if queue.told.len() >= LAZY_MAX {
            let told = std::mem::take(&mut queue.told);
            drop(queue);
            wake(told);
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

    /// The oldest job; none when the queue is closed and empty. Tells the ends of lazy jobs before
    /// it waits.
    fn next_job(&self) -> Option<Job> {
        let mut in_vain = 0;
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
            let (told, closed) = (std::mem::take(&mut queue.told), queue.closed);
            drop(queue);
            wake(told);
            if closed {
                return None;
            }
            let punched = self.extents.punch_one(clock::now());
            queue = self.lock();
            if !punched && queue.is_idle() {
                (queue, in_vain) = self.rest(queue, in_vain + 1);
            }
        }
    }

    /// Dozes, or sleeps until it is rung where nothing was to be done for some time. Where extents
    /// may become a surplus it looks for them now and then: who frees them rings no bell. Who was
    /// rung has looked in vain no time, so that a steady trickle of jobs does not ring it for each.
    fn rest<'q>(
        &self,
        mut queue: MutexGuard<'q, Queue>,
        mut in_vain: u32,
    ) -> (MutexGuard<'q, Queue>, u32) {
        queue.awake -= 1;
        if in_vain > DOZES_MAX {
            queue.sleeping += 1;
            let asleep = |queue: &mut Queue| queue.sleeping > 0;
            let overslept;
            (queue, overslept) = match self.extents.may_have_surplus() {
                false => (self.filled.wait_while(queue, asleep).expect(UNPOISONED), false),
                true => {
                    let woken = self.filled.wait_timeout_while(queue, SLEEP, asleep);
                    let (queue, end) = woken.expect(UNPOISONED);
                    (queue, end.timed_out())
                }
            };
            // A bell makes dozers of all sleepers, so that nobody is counted twice.
            if overslept {
                (queue.dozing, queue.sleeping) = (queue.dozing + 1, queue.sleeping - 1);
            } else {
                in_vain = 0;
            }
        } else {
            queue.dozing += 1;
            queue = self.filled.wait_timeout(queue, DOZE).expect(UNPOISONED).0;
        }
        queue.dozing -= 1;
        queue.awake += 1;
        queue.rung = queue.rung.saturating_sub(1);
        (queue, in_vain)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect(UNPOISONED)
    }
}

/// Who has to mend it learns of it, as often as the log allows.
fn tell(direction: Direction, error: &io::Error) {
    let (what, then) = match direction {
        Direction::Write => ("write", "bodies that are too large for memory are turned away"),
        Direction::Read => ("read", "the body is lost"),
    };
    events::warn("spill", format_args!("cannot {what}, {then}: {error}"));
}

fn wake(told: Vec<(Waker, Bell)>) {
    told.into_iter().for_each(|(waker, bell)| bell.wake(waker));
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.jobs.lock().waiting.remove(&self.number);
    }
}
