//! The stage that writes the answer at the client's speed.
//!
//! An answer that is whole goes out from where it lies, usually with one call. One that is not runs
//! together with `collect` over one buffer: bytes go straight through while the client keeps up,
//! into the buffer while it does not, and the worker is read to its end even when the client has
//! left, since its slot is not free before.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use spillgate_runtime::clock;
use spillgate_runtime::http::client::WorkerFailure;
use spillgate_runtime::http::service::{Length, Responder, SendFailure};
use spillgate_runtime::net::pipe::Pipe;
use spillgate_runtime::scratch::{Parked, Scratch};
use spillgate_wire::attempt;
use spillgate_wire::http1::{Framing, Method, Name};

use crate::collect::{Collected, Step, TURN_MAX};
use crate::dispatch::{Cause, is_for_client};
use crate::error::ExchangeError;
use crate::metrics::label::{FailReason, RelayReason, Stage};
use crate::settings::PoolSettings;

/// Send the answer to the client, and finish collecting it.
pub(crate) async fn deliver(
    collected: &mut Collected<'_>,
    settings: &PoolSettings,
    responder: &mut dyn Responder,
    method: Method,
) -> Result<(), ExchangeError> {
    begin(collected, responder, method);
    if collected.whole.is_some() {
        return send_whole(collected, responder).await;
    }
    if matches!(collected.relay, Some(RelayReason::EventStream | RelayReason::Asked)) {
        collected.watch_no_more();
    }
    let mut flow = Flow {
        collected,
        settings,
        responder,
        left: None,
        broken: None,
        held_up: false,
        turn: 0,
        pipe: None,
    };
    let outcome = poll_fn(|cx| flow.poll(cx)).await;
    collected.give_up().await;
    outcome
}

/// Write the head for the client: the worker's fields, with a framing of our own.
fn begin(collected: &Collected<'_>, responder: &mut dyn Responder, method: Method) {
    let answer = collected.head.get();
    let told = match collected.framing {
        Framing::Length(length) => Length::Known(length),
        Framing::None => match (answer.status(), answer.content_length()) {
            (204 | 304, _) => Length::Absent,
            (_, Some(length)) if method == Method::Head => Length::Known(length),
            (_, None) if method == Method::Head => Length::Unknown,
            _ => Length::Known(0),
        },
        Framing::Chunked | Framing::UntilClose => {
            let has_trailers = !collected.trailers.is_empty() && responder.takes_trailers();
            match collected.is_whole() && !has_trailers {
                true => Length::Known(collected.len),
                false => Length::Unknown,
            }
        }
    };
    responder.begin(answer.status(), answer.reason(), told);
    responder.fields(answer.fields(), is_for_client);
    if collected.repeated && answer.status() == 503 && answer.get(Name::SpillgateRetry).is_none() {
        // We have tried elsewhere: whoever is in front of us need not.
        responder.field(attempt::RETRY, attempt::NO);
    }
}

async fn send_whole(
    collected: &mut Collected<'_>,
    responder: &mut dyn Responder,
) -> Result<(), ExchangeError> {
    // Usually the kernel takes everything at once; what it does not take is parked.
    let mut lent = collected.whole.take();
    let mut parked = Parked::empty();
    poll_fn(|cx| {
        if let Some(mut whole) = lent.take() {
            match responder.poll_send(cx, whole.bytes(), true) {
                Poll::Ready(Ok(count)) => whole.consume(count),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {}
            }
            if !whole.is_empty() {
                parked = whole.park();
            }
        }
        while !parked.bytes().is_empty() {
            let count = ready!(responder.poll_send(cx, parked.bytes(), true))?;
            parked.consume(count);
        }
        responder.poll_finish(cx)
    })
    .await
    .map_err(left)
}

fn left(failure: SendFailure) -> ExchangeError {
    match failure {
        SendFailure::Left | SendFailure::Slow => ExchangeError::abandoned(Stage::Deliver),
    }
}

/// An answer that is collected and delivered at the same time.
struct Flow<'f, 's> {
    collected: &'f mut Collected<'s>,
    settings: &'f PoolSettings,
    responder: &'f mut dyn Responder,
    /// The client has left: the worker is still read to its end.
    left: Option<SendFailure>,
    /// The worker has failed: the client still gets what came before.
    broken: Option<ExchangeError>,
    /// There was no room, so the worker could not send on.
    held_up: bool,
    turn: u64,
    /// Bytes on their way from the worker to the client that are not copied. None when empty.
    pipe: Option<Pipe>,
}

