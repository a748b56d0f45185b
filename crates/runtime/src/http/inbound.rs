//! Bytes that came in on a connection and were not used yet, and the body that is cut out of them.
//!
//! One shape for both sides: the server reads requests with it, the client responses. While a step
//! runs the bytes lie in a lent scratch; before it waits they are parked. Invariant: after a method
//! returned `Pending`, no scratch is held (unless it is more than half full).

use std::io;
use std::task::{Context, Poll, ready};

use spillgate_wire::http1::{BodyDecoder, BodyError, FieldIter, Framing};

use crate::net::stream::Stream;
use crate::scratch::{self, Parked, Scratch};

/// Unused bytes of one connection.
#[derive(Debug)]
pub(super) struct Inbound {
    held: Held,
    /// More bytes than this keep their scratch over a wait.
    keep: u32,
}

#[derive(Debug)]
enum Held {
    Scratch(Scratch),
    Parked(Parked),
}

impl Inbound {
    /// No bytes of a client.
    pub(super) const fn new() -> Inbound {
        Inbound { held: Held::Parked(Parked::empty()), keep: scratch::SIZE as u32 / 2 }
    }

    /// No bytes of a worker. Its answer mostly comes in few large pieces, which are not worth a
    /// copy out and back in; slots bound how many there are.
    pub(super) const fn of_worker() -> Inbound {
        Inbound { held: Held::Parked(Parked::empty()), keep: scratch::SIZE as u32 / 8 }
    }

    /// The unused bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.held {
            Held::Scratch(scratch) => scratch.bytes(),
            Held::Parked(parked) => parked.bytes(),
        }
    }

    /// `count` bytes were used.
    pub(super) fn consume(&mut self, count: usize) {
        match &mut self.held {
            Held::Scratch(scratch) => {
                scratch.consume(count);
                if scratch.is_empty() {
                    self.held = Held::Parked(Parked::empty());
                }
            }
            Held::Parked(parked) => parked.consume(count),
        }
    }

    /// Let go of the scratch.
    pub(super) fn park(&mut self) {
        if let Held::Scratch(scratch) = self.take() {
            self.held = Held::Parked(scratch.park_above(self.keep as usize));
        }
    }

    fn take(&mut self) -> Held {
        let taken = std::mem::replace(&mut self.held, Held::Parked(Parked::empty()));
        match taken {
            Held::Parked(parked) => {
                self.held = Held::Parked(parked);
                Held::Parked(Parked::empty())
            }
            scratch @ Held::Scratch(_) => scratch,
        }
    }

    /// Read more from `stream`; 0 is its end, or that there is no room. On `Pending` the bytes are
    /// parked.
    pub(super) fn poll_fill(
        &mut self,
        stream: &Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(readable) = stream.poll_readable(cx) else {
                self.park();
                return Poll::Pending;
            };
            let readable = readable?;
            let scratch = self.scratch();
            scratch.make_room();
            if let Some(outcome) = readable.read(scratch.space()) {
                return Poll::Ready(outcome.inspect(|count| scratch.filled(*count)));
            }
        }
    }

    /// The scratch in which the bytes lie from now on.
    fn scratch(&mut self) -> &mut Scratch {
        if let Held::Parked(parked) = &mut self.held {
            let parked = std::mem::replace(parked, Parked::empty());
            self.held = Held::Scratch(parked.into_scratch());
        }
        match &mut self.held {
            Held::Scratch(scratch) => scratch,
            Held::Parked(_) => unreachable!("the bytes were moved to a scratch just above"),
        }
    }

    /// Take the first `count` bytes as a scratch of their own, if they are all here and lie in one.
    pub(super) fn split(&mut self, count: usize) -> Option<Scratch> {
        if self.bytes().len() < count || !matches!(self.held, Held::Scratch(_)) {
            return None;
        }
        let Held::Scratch(mut whole) = self.take() else { return None };
        if whole.len() > count {
            let mut rest = Scratch::lend();
            rest.extend(&whole.bytes()[count..]);
            self.held = Held::Parked(rest.park());
            whole.truncate(count);
        }
        Some(whole)
    }
}

