//! A second try beside a first that is slow for its kind: the race between them.
//!
//! The first worker that begins to answer has the exchange. The other is left as a client that
//! hangs up leaves its worker: what it answers is thrown away, and its slot is free when it has
//! done. When one of them fails the other goes on alone; when both fail, that is a setback of both.
//! Boxed by its caller, so that exchanges that are answered in time carry nothing of it. Absent:
//! whether there is a slot for it (the gate's).

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use spillgate_core::gate::Tried;
use spillgate_core::id::WorkerId;
use spillgate_core::time::{Duration, Instant};
use spillgate_runtime::clock;
use spillgate_runtime::http::client::WorkerHead;
use spillgate_runtime::shard::sleep_until;

use crate::admit::{Beside, Granted};
use crate::dispatch::{Cause, Outgoing, Sent, Setback, Try, Wait};
use crate::forward;
use crate::intake::Received;
use crate::metrics::label::HedgeEnd;
use crate::settings::Hedging;
use crate::shard::Shard;

/// What became of the second tries of one exchange. Cells, since the record is lent out meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Hedges {
    last: Cell<Option<HedgeEnd>>,
    /// How many were granted.
    granted: Cell<u8>,
    /// Those of them that [`Hedges::charge`] has not counted.
    uncharged: Cell<u8>,
    /// Who had the first try when it lost.
    outrun: Cell<Option<WorkerId>>,
}

impl Hedges {
    /// What became of the last one, if one was asked for.
    pub(crate) fn last(&self) -> Option<HedgeEnd> {
        self.last.get()
    }

    /// How many were granted.
    pub(crate) fn granted(&self) -> u32 {
        self.granted.get().into()
    }

    /// What an exchange has tried, with these.
    pub(crate) fn charge(&self, mut tried: Tried) -> Tried {
        tried.charged = tried.charged.saturating_add(self.uncharged.take());
        if let Some(worker) = self.outrun.take() {
            tried.insert(worker);
        }
        tried
    }

    fn grant(&self) {
        self.granted.set(self.granted.get().saturating_add(1));
        self.uncharged.set(self.uncharged.get().saturating_add(1));
    }
}

/// When a second try is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// And after which time again, where it is withheld.
    after: Duration,
}

/// When the exchange should have its second try; none: it is to have none.
pub(crate) fn moment(
    shard: &Shard,
    granted: &Granted<'_>,
    outgoing: &Outgoing<'_>,
) -> Option<Moment> {
    let after = granted.hedge_after?;
    let may = match shard.pools[granted.held.pool()].shared.settings.hedge {
        Hedging::Off => false,
        Hedging::Safe => outgoing.head.method().is_safe(),
        Hedging::Idempotent => outgoing.head.method().is_idempotent(),
        Hedging::All => true,
    };
    // Whoever is in front of us repeats it, so we do not.
    let repeated = forward::is_repeated(outgoing.head, outgoing.client);
    (may && !repeated && outgoing.head.upgrade().is_none())
        .then(|| Moment { at: granted.at + after, after })
}

/// A second try whose request was sent whole, and the head of its answer if that came sooner; else
/// why there is none. None: its permit was taken back.
type Begun<'s> = Result<(Try<'s>, Option<WorkerHead>), Option<Setback>>;

/// What is first while the second try begins.
enum Beginning<'s> {
    Answered(Result<WorkerHead, Cause>),
    Begun(Begun<'s>),
}

/// What came of asking for a slot beside the first try.
enum Asked<'s> {
    Granted(Beside<'s>),
    Withheld,
    /// The first try was answered before.
    Answered(Result<WorkerHead, Cause>),
}

/// Wait for `first` until the moment, and from then on for a second try as well.
pub(crate) async fn race<'s>(
    mut first: Try<'s>,
    outgoing: &Outgoing<'_>,
    received: &mut Received,
    moment: Moment,
) -> Result<Sent<'s>, Setback> {
    let shard = first.shard();
    let beside = match ask(&mut first, outgoing, moment).await {
        Asked::Granted(beside) => beside,
        Asked::Withheld => return alone(first, outgoing, None).await,
        Asked::Answered(answer) => return first.conclude(outgoing, answer).await,
    };
    outgoing.hedges.grant();
    let mut begins = pin!(begin(shard, beside, outgoing, received));
    let beginning = poll_fn(|cx| match first.poll_answer(cx) {
        Poll::Ready(answer) => Poll::Ready(Beginning::Answered(answer)),
        Poll::Pending => begins.as_mut().poll(cx).map(Beginning::Begun),
    })
    .await;
    match beginning {
        Beginning::Begun(Ok((second, None))) => first_of(first, second, outgoing).await,
        Beginning::Begun(Ok((second, Some(head)))) => {
            settle(second, first, outgoing, Ok(head), true).await
        }
        Beginning::Begun(Err(other)) => {
            note(shard, outgoing, HedgeEnd::Failed);
            alone(first, outgoing, other).await
        }
        Beginning::Answered(answer) => match first.conclude(outgoing, answer).await {
            Ok(sent) => {
                note(shard, outgoing, HedgeEnd::Lost);
                Ok(sent)
            }
            Err(setback) => {
                let sent = take_over(begins.await, outgoing, setback).await;
                note(shard, outgoing, if sent.is_ok() { HedgeEnd::Won } else { HedgeEnd::Failed });
                sent
            }
        },
    }
}

