//! Spill folders: where the bytes of bodies go that are too large, or too many, for memory.
//!
//! Each folder has a fixed number of segment files without names, cut into extents of 256 KiB; a
//! body takes extents as it grows and gives them back when it is dropped. So ten thousand spilled
//! bodies cost no descriptor. All I/O is done by a few threads of its own; a shard hands memory
//! over and gets it back, and a slow disk slows bodies on it alone.
//!
//! What goes wrong is the matter of one body: a write that fails, a full disk, a file that cannot
//! be read any more. The threads and the other bodies go on.
//!
//! Absent: when a body spills (`buffer`), encryption (folders belong to us alone, mode 0600, no
//! names), anything that outlives the process.

#[cfg(test)]
pub(crate) mod doubles;
mod extent;
mod folder;
mod jobs;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use spillgate_core::time::Duration;
use spillgate_core::units::ByteSize;

pub use extent::EXTENT;
use extent::{Extent, Extents, UNNEEDED_TIME};
pub use folder::{SEGMENTS, Warning, check_folder, free_in, share_of_free, temporary_folder};
pub use jobs::QUEUE_MAX;
use jobs::{Direction, Job, Jobs, Piece};
pub(crate) use jobs::{Done, Haste, Transfer, Turn};
use segment::SegmentFile;

/// Where bodies spill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The folders; segment files are made there and unlinked at once. At least one.
    pub folders: Vec<PathBuf>,
    /// Most bytes that all folders together may hold. At least 256 KiB.
    pub size_max: ByteSize,
    /// Threads that read and write spill files. Default 2; range 1 to 64.
    pub threads: u16,
}

/// The numbers of the spill folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The most that the folders may hold, in whole extents.
    pub size_max: ByteSize,
    /// Held by bodies now, in whole extents.
    pub used: ByteSize,
    /// Written so far.
    pub written: ByteSize,
    /// Read so far.
    pub read: ByteSize,
    /// Reads and writes that failed so far.
    pub failed: u64,
    /// Jobs that wait for an I/O thread now; at most [`QUEUE_MAX`].
    pub jobs_waiting: u32,
}

/// All spill folders of the process, shared by all shards.
#[derive(Debug)]
pub(crate) struct Spill {
    extents: Arc<Extents>,
    jobs: Arc<Jobs>,
    warnings: Vec<Warning>,
}

/// The extents of one body, in the order of its bytes.
#[derive(Debug)]
pub(crate) struct Chain {
    spill: Arc<Spill>,
    extents: VecDeque<Arc<Extent>>,
}

impl Spill {
    /// Makes the segment files and starts the threads.
    ///
    /// # Errors
    /// A folder that is missing, not ours to write, or full; settings out of range. The text names
    /// the folder.
    pub(crate) fn open(settings: &Settings) -> io::Result<Spill> {
        let mut files: Vec<Box<dyn SegmentFile>> = Vec::new();
        let mut warnings = Vec::new();
        let share = settings.size_max.as_bytes() / settings.folders.len().max(1) as u64;
        for folder in &settings.folders {
            warnings.extend(check_folder(folder, ByteSize::from_bytes(share))?);
        }
        for _ in 0..SEGMENTS {
            for folder in &settings.folders {
                files.push(Box::new(folder::make_segment(folder)?));
            }
        }
        let (size, threads) = (settings.size_max, settings.threads);
        let mut spill = Spill::over(files, size, threads, UNNEEDED_TIME)?;
        spill.warnings = warnings;
        Ok(spill)
    }