impl Flow<'_, '_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        self.turn = 0;
        // What the client takes says nothing of the worker, whose time goes on meanwhile.
        let mut worker_moved = false;
        loop {
            let mut moved = self.poll_buffered(cx)? | self.poll_piped(cx);
            let came = self.poll_source(cx)?;
            if came && std::mem::take(&mut self.held_up) {
                // Its time must not be over before it could send on.
                self.progressed();
            }
            moved |= came;
            worker_moved |= came;
            if !moved {
                break;
            }
            if self.turn > TURN_MAX {
                cx.waker().wake_by_ref();
                break;
            }
        }
        if worker_moved {
            self.progressed();
        }
        if !self.collected.is_whole() && self.left.is_none() {
            // The worker is silent: what it has said so far goes out, its head too.
            if let Poll::Ready(failure) = self.responder.poll_idle(cx) {
                self.client_left(failure);
            }
        }
        if let Some(buffer) = &mut self.collected.buffer {
            buffer.poll_settled(cx);
        }
        if self.left.is_some() || self.unread() == 0 {
            // It has seen a part, so it must see an error, too.
            if let Some(error) = self.broken.take() {
                self.responder.abort();
                return Poll::Ready(Err(error));
            }
        }
        if let Some(failure) = self.left
            && (self.collected.is_whole() || self.is_endless())
        {
            return Poll::Ready(Err(left(failure)));
        }
        if !self.collected.is_whole() || self.unread() > 0 {
            return Poll::Pending;
        }
        for (name, value) in std::mem::take(&mut self.collected.trailers) {
            self.responder.trailer(&name, &value);
        }
        self.responder.poll_finish(cx).map_err(left)
    }

    /// The worker's time starts anew.
    fn progressed(&self) {
        if self.is_stream() {
            self.collected.watch_no_more();
        } else {
            self.collected.progressed(clock::now(), self.settings);
        }
    }

    /// May it be silent for as long as it likes?
    fn is_stream(&self) -> bool {
        matches!(self.collected.relay, Some(RelayReason::EventStream | RelayReason::Asked))
    }

    /// Would nobody ever end it but its client? A long answer whose end is known is read to it,
    /// since its worker is busy until then.
    fn is_endless(&self) -> bool {
        let long = self.collected.relay == Some(RelayReason::ResponseSize);
        self.is_stream() || (long && !matches!(self.collected.framing, Framing::Length(_)))
    }

    /// What the client has not taken yet of what has come.
    fn unread(&self) -> u64 {
        self.buffered() + self.pipe.as_ref().map_or(0, |pipe| pipe.held() as u64)
    }

    fn buffered(&self) -> u64 {
        self.collected.buffer.as_ref().map_or(0, |buffer| buffer.unread())
    }

    /// Send what is buffered.
    fn poll_buffered(&mut self, cx: &mut Context<'_>) -> Result<bool, ExchangeError> {
        if self.left.is_some() {
            self.collected.buffer = None;
            return Ok(false);
        }
        let mut moved = false;
        while self.buffered() > 0 && self.turn <= TURN_MAX {
            match self.poll_piece(cx)? {
                Poll::Pending => break,
                Poll::Ready(Ok(count)) => {
                    self.turn += count as u64;
                    moved = true;
                }
                Poll::Ready(Err(failure)) => {
                    self.client_left(failure);
                    return Ok(true);
                }
            }
        }
        Ok(moved)
    }

    /// Send the next of what is buffered, and say how much that was.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<Poll<Result<usize, SendFailure>>, ExchangeError> {
        let buffer = self.collected.buffer.as_mut().expect("something is buffered");
        if buffer.poll_written(cx).is_pending() {
            return Ok(Poll::Pending);
        }
        let mut lent;
        let piece = if buffer.is_away() {
            // A slow client's bytes stay on disk until they can be sent.
            match self.responder.poll_room(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => return Ok(Poll::Ready(Err(failure))),
                Poll::Pending => return Ok(Poll::Pending),
            }
            lent = Scratch::lend();
            buffer.copy_cached(&mut lent).then_some(lent.bytes())
        } else {
            None
        };
        let chunk = match piece {
            Some(piece) => Poll::Ready(Ok(piece)),
            None => buffer.poll_chunk(cx),
        };
        let sent = match chunk {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Ok(chunk)) => self.responder.poll_send(cx, chunk, false),
            Poll::Ready(Err(_)) => {
                self.responder.abort();
                return Err(ExchangeError::failed(Stage::Deliver, FailReason::Spill));
            }
        };
        if let Poll::Ready(Ok(count)) = sent {
            buffer.consume(count);
        }
        Ok(sent)
    }

    fn client_left(&mut self, failure: SendFailure) {
        self.left = Some(failure);
        self.collected.buffer = None;
        let lost = self.pipe.take().map_or(0, |pipe| pipe.held() as u64);
        if !self.is_endless() {
            // They belong to what is read and forgotten from here on.
            self.collected.len += lost;
        }
    }

    /// Send what lies in the pipe.
    fn poll_piped(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        match self.responder.poll_splice(cx, pipe) {
            Poll::Pending => {
                self.held_up = true;
                false
            }
            Poll::Ready(Ok(count)) => {
                self.collected.passed(count);
                self.turn += count as u64;
                if pipe.is_empty() {
                    self.pipe = None;
                    if std::mem::take(&mut self.held_up) {
                        // The worker was not asked meanwhile.
                        self.progressed();
                    }
                }
                true
            }
            Poll::Ready(Err(failure)) => {
                self.client_left(failure);
                true
            }
        }
    }

    /// Take what the worker has.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Result<bool, ExchangeError> {
        if self.collected.is_whole() {
            return Ok(false);
        }
        if self.left.is_some() {
            return if self.is_endless() { Ok(false) } else { self.poll_discard(cx) };
        }
        if self.buffered() > 0 {
            return self.poll_into_buffer(cx);
        }
        if self.pipe.is_some() {
            return Ok(false);
        }
        if self.collected.is_spliceable()
            && self.responder.takes_pipe()
            && let Some(pipe) = Pipe::lend()
        {
            return Ok(self.poll_into_pipe(cx, pipe));
        }
        let chunk = match self.collected.poll_direct(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(chunk)) => chunk,
            Poll::Ready(Err(failure)) => {
                self.broke(failure);
                return Ok(true);
            }
        };
        if chunk.is_empty() {
            self.collected.end(clock::now());
            return Ok(true);
        }
        match self.responder.poll_send(cx, chunk, false) {
            Poll::Ready(Ok(count)) => {
                self.collected.came(count);
                self.turn += count as u64;
                Ok(true)
            }
            Poll::Ready(Err(failure)) => {
                self.client_left(failure);
                Ok(true)
            }
            Poll::Pending => self.poll_into_buffer(cx),
        }
    }

    fn poll_into_pipe(&mut self, cx: &mut Context<'_>, mut pipe: Pipe) -> bool {
        match self.collected.poll_splice(cx, &mut pipe) {
            // It goes back until there is something.
            Poll::Pending => false,
            Poll::Ready(Ok(())) => {
                self.pipe = Some(pipe);
                true
            }
            Poll::Ready(Err(failure)) => {
                self.broke(failure);
                true
            }
        }
    }

    fn poll_into_buffer(&mut self, cx: &mut Context<'_>) -> Result<bool, ExchangeError> {
        let before = self.collected.len;
        match self.collected.poll_step(cx, self.settings) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(Step::Moved)) => {
                self.turn += self.collected.len - before;
                Ok(true)
            }
            Poll::Ready(Ok(Step::Full)) => {
                self.held_up = true;
                self.collected.park();
                Ok(false)
            }
            Poll::Ready(Err(failure)) => {
                self.broke(failure);
                Ok(true)
            }
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Result<bool, ExchangeError> {
        let count = match self.collected.poll_direct(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(chunk)) => chunk.len(),
            Poll::Ready(Err(failure)) => {
                drop(self.collected.set_back(failure));
                return Ok(false);
            }
        };
        if count == 0 {
            self.collected.end(clock::now());
        } else {
            self.collected.came(count);
            self.turn += count as u64;
        }
        Ok(true)
    }

    /// The worker failed after the client had seen a part.
    fn broke(&mut self, failure: WorkerFailure) {
        let reason = match failure {
            WorkerFailure::Timeout => FailReason::WorkerTimeout,
            WorkerFailure::Ourselves(_) => FailReason::Spill,
            _ => FailReason::ResponseBroken,
        };
        match &mut self.collected.buffer {
            Some(_) if reason == FailReason::Spill => self.collected.buffer = None,
            Some(buffer) => buffer.finish(),
            None => {}
        }
        let setback = self.collected.set_back(failure);
        debug_assert!(matches!(setback.cause, Cause::Worker(_)), "collecting fails by its worker");
        self.broken = Some(ExchangeError::failed(Stage::Collect, reason));
    }
}
