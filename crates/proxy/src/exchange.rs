//! The path of one request: one function, one stage after the other.
//!
//! Each stage takes what the one before returned, so nothing can be sent without a permit. What a
//! stage does is in the file of its name; what its failure means is decided here, in one place.

use spillgate_core::gate::{Attempt, Claim};
use spillgate_core::time::Instant;
use spillgate_runtime::clock;
use spillgate_runtime::http::service::{BodySource, Refusal, Request, Responder, Service};
use spillgate_wire::http1::{Method, RequestHead};

use crate::admit::{Asking, admit};
use crate::claim::{Asked, claim};
use crate::collect::{Collected, collect};
use crate::deliver::deliver;
use crate::dispatch::{Outgoing, Setback, dispatch};
use crate::error::ExchangeError;
use crate::intake::intake;
use crate::metrics::label::{RefuseReason, RetryKind, Stage};
use crate::record::Record;
use crate::reply;
use crate::route::{Routed, To, Unrouted};
use crate::settings::ReplySettings;
use crate::shard::Shard;
use crate::tunnel::tunnel;

impl Service for Shard {
    async fn exchange(&self, request: Request<'_>, responder: &mut dyn Responder) {
        let Request { head, body, client, started } = request;
        let mut record = Record::begin(self, head, client, started);
        let outcome = exchange(self, head, body, responder, &mut record).await;
        if let Err(error) = &outcome
            && record.status == 0
        {
            // Whether anybody was there to hear of it changes nothing of what has happened: a
            // failure stays one, or clients that give up sooner than we do would hide it.
            record.status = reply::reply_error(error, responder).await.unwrap_or(0);
        }
        record.end(outcome);
    }

    async fn refuse(&self, refusal: Refusal<'_>, responder: &mut dyn Responder) {
        let mut record = Record::without_head(self, refusal.client, refusal.started);
        let error = reply::refusal(&refusal.kind);
        // A client that has left after a broken head is refused all the same.
        record.status = reply::reply_error(&error, responder).await.unwrap_or(0);
        record.end(Err(error));
    }
}

/// Take one request from its head to the last byte of its answer.
async fn exchange<'s>(
    shard: &'s Shard,
    head: &RequestHead,
    body: &mut dyn BodySource,
    responder: &mut dyn Responder,
    record: &mut Record<'s, '_>,
) -> Result<(), ExchangeError> {
    // route
    let routed = route(shard, head).inspect_err(|_| pass_over(body, responder))?;
    let pool = match routed.to {
        To::Pool(pool) => pool,
        To::Reply(settings) => {
            record.arrive(None, routed.name);
            return reply_fixed(settings, body, responder, record).await;
        }
    };
    let shared = &shard.pools[pool].shared;
    record.arrive(Some(pool), routed.name);
    let claim = claim_at(pool, &routed, head, shard, record);

    // intake
    record.enter(Stage::Intake, record.started);
    let mut received = intake(shard, shared, claim.class, body).await?;
    let mut now = clock::now();
    record.received(received.len(), now);

    // admit, dispatch, and the part of collect in which a failure can still be tried again
    let mut asking = Asking { pool, since: now, received: now, claim, attempt: Attempt::First };
    let mut collected = loop {
        record.enter(Stage::Admit, now);
        let granted = admit(shard, &asking, &mut received, body, now).await?;
        record.granted(granted.held.worker(), granted.at);
        let outgoing = Outgoing {
            head,
            body,
            asking: &asking,
            charged: asking.attempt.tried().charged,
            client: record.client(),
            given_id: record.given_id(),
            traceparent: &record.traceparent,
            claim: &shared.settings.claim,
            has_body: body.length() != Some(0),
            hedges: &record.hedges,
        };
        let setback = match dispatch(shard, granted, &outgoing, &mut received, responder).await {
            Ok(sent) => {
                record.answered(sent.held.worker(), sent.at);
                match collect(shard, sent, head.method()).await {
                    Ok(collected) => break collected,
                    Err(setback) => setback,
                }
            }
            Err(setback) => setback,
        };
        asking.attempt = try_again(setback, head, asking.attempt, record)?;
        now = clock::now();
    };
    drop(received);

    // collect goes on, deliver begins
    record.status = collected.head.get().status();
    record.enter(Stage::Deliver, collected.ended.unwrap_or_else(clock::now));
    let outcome = if record.status == 101 {
        tunnel(&mut collected, body, responder).await
    } else {
        deliver(&mut collected, &shared.settings, responder, head.method()).await
    };
    finish(&collected, record, clock::now());
    outcome
}

/// Where the request leads; refused where it leads nowhere, or asks what we do not do.
fn route<'s>(shard: &'s Shard, head: &RequestHead) -> Result<Routed<'s>, ExchangeError> {
    if head.method() == Method::Connect {
        let words = "connect is for forward proxies";
        return Err(ExchangeError::refused(Stage::Route, RefuseReason::Connect, words));
    }
    shard.router.find(head.host(), head.path()).map_err(|unrouted| {
        let (reason, words) = match unrouted {
            Unrouted::NoRoute => (RefuseReason::NoRoute, "no route matches host and path"),
            Unrouted::Ambiguous => {
                (RefuseReason::PathAmbiguous, "workers may read the path as one of another route")
            }
        };
        ExchangeError::refused(Stage::Route, reason, words)
    })
}

/// What the request claims at the gate of its pool.
fn claim_at(
    pool: usize,
    routed: &Routed<'_>,
    head: &RequestHead,
    shard: &Shard,
    record: &mut Record<'_, '_>,
) -> Claim {
    let (client, started) = (record.client(), record.started);
    let Routed { class: route_class, callers: route_callers, .. } = *routed;
    let asked = Asked { head, client, started, route_class, route_callers };
    let claim = claim(&shard.settings, &shard.settings.pools[pool].claim, &asked);
    record.claimed(claim.class);
    claim
}

/// Reply what the file says.
async fn reply_fixed(
    settings: &ReplySettings,
    body: &mut dyn BodySource,
    responder: &mut dyn Responder,
    record: &mut Record<'_, '_>,
) -> Result<(), ExchangeError> {
    pass_over(body, responder);
    let sent = reply::reply_fixed(settings, responder).await;
    record.status = sent.map_err(|_| ExchangeError::abandoned(Stage::Deliver))?;
    Ok(())
}

/// The body is nobody's: unless it is here already, nobody will read it.
fn pass_over(body: &mut dyn BodySource, responder: &mut dyn Responder) {
    if body.length() != Some(0) && body.take_whole().is_none() {
        responder.close_after();
    }
}

/// What the next try is, if there may be one.
fn try_again(
    setback: Setback,
    head: &RequestHead,
    attempt: Attempt,
    record: &Record<'_, '_>,
) -> Result<Attempt, ExchangeError> {
    let tried = record.hedges.charge(attempt.tried());
    let next = setback.again(head, record.client(), tried)?;
    record.retried(match next {
        Attempt::Sent(_) => RetryKind::Sent,
        Attempt::First | Attempt::Unsent(_) => RetryKind::Unsent,
    });
    Ok(next)
}

fn finish(collected: &Collected<'_>, record: &mut Record<'_, '_>, now: Instant) {
    record.done(Stage::Collect, collected.ended.unwrap_or(now));
    record.done(Stage::Deliver, now);
    record.response_bytes = collected.len;
    record.spliced_bytes = collected.spliced;
    record.relay = collected.relayed();
}
