//! The exchanges of one shard that wait for their gate's decision.
//!
//! A ticket names shard, place and turn, so that a decision which comes after its exchange has left
//! finds nobody and not somebody else.

use std::task::Waker;

use spillgate_core::id::{ShardId, Ticket};

use crate::pool::Decision;

/// The waiting exchanges of one shard.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Place {
    turn: u16,
    taken: bool,
    decision: Option<Decision>,
    waker: Option<Waker>,
}

/// What a decision found.
pub(crate) enum Delivered {
    /// Its exchange, whose task must be woken (or which has not waited yet).
    To(Option<Waker>),
    /// Nobody: the exchange has left.
    Nobody(Decision),
}

impl Waiters {
    /// A place for an exchange of `shard`.
    pub(crate) fn join(&mut self, shard: ShardId) -> Ticket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).expect("fewer waiting exchanges than descriptors")
        });
        let place = &mut self.places[index as usize];
        place.taken = true;
        Ticket(u64::from(shard.0) << 48 | u64::from(place.turn) << 32 | u64::from(index))
    }

    fn place(&mut self, ticket: Ticket) -> Option<&mut Place> {
        let turn = (ticket.0 >> 32) as u16;
        let place = self.places.get_mut(ticket.0 as u32 as usize)?;
        (place.taken && place.turn == turn).then_some(place)
    }

    /// A decision has come.
    pub(crate) fn deliver(&mut self, ticket: Ticket, decision: Decision) -> Delivered {
        match self.place(ticket) {
            Some(place) => {
                place.decision = Some(decision);
                Delivered::To(place.waker.take())
            }
            None => Delivered::Nobody(decision),
        }
    }

    /// The decision, if it has come; else `waker` is woken when it does.
    pub(crate) fn take(&mut self, ticket: Ticket, waker: Option<&Waker>) -> Option<Decision> {
        let place = self.place(ticket)?;
        if place.decision.is_none()
            && let Some(waker) = waker
        {
            match &mut place.waker {
                Some(known) => known.clone_from(waker),
                None => place.waker = Some(waker.clone()),
            }
        }
        place.decision.take()
    }

    /// The exchange waits no more; a decision that came meanwhile is handed back.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Decision> {
        let place = self.place(ticket)?;
        place.taken = false;
        place.turn = place.turn.wrapping_add(1);
        place.waker = None;
        let decision = place.decision.take();
        self.free.push(ticket.0 as u32);
        decision
    }
}

#[cfg(test)]
mod tests {
    use spillgate_core::gate::{Reason, Shed};

    use super::*;

    fn shed(ticket: Ticket) -> Decision {
        let shard = ShardId(3);
        Decision::Shed(Shed { ticket, shard, reason: Reason::QueueFull, retry_after: None })
    }

    #[test]
    fn a_decision_reaches_its_exchange_and_no_later_one() {
        let mut waiters = Waiters::default();
        let first = waiters.join(ShardId(3));
        assert!(waiters.take(first, None).is_none());
        assert!(matches!(waiters.deliver(first, shed(first)), Delivered::To(None)));
        assert!(waiters.take(first, None).is_some());
        assert!(waiters.leave(first).is_none());

        let second = waiters.join(ShardId(3));
        assert_ne!(first, second, "a place is used again under another ticket");
        assert!(matches!(waiters.deliver(first, shed(first)), Delivered::Nobody(_)));
        assert!(waiters.take(second, None).is_none());
    }

    #[test]
    fn a_decision_that_crossed_a_leaving_exchange_is_handed_back() {
        let mut waiters = Waiters::default();
        let ticket = waiters.join(ShardId(0));
        waiters.deliver(ticket, shed(ticket));
        assert!(waiters.leave(ticket).is_some());
    }
}
