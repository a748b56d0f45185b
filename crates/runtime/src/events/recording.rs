//! A recording: text that is kept from a beginning on, in one file, as long as it fits.
//!
//! For what is worth nothing with a hole in it, such as the trace of a gate: where a log throws
//! lines away and goes on, a recording ends. Whoever records writes into memory; a thread of the
//! recording's own writes the file, so a slow disk ends a recording and delays nobody.
//!
//! Invariant: the file ends with a whole part, unless the machine or the disk stopped in the middle
//! of a write. Memory is bounded by `QUEUE_LEN_MAX` batches.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use spillgate_core::units::ByteSize;

/// A batch of this size is handed over. 64 KiB: some thousand lines a system call.
const BATCH_SIZE: usize = 64 * 1024;
/// Batches that may wait for the writer: 16 MiB, more than a disk owes in a second.
const QUEUE_LEN_MAX: usize = 256;
/// Longest time that the last batches may take.
const GRACE: Duration = Duration::from_secs(2);

/// A recording that is under way. Dropping it ends it: the last parts are written, if the disk is
/// not slower than two seconds.
#[derive(Debug)]
pub struct Recording {
    batch: String,
    room: u64,
    batches: Option<SyncSender<String>>,
    ended: Receiver<()>,
    writer: Option<JoinHandle<()>>,
}

/// Why a recording has ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The file has the size that it may have.
    Full,
    /// The disk did not keep up, or refused a write.
    Disk,
}

impl fmt::Display for RecordingEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordingEnd::Full => "the file is as long as it may be",
            RecordingEnd::Disk => "the disk is too slow or refuses writes",
        })
    }
}

impl Recording {
    /// Make the file anew and start its writer. `size_max` bounds the file to within one part.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, or the system refuses a thread.
    pub fn start(path: &Path, size_max: ByteSize) -> io::Result<Recording> {
        let mut file = File::create(path)?;
        let (batches, written) = sync_channel::<String>(QUEUE_LEN_MAX);
        let (end, ended) = sync_channel(1);
        let writer = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            // Whoever records notices an end by a channel that is closed.
            let _ = written.iter().try_for_each(|batch| file.write_all(batch.as_bytes()));
            let _ = end.send(());
        })?;
        Ok(Recording {
            batch: String::with_capacity(BATCH_SIZE + BATCH_SIZE / 8),
            room: size_max.as_bytes(),
            batches: Some(batches),
            ended,
            writer: Some(writer),
        })
    }

    /// A new part begins: what was written before it is whole, and may be handed over. Never waits.
    ///
    /// # Errors
    ///
    /// When the recording has to end here.
    pub fn begin_part(&mut self) -> Result<(), RecordingEnd> {
        if self.batch.len() < BATCH_SIZE && self.batch.len() as u64 <= self.room {
            return Ok(());
        }
        self.room = self.room.saturating_sub(self.batch.len() as u64);
        self.hand_over()?;
        if self.room == 0 { Err(RecordingEnd::Full) } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), RecordingEnd> {
        let Some(batches) = &self.batches else { return Err(RecordingEnd::Disk) };
        let batch = std::mem::replace(&mut self.batch, String::with_capacity(BATCH_SIZE));
        batches.try_send(batch).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => RecordingEnd::Disk,
        })
    }
}

impl fmt::Write for Recording {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.batch.push_str(text);
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.hand_over();
        // The writer ends when nobody can hand over any more.
        self.batches = None;
        let ended = self.ended.recv_timeout(GRACE).is_ok();
        if let Some(writer) = self.writer.take().filter(|_| ended) {
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn record(size_max: ByteSize, parts: usize) -> (String, Option<RecordingEnd>) {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("recording");
        let mut recording = Recording::start(&path, size_max).expect("the file can be made");
        let mut end = None;
        for part in 0..parts {
            if let Err(reason) = recording.begin_part() {
                end = Some(reason);
                break;
            }
            writeln!(recording, "part {part:05}").expect("memory takes everything");
        }
        drop(recording);
        (std::fs::read_to_string(path).expect("the file is there"), end)
    }

    #[test]
    fn every_part_is_in_the_file() {
        let (text, end) = record(ByteSize::from_mib(1), 20_000);
        assert_eq!((text.lines().count(), end), (20_000, None));
        assert!(text.ends_with("part 19999\n"));
    }

    #[test]
    fn a_recording_ends_with_a_whole_part_when_it_is_long_enough() {
        let (text, end) = record(ByteSize::from_kib(1), 20_000);
        assert_eq!(end, Some(RecordingEnd::Full));
        assert!((1024..1100).contains(&text.len()), "{}", text.len());
        assert!(text.ends_with('\n') && text.lines().all(|line| line.len() == 10));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        assert!(Recording::start(folder.path(), ByteSize::from_kib(1)).is_err());
    }
}
