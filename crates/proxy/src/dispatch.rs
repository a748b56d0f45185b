//! The stage that brings a request to its worker and waits for the head of the answer.
//!
//! A failure here is a [`Setback`]: whether the exchange may be tried again is decided once, in
//! [`Setback::again`], from what the worker can have seen of the request.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use spillgate_core::gate::{Attempt, Connection, Fate, Fault, Input, Outcome, Tried};
use spillgate_core::id::WorkerId;
use spillgate_core::pool::Report;
use spillgate_core::time::{Duration, Instant};
use spillgate_core::units::Weight;
use spillgate_runtime::buffer::BufferError;
use spillgate_runtime::clock;
use spillgate_runtime::http::client::{BadResponse, WorkerConnection, WorkerFailure, WorkerHead};
use spillgate_runtime::http::lend::Output;
use spillgate_runtime::http::service::{BodySource, Client, Responder};
use spillgate_wire::agent_line;
use spillgate_wire::attempt;
use spillgate_wire::forwarded::Traceparent;
use spillgate_wire::http1::{
    FieldRef, HeadError, HeadLimits, Name, RequestHead, ResponseError, encode,
};
use spillgate_wire::orca;

use crate::admit::{Granted, Held};
use crate::agent;
use crate::error::ExchangeError;
use crate::forward::{self, Forwarding};
use crate::idle::Idle;
use crate::intake::{self, Received};
use crate::metrics::label::{ConnectKind, FailReason, IdleEnd, Stage};
use crate::settings::ClaimSettings;
use crate::settings::PoolSettings;
use crate::shard::Shard;

/// Most interim responses before the answer; a worker that sends more is broken. Plain choice: one
/// every few seconds of a long exchange.
const INTERIMS_MAX: usize = 1000;

/// A request that its worker has begun to answer.
pub(crate) struct Sent<'s> {
    pub(crate) held: Held<'s>,
    pub(crate) connection: Box<WorkerConnection>,
    pub(crate) generation: u64,
    pub(crate) head: WorkerHead,
    /// The worker has read the whole request, so the connection can serve again.
    pub(crate) whole: bool,
    /// It is not the first worker that may have begun it.
    pub(crate) repeated: bool,
    pub(crate) at: Instant,
}

/// What of a request never changes between tries.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'r> {
    pub(crate) head: &'r RequestHead,
    pub(crate) body: &'r dyn BodySource,
    /// Which try this is. After the first, a new connection is used: an idle one may have been the
    /// reason for it.
    pub(crate) attempt: Attempt,
    pub(crate) client: &'r Client,
    /// The request id that its client gave it, where that is believed.
    pub(crate) given_id: Option<&'r [u8]>,
    pub(crate) traceparent: &'r Traceparent,
    pub(crate) claim: &'r ClaimSettings,
    pub(crate) has_body: bool,
}

