//! The stage that reads the answer at the worker's speed and returns the permit at its last byte.
//!
//! First it holds back: until the answer is whole, or `respond_hold_max` bytes have come, or
//! `respond_hold_wait` has passed, nothing goes out, so that an exchange whose worker dies can be
//! tried again and the client sees nothing of it. Then [`Collected`] goes on together with
//! `deliver`, and never waits for the client while the byte budget lasts.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use spillgate_core::gate::{Fate, Fault, Outcome};
use spillgate_core::time::{Duration, Instant};
use spillgate_runtime::buffer::{Buffer, Storage};
use spillgate_runtime::clock;
use spillgate_runtime::http::client::{WorkerConnection, WorkerFailure, WorkerHead};
use spillgate_runtime::net::pipe::Pipe;
use spillgate_runtime::scratch::{self, Scratch};
use spillgate_runtime::shard::sleep_until;
use spillgate_wire::http1::{Framing, Method};

use crate::admit::Held;
use crate::dispatch::{Cause, Sent, Setback};
use crate::idle::Idle;
use crate::metrics::label::{RelayReason, Stage};
use crate::settings::PoolSettings;
use crate::shard::Shard;

/// Time that a worker has to notice that nobody listens to its stream any more. Plain choice: who
/// watches its client at all notices at once; who does not learns it from its next write.
const GIVE_UP_TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes that one answer moves before the others of its shard get their turn.
pub(crate) const TURN_MAX: u64 = 512 * 1024;

/// Body bytes still to come below which they are copied. Plain choice: what a scratch holds goes
/// through it at once.
const SPLICE_MIN: u64 = 64 * 1024;

/// An answer, whole or on its way.
pub(crate) struct Collected<'s> {
    shard: &'s Shard,
    pub(crate) head: WorkerHead,
    pub(crate) framing: Framing,
    /// It is not the first worker that may have begun it.
    pub(crate) repeated: bool,
    /// The worker's side, until its last byte.
    source: Option<Source<'s>>,
    /// The whole body, where it lies as it was read.
    pub(crate) whole: Option<Scratch>,
    /// Body bytes that wait for the client.
    pub(crate) buffer: Option<Box<Buffer>>,
    pub(crate) trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Body bytes that have come.
    pub(crate) len: u64,
    /// Those of them that the client got through a pipe.
    pub(crate) spliced: u64,
    /// Why the answer is not buffered, if it is not.
    pub(crate) relay: Option<RelayReason>,
    /// There was no room for more of it at least once, so its worker waited for its client.
    fell_back: bool,
    /// When the worker's last byte came.
    pub(crate) ended: Option<Instant>,
}

/// The worker's side of an answer that is not whole.
struct Source<'s> {
    held: Held<'s>,
    connection: Box<WorkerConnection>,
    generation: u64,
    reusable: bool,
}

/// Hold the answer back for as long as the exchange might have to be tried again.
pub(crate) async fn collect<'s>(
    shard: &'s Shard,
    sent: Sent<'s>,
    method: Method,
) -> Result<Collected<'s>, Setback> {
    let settings = &shard.pools[sent.held.pool()].shared.settings;
    let mut collected = Collected::begin(shard, sent, method);
    if let Some(reason) = collected.must_relay(settings) {
        collected.relay = Some(reason);
        return Ok(collected);
    }
    let held_back = if let Framing::Length(length) = collected.framing {
        collected.hold_length(length, settings).await
    } else {
        collected.hold_stream(settings).await
    };
    match held_back {
        Ok(()) => Ok(collected),
        Err(failure) => Err(collected.set_back(failure)),
    }
}

