//! Pipes through which bytes go from one socket to another without being copied.
//!
//! Each shard lends pipes by value, the one used last first. A pipe is held only while bytes are in
//! it: who has to wait for more gives it back. Pipes are descriptors and memory of the kernel's, so
//! all shards together have no more than [`allow`] says; who gets none copies. Those that only a
//! burst needed are closed bit by bit.
//!
//! Invariant: a pipe that is lent is empty. One that is dropped with bytes in it is closed, since
//! they belong to nobody.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// What a pipe holds at most, in bytes of whole pages: 64 pieces of memory, however full each is.
/// More did not lower the cost of 8 MB (`docs/decisions/0023-spliced-relays.md`), and costs the
/// user's share of the kernel's memory for pipes.
const CAPACITY: usize = 256 * 1024;

/// Bytes that go into a pipe at most. Pieces of memory may be larger than a page, and what lies in
/// a pipe is memory of a slow client.
const FILL_MAX: usize = 256 * 1024;

static ALLOWED: AtomicU32 = AtomicU32::new(0);
static OPEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static FREE: RefCell<Free> = const {
        RefCell::new(Free { ends: Vec::new(), unused: 0, refused: false })
    };
}

/// The pipes of this thread that nobody uses.
struct Free {
    ends: Vec<Ends>,
    /// The fewest there were since the last [`shrink`].
    unused: usize,
    /// The kernel gave none, or a smaller one, since then.
    refused: bool,
}

#[derive(Debug)]
struct Ends {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Ends {
    /// None where as many are open as may be, or the kernel refuses.
    fn open(refused: &mut bool) -> Option<Ends> {
        let below = |open| (open < ALLOWED.load(Ordering::Relaxed)).then_some(open + 1);
        OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()?;
        let made = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).inspect_err(|_| {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        });
        // From here on it is counted by its drop.
        let ends = made.map(|(reader, writer)| Ends { reader, writer });
        // A user who has too many pipes gets them smaller: those are worth nothing here.
        let sized = ends.and_then(|ends| fcntl_setpipe_size(&ends.writer, CAPACITY).map(|_| ends));
        *refused = sized.is_err();
        sized.ok()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Let all shards together have `pipes_max` pipes. 0, as before the first call: none. So it is
/// where a sandbox forbids splicing, too, which is tried here and not on somebody's answer.
pub fn allow(pipes_max: u32) {
    ALLOWED.store(pipes_max, Ordering::Relaxed);
    if pipes_max > 0 && try_out().is_err() {
        ALLOWED.store(0, Ordering::Relaxed);
    }
    // This thread is no shard and needs none.
    FREE.with_borrow_mut(|free| free.ends.clear());
}

/// Moves a byte from a socket to a socket.
fn try_out() -> io::Result<()> {
    let (from, worker) = UnixStream::pair()?;
    let (to, _client) = UnixStream::pair()?;
    (&worker).write_all(b"x")?;
    let mut pipe = Pipe::lend().ok_or(io::ErrorKind::Unsupported)?;
    pipe.fill(&from, 1)?;
    pipe.drain(&to).map(|_| ())
}

/// Pipes that are open now, on all shards.
pub fn open() -> u32 {
    OPEN.load(Ordering::Relaxed)
}

/// Close an eighth of the pipes of this thread that nobody has used since the last call. To be
/// called now and then.
pub fn shrink() {
    FREE.with_borrow_mut(|free| {
        free.ends.drain(..free.unused.div_ceil(8));
        free.unused = free.ends.len();
        free.refused = false;
    });
}

/// A pipe lent by this thread; goes back when dropped empty.
#[derive(Debug)]
pub struct Pipe {
    ends: Option<Ends>,
    held: usize,
}

impl Pipe {
    /// Take a pipe; it is empty. None: there is none, so the bytes have to be copied.
    pub fn lend() -> Option<Pipe> {
        FREE.with_borrow_mut(|free| {
            let kept = free.ends.pop();
            free.unused = free.unused.min(free.ends.len());
            if kept.is_none() && free.refused {
                return None;
            }
            let ends = kept.or_else(|| Ends::open(&mut free.refused))?;
            Some(Pipe { ends: Some(ends), held: 0 })
        })
    }

