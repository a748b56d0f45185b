//! The stage that gets a permit: now, after a wait in the queue, or never.
//!
//! Permit and worker are one decision of the gate. A waiting exchange whose client leaves, leaves
//! the queue at once, so no worker ever sees it.

use std::future::poll_fn;
use std::task::{Poll, ready};

use spillgate_core::gate::{
    Arrival, Attempt, Claim, Connection, Fate, Fault, Grant, Hedge, Input, Outcome, Permit,
    Returned, WithholdReason,
};
use spillgate_core::id::{Ticket, WorkerId};
use spillgate_core::time::{Duration, Instant};
use spillgate_runtime::clock;
use spillgate_runtime::http::service::BodySource;

use crate::error::ExchangeError;
use crate::idle::Moved;
use crate::intake::{self, Received};
use crate::metrics::label::{FailReason, Stage};
use crate::pool::Decision;
use crate::shard::{self, Shard};

/// A permit of an exchange; goes back as [`Outcome::Ignore`] when dropped.
pub(crate) struct Held<'s> {
    shard: &'s Shard,
    pool: usize,
    permit: Option<Permit>,
    worker: WorkerId,
    /// What becomes of the connection of the grant if nothing is done with it.
    fate: Fate,
}

impl<'s> Held<'s> {
    fn new(shard: &'s Shard, pool: usize, grant: Grant) -> Held<'s> {
        let fate = shard::unused(grant.connection);
        let worker = grant.permit.worker();
        Held { shard, pool, permit: Some(grant.permit), worker, fate }
    }

    /// What it is apart from its shard, to be held by another task.
    pub(crate) fn into_parts(mut self) -> Option<(usize, Permit)> {
        Some((self.pool, self.permit.take()?))
    }

    /// One from its parts, whose connection is in use.
    pub(crate) fn of_parts(shard: &'s Shard, (pool, permit): (usize, Permit)) -> Held<'s> {
        let worker = permit.worker();
        Held { shard, pool, permit: Some(permit), worker, fate: Fate::Cut }
    }

    /// Index of the pool.
    pub(crate) fn pool(&self) -> usize {
        self.pool
    }

    /// Whose slot it is.
    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The connection of the grant was taken from where it was kept, or another is opened in its
    /// place.
    pub(crate) fn connection_taken(&mut self) {
        self.fate = Fate::Closed;
    }

    /// The request is on its way: from here on nothing but the exchange can tell when its worker
    /// has done with it.
    pub(crate) fn connection_used(&mut self) {
        self.fate = Fate::Cut;
    }

    /// Return it, with what was learned of the worker.
    pub(crate) fn give_back(
        mut self,
        outcome: Outcome,
        fault: Option<Fault>,
        connection: Fate,
        now: Instant,
    ) {
        if let Some(permit) = self.permit.take() {
            let returned = Returned { permit, outcome, fault, connection };
            self.shard.tell(self.pool, Input::Return(returned), now);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let outcome = Outcome::Ignore;
            let returned = Returned { permit, outcome, fault: None, connection: self.fate };
            self.shard.tell(self.pool, Input::Return(returned), clock::now());
        }
    }
}

/// A permit, and which connection it comes with.
pub(crate) struct Granted<'s> {
    pub(crate) held: Held<'s>,
    pub(crate) connection: Connection,
    /// What another shard has handed over.
    pub(crate) moved: Option<Box<Moved>>,
    pub(crate) at: Instant,
    /// The time after which its kind of exchange is slow; none: not known, or not asked for.
    pub(crate) hedge_after: Option<Duration>,
}

impl<'s> Granted<'s> {
    fn new(
        shard: &'s Shard,
        pool: usize,
        (grant, moved): (Grant, Option<Box<Moved>>),
        at: Instant,
    ) -> Granted<'s> {
        let Grant { connection, hedge_after, .. } = grant;
        Granted { held: Held::new(shard, pool, grant), connection, moved, at, hedge_after }
    }
}

/// What the gate has to know of an exchange.
#[derive(Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) pool: usize,
    pub(crate) since: Instant,
    pub(crate) received: Instant,
    pub(crate) claim: Claim,
    pub(crate) attempt: Attempt,
}