/// A try that did not work.
#[derive(Debug)]
pub(crate) struct Setback {
    pub(crate) stage: Stage,
    pub(crate) worker: WorkerId,
    pub(crate) cause: Cause,
    /// A byte of the request may have reached the worker.
    pub(crate) reached: bool,
    /// The worker has sent an answer to its end.
    pub(crate) ended: bool,
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Cause {
    /// The worker.
    Worker(WorkerFailure),
    /// Its answer marks a refusal, and may say how much its worker can take.
    Refusal(Report),
    /// It answered 503, and the others do not.
    Unavailable,
    /// The request body could not be read back.
    Body(BufferError),
}

impl Setback {
    /// May the exchange be tried again, and as what?
    pub(crate) fn again(
        &self,
        head: &RequestHead,
        client: &Client,
        mut tried: Tried,
    ) -> Result<Attempt, ExchangeError> {
        tried.insert(self.worker);
        let failed = |reason| Err(ExchangeError::failed(self.stage, reason));
        match &self.cause {
            Cause::Body(error) => Err(intake::lost(*error)),
            // Nothing was done, and its worker is out until a probe succeeds: as free as a connect
            // that was refused. How often is bounded by the time in the queue.
            Cause::Refusal(_) => Ok(Attempt::Unsent(tried)),
            Cause::Unavailable => {
                tried.charged += 1;
                Ok(Attempt::Sent(tried))
            }
            Cause::Worker(WorkerFailure::Ourselves(_)) => failed(FailReason::Internal),
            Cause::Worker(_) if !self.reached => Ok(Attempt::Unsent(tried)),
            Cause::Worker(WorkerFailure::Timeout) => failed(FailReason::WorkerTimeout),
            Cause::Worker(WorkerFailure::Bad(BadResponse::Head(ResponseError::Head(
                HeadError::TooLarge | HeadError::TooManyFields,
            )))) => failed(FailReason::ResponseHeadTooLarge),
            Cause::Worker(WorkerFailure::Bad(_)) => failed(FailReason::BadResponse),
            Cause::Worker(_) if !head.method().is_idempotent() => failed(FailReason::WorkerFailed),
            // Whoever is in front of us repeats it, so we do not: else tries would multiply.
            Cause::Worker(_) if forward::is_repeated(head, client) => {
                failed(FailReason::WorkerFailed)
            }
            Cause::Worker(_) => {
                tried.charged += 1;
                tried.deaths += 1;
                Ok(Attempt::Sent(tried))
            }
        }
    }

    /// What the gate is told of the connection.
    fn fate(&self) -> Fate {
        match &self.cause {
            // The worker has ended it, or never got anything of the exchange.
            Cause::Worker(WorkerFailure::Lost) => Fate::Closed,
            _ if self.ended || !self.reached => Fate::Closed,
            _ => Fate::Cut,
        }
    }

    /// What the gate is told of the worker.
    fn fault(&self, reused: bool) -> (Outcome, Option<Fault>) {
        match &self.cause {
            Cause::Body(_) | Cause::Worker(WorkerFailure::Ourselves(_)) => (Outcome::Ignore, None),
            Cause::Refusal(_) => (Outcome::Overload, Some(Fault::Refusal)),
            Cause::Unavailable => (Outcome::Ignore, Some(Fault::Error)),
            Cause::Worker(WorkerFailure::Refused(_) | WorkerFailure::ConnectTimeout) => {
                (Outcome::Ignore, Some(Fault::Refused))
            }
            Cause::Worker(WorkerFailure::Timeout) => (Outcome::Overload, Some(Fault::Stuck)),
            Cause::Worker(WorkerFailure::Bad(_)) => (Outcome::Ignore, Some(Fault::Error)),
            // A kept connection that ends may just have been idle for too long in the worker's
            // eyes.
            Cause::Worker(WorkerFailure::Lost) if reused && self.stage == Stage::Dispatch => {
                (Outcome::Ignore, None)
            }
            Cause::Worker(WorkerFailure::Lost) => (Outcome::Ignore, Some(Fault::Reset)),
        }
    }

