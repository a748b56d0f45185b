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
use spillgate_runtime::shard::spawn;
use spillgate_wire::agent_line;
use spillgate_wire::attempt;
use spillgate_wire::forwarded::Traceparent;
use spillgate_wire::http1::{
    FieldRef, HeadError, HeadLimits, Method, Name, RequestHead, ResponseError, encode,
};
use spillgate_wire::orca;

use crate::admit::{Asking, Granted, Held};
use crate::agent;
use crate::collect::Collected;
use crate::error::ExchangeError;
use crate::forward::{self, Forwarding};
use crate::hedge::{self, Hedges};
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
    /// What the gate was asked. After the first try a new connection is used: an idle one may have
    /// been the reason for it.
    pub(crate) asking: &'r Asking,
    /// How many other tries a worker may have begun.
    pub(crate) charged: u8,
    pub(crate) client: &'r Client,
    /// The request id that its client gave it, where that is believed.
    pub(crate) given_id: Option<&'r [u8]>,
    pub(crate) traceparent: &'r Traceparent,
    pub(crate) claim: &'r ClaimSettings,
    pub(crate) has_body: bool,
    /// What becomes of second tries.
    pub(crate) hedges: &'r Hedges,
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
    /// The other try that ran at the same time, and did not work either.
    pub(crate) beside: Option<Box<Setback>>,
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
    /// May the exchange be tried again, and as what? Not where either of two tries forbids it.
    pub(crate) fn again(
        &self,
        head: &RequestHead,
        client: &Client,
        tried: Tried,
    ) -> Result<Attempt, ExchangeError> {
        let own = self.again_alone(head, client, tried)?;
        let Some(beside) = &self.beside else { return Ok(own) };
        let both = beside.again_alone(head, client, own.tried())?;
        let is_sent = |next: &Attempt| matches!(next, Attempt::Sent(_));
        if !is_sent(&own) && !is_sent(&both) {
            return Ok(both);
        }
        // Two have failed, and one is tried next: that is what is charged.
        let mut next = both.tried();
        next.charged = tried.charged + 1;
        Ok(Attempt::Sent(next))
    }

    fn again_alone(
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

/// Bring the request to the worker that was granted, and wait for the head of its answer. Where
/// that takes longer than it should, perhaps from another worker as well.
pub(crate) async fn dispatch<'s>(
    shard: &'s Shard,
    granted: Granted<'s>,
    outgoing: &Outgoing<'_>,
    received: &mut Received,
    responder: &mut dyn Responder,
) -> Result<Sent<'s>, Setback> {
    let moment = hedge::moment(shard, &granted, outgoing);
    let wait = moment.map_or(Wait::Answer, |moment| Wait::Near(moment.at));
    let mut first = Try::begin(shard, granted, outgoing, received).await?;
    match first.exchange(outgoing, received, Some(responder), wait).await {
        Ok(Some(head)) => first.conclude(outgoing, Ok(head)).await,
        // Few come here, so what it needs is no part of every task.
        Ok(None) => {
            let moment = moment.unwrap_or_default();
            Box::pin(hedge::race(first, outgoing, received, moment)).await
        }
        Err(cause) => Err(first.fail(cause).await),
    }
}

/// How long an exchange waits for the head of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Until it comes.
    Answer,
    /// Until this moment has nearly come.
    Near(Instant),
    /// Until the request was sent whole.
    Sent,
}

/// A request at one worker, until the head of its answer.
pub(crate) struct Try<'s> {
    // Closed before its permit goes back.
    connection: Box<WorkerConnection>,
    held: Held<'s>,
    shard: &'s Shard,
    generation: u64,
    reused: bool,
    method: Method,
    upgrade: bool,
    progress: Progress,
    /// It is not the first worker that may have begun it.
    repeated: bool,
    interims: usize,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// A byte of it may have reached the worker.
    reached: bool,
    /// All of it was sent.
    whole: bool,
}