/// Get a permit for an exchange whose request is whole.
pub(crate) async fn admit<'s>(
    shard: &'s Shard,
    asking: &Asking,
    received: &mut Received,
    body: &mut dyn BodySource,
    now: Instant,
) -> Result<Granted<'s>, ExchangeError> {
    let place = Place::join(shard, asking.pool);
    let arrival = Arrival {
        ticket: place.ticket,
        shard: shard.id,
        since: asking.since,
        received: asking.received,
        claim: asking.claim,
        attempt: asking.attempt,
    };
    shard.tell(asking.pool, Input::Arrive(arrival), now);
    let decided = shard.waiters.borrow_mut().take(place.ticket, None);
    let (decision, at) = match decided {
        Some(decision) => (decision, now),
        None => (place.wait(received, body).await?, clock::now()),
    };
    match decision {
        Decision::Granted(grant, moved) => Ok(Granted::new(shard, asking.pool, (grant, moved), at)),
        Decision::Shed(shed) => Err(ExchangeError::turned_away(shed.reason, shed.retry_after)),
        // Said of second tries only.
        Decision::Withheld(_) => Err(ExchangeError::failed(Stage::Admit, FailReason::Internal)),
    }
}

/// A second try that is granted; its connection may be on its way from another shard. Goes back
/// when dropped.
pub(crate) struct Beside<'s> {
    place: Place<'s>,
    decision: Option<Decision>,
}

impl<'s> Beside<'s> {
    /// Ask for a second try of an exchange, whose first is with `worker`. Decided at once.
    pub(crate) fn ask(
        shard: &'s Shard,
        asking: &Asking,
        worker: WorkerId,
        now: Instant,
    ) -> Result<Beside<'s>, WithholdReason> {
        let place = Place::join(shard, asking.pool);
        let mut tried = asking.attempt.tried();
        tried.insert(worker);
        tried.charged = tried.charged.saturating_add(1);
        let Asking { pool, received, claim, .. } = *asking;
        let hedge = Hedge { ticket: place.ticket, shard: shard.id, received, claim, tried };
        shard.tell(pool, Input::Hedge(hedge), now);
        let decision = shard.waiters.borrow_mut().take(place.ticket, None);
        match decision {
            Some(Decision::Withheld(withheld)) => Err(withheld.reason),
            decision => Ok(Beside { place, decision }),
        }
    }

    /// Its permit, with its connection; none: it was taken back.
    pub(crate) async fn granted(mut self) -> Option<Granted<'s>> {
        let Place { shard, pool, ticket, .. } = self.place;
        let decision = poll_fn(|cx| match self.decision.take() {
            Some(decision) => Poll::Ready(decision),
            None => match shard.waiters.borrow_mut().take(ticket, Some(cx.waker())) {
                Some(decision) => Poll::Ready(decision),
                None => Poll::Pending,
            },
        })
        .await;
        match decision {
            Decision::Granted(grant, moved) => {
                Some(Granted::new(shard, pool, (grant, moved), clock::now()))
            }
            Decision::Shed(_) | Decision::Withheld(_) => None,
        }
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if let Some(decision) = self.decision.take() {
            self.place.shard.hand_back(self.place.pool, decision);
        }
    }
}

/// An exchange's place among the waiting ones; given up when dropped.
struct Place<'s> {
    shard: &'s Shard,
    pool: usize,
    ticket: Ticket,
    decided: bool,
}

impl<'s> Place<'s> {
    fn join(shard: &'s Shard, pool: usize) -> Place<'s> {
        let ticket = shard.waiters.borrow_mut().join(shard.id);
        // Most decisions come at once; `wait` says otherwise.
        Place { shard, pool, ticket, decided: true }
    }

    async fn wait(
        mut self,
        received: &mut Received,
        body: &mut dyn BodySource,
    ) -> Result<Decision, ExchangeError> {
        self.decided = false;
        // A slot that is granted must not stand idle while the body waits for the budget.
        let mut parking = Some(std::pin::pin!(received.park(self.shard)));
        let decision = poll_fn(|cx| {
            let taken = self.shard.waiters.borrow_mut().take(self.ticket, Some(cx.waker()));
            if let Some(decision) = taken {
                return Poll::Ready(Ok(decision));
            }
            if let Some(park) = &mut parking
                && let Poll::Ready(parked) = park.as_mut().poll(cx)
            {
                parked.map_err(intake::lost)?;
                parking = None;
            }
            ready!(body.poll_left(cx));
            match self.shard.pools[self.pool].shared.is_in_line(self.ticket) {
                true => Poll::Ready(Err(ExchangeError::abandoned(Stage::Admit))),
                // It has a slot, and will be told so: a half-closed client is served from here on.
                false => Poll::Pending,
            }
        })
        .await?;
        self.decided = true;
        Ok(decision)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let decision = self.shard.waiters.borrow_mut().leave(self.ticket);
        if let Some(decision) = decision {
            self.shard.hand_back(self.pool, decision);
        } else if !self.decided {
            self.shard.tell(self.pool, Input::Abandon(self.ticket), clock::now());
        }
    }
}