    /// Return the permit of the try that did not work.
    pub(crate) fn settle(&self, held: Held<'_>, reused: bool) {
        let (outcome, fault) = self.fault(reused);
        held.give_back(outcome, fault, self.fate(), clock::now());
    }
}

/// Bring the request to the worker that was granted, and wait for the head of its answer.
pub(crate) async fn dispatch<'s>(
    shard: &'s Shard,
    granted: Granted<'s>,
    outgoing: &Outgoing<'_>,
    received: &mut Received,
    responder: &mut dyn Responder,
) -> Result<Sent<'s>, Setback> {
    let Granted { mut held, connection, moved, at } = granted;
    let (pool, worker) = (held.pool(), held.worker());
    let stage = Stage::Dispatch;
    let setback = |cause, reached, ended| Setback { stage, worker, cause, reached, ended };
    let idle = match connection {
        Connection::Idle => shard.pools[pool].idle.borrow_mut().take(worker),
        Connection::Moved(_) => moved.and_then(|moved| moved.attach()),
        Connection::New => None,
    };
    let idle = idle.and_then(|idle| fit(shard, idle, &held, outgoing, at));
    held.connection_taken();
    let cells = &shard.metrics.pools[pool];
    let opened = match idle {
        Some(idle) => {
            cells.connects.increment(match connection {
                Connection::Moved(_) => ConnectKind::Moved,
                Connection::Idle | Connection::New => ConnectKind::Reused,
            });
            Ok(idle)
        }
        None => open(shard, &held, received).await,
    };
    let (mut connection, generation) = match opened {
        Ok(idle) => (idle.connection, idle.generation),
        Err(cause) => {
            cells.connects.increment(ConnectKind::Failed);
            let setback = setback(cause, false, false);
            setback.settle(held, false);
            return Err(setback);
        }
    };
    let reused = connection.is_reused();
    let settings = &shard.pools[pool].shared.settings;
    let mut sending = Sending::new(held.worker(), outgoing, received);
    let answer = sending.exchange(shard, settings, &mut connection, responder).await;
    let answer = answer.and_then(|head| match is_better_elsewhere(shard, &held, outgoing, &head) {
        true => Err(Cause::Unavailable),
        false => Ok(head),
    });
    match answer {
        Ok(head) => {
            tell_load(shard, &held, &head);
            let whole = sending.whole;
            let repeated = outgoing.attempt.tried().charged > 0;
            let at = clock::now();
            Ok(Sent { held, connection, generation, head, whole, repeated, at })
        }
        Err(cause) => {
            if let Cause::Refusal(report) = cause
                && report != Report::default()
            {
                shard.tell(pool, Input::Report { worker, report }, clock::now());
            }
            // Of an answer that is thrown away only the head has been waited for.
            let ended = matches!(cause, Cause::Refusal(_) | Cause::Unavailable)
                && connection.has_ended().await;
            let setback = setback(cause, sending.reached, ended);
            drop(connection);
            setback.settle(held, reused);
            Err(setback)
        }
    }
}

/// What the worker reports of itself with its answer.
fn tell_load(shard: &Shard, held: &Held<'_>, head: &WorkerHead) {
    if let Some(report) = head.get().get(Name::EndpointLoadMetrics)
        && let Some(utilization) = orca::utilization(report)
    {
        let worker = held.worker();
        shard.tell(held.pool(), Input::Load { worker, utilization }, clock::now());
    }
}

/// Is this a 503 that only few workers give, of a request that may be repeated, and that nobody in
/// front of us repeats?
fn is_better_elsewhere(
    shard: &Shard,
    held: &Held<'_>,
    outgoing: &Outgoing<'_>,
    head: &WorkerHead,
) -> bool {
    let shared = &shard.pools[held.pool()].shared;
    head.get().status() == 503
        && shared.settings.retry_unavailable
        && outgoing.head.method().is_idempotent()
        && !is_final(head)
        && !forward::is_repeated(outgoing.head, outgoing.client)
        && shared.is_better_elsewhere(held.worker(), &outgoing.attempt.tried())
}

/// Does the answer say that another try would not help?
fn is_final(head: &WorkerHead) -> bool {
    head.get().get(Name::SpillgateRetry).is_some_and(attempt::is_final)
}

/// What a refusal says of the slots of its worker, which only it knows. That it is not to be asked
/// for now is known already, and for how long is found out by probes: a worker that gets nothing
/// could not take such a word back.
fn refused(words: &[u8], configured: Weight) -> Report {
    let said = agent::report(&agent_line::words(words), configured);
    let percent = said.percent.filter(|percent| *percent > 0);
    Report { percent, slots: said.slots, ..Report::default() }
}

