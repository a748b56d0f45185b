//! Writes one HTTP/1 response to a client.
//!
//! Head and framing are gathered in a small lent buffer, body bytes go straight from the caller's
//! buffer: small ones are appended to the head and sent with one call, larger ones with one
//! two-piece call. What the kernel does not take at once stays with the caller, except for the
//! gathered bytes, which stay here.
//!
//! Invariant: exactly one framing goes out per response, and a response that cannot be completed
//! ends in a reset, never in a clean end.

use std::task::{Context, Poll, ready};

use spillgate_core::time::Duration;
use spillgate_core::units::ByteSize;
use spillgate_wire::http1::{FieldIter, Name, encode};

use super::lend::Output;
use super::server::Stopping;
use super::service::{Length, Responder, SendFailure};
use crate::buffer::SocketBytes;
use crate::clock;
use crate::deadline::Deadline;
use crate::net::pipe::Pipe;
use crate::net::stream::{LOOK_AGAIN, PeerState, Stream};

/// Bodies up to this size are copied behind the head: one plain send costs less than a two-piece
/// one.
const COPY_MAX: usize = 2 * 1024;

/// Bytes of interim responses that wait for the head, beyond which no further one is taken.
const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// The slowest reader that is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendRate {
    pub(super) min: ByteSize,
    pub(super) grace: Duration,
}

/// What the request says about its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The client speaks HTTP/1.1.
    pub(super) modern: bool,
    /// The client would keep the connection.
    pub(super) keep_alive: bool,
    /// No body may follow, whatever the head says (HEAD).
    pub(super) head_only: bool,
}

/// Where a response goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WayOut<'c> {
    pub(super) stream: &'c Stream,
    /// What the kernel holds of what went there, counted whenever it takes nothing more.
    pub(super) socket_bytes: &'c SocketBytes,
}

pub(super) struct H1Responder<'c> {
    stream: &'c Stream,
    socket_bytes: &'c SocketBytes,
    deadline: &'c Deadline,
    rate: SendRate,
    wanted: Wanted,
    stopping: &'c Stopping,
    out: Output,
    /// How much of `out` is sent.
    flushed: usize,
    framing: OutFraming,
    /// Bytes of the current chunk that are still to come from the caller.
    chunk_left: usize,
    trailers: Output,
    begun: bool,
    finished: bool,
    close: bool,
    failed: bool,
    /// The client closed or reset the connection.
    left: bool,
    slow: bool,
    switched: bool,
    sent: u64,
    /// Bytes for it that lie in a pipe, which the kernel holds as well.
    piped: u64,
    /// What had been sent when the kernel was asked what it holds; none: ask at once.
    asked_at: Option<u64>,
    /// What the client had taken when the limit in `deadline` was set.
    taken_before: i64,
    waiting: bool,
    /// When to look next at a client of which the engine tells nothing more.
    next_look: Option<Deadline>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutFraming {
    /// No body bytes go out.
    Nothing,
    /// So many more.
    Length(u64),
    Chunked,
    /// The end of the connection is the end of the body.
    UntilClose,
}

impl<'c> H1Responder<'c> {
    pub(super) fn new(
        way_out: WayOut<'c>,
        deadline: &'c Deadline,
        rate: SendRate,
        wanted: Wanted,
        stopping: &'c Stopping,
    ) -> Self {
        let WayOut { stream, socket_bytes } = way_out;
        H1Responder {
            stream,
            socket_bytes,
            deadline,
            rate,
            wanted,
            stopping,
            out: Output::default(),
            flushed: 0,
            framing: OutFraming::Nothing,
            chunk_left: 0,
            trailers: Output::default(),
            begun: false,
            finished: false,
            close: !wanted.keep_alive,
            failed: false,
            left: false,
            slow: false,
            switched: false,
            sent: 0,
            piped: 0,
            asked_at: None,
            taken_before: 0,
            waiting: false,
            next_look: None,
        }
    }

    /// Was a whole response handed to the kernel?
    pub(super) fn is_complete(&self) -> bool {
        self.finished && !self.failed
    }

    /// Must the connection close now?
    pub(super) fn must_close(&self) -> bool {
        self.close || !self.is_complete()
    }

    /// Did the client leave before it had everything?
    pub(super) fn has_left(&self) -> bool {
        self.left
    }

    /// Was the client cut off because it reads too slowly?
    pub(super) fn was_slow(&self) -> bool {
        self.slow
    }

    /// Did the connection become a tunnel?
    pub(super) fn is_switched(&self) -> bool {
        self.switched
    }

    /// Did the response begin?
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Did the response begin and not end?
    pub(super) fn is_broken(&self) -> bool {
        self.begun && !self.is_complete()
    }

    /// Would closing look like a clean end of what was broken off? Under the other framings the
    /// client counts for itself, and a reset could take from it what it has not read yet.
    pub(super) fn must_reset(&self) -> bool {
        self.framing == OutFraming::UntilClose
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        while self.flushed < self.out.len() {
            let outcome = self.stream.poll_write(cx, &self.out[self.flushed..]);
            let count = ready!(self.watched(cx, outcome))?;
            self.flushed += count;
        }
        self.out.clear();
        self.flushed = 0;
        Poll::Ready(Ok(()))
    }

