//! The body of one HTTP/1 request, as its connection delivers it.
//!
//! It also knows when the client has left, since both are read from the same bytes: requests that a
//! client sends ahead are read to a bound, so that the end behind them is seen. Must hold: after
//! the body's end not a byte of the next request is touched but by that look-ahead.

use std::task::{Context, Poll, ready};

use spillgate_core::time::Duration;
use spillgate_core::units::ByteSize;
use spillgate_wire::http1::{FieldIter, Framing};

use super::inbound::{BodyReader, Inbound, ReadFailure};
use super::service::{BodyFailure, BodySource};
use super::settings::HalfClose;
use crate::clock;
use crate::deadline::Deadline;
use crate::net::stream::{LOOK_AGAIN, PeerState, Stream};
use crate::scratch::{self, Scratch};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes of pipelined requests that are read while an exchange waits, so that the end of the
/// connection behind them is seen. A client that pipelines more is noticed to have left when it
/// resets the connection.
const PIPELINED_MAX: usize = scratch::SIZE / 4;

/// The slowest body that is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyRate {
    pub(super) min: ByteSize,
    pub(super) grace: Duration,
}

pub(super) struct H1Body<'c> {
    pub(super) stream: &'c Stream,
    pub(super) inbound: &'c mut Inbound,
    pub(super) deadline: &'c Deadline,
    pub(super) reader: BodyReader,
    pub(super) length: Option<u64>,
    pub(super) half_close: HalfClose,
    pub(super) rate: BodyRate,
    pub(super) progress: Progress,
    /// The client was cut off because it sends too slowly.
    pub(super) slow: bool,
    /// The part of `100 Continue` that is still to be sent.
    pub(super) to_continue: &'static [u8],
    /// When to look next at a client of which the engine tells nothing more.
    next_look: Option<Deadline>,
}

/// How far a body has come since its rate was last judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    bytes: u64,
    watched: bool,
}

impl<'c> H1Body<'c> {
    pub(super) fn new(
        stream: &'c Stream,
        inbound: &'c mut Inbound,
        deadline: &'c Deadline,
        framing: Framing,
    ) -> Self {
        let length = match framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        H1Body {
            stream,
            inbound,
            deadline,
            reader: BodyReader::new(framing),
            length,
            half_close: HalfClose::Abandon,
            rate: BodyRate { min: ByteSize::ZERO, grace: Duration::ZERO },
            progress: Progress::default(),
            slow: false,
            to_continue: b"",
            next_look: None,
        }
    }

    /// The client waits for a word before it sends its body.
    pub(super) fn expects_continue(&mut self) {
        self.to_continue = CONTINUE;
    }

    /// Has everything of the body been used?
    pub(super) fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    fn poll_continue(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyFailure>> {
        while !self.to_continue.is_empty() {
            match ready!(self.stream.poll_write(cx, self.to_continue)) {
                Ok(count) => self.to_continue = &self.to_continue[count..],
                Err(_) => return Poll::Ready(Err(BodyFailure::Left)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_half_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.half_close {
            HalfClose::Abandon => Poll::Ready(()),
            HalfClose::Serve => self.look_again(cx),
        }
    }

    /// The engine tells nothing more of this client: its state is asked for now and then.
    fn look_again(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.next_look.get_or_insert_with(Deadline::unset).look_again(LOOK_AGAIN, cx);
        Poll::Pending
    }

    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<BodyFailure> {
        if self.rate.min == ByteSize::ZERO {
            return Poll::Pending;
        }
        if !self.progress.watched {
            self.progress = Progress { bytes: 0, watched: true };
            self.deadline.set(clock::now() + self.rate.grace);
        }
        if self.deadline.poll_passed(cx).is_pending() {
            return Poll::Pending;
        }
        let wanted = self.rate.min.as_bytes().saturating_mul(self.rate.grace.as_secs().max(1));
        if self.progress.bytes < wanted {
            self.slow = true;
            return Poll::Ready(BodyFailure::Slow);
        }
        self.progress.bytes = 0;
        self.deadline.set(clock::now() + self.rate.grace);
        // Registers for the limit just set.
        let _ = self.deadline.poll_passed(cx);
        Poll::Pending
    }
}

impl BodySource for H1Body<'_> {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn take_whole(&mut self) -> Option<Scratch> {
        let length = self.length?;
        let whole = self.reader.take_whole(self.inbound, length)?;
        // Whoever sends its body without waiting needs no word from us.
        self.to_continue = b"";
        Some(whole)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], BodyFailure>> {
        if self.inbound.bytes().is_empty() {
            ready!(self.poll_continue(cx))?;
        }
        if self.reader.poll_chunk(self.inbound, self.stream, cx).is_pending() {
            return self.poll_slow(cx).map(Err);
        }
        // Asked again at no cost, since the first answer cannot be borrowed over the branch above.
        let chunk = ready!(self.reader.poll_chunk(self.inbound, self.stream, cx));
        Poll::Ready(chunk.map_err(BodyFailure::from))
    }

    fn consume(&mut self, count: usize) {
        self.progress.bytes += count as u64;
        self.reader.consume(self.inbound, count);
    }

    fn park(&mut self) {
        self.inbound.park();
    }

    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.stream.peer_state(cx) {
                PeerState::Quiet => return Poll::Pending,
                PeerState::Closed => return Poll::Ready(()),
                PeerState::HalfClosed => return self.poll_half_closed(cx),
                PeerState::Readable => {
                    if self.inbound.bytes().len() >= PIPELINED_MAX {
                        return self.look_again(cx);
                    }
                    match ready!(self.inbound.poll_fill(self.stream, cx)) {
                        Ok(0) => return self.poll_half_closed(cx),
                        Err(_) => return Poll::Ready(()),
                        Ok(_) => self.inbound.park(),
                    }
                }
            }
        }
    }

    fn trailers(&self) -> FieldIter<'_> {
        self.reader.trailers()
    }

    fn switch(&mut self) {
        self.reader = BodyReader::new(Framing::UntilClose);
        self.length = None;
        // A tunnel may be silent for as long as it likes.
        self.rate.min = ByteSize::ZERO;
    }
}

impl From<ReadFailure> for BodyFailure {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Lost => BodyFailure::Left,
            ReadFailure::Bad(error) => BodyFailure::Bad(error),
        }
    }
}
