//! Segment files that misbehave on demand.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use spillgate_core::time::Duration;
use spillgate_core::units::ByteSize;

use super::segment::SegmentFile;
use super::{Settings, Spill};

/// A segment file in memory, steered by its [`Knobs`].
#[derive(Debug, Default)]
pub(crate) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    knobs: Arc<Knobs>,
}

/// What a disk does wrong.
#[derive(Debug, Default)]
pub(crate) struct Knobs {
    state: Mutex<State>,
    changed: Condvar,
}

/// How it behaves now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Each call waits until this is off.
    pub(crate) stalled: bool,
    /// So many of them do not wait.
    pub(crate) pass: u32,
    /// Writes that reach beyond this byte of the file end there, and then fail: the disk is full.
    pub(crate) full_at: Option<u64>,
    /// Most bytes of one call.
    pub(crate) short: Option<usize>,
    /// Everything that was written is in memory, too.
    pub(crate) cached: bool,
    /// Reads fail.
    pub(crate) unreadable: bool,
    /// Calls that have begun.
    pub(crate) calls: u32,
}

impl Knobs {
    /// Changes the behaviour.
    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("no test panics here"));
        self.changed.notify_all();
    }

    /// Waits until `count` calls have begun.
    pub(crate) fn wait_for_calls(&self, count: u32) {
        let state = self.state.lock().expect("no test panics here");
        let enough = self.changed.wait_while(state, |state| state.calls < count);
        drop(enough.expect("no test panics here"));
    }

    fn begin(&self) -> State {
        let mut state = self.state.lock().expect("no test panics here");
        state.calls += 1;
        self.changed.notify_all();
        let is_held = |state: &mut State| state.stalled && state.pass == 0;
        let mut state = self.changed.wait_while(state, is_held).expect("no test panics here");
        state.pass = state.pass.saturating_sub(1);
        *state
    }
}

/// A spill over one such file, and its knobs.
pub(crate) fn spill(size_max: u64, threads: u16) -> (Arc<Spill>, Arc<Knobs>) {
    let file = MemoryFile::default();
    let knobs = Arc::clone(&file.knobs);
    // What is free is not needed, so that tests need not wait.
    let (files, size): (Vec<Box<dyn SegmentFile>>, _) = (vec![Box::new(file)], size_max);
    let spill = Spill::over(files, ByteSize::from_bytes(size), threads, Duration::ZERO);
    (Arc::new(spill.expect("threads can be started")), knobs)
}

/// Settings for one real folder.
pub(crate) fn folder(path: &std::path::Path, size_max: u64) -> Settings {
    let folders = vec![path.to_owned()];
    Settings { folders, size_max: ByteSize::from_bytes(size_max), threads: 2 }
}

impl SegmentFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let state = self.knobs.begin();
        let room = state.full_at.map_or(usize::MAX, |end| end.saturating_sub(offset) as usize);
        let count = bytes.len().min(room).min(state.short.unwrap_or(usize::MAX));
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut stored = self.bytes.lock().expect("no test panics here");
        let end = offset as usize + count;
        if stored.len() < end {
            stored.resize(end, 0);
        }
        stored[offset as usize..end].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.knobs.begin();
        if state.unreadable {
            return Err(io::Error::from_raw_os_error(5));
        }
        let stored = self.bytes.lock().expect("no test panics here");
        let there = stored.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(there.len()).min(state.short.unwrap_or(usize::MAX));
        bytes[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> usize {
        let state = *self.knobs.state.lock().expect("no test panics here");
        let stored = self.bytes.lock().expect("no test panics here");
        let there = stored.get(offset as usize..offset as usize + bytes.len());
        let Some(there) = there.filter(|_| state.cached) else { return 0 };
        let count = bytes.len().min(state.short.unwrap_or(usize::MAX));
        bytes[..count].copy_from_slice(&there[..count]);
        count
    }

    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        self.knobs.begin();
        Ok(())
    }
}