    /// The same over files that are there.
    fn over(
        files: Vec<Box<dyn SegmentFile>>,
        size: ByteSize,
        threads: u16,
        unneeded_time: Duration,
    ) -> io::Result<Spill> {
        if files.is_empty() || size.as_bytes() < EXTENT || !(1..=64).contains(&threads) {
            let text = "spill needs a folder, at least 256KiB and 1 to 64 threads";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let extents = Arc::new(Extents::new(files, size.as_bytes(), unneeded_time));
        let jobs = Jobs::start(Arc::clone(&extents), threads)?;
        Ok(Spill { extents, jobs, warnings: Vec::new() })
    }

    /// What is allowed but probably not meant.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The numbers.
    pub(crate) fn view(&self) -> View {
        let counts = &self.jobs.counts;
        View {
            size_max: ByteSize::from_bytes(self.extents.size()),
            used: ByteSize::from_bytes(self.extents.taken()),
            written: ByteSize::from_bytes(counts.written.load(Ordering::Relaxed)),
            read: ByteSize::from_bytes(counts.read.load(Ordering::Relaxed)),
            failed: counts.failed.load(Ordering::Relaxed),
            jobs_waiting: u32::try_from(self.jobs.waiting()).unwrap_or(u32::MAX),
        }
    }
}

/// What a body wants done in its chain.
#[derive(Debug)]
pub(crate) struct Order {
    /// Where in the chain.
    pub(crate) offset: u64,
    /// What is to be written, or filled.
    pub(crate) data: Vec<u8>,
    /// How soon.
    pub(crate) haste: Haste,
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.jobs.close();
    }
}

impl Chain {
    /// No extents yet.
    pub(crate) fn new(spill: &Arc<Spill>) -> Chain {
        Chain { spill: Arc::clone(spill), extents: VecDeque::new() }
    }

    /// Bytes of its extents.
    pub(crate) fn size(&self) -> u64 {
        self.extents.len() as u64 * EXTENT
    }

    /// Does it hold nothing?
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Takes extents for at least `len` bytes. False: the folders are full, and the waker, where
    /// one is given, is told when something is free; what was taken is kept for the next try.
    pub(crate) fn extend(&mut self, len: u64, waker: Option<&Waker>) -> bool {
        while self.size() < len {
            let Some(extent) = self.spill.extents.take(waker) else { return false };
            self.extents.push_back(Arc::new(extent));
        }
        true
    }

    /// Frees the first extent; offsets count from the next one then.
    pub(crate) fn drop_first(&mut self) {
        self.extents.pop_front();
    }

    /// Begins to write all of `data` at `offset`; gives it back when the queue is full. With a
    /// waker, `turn` then stands for the wait.
    pub(crate) fn write(
        &self,
        order: Order,
        turn: &mut Option<Turn>,
        waker: Option<&Waker>,
    ) -> Result<Transfer, Vec<u8>> {
        let Order { offset, data, haste } = order;
        let job = Job::new(Direction::Write, haste, self.pieces(offset, data.len()), data);
        self.spill.jobs.submit(job, turn, waker).map_err(|job| job.data)
    }

    /// Begins to fill all of `data` from `offset`; else like [`Chain::write`].
    pub(crate) fn read(
        &self,
        order: Order,
        turn: &mut Option<Turn>,
        waker: Option<&Waker>,
    ) -> Result<Transfer, Vec<u8>> {
        let Order { offset, data, haste } = order;
        let job = Job::new(Direction::Read, haste, self.pieces(offset, data.len()), data);
        self.spill.jobs.submit(job, turn, waker).map_err(|job| job.data)
    }

    /// Reads what follows at `offset` into `bytes`, if that takes no disk, and says how many those
    /// were, of one extent at most; 0: a read may take one. Never blocks.
    pub(crate) fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let within = offset % EXTENT;
        let len = bytes.len().min((EXTENT - within) as usize);
        let (file, start) = self.extents[(offset / EXTENT) as usize].place();
        let count = file.read_cached(&mut bytes[..len], start + within);
        self.spill.jobs.counts.read.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// Where `len` bytes at `offset` lie.
    fn pieces(&self, offset: u64, len: usize) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(2);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let within = at % EXTENT;
            let count = (len - done).min((EXTENT - within) as usize);
            let extent = Arc::clone(&self.extents[(at / EXTENT) as usize]);
            pieces.push(Piece { extent, offset: within, range: done..done + count });
            done += count;
        }
        pieces
    }
}