impl<'s> Collected<'s> {
    pub(crate) fn begin(shard: &'s Shard, sent: Sent<'s>, method: Method) -> Collected<'s> {
        let answer = sent.head.get();
        let framing = answer.framing(method);
        let reusable = sent.whole && answer.keep_alive() && framing != Framing::UntilClose;
        let Sent { held, connection, generation, head, repeated, at, .. } = sent;
        let pool = &shard.pools[held.pool()].shared.settings;
        connection.deadline().set(at + pool.progress_time_max);
        let mut collected = Collected {
            shard,
            head,
            framing,
            repeated,
            source: Some(Source { held, connection, generation, reusable }),
            whole: None,
            buffer: None,
            trailers: Vec::new(),
            len: 0,
            spliced: 0,
            relay: None,
            fell_back: false,
            ended: None,
        };
        match framing {
            // A tunnel begins where this head ends, so the worker's last byte is yet to come.
            Framing::None if collected.head.get().status() == 101 => {}
            Framing::None | Framing::Length(0) => collected.end(at),
            Framing::Length(length) => collected.take_whole(length, at),
            Framing::Chunked | Framing::UntilClose => {}
        }
        collected
    }

    /// The usual case: the body came with the head.
    fn take_whole(&mut self, length: u64, now: Instant) {
        let source = self.source.as_mut().expect("an answer begins with its source");
        if let Some(whole) = source.connection.take_whole(length) {
            self.len = length;
            self.whole = Some(whole);
            self.end(now);
        }
    }

    /// Why the worker had to keep the client's pace, if it had to.
    pub(crate) fn relayed(&self) -> Option<RelayReason> {
        let short = match self.shard.storage.spills() {
            true => RelayReason::Spill,
            false => RelayReason::ByteBudget,
        };
        self.relay.or(self.fell_back.then_some(short))
    }

    /// Is the answer whole?
    pub(crate) fn is_whole(&self) -> bool {
        self.source.is_none()
    }

    fn must_relay(&self, settings: &PoolSettings) -> Option<RelayReason> {
        if self.is_whole() {
            return None;
        }
        let answer = self.head.get();
        if answer.status() == 101 {
            return Some(RelayReason::Upgrade);
        }
        if answer.is_event_stream() {
            return Some(RelayReason::EventStream);
        }
        if answer.accel_buffering_off() {
            return Some(RelayReason::Asked);
        }
        match self.framing {
            Framing::Length(length) if length > settings.response_size_max.as_bytes() => {
                Some(RelayReason::ResponseSize)
            }
            _ => None,
        }
    }

    /// Hold back a body of known length: it stays where it is read, so a body that comes in several
    /// pieces is not copied.
    async fn hold_length(
        &mut self,
        length: u64,
        settings: &PoolSettings,
    ) -> Result<(), WorkerFailure> {
        let hold_max = settings.respond_hold_max.as_bytes().min(scratch::SIZE as u64 - 4096);
        let wanted = usize::try_from(length.min(hold_max)).expect("a scratch fits in memory");
        let Some(source) = &mut self.source else { return Ok(()) };
        let mut waiting: Waiting = None;
        let connection = &mut source.connection;
        let gathered = poll_fn(|cx| match connection.poll_gather(cx, wanted) {
            Poll::Pending => poll_wait(cx, &mut waiting, settings.respond_hold_wait),
            Poll::Ready(outcome) => Poll::Ready(outcome),
        })
        .await;
        gathered?;
        self.take_whole(length, clock::now());
        Ok(())
    }

    /// Hold back a body of unknown length in a buffer.
    async fn hold_stream(&mut self, settings: &PoolSettings) -> Result<(), WorkerFailure> {
        let mut waiting: Waiting = None;
        poll_fn(|cx| {
            loop {
                if self.is_whole() || self.len >= settings.respond_hold_max.as_bytes() {
                    return Poll::Ready(Ok(()));
                }
                match self.poll_step(cx, settings) {
                    Poll::Ready(Ok(Step::Moved)) => {}
                    Poll::Ready(Ok(Step::Full)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                    Poll::Pending => {
                        return poll_wait(cx, &mut waiting, settings.respond_hold_wait);
                    }
                }
            }
        })
        .await
    }

    /// Move what the worker has sent into the buffer: one piece.
    pub(crate) fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        settings: &PoolSettings,
    ) -> Poll<Result<Step, WorkerFailure>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Ok(Step::Moved)) };
        if self.relay.is_some() {
            return Poll::Ready(Ok(Step::Full));
        }
        let chunk = match source.connection.poll_chunk(cx) {
            Poll::Ready(Ok(chunk)) => chunk,
            Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            Poll::Pending => return Poll::Pending,
        };
        if chunk.is_empty() {
            self.end(clock::now());
            return Poll::Ready(Ok(Step::Moved));
        }
        if self.len + chunk.len() as u64 > settings.response_size_max.as_bytes() {
            self.relay = Some(RelayReason::ResponseSize);
            return Poll::Ready(Ok(Step::Full));
        }
        let storage: &Arc<Storage> = &self.shard.storage;
        let coming = match self.framing {
            Framing::Length(length) => Some(length - self.len),
            _ => None,
        };
        let buffer = self.buffer.get_or_insert_with(|| {
            let mut buffer = Box::new(Buffer::response(storage));
            coming.into_iter().for_each(|len| buffer.expect_len(len));
            buffer
        });
        match buffer.poll_append(cx, chunk) {
            Poll::Ready(Ok(0)) => {
                source.connection.park();
                self.fell_back = true;
                Poll::Ready(Ok(Step::Full))
            }
            // Its own spill writes are under way.
            Poll::Pending => {
                source.connection.park();
                Poll::Ready(Ok(Step::Full))
            }
            Poll::Ready(Ok(count)) => {
                self.came(count);
                Poll::Ready(Ok(Step::Moved))
            }
            Poll::Ready(Err(_)) => {
                // The spill folder failed. What it holds is lost, so the answer is, too.
                Poll::Ready(Err(WorkerFailure::Ourselves(std::io::ErrorKind::StorageFull.into())))
            }
        }
    }

    /// The next bytes straight from the worker, past the (empty) buffer; empty: there are no more.
    pub(crate) fn poll_direct(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<&[u8], WorkerFailure>> {
        match &mut self.source {
            Some(source) => source.connection.poll_chunk(cx),
            None => Poll::Ready(Ok(b"")),
        }
    }

    /// Is the answer to go through a pipe from here on? Only in relay, and only while so much is
    /// still to come, and can come in one piece, that it is worth two more calls.
    pub(crate) fn is_spliceable(&self) -> bool {
        let (Some(source), Some(reason)) = (&self.source, self.relay) else { return false };
        reason != RelayReason::EventStream && source.connection.spliceable() >= SPLICE_MIN
    }

    /// Move the next bytes into `pipe`, which is empty. They are counted when they leave it.
    pub(crate) fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
    ) -> Poll<Result<(), WorkerFailure>> {
        let source = self.source.as_mut().expect("only what is not whole is spliced");
        ready!(source.connection.poll_splice(cx, pipe))?;
        if source.connection.is_done() {
            self.end(clock::now());
        }
        Poll::Ready(Ok(()))
    }

    /// The client took `count` bytes out of the pipe.
    pub(crate) fn passed(&mut self, count: usize) {
        self.len += count as u64;
        self.spliced += count as u64;
    }

    /// `count` bytes of the worker were used.
    pub(crate) fn came(&mut self, count: usize) {
        self.len += count as u64;
        if let Some(source) = &mut self.source {
            source.connection.consume(count);
        }
    }

    /// Bytes have come: the worker's time starts anew.
    pub(crate) fn progressed(&self, now: Instant, settings: &PoolSettings) {
        if let Some(source) = &self.source {
            source.connection.deadline().set(now + settings.progress_time_max);
        }
    }

    /// A stream may be silent for as long as it likes.
    pub(crate) fn watch_no_more(&self) {
        if let Some(source) = &self.source {
            source.connection.deadline().clear();
        }
    }

    /// Before waiting for the client: shared buffers are given back.
    pub(crate) fn park(&mut self) {
        if let Some(source) = &mut self.source {
            source.connection.park();
        }
    }

    /// The worker's last byte has come: its permit returns here, and nowhere else on this path.
    pub(crate) fn end(&mut self, now: Instant) {
        let Some(source) = self.source.take() else { return };
        let Source { held, mut connection, generation, reusable } = source;
        for field in connection.trailers() {
            self.trailers.push((field.name.to_vec(), field.value.to_vec()));
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.finish();
        }
        let answer = self.head.get();
        let local = &self.shard.pools[held.pool()];
        let keep_alive = match answer.keep_alive_timeout() {
            Some(seconds) => Duration::from_secs(u64::from(seconds)),
            None => local.shared.settings.keep_alive_time_max,
        };
        let kept = reusable && connection.set_aside(now, keep_alive);
        let fate = if kept {
            local.idle.borrow_mut().put(held.worker(), Idle { connection, generation });
            Fate::Kept
        } else {
            Fate::Closed
        };
        let fault = (answer.status() >= 500).then_some(Fault::Error);
        // A stream's time is its listener's, not the worker's.
        let outcome = if self.relay.is_some() { Outcome::Ignore } else { Outcome::Success };
        self.ended = Some(now);
        held.give_back(outcome, fault, fate, now);
    }

    /// Nobody wants any of it: read it to its end, unless it has none, or is too long for anybody
    /// to wait.
    pub(crate) async fn read_out(&mut self) {
        let Some(source) = &self.source else { return };
        let settings = &self.shard.pools[source.held.pool()].shared.settings;
        if self.must_relay(settings).is_some() {
            return self.give_up().await;
        }
        poll_fn(|cx| {
            let before = self.len;
            while self.len - before < TURN_MAX {
                match ready!(self.poll_direct(cx)).map(<[u8]>::len) {
                    Ok(0) => {
                        self.end(clock::now());
                        return Poll::Ready(());
                    }
                    Ok(count) => self.came(count),
                    Err(failure) => {
                        self.set_back(failure);
                        return Poll::Ready(());
                    }
                }
                self.progressed(clock::now(), settings);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Nobody wants the rest of this stream. The worker is told by the end of what we send, and its
    /// slot is not free before it has ended, too, or has had a moment to.
    pub(crate) async fn give_up(&mut self) {
        let Some(source) = &mut self.source else { return };
        let connection = &mut source.connection;
        connection.shutdown_write();
        connection.deadline().set(clock::now() + GIVE_UP_TIME_MAX);
        let fate = poll_fn(|cx| {
            loop {
                match ready!(connection.poll_chunk(cx)) {
                    Ok(chunk) if !chunk.is_empty() => {
                        let count = chunk.len();
                        connection.consume(count);
                    }
                    Ok(_) | Err(WorkerFailure::Lost) => return Poll::Ready(Fate::Closed),
                    Err(_) => return Poll::Ready(Fate::Cut),
                }
            }
        })
        .await;
        if let Some(source) = self.source.take() {
            drop(source.connection);
            source.held.give_back(Outcome::Ignore, None, fate, clock::now());
            self.ended = Some(clock::now());
        }
    }

    /// The worker failed while it answered.
    pub(crate) fn set_back(&mut self, failure: WorkerFailure) -> Setback {
        let source = self.source.take().expect("a whole answer does not fail");
        let Source { held, connection, .. } = source;
        drop(connection);
        let setback = Setback {
            stage: Stage::Collect,
            worker: held.worker(),
            cause: Cause::Worker(failure),
            reached: true,
            ended: false,
            beside: None,
        };
        setback.settle(held, false);
        self.ended = Some(clock::now());
        setback
    }

    /// Both sides of a tunnel, once the worker has agreed to one.
    pub(crate) fn tunnel(&mut self) -> Option<&mut WorkerConnection> {
        let source = self.source.as_mut()?;
        source.connection.switch();
        source.connection.deadline().clear();
        Some(&mut source.connection)
    }
}

/// What one step of collecting did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes moved, or the answer ended.
    Moved,
    /// There is no room until the client has taken some: a relay.
    Full,
}

/// A timer that is made only for answers that do not come at once.
type Waiting = Option<Pin<Box<dyn Future<Output = ()>>>>;

/// Ready once `wait` has passed since the first call.
fn poll_wait(
    cx: &mut Context<'_>,
    waiting: &mut Waiting,
    wait: Duration,
) -> Poll<Result<(), WorkerFailure>> {
    let timer = waiting.get_or_insert_with(|| Box::pin(sleep_until(clock::now() + wait)));
    timer.as_mut().poll(cx).map(Ok)
}
