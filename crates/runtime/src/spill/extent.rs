//! Extents: the pieces of 256 KiB in which spill space is handed out.
//!
//! An extent belongs to one body, and to the I/O jobs of that body that are under way: it is free
//! again when the last of them lets go, so a body that is dropped in the middle of a write cannot
//! have its place given away under that write. Its share of the budget is free before, so that who
//! is granted it may have to wait for such a job.
//!
//! Extent `n` lies in segment file `n % files`, so neighbours lie on different disks, and the
//! lowest free one is taken first, so the files stay as short as they can. Free extents whose bytes
//! are still on disk are used again before untouched ones, which costs neither the file system nor
//! the page cache anything. Those that nobody needed for some time are given back to the file
//! system by the idle I/O threads, highest first, but for [`KEEP`] of them.
//!
//! What an extent held before can never be read: a body reads exactly what it wrote.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use spillgate_core::time::{Duration, Instant};

use super::segment::SegmentFile;

/// Bytes in one extent. Plain choice: four full blocks; a list of 4,096 covers 1 GiB.
pub const EXTENT: u64 = 256 * 1024;

/// Free extents whose disk space is kept for the next body: 64 MiB.
const KEEP: usize = 256;

/// Time in which an extent was not needed before its disk space is given back. Plain choice: bodies
/// of slow clients last about as long, and giving an extent back and having it again costs more
/// than writing it does.
pub(super) const UNNEEDED_TIME: Duration = Duration::from_secs(10);

/// All extents of all spill folders.
#[derive(Debug)]
pub(super) struct Extents {
    files: Vec<Box<dyn SegmentFile>>,
    count: u32,
    unneeded_time: Duration,
    /// A short lock: taken to take or free one extent, never during I/O.
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// Free, with old bytes on disk.
    used: BTreeSet<u32>,
    /// Free, without bytes on disk, and below `untouched`.
    clean: BTreeSet<u32>,
    /// This one and all above it were never taken.
    untouched: u32,
    /// Belong to somebody.
    taken: u32,
    /// Told when the next one is free.
    waiting: Vec<Waker>,
    /// The fewest that were in `used` since `looked`: so many nobody needed.
    unneeded: usize,
    looked: Instant,
    /// To be given back.
    surplus: usize,
}

/// A place for [`EXTENT`] bytes, free again when dropped.
#[derive(Debug)]
pub(super) struct Extent {
    number: u32,
    owner: Arc<Extents>,
}

impl Extents {
    /// As many whole extents as fit into `size_max`, over `files`. Disk space that nobody needs for
    /// `unneeded_time` is given back.
    pub(super) fn new(
        files: Vec<Box<dyn SegmentFile>>,
        size_max: u64,
        unneeded_time: Duration,
    ) -> Extents {
        let count = u32::try_from(size_max / EXTENT).unwrap_or(u32::MAX);
        Extents { files, count, unneeded_time, places: Mutex::default() }
    }

    /// The lowest free extent; none: the folders are full, and the waker, where one is given, is
    /// told when they are no longer.
    pub(super) fn take(self: &Arc<Self>, waker: Option<&Waker>) -> Option<Extent> {
        let mut places = self.lock();
        let number = if let Some(number) = places.used.pop_first() {
            places.unneeded = places.unneeded.min(places.used.len());
            number
        } else if let Some(number) = places.clean.pop_first() {
            number
        } else if places.untouched < self.count {
            places.untouched += 1;
            places.untouched - 1
        } else {
            if let Some(waker) = waker
                && !places.waiting.iter().any(|other| other.will_wake(waker))
            {
                places.waiting.push(waker.clone());
            }
            return None;
        };
        places.taken += 1;
        Some(Extent { number, owner: Arc::clone(self) })
    }

    /// Bytes of the extents that belong to somebody.
    pub(super) fn taken(&self) -> u64 {
        u64::from(self.lock().taken) * EXTENT
    }

