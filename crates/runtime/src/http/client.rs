//! One HTTP/1 connection to a worker.
//!
//! It sends whole requests and reads responses; what they mean and when to try again is decided
//! above. While it is idle it holds no buffer. Time limits of the worker's side live here, so that
//! the client's side can have its own at the same time.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use spillgate_core::time::{Duration, Instant};
use spillgate_wire::http1::{
    FieldIter, Framing, HeadLimits, Method, ResponseError, ResponseHead, ResponseIndex,
};

use super::inbound::{BodyReader, Inbound, ReadFailure};
use super::lend::Lent;
use super::settings::Endpoint;
use crate::clock;
use crate::deadline::Deadline;
use crate::net::pipe::Pipe;
use crate::net::stream::Stream;
use crate::scratch::Scratch;

/// The most that is read of an answer that nobody wants, to see whether it has ended. Plain choice:
/// more than any worker says with a refusal.
const DISCARD_MAX: usize = 64 * 1024;

/// A connection to a worker. Closed when dropped.
pub struct WorkerConnection {
    stream: Stream,
    inbound: Inbound,
    reader: BodyReader,
    /// The head that is being read: remembers how far it was looked through.
    index: Option<Lent<ResponseIndex>>,
    deadline: Deadline,
    /// When it was last put aside, and how long the worker keeps it from then on.
    idle_since: Instant,
    keep_alive: Duration,
    reused: bool,
}

/// Why a worker gave no usable answer.
#[derive(Debug)]
pub enum WorkerFailure {
    /// The connection was refused, or its socket is gone.
    Refused(io::Error),
    /// The connection was not accepted in time.
    ConnectTimeout,
    /// No connection could be made for a reason of our own (no descriptor left).
    Ourselves(io::Error),
    /// It closed or reset the connection before its answer was whole.
    Lost,
    /// Its answer breaks the rules.
    Bad(BadResponse),
    /// It did not go on in time.
    Timeout,
}

/// What is wrong with an answer.
#[derive(Debug)]
pub enum BadResponse {
    /// Its head.
    Head(ResponseError),
    /// Its body.
    Body,
    /// An interim response that makes no sense here.
    Interim,
}

/// An idle connection that no engine watches: on its way to another shard.
#[derive(Debug)]
pub struct Detached {
    fd: OwnedFd,
    idle_since: Instant,
    keep_alive: Duration,
}

/// A response head, with a copy of its bytes.
pub struct WorkerHead {
    bytes: Lent<Vec<u8>>,
    index: Lent<ResponseIndex>,
}

impl WorkerHead {
    /// The head.
    pub fn get(&self) -> ResponseHead<'_> {
        self.index.head(&self.bytes)
    }
}

impl WorkerConnection {
    /// Connect to a worker, in `time_max`.
    ///
    /// Errors: `Refused`, `ConnectTimeout`, `Ourselves`.
    pub async fn connect(
        endpoint: &Endpoint,
        time_max: Duration,
    ) -> Result<WorkerConnection, WorkerFailure> {
        let deadline = Deadline::unset();
        deadline.set(clock::now() + time_max);
        let mut connecting = std::pin::pin!(Stream::connect(endpoint));
        let stream = poll_fn(|cx| {
            if let Poll::Ready(outcome) = connecting.as_mut().poll(cx) {
                return Poll::Ready(outcome.map_err(connect_failure));
            }
            deadline.poll_passed(cx).map(|()| Err(WorkerFailure::ConnectTimeout))
        })
        .await?;
        deadline.clear();
        Ok(WorkerConnection { deadline, idle_since: clock::now(), ..Self::around(stream) })
    }

    /// The limit in force on the worker's side.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Has it served an exchange before?
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Write request bytes; returns how many the kernel took.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Poll<io::Result<usize>> {
        if head.is_empty() {
            self.stream.poll_write(cx, body)
        } else if body.is_empty() {
            self.stream.poll_write(cx, head)
        } else {
            self.stream.poll_write_two(cx, head, body)
        }
    }