/// Ask for a slot beside the first try at the moment; where it is withheld for something that may
/// pass, again and again.
async fn ask<'s>(first: &mut Try<'s>, outgoing: &Outgoing<'_>, mut moment: Moment) -> Asked<'s> {
    let shard = first.shard();
    let mut withheld = None;
    loop {
        if let Some(answer) = until(moment.at, first).await {
            if let Some(reason) = withheld {
                note(shard, outgoing, HedgeEnd::from(reason));
            }
            return Asked::Answered(answer);
        }
        match Beside::ask(shard, outgoing.asking, first.worker(), clock::now()) {
            Ok(beside) => return Asked::Granted(beside),
            Err(reason) if reason.may_pass() => withheld = Some(reason),
            Err(reason) => {
                note(shard, outgoing, reason.into());
                return Asked::Withheld;
            }
        }
        moment.at = clock::now() + moment.after;
    }
}

/// Both have their request: whoever answers first has the exchange.
async fn first_of<'s>(
    mut first: Try<'s>,
    mut second: Try<'s>,
    outgoing: &Outgoing<'_>,
) -> Result<Sent<'s>, Setback> {
    let (answer, is_second) = poll_fn(|cx| match first.poll_answer(cx) {
        Poll::Ready(answer) => Poll::Ready((answer, false)),
        Poll::Pending => second.poll_answer(cx).map(|answer| (answer, true)),
    })
    .await;
    let (winner, loser) = if is_second { (second, first) } else { (first, second) };
    settle(winner, loser, outgoing, answer, is_second).await
}

/// `winner` was answered first; it is the second try or the first.
async fn settle<'s>(
    winner: Try<'s>,
    loser: Try<'s>,
    outgoing: &Outgoing<'_>,
    answer: Result<WorkerHead, Cause>,
    is_second: bool,
) -> Result<Sent<'s>, Setback> {
    let shard = winner.shard();
    let outrun = loser.worker();
    let (sent, won) = match winner.conclude(outgoing, answer).await {
        Ok(sent) => {
            loser.leave();
            outgoing.hedges.outrun.set(is_second.then_some(outrun));
            (Ok(sent), is_second)
        }
        Err(setback) => (alone(loser, outgoing, Some(setback)).await, !is_second),
    };
    let end = match (sent.is_ok(), won) {
        (true, true) => HedgeEnd::Won,
        (true, false) if !is_second => HedgeEnd::Lost,
        (_, _) => HedgeEnd::Failed,
    };
    note(shard, outgoing, end);
    sent
}

/// The first try has failed while the second began.
async fn take_over<'s>(
    begun: Begun<'s>,
    outgoing: &Outgoing<'_>,
    setback: Setback,
) -> Result<Sent<'s>, Setback> {
    match begun {
        Ok((second, None)) => alone(second, outgoing, Some(setback)).await,
        Ok((second, Some(head))) => {
            let sent = second.conclude(outgoing, Ok(head)).await;
            sent.map_err(|other| both(other, Some(setback)))
        }
        Err(other) => Err(both(setback, other)),
    }
}

fn note(shard: &Shard, outgoing: &Outgoing<'_>, end: HedgeEnd) {
    outgoing.hedges.last.set(Some(end));
    shard.metrics.pools[outgoing.asking.pool].hedges.increment(end);
}

/// Wait for the answer until `at`; none: it has not come.
async fn until(at: Instant, first: &mut Try<'_>) -> Option<Result<WorkerHead, Cause>> {
    let mut passed = pin!(sleep_until(at));
    poll_fn(|cx| match first.poll_answer(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => passed.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Bring the request to another worker.
async fn begin<'s>(
    shard: &'s Shard,
    beside: Beside<'s>,
    outgoing: &Outgoing<'_>,
    received: &mut Received,
) -> Begun<'s> {
    let granted = beside.granted().await.ok_or(None)?;
    let outgoing = Outgoing { charged: outgoing.charged.saturating_add(1), ..*outgoing };
    let mut second = Try::begin(shard, granted, &outgoing, received).await.map_err(Some)?;
    match second.exchange(&outgoing, received, None, Wait::Sent).await {
        Ok(early) => Ok((second, early)),
        Err(cause) => Err(Some(second.fail(cause).await)),
    }
}

/// Wait for the only try that is left; `other` is what became of one that failed.
async fn alone<'s>(
    mut left: Try<'s>,
    outgoing: &Outgoing<'_>,
    other: Option<Setback>,
) -> Result<Sent<'s>, Setback> {
    let answer = poll_fn(|cx| left.poll_answer(cx)).await;
    left.conclude(outgoing, answer).await.map_err(|setback| both(setback, other))
}

/// Neither of two tries has worked.
fn both(setback: Setback, other: Option<Setback>) -> Setback {
    Setback { beside: other.map(Box::new), ..setback }
}