    /// Account for a write, and cut a reader that is slower than the slowest we serve.
    fn watched(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<std::io::Result<usize>>,
    ) -> Poll<Result<usize, SendFailure>> {
        match outcome {
            Poll::Ready(Ok(count)) => {
                self.sent += count as u64;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => {
                (self.failed, self.left) = (true, true);
                Poll::Ready(Err(SendFailure::Left))
            }
            Poll::Pending => {
                self.count_held();
                self.poll_slow(cx)
            }
        }
    }

    /// Count what the kernel holds for the client, if anything was sent since it was asked.
    fn count_held(&mut self) {
        if self.asked_at == Some(self.sent) {
            return;
        }
        self.socket_bytes.count(self.stream.send_memory() + self.piped);
        // What is in a pipe comes and goes whole.
        self.asked_at = (self.piped == 0).then_some(self.sent);
    }

    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, SendFailure>> {
        if self.rate.min == ByteSize::ZERO {
            return Poll::Pending;
        }
        if !self.waiting {
            self.waiting = true;
            self.taken_before = self.taken();
            self.deadline.set(clock::now() + self.rate.grace);
        }
        if self.deadline.poll_passed(cx).is_pending() {
            return Poll::Pending;
        }
        let wanted = self.rate.min.as_bytes().saturating_mul(self.rate.grace.as_secs().max(1));
        let taken = self.taken();
        if taken.saturating_sub(self.taken_before) < i64::try_from(wanted).unwrap_or(i64::MAX) {
            self.failed = true;
            self.slow = true;
            return Poll::Ready(Err(SendFailure::Slow));
        }
        self.taken_before = taken;
        self.deadline.set(clock::now() + self.rate.grace);
        // Registers for the limit just set.
        let _ = self.deadline.poll_passed(cx);
        Poll::Pending
    }

    /// Bytes of this response that the client has taken, less those of earlier ones that it has
    /// not. What the kernel takes would not do: nothing for a long time, and then much at once.
    fn taken(&self) -> i64 {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        signed(self.sent) - signed(self.stream.unsent())
    }

    fn end_head(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        // Asked as late as this, because the exchange may have begun long before the stop.
        self.close |= self.stopping.is_on();
        let keep = if self.close {
            Some(&b"close"[..])
        } else if self.wanted.modern {
            None
        } else {
            Some(&b"keep-alive"[..])
        };
        if let Some(value) = keep {
            encode::field(self.out.buffer(), b"Connection", value);
        }
        self.out.buffer().extend_from_slice(b"\r\n");
    }

    /// How many of `bytes` may go out under the framing.
    fn allowed(&self, bytes: usize) -> usize {
        match self.framing {
            OutFraming::Length(left) => bytes.min(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => bytes,
        }
    }

    fn account(&mut self, count: usize) {
        match &mut self.framing {
            OutFraming::Length(left) => *left -= count as u64,
            OutFraming::Chunked => {
                self.chunk_left -= count;
                if self.chunk_left == 0 {
                    self.out.buffer().extend_from_slice(b"\r\n");
                }
            }
            OutFraming::Nothing | OutFraming::UntilClose => {}
        }
    }

    /// Gather what ends the body.
    fn end_body(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        match self.framing {
            OutFraming::Chunked => {
                self.out.buffer().extend_from_slice(b"0\r\n");
                let trailers = std::mem::take(&mut self.trailers);
                self.out.buffer().extend_from_slice(&trailers);
                self.out.buffer().extend_from_slice(b"\r\n");
            }
            OutFraming::Length(left) if left > 0 => self.failed = true,
            _ => {}
        }
    }

    fn poll_send_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        last: bool,
    ) -> Poll<Result<usize, SendFailure>> {
        if self.framing == OutFraming::Chunked && self.chunk_left == 0 {
            encode::chunk_head(self.out.buffer(), bytes.len() as u64);
            self.chunk_left = bytes.len();
        }
        let bytes = &bytes[..self.allowed(bytes.len())];
        let bytes = if self.framing == OutFraming::Chunked {
            &bytes[..self.chunk_left.min(bytes.len())]
        } else {
            bytes
        };
        let gathered = self.out.len() - self.flushed;
        if bytes.len() <= COPY_MAX && gathered <= COPY_MAX * 2 {
            self.out.buffer().extend_from_slice(bytes);
            self.account(bytes.len());
            if last {
                self.end_body();
            }
            // Gathered bytes are ours: they count as taken even where the kernel makes us wait.
            return match self.poll_flush(cx) {
                Poll::Ready(Err(failure)) => Poll::Ready(Err(failure)),
                _ => Poll::Ready(Ok(bytes.len())),
            };
        }
        let outcome = if gathered > 0 {
            self.stream.poll_write_two(cx, &self.out[self.flushed..], bytes)
        } else {
            self.stream.poll_write(cx, bytes)
        };
        let count = ready!(self.watched(cx, outcome))?;
        let of_head = count.min(gathered);
        self.flushed += of_head;
        if self.flushed == self.out.len() {
            self.out.clear();
            self.flushed = 0;
        }
        let taken = count - of_head;
        self.account(taken);
        if last && taken == bytes.len() {
            self.end_body();
            if let Poll::Ready(Err(failure)) = self.poll_flush(cx) {
                return Poll::Ready(Err(failure));
            }
        }
        Poll::Ready(Ok(taken))
    }
}

impl Responder for H1Responder<'_> {
    fn begin(&mut self, status: u16, reason: &[u8], length: Length) {
        encode::status_line(self.out.buffer(), status, reason);
        self.framing = match length {
            Length::Absent => OutFraming::Nothing,
            Length::Known(length) => {
                encode::field_number(self.out.buffer(), b"Content-Length", length);
                OutFraming::Length(length)
            }
            Length::Unknown if self.wanted.modern => {
                encode::field(self.out.buffer(), b"Transfer-Encoding", b"chunked");
                OutFraming::Chunked
            }
            Length::Unknown => {
                self.close |= !self.wanted.head_only;
                OutFraming::UntilClose
            }
        };
        if self.wanted.head_only {
            self.framing = OutFraming::Nothing;
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        encode::field(self.out.buffer(), name, value);
    }

    fn fields(&mut self, fields: FieldIter<'_>, keep: fn(Name, bool) -> bool) {
        fields.write(self.out.buffer(), |id, hop, _| keep(id, hop));
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        last: bool,
    ) -> Poll<Result<usize, SendFailure>> {
        self.end_head();
        if self.framing == OutFraming::Nothing {
            if last {
                self.end_body();
            }
            return match self.poll_flush(cx) {
                Poll::Ready(Err(failure)) => Poll::Ready(Err(failure)),
                _ => Poll::Ready(Ok(bytes.len())),
            };
        }
        if bytes.is_empty() {
            if last {
                self.end_body();
            }
            ready!(self.poll_flush(cx))?;
            return Poll::Ready(Ok(0));
        }
        self.poll_send_bytes(cx, bytes, last)
    }

    fn takes_pipe(&self) -> bool {
        matches!(self.framing, OutFraming::Length(_))
    }

    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
    ) -> Poll<Result<usize, SendFailure>> {
        self.end_head();
        self.piped = pipe.held() as u64;
        ready!(self.poll_flush(cx))?;
        let outcome = self.stream.poll_splice_from(cx, pipe);
        let count = ready!(self.watched(cx, outcome))?;
        self.piped -= count as u64;
        self.account(count);
        Poll::Ready(Ok(count))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        self.end_head();
        ready!(self.poll_flush(cx))?;
        let outcome = self.stream.poll_writable(cx).map_ok(|()| 0);
        self.watched(cx, outcome).map_ok(|_| ())
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<SendFailure> {
        self.end_head();
        if let Poll::Ready(Err(failure)) = self.poll_flush(cx) {
            return Poll::Ready(failure);
        }
        match self.stream.peer_state(cx) {
            PeerState::Quiet | PeerState::Readable => Poll::Pending,
            PeerState::HalfClosed => {
                self.next_look.get_or_insert_with(Deadline::unset).look_again(LOOK_AGAIN, cx);
                Poll::Pending
            }
            PeerState::Closed => {
                (self.failed, self.left) = (true, true);
                Poll::Ready(SendFailure::Left)
            }
        }
    }

    fn trailer(&mut self, name: &[u8], value: &[u8]) {
        encode::field(self.trailers.buffer(), name, value);
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        self.end_head();
        self.end_body();
        ready!(self.poll_flush(cx))?;
        self.deadline.clear();
        if self.socket_bytes.counted() > 0 {
            self.socket_bytes.count(self.stream.send_memory());
        }
        if self.failed { Poll::Ready(Err(SendFailure::Left)) } else { Poll::Ready(Ok(())) }
    }

    fn interim(&mut self, status: u16, reason: &[u8], fields: &[(&[u8], &[u8])]) {
        if !self.wanted.modern || self.begun || self.out.len() >= INTERIM_BYTES_MAX {
            return;
        }
        encode::status_line(self.out.buffer(), status, reason);
        for (name, value) in fields {
            encode::field(self.out.buffer(), name, value);
        }
        self.out.buffer().extend_from_slice(b"\r\n");
    }

    fn takes_trailers(&self) -> bool {
        self.wanted.modern
    }

    fn close_after(&mut self) {
        self.close = true;
    }

    fn abort(&mut self) {
        self.failed = true;
    }

    fn switch(&mut self, protocol: &[u8]) {
        encode::field(self.out.buffer(), b"Connection", b"upgrade");
        encode::field(self.out.buffer(), b"Upgrade", protocol);
        self.out.buffer().extend_from_slice(b"\r\n");
        self.begun = true;
        self.switched = true;
        self.close = true;
        self.framing = OutFraming::UntilClose;
    }
}