    /// Bytes that lie in it.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Does it hold nothing?
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Move up to `max` bytes from `socket` into it; returns how many. 0: the socket's end.
    ///
    /// Errors: `WouldBlock` when the socket has nothing now; the socket's own.
    ///
    /// Panics when there are bytes in it: that it is full would look like an empty socket.
    pub(super) fn fill(&mut self, socket: impl AsFd, max: usize) -> io::Result<usize> {
        assert!(self.is_empty(), "a pipe is filled only when it is empty");
        let ends = self.ends();
        let max = max.min(FILL_MAX);
        let count = splice(socket, None, &ends.writer, None, max, SpliceFlags::NONBLOCK)?;
        self.held = count;
        Ok(count)
    }

    /// Move what `socket` takes out of it; returns how many bytes.
    ///
    /// Errors: `WouldBlock` when the socket takes nothing now; the socket's own. There is no flag
    /// against `SIGPIPE`, which the process ignores, as programs in Rust do.
    ///
    /// Panics when it is empty: that would look like a full socket.
    pub(super) fn drain(&mut self, socket: impl AsFd) -> io::Result<usize> {
        assert!(!self.is_empty(), "an empty pipe has nothing to give");
        let ends = self.ends();
        let count = splice(&ends.reader, None, socket, None, self.held, SpliceFlags::NONBLOCK)?;
        self.held -= count;
        Ok(count)
    }

    fn ends(&self) -> &Ends {
        self.ends.as_ref().expect("a pipe has its ends until it is dropped")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        if self.held > 0 {
            return;
        }
        debug_assert_eq!(rustix::io::ioctl_fionread(&ends.reader), Ok(0), "it is empty");
        // Fails only while the thread ends: then it is closed.
        let _ = FREE.try_with(|free| free.borrow_mut().ends.push(ends));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().expect("two sockets");
        near.set_nonblocking(true).expect("a socket can be so");
        (near, far)
    }

    fn free() -> usize {
        FREE.with_borrow(|free| free.ends.len())
    }

    /// One test, since all threads share the count.
    #[test]
    fn pipes_are_bounded_lent_empty_and_given_back() {
        let (from, mut worker) = pair();
        let (to, mut client) = pair();
        assert!(Pipe::lend().is_none(), "none is allowed yet");
        allow(3);
        let mut lent: Vec<Pipe> = (0..4).filter_map(|_| Pipe::lend()).collect();
        assert_eq!((lent.len(), open()), (3, 3));
        let mut pipe = lent.pop().expect("one of three");
        drop(lent);
        assert_eq!((free(), open()), (2, 3));

        let nothing = pipe.fill(&from, 10).expect_err("nothing was sent");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        worker.write_all(b"0123456789").expect("it fits");
        assert_eq!(pipe.fill(&from, 6).expect("there is something"), 6);
        assert_eq!(pipe.drain(&to).expect("it fits"), 6);
        drop(pipe);
        assert_eq!(free(), 3);
        let mut got = [0; 6];
        client.read_exact(&mut got).expect("it was sent");
        assert_eq!(&got, b"012345");

        // One with bytes in it is closed, and the next one has only its own.
        let mut pipe = Pipe::lend().expect("there is one");
        assert_eq!(pipe.fill(&from, 10).expect("the rest is there"), 4);
        drop(pipe);
        assert_eq!((free(), open()), (2, 2));
        let mut pipe = Pipe::lend().expect("there is one");
        drop(worker);
        assert_eq!(pipe.fill(&from, 10).expect("an end is no error"), 0);
        drop((pipe, client));

        // Those in use stay, those that nobody used since the last call go bit by bit.
        shrink();
        let used = Pipe::lend();
        drop(used);
        shrink();
        assert_eq!(free(), 1);
        shrink();
        assert_eq!((free(), open()), (0, 0));
    }
}