/// The idle connection of a grant; none where it is unfit, and a new one takes its place.
fn fit(
    shard: &Shard,
    idle: Idle,
    held: &Held<'_>,
    outgoing: &Outgoing<'_>,
    now: Instant,
) -> Option<Idle> {
    let (pool, worker) = (held.pool(), held.worker());
    let local = &shard.pools[pool];
    let same_process = idle.generation == local.shared.generation(worker);
    let careful = !outgoing.head.method().is_idempotent();
    if same_process && outgoing.attempt == Attempt::First && idle.connection.is_fit(now, careful) {
        return Some(idle);
    }
    shard.metrics.pools[pool].idle_ends.increment(IdleEnd::Unfit);
    None
}

async fn open(shard: &Shard, held: &Held<'_>, received: &mut Received) -> Result<Idle, Cause> {
    let (pool, worker) = (held.pool(), held.worker());
    received.set_aside(shard);
    let shared = &shard.pools[pool].shared;
    let Some((endpoint, generation)) = shared.endpoint(worker) else {
        let missing = std::io::Error::from(std::io::ErrorKind::NotConnected);
        return Err(Cause::Worker(WorkerFailure::Refused(missing)));
    };
    let connection = WorkerConnection::connect(&endpoint, shared.settings.connect_time_max)
        .await
        .map_err(Cause::Worker)?;
    shard.metrics.pools[pool].connects.increment(ConnectKind::New);
    Ok(Idle { connection: Box::new(connection), generation })
}

/// A request on its way out.
struct Sending<'a, 'r> {
    worker: WorkerId,
    outgoing: &'a Outgoing<'r>,
    received: &'a mut Received,
    out: Output,
    flushed: usize,
    /// Bytes sent of a body that lies where it was read.
    sent: usize,
    /// Fields behind the last chunk, ready to be sent.
    tail: Option<Vec<u8>>,
    reached: bool,
    whole: bool,
}

impl<'a, 'r> Sending<'a, 'r> {
    fn new(
        worker: WorkerId,
        outgoing: &'a Outgoing<'r>,
        received: &'a mut Received,
    ) -> Sending<'a, 'r> {
        let trailers = outgoing.body.trailers();
        let mut tail = None;
        if trailers.clone().next().is_some() {
            let mut bytes = Vec::new();
            if received.len() > 0 {
                encode::chunk_end(&mut bytes);
            }
            encode::last_chunk(&mut bytes, trailers);
            tail = Some(bytes);
        }
        let mut out = Output::default();
        let forwarding = Forwarding {
            client: outgoing.client,
            given_id: outgoing.given_id,
            traceparent: outgoing.traceparent,
            claim: outgoing.claim,
            charged: outgoing.attempt.tried().charged,
            length: if tail.is_some() { None } else { Some(received.len()) },
            has_body: outgoing.has_body,
        };
        forward::write_head(out.buffer(), outgoing.head, &forwarding);
        if tail.is_some() && received.len() > 0 {
            // The whole body is here, so one chunk carries it.
            encode::chunk_head(out.buffer(), received.len());
        }
        if let Received::Stored(buffer) = received {
            buffer.rewind();
        }
        let (flushed, sent, reached, whole) = (0, 0, false, false);
        Sending { worker, outgoing, received, out, flushed, sent, tail, reached, whole }
    }

    /// Send everything, then wait for the final head.
    async fn exchange(
        &mut self,
        shard: &Shard,
        settings: &PoolSettings,
        connection: &mut WorkerConnection,
        responder: &mut dyn Responder,
    ) -> Result<WorkerHead, Cause> {
        let limits = HeadLimits {
            size_max: settings.head_size_max.as_len(),
            fields_max: HeadLimits::FIELDS_MAX,
        };
        let method = self.outgoing.head.method();
        for _ in 0..=INTERIMS_MAX {
            if !self.whole {
                self.send(shard, settings, connection).await?;
            }
            let head = poll_fn(|cx| connection.poll_head(cx, method, &limits))
                .await
                .map_err(Cause::Worker)?;
            let answer = head.get();
            match answer.status() {
                // We have answered 100 ourselves; 101 is final here.
                100 | 102 => {}
                103 => pass_hints(&head, responder),
                101 if self.outgoing.head.upgrade().is_some() => return Ok(head),
                101..200 => return Err(Cause::Worker(WorkerFailure::Bad(BadResponse::Interim))),
                503 => {
                    // "Not me, not now": it is tried elsewhere. The value has the words of an
                    // agent, or any others.
                    return match answer.get(Name::SpillgateRefusal) {
                        Some(words) if !is_final(&head) => {
                            let weight = settings.weight(self.worker);
                            Err(Cause::Refusal(refused(words, weight)))
                        }
                        _ => Ok(head),
                    };
                }
                _ => return Ok(head),
            }
        }
        Err(Cause::Worker(WorkerFailure::Bad(BadResponse::Interim)))
    }