    /// Has the worker said something, or closed, while we are still sending?
    pub fn poll_spoke(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.inbound.bytes().is_empty() {
            return Poll::Ready(());
        }
        // Read rather than asked, since readiness may be stale. An end is found again by whoever
        // reads the head.
        self.inbound.poll_fill(&self.stream, cx).map(|_| ())
    }

    /// Read the next response head (interim ones too).
    pub fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        method: Method,
        limits: &HeadLimits,
    ) -> Poll<Result<WorkerHead, WorkerFailure>> {
        loop {
            if !self.inbound.bytes().is_empty() {
                let mut index = self.index.take().unwrap_or_else(Lent::take);
                let parsed = index
                    .parse(self.inbound.bytes(), limits)
                    .map_err(|error| WorkerFailure::Bad(BadResponse::Head(error)))?;
                if let Some(consumed) = parsed {
                    let mut bytes: Lent<Vec<u8>> = Lent::take();
                    bytes.extend_from_slice(&self.inbound.bytes()[..consumed]);
                    self.inbound.consume(consumed);
                    let head = WorkerHead { bytes, index };
                    self.reader = BodyReader::new(head.get().framing(method));
                    return Poll::Ready(Ok(head));
                }
                self.index = Some(index);
            }
            ready!(self.poll_more(cx))?;
        }
    }

    /// Wait until `count` bytes of the body lie unused in one piece. Only for a body of known
    /// length of which nothing was consumed.
    pub fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        count: usize,
    ) -> Poll<Result<(), WorkerFailure>> {
        while self.inbound.bytes().len() < count {
            ready!(self.poll_more(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Read more, within the limit in force.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WorkerFailure>> {
        match self.inbound.poll_fill(&self.stream, cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(WorkerFailure::Lost)),
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
            Poll::Pending => {
                ready!(self.deadline.poll_passed(cx));
                Poll::Ready(Err(WorkerFailure::Timeout))
            }
        }
    }

    /// The whole body at once, if it is here already.
    pub fn take_whole(&mut self, length: u64) -> Option<Scratch> {
        self.reader.take_whole(&mut self.inbound, length)
    }

    /// The next body bytes; empty at the end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], WorkerFailure>> {
        match self.reader.poll_chunk(&mut self.inbound, &self.stream, cx) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(ReadFailure::Lost)) => return Poll::Ready(Err(WorkerFailure::Lost)),
            Poll::Ready(Err(ReadFailure::Bad(_))) => {
                return Poll::Ready(Err(WorkerFailure::Bad(BadResponse::Body)));
            }
            Poll::Pending => {
                ready!(self.deadline.poll_passed(cx));
                return Poll::Ready(Err(WorkerFailure::Timeout));
            }
        }
        // Asked again at no cost, since the first answer cannot be borrowed over the branches
        // above.
        match ready!(self.reader.poll_chunk(&mut self.inbound, &self.stream, cx)) {
            Ok(bytes) => Poll::Ready(Ok(bytes)),
            Err(_) => Poll::Ready(Err(WorkerFailure::Lost)),
        }
    }

    /// Has all of the answer come, or the worker closed? Throws away what is here of it, 64 KiB at
    /// most, and waits for nothing.
    pub async fn has_ended(&mut self) -> bool {
        let mut left = DISCARD_MAX;
        poll_fn(|cx| {
            loop {
                let count = match self.poll_chunk(cx) {
                    Poll::Ready(Ok(chunk)) => chunk.len(),
                    Poll::Ready(Err(failure)) => {
                        return Poll::Ready(matches!(failure, WorkerFailure::Lost));
                    }
                    Poll::Pending => return Poll::Ready(false),
                };
                if count == 0 || count > left {
                    return Poll::Ready(count == 0);
                }
                left -= count;
                self.consume(count);
            }
        })
        .await
    }

    /// Body bytes that could go through a pipe now: those that are still in the socket, where
    /// nothing else can come before them.
    pub fn spliceable(&self) -> u64 {
        self.reader.in_socket(&self.inbound)
    }

    /// Move some of them into `pipe`, which is empty; they count as used.
    ///
    /// Panics when there are none.
    pub fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
    ) -> Poll<Result<usize, WorkerFailure>> {
        let max = usize::try_from(self.spliceable()).unwrap_or(usize::MAX);
        assert!(max > 0, "there is a body to splice");
        match self.stream.poll_splice_into(cx, pipe, max) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(WorkerFailure::Lost)),
            Poll::Ready(Ok(count)) => {
                self.reader.pass(count);
                Poll::Ready(Ok(count))
            }
            Poll::Pending => {
                ready!(self.deadline.poll_passed(cx));
                Poll::Ready(Err(WorkerFailure::Timeout))
            }
        }
    }

    /// `count` of the bytes were used.
    pub fn consume(&mut self, count: usize) {
        self.reader.consume(&mut self.inbound, count);
    }

    /// Is the body used up?
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// The trailers that came after the body.
    pub fn trailers(&self) -> FieldIter<'_> {
        self.reader.trailers()
    }

    /// Called before waiting for anything else: shared buffers are given back.
    pub fn park(&mut self) {
        self.inbound.park();
    }

    /// From here on the connection carries raw bytes: the other protocol of an upgrade.
    pub fn switch(&mut self) {
        self.reader = BodyReader::new(Framing::UntilClose);
    }

    /// We send no more.
    pub fn shutdown_write(&self) {
        self.stream.shutdown_write();
    }

    /// Put it aside for later. False: the worker left bytes that belong to nothing, so it must be
    /// closed.
    pub fn set_aside(&mut self, now: Instant, keep_alive: Duration) -> bool {
        self.deadline.clear();
        self.idle_since = now;
        self.keep_alive = keep_alive;
        self.reused = true;
        self.inbound.bytes().is_empty() && self.reader.is_done()
    }

    /// Take it away from this shard. Only while it is put aside.
    pub fn detach(self) -> Detached {
        let WorkerConnection { stream, idle_since, keep_alive, .. } = self;
        Detached { fd: stream.into_fd(), idle_since, keep_alive }
    }

    /// Take one into this shard.
    ///
    /// Errors: the engine's, when it cannot watch another descriptor.
    pub fn attach(detached: Detached) -> io::Result<WorkerConnection> {
        let Detached { fd, idle_since, keep_alive } = detached;
        let stream = Stream::new(fd)?;
        Ok(WorkerConnection { idle_since, keep_alive, reused: true, ..Self::around(stream) })
    }

    fn around(stream: Stream) -> WorkerConnection {
        WorkerConnection {
            stream,
            inbound: Inbound::of_worker(),
            reader: BodyReader::new(Framing::None),
            index: None,
            deadline: Deadline::unset(),
            idle_since: Instant::ZERO,
            keep_alive: Duration::ZERO,
            reused: false,
        }
    }

    /// May it still be used at `now`? An unsafe method must not meet a connection that the worker
    /// is about to close, so for `careful` the kernel is asked and the last second is left out.
    pub fn is_fit(&self, now: Instant, careful: bool) -> bool {
        let margin = if careful { Duration::from_secs(1) } else { Duration::ZERO };
        now.since(self.idle_since) + margin < self.keep_alive && self.stream.is_idle(careful)
    }

    /// Has it been idle for as long as its worker keeps it?
    pub fn is_expired(&self, now: Instant) -> bool {
        now.since(self.idle_since) >= self.keep_alive
    }

    /// Has its worker closed it, or said something that nobody asked for? Believes what the engine
    /// has seen last.
    pub fn is_ended(&self) -> bool {
        !self.stream.is_idle(false)
    }
}

fn connect_failure(error: io::Error) -> WorkerFailure {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::ADDRNOTAVAIL) => {
            WorkerFailure::Ourselves(error)
        }
        _ => WorkerFailure::Refused(error),
    }
}
