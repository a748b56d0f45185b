//! The program's own log: one line on standard error for each thing that an operator should know.
//!
//! A message is `time level area: text`. Each place in the code that logs has an allowance of its
//! own, so one fault that repeats a thousand times a second neither fills a disk nor hides another.
//! A line is written only when standard error can take it at once: a stalled reader costs lines,
//! not shards. Absent: levels to choose, targets, fields, macros.

use std::fmt::{self, Display, Write as _};
use std::os::fd::AsFd;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spillgate_core::time::Instant;

use super::timestamp::Timestamps;
use crate::clock;

/// Lines that one place may write at once.
const BURST: u64 = 10;
/// Time after which a place that has used up its burst may write one more.
const REFILL_NANOS: u64 = 1_000_000_000;
/// Places that are remembered. Far more than the code has; beyond it, lines are not limited.
const PLACES_MAX: usize = 1024;
/// A line is cut here, so that a pipe with room for it takes it whole (`PIPE_BUF`).
const LINE_LEN_MAX: usize = 4096;

static PLACES: Mutex<Vec<Place>> = Mutex::new(Vec::new());
static LINES_DROPPED: AtomicU64 = AtomicU64::new(0);

/// Something that an operator may want to know.
#[track_caller]
pub fn info(area: &str, text: impl Display) {
    tell("info", area, &text, Location::caller());
}

/// Something that an operator should look at.
#[track_caller]
pub fn warn(area: &str, text: impl Display) {
    tell("warn", area, &text, Location::caller());
}

/// Something that an operator has to mend.
#[track_caller]
pub fn error(area: &str, text: impl Display) {
    tell("error", area, &text, Location::caller());
}

/// Lines left out so far: over their allowance, or not taken by standard error.
pub fn lines_dropped() -> u64 {
    LINES_DROPPED.load(Relaxed)
}

fn tell(level: &str, area: &str, text: &dyn Display, place: &'static Location<'static>) {
    let Some(left_out) = allow(place, clock::now()) else {
        LINES_DROPPED.fetch_add(1, Relaxed);
        return;
    };
    let line = line(level, area, text, left_out);
    if !write_at_once(&line) {
        LINES_DROPPED.fetch_add(1, Relaxed);
    }
}

/// The allowance of one place.
#[derive(Debug)]
struct Place {
    place: &'static Location<'static>,
    bucket: Bucket,
}

/// A bucket of lines that fills with time.
#[derive(Debug)]
struct Bucket {
    left: u64,
    filled: Instant,
    left_out: u64,
}

impl Bucket {
    fn new(now: Instant) -> Bucket {
        Bucket { left: BURST, filled: now, left_out: 0 }
    }

    /// Whether a line may be written, and then how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let earned = now.as_nanos().saturating_sub(self.filled.as_nanos()) / REFILL_NANOS;
        if earned > 0 {
            self.left = (self.left + earned).min(BURST);
            self.filled = Instant::from_nanos(self.filled.as_nanos() + earned * REFILL_NANOS);
        }
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

fn allow(place: &'static Location<'static>, now: Instant) -> Option<u64> {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = places.iter_mut().find(|known| known.place == place) {
        return known.bucket.take(now);
    }
    if places.len() >= PLACES_MAX {
        return Some(0);
    }
    let mut bucket = Bucket::new(now);
    let allowed = bucket.take(now);
    places.push(Place { place, bucket });
    allowed
}

fn line(level: &str, area: &str, text: &dyn Display, left_out: u64) -> Vec<u8> {
    let mut line = Vec::with_capacity(256);
    Timestamps::new().write(&mut line, clock::wall());
    let mut writer = OneLine { line };
    // Writing to memory fails only when a `Display` says so; what it wrote before still counts.
    let _ = write!(writer, " {level} {area}: {text}");
    if left_out > 0 {
        let _ = write!(writer, " ({left_out} like this left out)");
    }
    let mut line = writer.line;
    line.push(b'\n');
    line
}

/// Takes text, keeps it on one line, and cuts it at `LINE_LEN_MAX`.
struct OneLine {
    line: Vec<u8>,
}

impl fmt::Write for OneLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let mut utf8 = [0; 4];
            let mut escaped = String::new();
            let piece = if character.is_control() {
                escaped.extend(character.escape_default());
                escaped.as_str()
            } else {
                character.encode_utf8(&mut utf8)
            };
            if self.line.len() + piece.len() >= LINE_LEN_MAX {
                break;
            }
            self.line.extend_from_slice(piece.as_bytes());
        }
        Ok(())
    }
}

/// False when standard error cannot take the line without waiting.
fn write_at_once(line: &[u8]) -> bool {
    let stderr = std::io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut wanted = [PollFd::new(&stderr, PollFlags::OUT)];
    let ready = poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready > 0);
    ready && rustix::io::write(stderr.as_fd(), line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let line = line("warn", "proxy", &"two\nlines \u{1b}[31m", 3);
        let text = String::from_utf8(line).expect("it is text");
        let (time, rest) = text.split_at(27);
        assert!(time.ends_with('Z'));
        assert_eq!(rest, " warn proxy: two\\nlines \\u{1b}[31m (3 like this left out)\n");
    }

    #[test]
    fn a_long_message_is_cut() {
        let line = line("info", "proxy", &"x".repeat(3 * LINE_LEN_MAX), 0);
        assert_eq!(line.len(), LINE_LEN_MAX);
        assert_eq!(line.last(), Some(&b'\n'));
    }

    #[test]
    fn a_place_that_repeats_itself_is_limited() {
        let mut bucket = Bucket::new(Instant::ZERO);
        let taken = (0..100).filter(|_| bucket.take(Instant::from_millis(1)).is_some()).count();
        assert_eq!(taken, 10);
        assert_eq!(bucket.take(Instant::from_millis(999)), None);
        assert_eq!(bucket.take(Instant::from_millis(1000)), Some(91));
        assert_eq!(bucket.take(Instant::from_millis(1001)), None);
        assert_eq!(bucket.take(Instant::from_millis(60_000)), Some(1));
    }

    #[test]
    fn places_have_allowances_of_their_own() {
        let here = Location::caller();
        let left: Vec<_> = (0..12).map(|_| allow(here, Instant::from_millis(5))).collect();
        assert_eq!(left.iter().flatten().count(), 10);
        #[track_caller]
        fn elsewhere() -> &'static Location<'static> {
            Location::caller()
        }
        assert_eq!(allow(elsewhere(), Instant::from_millis(5)), Some(0));
    }
}