    /// Send on, to the end or until the worker says something.
    async fn send(
        &mut self,
        shard: &Shard,
        settings: &PoolSettings,
        connection: &mut WorkerConnection,
    ) -> Result<(), Cause> {
        let progress_max = settings.progress_time_max;
        connection.deadline().set_after(progress_max);
        poll_fn(|cx| self.poll_send(cx, connection, progress_max)).await?;
        // A refusal may send it to another worker, whatever its method, so it outlives the sending.
        self.received.set_aside(shard);
        if let Received::Stored(buffer) = &mut *self.received {
            buffer.consume(std::mem::take(&mut self.sent));
        }
        connection.deadline().set_after(settings.exchange_time_max);
        Ok(())
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut WorkerConnection,
        progress_max: Duration,
    ) -> Poll<Result<(), Cause>> {
        let mut moved = false;
        loop {
            let body = match &mut *self.received {
                Received::Empty => &b""[..],
                Received::Lent(scratch) => &scratch.bytes()[self.sent..],
                Received::Aside(parked) => &parked.bytes()[self.sent..],
                Received::Stored(buffer) => ready!(buffer.poll_chunk(cx)).map_err(Cause::Body)?,
            };
            let head = &self.out[self.flushed..];
            if head.is_empty() && body.is_empty() {
                let Some(tail) = self.tail.take() else {
                    self.whole = true;
                    self.out.clear();
                    return Poll::Ready(Ok(()));
                };
                self.out.clear();
                self.out.buffer().extend_from_slice(&tail);
                self.flushed = 0;
                continue;
            }
            let head_len = head.len();
            match connection.poll_send(cx, head, body) {
                Poll::Ready(Ok(count)) => {
                    (self.reached, moved) = (true, true);
                    let of_head = count.min(head_len);
                    self.flushed += of_head;
                    match &mut *self.received {
                        Received::Empty => {}
                        Received::Lent(_) | Received::Aside(_) => self.sent += count - of_head,
                        Received::Stored(buffer) => buffer.consume(count - of_head),
                    }
                }
                // The worker closed; it may have answered before it did.
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Pending if connection.poll_spoke(cx).is_ready() => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    if moved {
                        connection.deadline().set_after(progress_max);
                    }
                    ready!(connection.deadline().poll_passed(cx));
                    return Poll::Ready(Err(Cause::Worker(WorkerFailure::Timeout)));
                }
            }
        }
    }
}

fn pass_hints(head: &WorkerHead, responder: &mut dyn Responder) {
    let answer = head.get();
    let wanted = |field: &FieldRef<'_>| is_for_client(field.id, field.hop);
    let fields: Vec<(&[u8], &[u8])> =
        answer.fields().filter(wanted).map(|field| (field.name, field.value)).collect();
    responder.interim(answer.status(), answer.reason(), &fields);
}

/// Does this field of a worker's answer, interim or final, go to the client as it stands? What
/// frames the answer is written anew, or is absent where there can be no body (RFC 9110 section
/// 8.6); what is meant for us ends here.
pub(crate) fn is_for_client(id: Name, hop: bool) -> bool {
    let ours = matches!(
        id,
        Name::ContentLength
            | Name::TransferEncoding
            | Name::XAccelBuffering
            | Name::SpillgateRefusal
            | Name::EndpointLoadMetrics
    );
    !hop && !ours
}