impl<'s> Try<'s> {
    /// Get a connection to the worker that was granted.
    pub(crate) async fn begin(
        shard: &'s Shard,
        granted: Granted<'s>,
        outgoing: &Outgoing<'_>,
        received: &mut Received,
    ) -> Result<Try<'s>, Setback> {
        let Granted { mut held, connection, moved, at, .. } = granted;
        let (pool, worker) = (held.pool(), held.worker());
        let idle = match connection {
            Connection::Idle => shard.pools[pool].idle.borrow_mut().take(worker),
            Connection::Moved(_) => moved.and_then(|moved| moved.attach()),
            Connection::New => None,
        };
        held.connection_taken();
        let idle = idle.and_then(|idle| fit(shard, idle, &held, outgoing, at));
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
        match opened {
            Ok(Idle { connection, generation }) => {
                held.connection_used();
                let reused = connection.is_reused();
                let (progress, repeated, interims) = (Progress::default(), outgoing.charged > 0, 0);
                let (method, upgrade) = (outgoing.head.method(), outgoing.head.upgrade().is_some());
                Ok(Try {
                    connection,
                    held,
                    shard,
                    generation,
                    reused,
                    method,
                    upgrade,
                    progress,
                    repeated,
                    interims,
                })
            }
            Err(cause) => {
                cells.connects.increment(ConnectKind::Failed);
                let setback = Setback {
                    stage: Stage::Dispatch,
                    worker,
                    cause,
                    reached: false,
                    ended: false,
                    beside: None,
                };
                setback.settle(held, false);
                Err(setback)
            }
        }
    }

    /// Whose slot it is.
    pub(crate) fn worker(&self) -> WorkerId {
        self.held.worker()
    }

    pub(crate) fn shard(&self) -> &'s Shard {
        self.shard
    }

    fn settings(&self) -> &'s PoolSettings {
        &self.shard.pools[self.held.pool()].shared.settings
    }

    /// Send everything, then wait for the final head; none: it was waited for long enough. Hints of
    /// the worker are passed on where there is somebody to get them.
    pub(crate) async fn exchange(
        &mut self,
        outgoing: &Outgoing<'_>,
        received: &mut Received,
        responder: Option<&mut dyn Responder>,
        wait: Wait,
    ) -> Result<Option<WorkerHead>, Cause> {
        let (worker, settings) = (self.worker(), self.settings());
        let Try { connection, progress, .. } = self;
        let mut sending = Sending::new((worker, settings), outgoing, received, progress);
        sending.exchange(self.shard, connection, responder, wait).await
    }

    /// Go on waiting for the final head. The request was sent whole; hints of the worker are lost.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<WorkerHead, Cause>> {
        let settings = self.settings();
        let limits = head_limits(settings);
        loop {
            let head = match ready!(self.connection.poll_head(cx, self.method, &limits)) {
                Ok(head) => head,
                Err(failure) => return Poll::Ready(Err(Cause::Worker(failure))),
            };
            let configured = settings.weight(self.worker());
            if meaning(&head, self.upgrade, configured)? == Meaning::Answer {
                return Poll::Ready(Ok(head));
            }
            self.interims += 1;
            if self.interims > INTERIMS_MAX {
                return Poll::Ready(Err(Cause::Worker(WorkerFailure::Bad(BadResponse::Interim))));
            }
        }
    }

    /// The head of the answer has come, or what came in its place.
    pub(crate) async fn conclude(
        self,
        outgoing: &Outgoing<'_>,
        answer: Result<WorkerHead, Cause>,
    ) -> Result<Sent<'s>, Setback> {
        match answer {
            Ok(head) if is_better_elsewhere(self.shard, &self.held, outgoing, &head) => {
                Err(self.fail(Cause::Unavailable).await)
            }
            Ok(head) => Ok(self.succeed(head)),
            Err(cause) => Err(self.fail(cause).await),
        }
    }

    fn succeed(self, head: WorkerHead) -> Sent<'s> {
        tell_load(self.shard, &self.held, &head);
        let Try { connection, held, generation, progress, repeated, .. } = self;
        let at = clock::now();
        Sent { held, connection, generation, head, whole: progress.whole, repeated, at }
    }

    /// It did not work.
    pub(crate) async fn fail(self, cause: Cause) -> Setback {
        let worker = self.worker();
        let Try { mut connection, held, shard, reused, progress, .. } = self;
        if let Cause::Refusal(report) = cause
            && report != Report::default()
        {
            shard.tell(held.pool(), Input::Report { worker, report }, clock::now());
        }
        // Of an answer that is thrown away only the head has been waited for.
        let ended =
            matches!(cause, Cause::Refusal(_) | Cause::Unavailable) && connection.has_ended().await;
        let (stage, reached) = (Stage::Dispatch, progress.reached);
        let setback = Setback { stage, worker, cause, reached, ended, beside: None };
        drop(connection);
        setback.settle(held, reused);
        setback
    }

    /// Another try has the exchange. What was sent whole is let run to its end, as when a client
    /// has left: a worker that is busy with it has no slot for anybody else. What was not is given
    /// up.
    pub(crate) fn leave(self) {
        if !self.progress.whole {
            return;
        }
        let Try { connection, held, shard, generation, reused, .. } = self;
        let Try { method, upgrade, progress, repeated, interims, .. } = self;
        let (Some(shard), Some(parts)) = (shard.shared(), held.into_parts()) else { return };
        spawn(async move {
            let shard = &*shard;
            let held = Held::of_parts(shard, parts);
            let own = Try {
                connection,
                held,
                shard,
                generation,
                reused,
                method,
                upgrade,
                progress,
                repeated,
                interims,
            };
            own.read_out().await;
        });
    }

    async fn read_out(mut self) {
        match poll_fn(|cx| self.poll_answer(cx)).await {
            Ok(head) => {
                let (shard, method) = (self.shard, self.method);
                Collected::begin(shard, self.succeed(head), method).read_out().await;
            }
            Err(cause) => drop(self.fail(cause).await),
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
        && shared.is_better_elsewhere(held.worker(), &outgoing.asking.attempt.tried())
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
    let first = outgoing.asking.attempt == Attempt::First;
    if same_process && first && idle.connection.is_fit(now, careful) {
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
    settings: &'a PoolSettings,
    outgoing: &'a Outgoing<'r>,
    received: &'a mut Received,
    out: Output,
    flushed: usize,
    /// Bytes sent of a body that lies where it was read.
    sent: usize,
    /// Fields behind the last chunk, ready to be sent.
    tail: Option<Vec<u8>>,
    progress: &'a mut Progress,
}

impl<'a, 'r> Sending<'a, 'r> {
    fn new(
        (worker, settings): (WorkerId, &'a PoolSettings),
        outgoing: &'a Outgoing<'r>,
        received: &'a mut Received,
        progress: &'a mut Progress,
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
            charged: outgoing.charged,
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
        let (flushed, sent) = (0, 0);
        Sending { worker, settings, outgoing, received, out, flushed, sent, tail, progress }
    }

    /// Send everything, then wait for the final head; none: it was waited for long enough.
    async fn exchange(
        &mut self,
        shard: &Shard,
        connection: &mut WorkerConnection,
        mut responder: Option<&mut dyn Responder>,
        mut wait: Wait,
    ) -> Result<Option<WorkerHead>, Cause> {
        let settings = self.settings;
        let (limits, method) = (head_limits(settings), self.outgoing.head.method());
        let upgrade = self.outgoing.head.upgrade().is_some();
        for _ in 0..=INTERIMS_MAX {
            if !self.progress.whole {
                self.send(shard, connection).await?;
            }
            match wait {
                Wait::Sent if self.progress.whole => return Ok(None),
                Wait::Near(at) if self.progress.whole => connection.deadline().announce(at),
                Wait::Sent | Wait::Near(_) | Wait::Answer => {}
            }
            let near = matches!(wait, Wait::Near(_));
            let head = poll_fn(|cx| match connection.poll_head(cx, method, &limits) {
                Poll::Pending if near && connection.deadline().take_announced() => {
                    Poll::Ready(Ok(None))
                }
                head => head.map_ok(Some),
            })
            .await
            .map_err(Cause::Worker)?;
            let Some(head) = head else { return Ok(None) };
            match meaning(&head, upgrade, settings.weight(self.worker))? {
                Meaning::Answer => return Ok(Some(head)),
                Meaning::Nothing => {}
                Meaning::Hints => {
                    if let Some(responder) = &mut responder {
                        pass_hints(&head, *responder);
                        // What follows must be of the same worker.
                        wait = Wait::Answer;
                    }
                }
            }
        }
        Err(Cause::Worker(WorkerFailure::Bad(BadResponse::Interim)))
    }

    /// Send on, to the end or until the worker says something.
    async fn send(
        &mut self,
        shard: &Shard,
        connection: &mut WorkerConnection,
    ) -> Result<(), Cause> {
        let settings = self.settings;
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
                    self.progress.whole = true;
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
                    (self.progress.reached, moved) = (true, true);
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

/// What a worker says with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// What we have asked for.
    Answer,
    /// It goes on, and the client may know these fields already.
    Hints,
    /// It goes on.
    Nothing,
}

fn meaning(head: &WorkerHead, upgrade: bool, configured: Weight) -> Result<Meaning, Cause> {
    let answer = head.get();
    match answer.status() {
        // We have answered 100 ourselves; 101 is final here.
        100 | 102 => Ok(Meaning::Nothing),
        103 => Ok(Meaning::Hints),
        101 if upgrade => Ok(Meaning::Answer),
        101..200 => Err(Cause::Worker(WorkerFailure::Bad(BadResponse::Interim))),
        // "Not me, not now": it is tried elsewhere. The value has the words of an agent, or any
        // others.
        503 => match answer.get(Name::SpillgateRefusal) {
            Some(words) if !is_final(head) => Err(Cause::Refusal(refused(words, configured))),
            _ => Ok(Meaning::Answer),
        },
        _ => Ok(Meaning::Answer),
    }
}

fn head_limits(settings: &PoolSettings) -> HeadLimits {
    HeadLimits { size_max: settings.head_size_max.as_len(), fields_max: HeadLimits::FIELDS_MAX }
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
