//! Spill folders themselves: whether they are fit for use, and making segment files in them.
//!
//! A folder is tried out before anything is served, so that a mistake is an error at start. Absent:
//! extents and jobs; this file is done when the segment files are open.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use spillgate_core::units::ByteSize;

use super::segment::{Segment, SegmentFile, named, write_all};

/// Segment files in each folder. Plain choice: a file's inode lock is taken by one write at a time,
/// and more threads than this rarely write at once.
pub const SEGMENTS: usize = 4;

/// Folders for temporary files that outlive a restart, so that they are on a disk. The one that the
/// environment names comes after it.
const TEMPORARY: &str = "/var/tmp";

/// Part of the free disk space that bodies may take where no limit is set: one in so many.
const FREE_SHARE: u64 = 4;

/// The most that they may take then. Plain choice: 16,000 slow readers of 1 MiB.
const FREE_MAX: ByteSize = ByteSize::from_mib(16 * 1024);

/// `f_type` of tmpfs and ramfs (`linux/magic.h`).
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Something about a folder that is allowed but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It is on a file system in memory: what spills there leaves the budget, not the memory.
    InMemory(PathBuf),
    /// Its file system has less room than its share of `size_max`.
    Small {
        /// The folder.
        folder: PathBuf,
        /// Free bytes there now.
        free: ByteSize,
        /// Its share.
        share: ByteSize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::InMemory(folder) => {
                write!(f, "spill folder {} is on a file system in memory", folder.display())
            }
            Warning::Small { folder, free, share } => {
                let folder = folder.display();
                write!(f, "spill folder {folder} has {free} free, less than its share of {share}")
            }
        }
    }
}

/// Looks whether bodies can spill to `folder`, of which they will use up to `share` bytes.
///
/// # Errors
/// It is missing, no folder, not ours to write, or full. The text names it.
pub fn check_folder(folder: &Path, share: ByteSize) -> io::Result<Vec<Warning>> {
    check(folder, share).map_err(|error| named(folder, &error))
}

/// The first of the system's folders for temporary files that is on a disk and can be used.
///
/// # Errors
/// There is none. The text says of each why.
pub fn temporary_folder() -> io::Result<PathBuf> {
    first_usable([PathBuf::from(TEMPORARY), std::env::temp_dir()])
}

fn first_usable(folders: impl IntoIterator<Item = PathBuf>) -> io::Result<PathBuf> {
    let mut why = Vec::new();
    for folder in folders {
        match check_folder(&folder, ByteSize::ZERO) {
            Ok(warnings) => match warnings.first() {
                None => return Ok(folder),
                Some(warning) => why.push(warning.to_string()),
            },
            Err(error) => why.push(error.to_string()),
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, why.join("; ")))
}

/// What bodies may take of `folders` where no limit is set: a quarter of what is free there now, in
/// whole MiB, at most 16 GiB.
///
/// # Errors
/// A folder is missing, or less than 4 MiB are free.
pub fn share_of_free(folders: &[PathBuf]) -> io::Result<ByteSize> {
    let share = (free_in(folders)?.as_bytes() / FREE_SHARE).min(FREE_MAX.as_bytes()) >> 20;
    if share == 0 {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "the spill folders are full"));
    }
    Ok(ByteSize::from_mib(share))
}

/// What is free in `folders` now. Those on one file system share what is free there.
///
/// # Errors
/// A folder is missing.
pub fn free_in(folders: &[PathBuf]) -> io::Result<ByteSize> {
    let (mut free, mut seen) = (ByteSize::ZERO, BTreeSet::new());
    for folder in folders {
        let device = fs::metadata(folder).map_err(|error| named(folder, &error))?.dev();
        if !seen.insert(device) {
            continue;
        }
        let about = rustix::fs::statfs(folder).map_err(|error| named(folder, &error.into()))?;
        free += free_bytes(&about);
    }
    Ok(free)
}

