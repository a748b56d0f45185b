//! Second tries beside a first that is slow, as the proxy makes them.
//!
//! A second try is an exchange of the slab with a ticket of its own, so that everything that
//! befalls a worker befalls it as well; clients and books know the first alone. It is as much work
//! as the first: what makes a first try slow here is its worker. Must hold: when one of the two is
//! answered, the other is nobody's, and runs to its end.

use spillgate_core::gate::{Hedge, Input, Tried, Withheld};
use spillgate_core::id::{Ticket, WorkerId};
use spillgate_core::time::Duration;

use crate::scenario::Hedging;

use super::exchange::{Exchange, Place};
use super::{Happening, World};

impl World<'_> {
    /// An exchange was granted; after this time it is slow.
    pub(super) fn plan_hedge(&mut self, ticket: Ticket, after: Option<Duration>) {
        let Some(after) = after else { return };
        let Exchange { pool, attempt, repeatable, .. } = *self.exchanges.at(ticket);
        let may = match self.setup.pools[usize::from(pool)].hedge {
            Hedging::Off => false,
            Hedging::Safe | Hedging::Idempotent => repeatable,
            Hedging::All => true,
        };
        if may {
            self.exchanges.at(ticket).slow_after = after;
            self.plan(after, Happening::Hedge { ticket, attempt });
        }
    }

    /// An exchange is slow, unless this try has ended.
    pub(super) fn hedge(&mut self, ticket: Ticket, attempt: u32) {
        let Some(first) = self.exchanges.find(ticket) else { return };
        let Place::Inside { worker, .. } = first.place else { return };
        if first.attempt != attempt || first.beside.is_some() {
            return;
        }
        let mut tried: Tried = first.tried;
        tried.insert(WorkerId(worker));
        tried.charged += 1;
        let Exchange { group, pool, shard, arrived, repeatable, claim, path, asked, .. } = *first;
        let service = Some(first.work);
        let second = self.exchanges.insert(Exchange {
            group,
            pool,
            shard,
            arrived,
            service,
            repeatable,
            claim,
            path,
            tried,
            attempt: 1,
            asked,
            place: Place::Moving,
            work: Duration::ZERO,
            slow_after: Duration::ZERO,
            beside: Some(ticket),
            is_second: true,
            gone: false,
            ended: false,
        });
        let hedge = Hedge { ticket: second, shard, received: arrived, claim, tried };
        self.tell(pool, Input::Hedge(hedge));
        if self.exchanges.find(second).is_some() {
            let first = self.exchanges.at(ticket);
            first.beside = Some(second);
            first.tried.charged += 1;
        }
    }

    /// There is no second try, perhaps for the moment.
    pub(super) fn withheld(&mut self, withheld: &Withheld) {
        let first = self.exchanges.at(withheld.ticket).beside.expect("a second try has a first");
        self.exchanges.remove(withheld.ticket);
        let Exchange { attempt, slow_after, .. } = *self.exchanges.at(first);
        if withheld.reason.may_pass() {
            self.plan(slow_after, Happening::Hedge { ticket: first, attempt });
        }
    }

    /// This try is answered, so the other is nobody's. Where this is the second, it is the exchange
    /// from here on.
    pub(super) fn end_race(&mut self, ticket: Ticket) {
        let Exchange { beside, is_second, pool, .. } = *self.exchanges.at(ticket);
        let Some(other) = beside else { return };
        let loser = self.exchanges.at(other);
        (loser.beside, loser.is_second) = (None, true);
        let (ended, gone) = (std::mem::replace(&mut loser.ended, true), loser.gone);
        let is_over = matches!(loser.place, Place::Moving);
        if is_over {
            self.exchanges.remove(other);
        }
        let winner = self.exchanges.at(ticket);
        winner.beside = None;
        if is_second {
            (winner.is_second, winner.ended, winner.gone) = (false, ended, gone);
            self.pool(pool).summary.hedges_won += 1;
        }
    }

    /// A second try has failed: the first goes on alone, or both have failed.
    pub(super) fn second_failed(&mut self, ticket: Ticket, worker: u32, died: bool) {
        let first = self.exchanges.at(ticket).beside.expect("a second try has a first");
        self.exchanges.remove(ticket);
        let exchange = self.exchanges.at(first);
        exchange.beside = None;
        if matches!(exchange.place, Place::Moving) {
            return self.try_again(first, worker, died);
        }
        exchange.tried.insert(WorkerId(worker));
        exchange.tried.deaths += u8::from(died);
    }
}