impl Default for Inbound {
    fn default() -> Self {
        Inbound::new()
    }
}

/// Cuts one body out of the bytes of a connection.
#[derive(Debug)]
pub(super) struct BodyReader {
    decoder: BodyDecoder,
    /// Body bytes at the front of the inbound ones.
    run: usize,
    /// Framing bytes behind the run, to be passed over when it is used up.
    after: usize,
    done: bool,
}

/// Why a body could not be read on.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The connection failed or ended too early.
    Lost,
    /// The framing is broken.
    Bad(BodyError),
}

impl BodyReader {
    /// A reader for a body with this framing.
    pub(super) fn new(framing: Framing) -> BodyReader {
        BodyReader {
            decoder: BodyDecoder::new(framing),
            run: 0,
            after: 0,
            done: matches!(framing, Framing::None | Framing::Length(0)),
        }
    }

    /// Has the whole body been used?
    pub(super) fn is_done(&self) -> bool {
        self.done && self.run == 0
    }

    /// The trailers that came.
    pub(super) fn trailers(&self) -> FieldIter<'_> {
        self.decoder.trailers()
    }

    /// The next run of body bytes; empty at the end of the body.
    pub(super) fn poll_chunk<'i>(
        &mut self,
        inbound: &'i mut Inbound,
        stream: &Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<&'i [u8], ReadFailure>> {
        while self.run == 0 && !self.done {
            if !inbound.bytes().is_empty() && self.decode(inbound)? {
                continue;
            }
            match ready!(inbound.poll_fill(stream, cx)) {
                Ok(0) => {
                    self.decoder.end_of_input().map_err(|_| ReadFailure::Lost)?;
                    self.done = true;
                }
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(ReadFailure::Lost)),
            }
        }
        Poll::Ready(Ok(&inbound.bytes()[..self.run]))
    }

    /// Work on what is here; false when more bytes are needed.
    fn decode(&mut self, inbound: &mut Inbound) -> Result<bool, ReadFailure> {
        let decoded = self.decoder.decode(inbound.bytes()).map_err(ReadFailure::Bad)?;
        self.done = decoded.done;
        self.run = decoded.data.len();
        if self.run == 0 {
            inbound.consume(decoded.consumed);
            return Ok(decoded.consumed > 0 || decoded.done);
        }
        self.after = decoded.consumed - decoded.data.end;
        inbound.consume(decoded.data.start);
        Ok(true)
    }

    /// `count` bytes of the run were used.
    pub(super) fn consume(&mut self, inbound: &mut Inbound, count: usize) {
        assert!(count <= self.run, "consumed more than the run holds");
        inbound.consume(count);
        self.run -= count;
        if self.run == 0 {
            inbound.consume(std::mem::take(&mut self.after));
        }
    }

    /// Body bytes that have not been read from the socket and are all that comes next from it; 0
    /// where that is not known, or some that were read have to be used before.
    pub(super) fn in_socket(&self, inbound: &Inbound) -> u64 {
        match inbound.bytes() {
            [] => self.decoder.left().unwrap_or(0),
            _ => 0,
        }
    }

    /// `count` bytes of [`BodyReader::in_socket`] went another way.
    pub(super) fn pass(&mut self, count: usize) {
        self.decoder.pass(count as u64);
        self.done = self.decoder.is_done();
    }

    /// The whole body as a scratch of its own, if it has a known length and is all here.
    pub(super) fn take_whole(&mut self, inbound: &mut Inbound, length: u64) -> Option<Scratch> {
        let length = usize::try_from(length).ok()?;
        if self.run > 0 || self.done {
            return None;
        }
        let whole = inbound.split(length)?;
        self.done = true;
        Some(whole)
    }
}