fn free_bytes(about: &rustix::fs::StatFs) -> ByteSize {
    let block = u64::try_from(about.f_bsize).unwrap_or(0);
    ByteSize::from_bytes(about.f_bavail.saturating_mul(block))
}

fn check(folder: &Path, share: ByteSize) -> io::Result<Vec<Warning>> {
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let probe = make(folder)?;
    write_all(&probe, &[0; 4096], 0)?;
    let mut warnings = Vec::new();
    let about = rustix::fs::fstatfs(&probe)?;
    if MEMORY_FILE_SYSTEMS.contains(&about.f_type) {
        warnings.push(Warning::InMemory(folder.to_owned()));
    }
    let free = free_bytes(&about);
    if free < share {
        warnings.push(Warning::Small { folder: folder.to_owned(), free, share });
    }
    // A file system that cannot punch holes is no error: spill space is then kept once it was used.
    _ = probe.punch(0, 4096);
    Ok(warnings)
}

/// A new file in `folder`, without a name.
pub(super) fn make_segment(folder: &Path) -> io::Result<Segment> {
    let file = make(folder).map_err(|error| named(folder, &error))?;
    Ok(Segment::new(file, folder))
}

/// `create_new` neither follows a link nor opens what somebody else has put there.
fn make(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("spillgate-{}-{number}.spill", std::process::id()));
    let mut options = OpenOptions::new();
    // Nobody asks when a file without a name was read, and noting it may wait for a disk.
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOATIME);
    let file = options.open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_used_is_named() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let file = scratch.path().join("file");
        fs::write(&file, b"x").expect("a file");
        for (path, kind) in [
            (file, io::ErrorKind::NotADirectory),
            (scratch.path().join("missing"), io::ErrorKind::NotFound),
        ] {
            let error = check_folder(&path, ByteSize::ZERO).expect_err("not fit for use");
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn a_segment_leaves_no_name_behind() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let warnings = check_folder(scratch.path(), ByteSize::from_bytes(u64::MAX));
        assert!(matches!(&*warnings.expect("fit for use"), [.., Warning::Small { .. }]));
        let _segment = make_segment(scratch.path()).expect("a segment");
        assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 0);
    }

    #[test]
    fn the_first_folder_that_is_on_a_disk_is_taken() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let [missing, memory] = [scratch.path().join("missing"), PathBuf::from("/dev/shm")];
        let error = first_usable([missing.clone(), memory.clone()]).expect_err("none is usable");
        let text = error.to_string();
        assert!(text.contains("missing") && text.contains("/dev/shm"), "{text}");
        // On a machine whose scratch folder is in memory it is passed over, too.
        match first_usable([missing, scratch.path().to_owned()]) {
            Ok(folder) => assert_eq!(folder, scratch.path()),
            Err(error) => assert!(error.to_string().contains("in memory"), "{error}"),
        }
    }

    #[test]
    fn without_a_limit_a_quarter_of_what_is_free_is_taken() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let share = share_of_free(&[scratch.path().to_owned()]).expect("some of it is free");
        assert!(share >= ByteSize::from_mib(1) && share <= FREE_MAX, "{share}");
        let other = scratch.path().join("other");
        fs::create_dir(&other).expect("a second folder");
        let both = share_of_free(&[scratch.path().to_owned(), other]).expect("some of it is free");
        assert!(both < share + share, "the free bytes of one disk count once: {both}, {share}");
        assert!(share_of_free(&[]).is_err(), "nothing is free nowhere");
        assert!(share_of_free(&[scratch.path().join("missing")]).is_err());
    }

    #[test]
    fn a_folder_in_memory_is_told() {
        let warnings = check_folder(Path::new("/dev/shm"), ByteSize::ZERO);
        assert_eq!(
            warnings.expect("every Linux has this mount"),
            [Warning::InMemory(PathBuf::from("/dev/shm"))]
        );
    }
}