    /// Bytes of all extents.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.count) * EXTENT
    }

    /// Gives the disk space of one free extent back, if more than [`KEEP`] were not needed lately.
    /// Says whether there was one. Blocks: for I/O threads.
    pub(super) fn punch_one(&self, now: Instant) -> bool {
        let Some(number) = self.surplus(now) else { return false };
        let (file, offset) = self.place(number);
        // A file system that cannot punch keeps the space; the extent is as free as before.
        let punched = file.punch(offset, EXTENT).is_ok();
        let mut places = self.lock();
        match punched {
            true => _ = places.clean.insert(number),
            false => _ = places.used.insert(number),
        }
        punched
    }

    /// Whether there is, or may soon be, something for [`Extents::punch_one`].
    pub(super) fn may_have_surplus(&self) -> bool {
        let places = self.lock();
        places.used.len() + places.taken as usize > KEEP
    }

    fn surplus(&self, now: Instant) -> Option<u32> {
        let mut places = self.lock();
        if now.since(places.looked) >= self.unneeded_time {
            places.surplus = places.unneeded.saturating_sub(KEEP);
            (places.unneeded, places.looked) = (places.used.len(), now);
        }
        // Some may have been taken meanwhile.
        places.surplus = places.surplus.min(places.used.len().saturating_sub(KEEP));
        if places.surplus == 0 {
            return None;
        }
        places.surplus -= 1;
        let number = places.used.pop_last();
        places.unneeded = places.unneeded.min(places.used.len());
        number
    }

    fn place(&self, number: u32) -> (&dyn SegmentFile, u64) {
        let files = self.files.len() as u32;
        (&*self.files[(number % files) as usize], u64::from(number / files) * EXTENT)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("nothing panics under this lock")
    }
}

impl Extent {
    /// The file it lies in and its first byte there.
    pub(super) fn place(&self) -> (&dyn SegmentFile, u64) {
        self.owner.place(self.number)
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        let mut places = self.owner.lock();
        places.taken -= 1;
        places.used.insert(self.number);
        let woken = std::mem::take(&mut places.waiting);
        drop(places);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::super::doubles::MemoryFile;
    use super::*;

    fn extents(files: usize, size_max: u64) -> Arc<Extents> {
        let files = (0..files).map(|_| Box::new(MemoryFile::default()) as Box<dyn SegmentFile>);
        Arc::new(Extents::new(files.collect(), size_max, Duration::from_secs(1)))
    }

    #[test]
    fn the_limit_holds_and_freed_extents_come_back_lowest_first() {
        let extents = extents(2, 3 * EXTENT + 5);
        let mut taken: Vec<Extent> = std::iter::from_fn(|| extents.take(None)).collect();
        assert_eq!(taken.iter().map(|extent| extent.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((extents.taken(), extents.size()), (3 * EXTENT, 3 * EXTENT));
        assert_eq!(taken[2].place().1, EXTENT, "the third is the second of the first file");
        taken.remove(1);
        taken.remove(0);
        assert_eq!(extents.take(None).map(|extent| extent.number), Some(0));
        drop(taken);
        assert_eq!(extents.taken(), 0);
    }

    #[test]
    fn disk_space_beyond_the_reserve_is_given_back_from_the_end() {
        let extents = extents(1, 300 * EXTENT);
        let all = || std::iter::from_fn(|| extents.take(None)).collect::<Vec<_>>();
        let punched = |seconds: u64| {
            let now = Instant::from_millis(seconds * 1000);
            std::iter::from_fn(|| extents.punch_one(now).then_some(())).count()
        };
        drop(all());
        assert_eq!(punched(1), 0, "they were needed until just now");
        let some: Vec<Extent> = (0..20).filter_map(|_| extents.take(None)).collect();
        drop(some);
        assert_eq!(punched(2), 300 - 20 - KEEP, "so many were not needed for a second");
        assert_eq!(punched(2), 0);
        assert_eq!(punched(3), 20, "nobody has needed those either");
        assert_eq!(punched(4), 0, "a reserve is kept");
        assert_eq!(all().len(), 300, "punched extents are still there");
    }
}
