//! The exchanges that are in the world now, by ticket.
//!
//! A slab: a ticket is a place and how often that place was used before, so tickets are unique in
//! one run, and memory follows the exchanges of one moment, not those of a day.

use spillgate_core::gate::{Claim, Connection, Permit, Tried};
use spillgate_core::id::{ShardId, Ticket};
use spillgate_core::time::{Duration, Instant};

/// An exchange.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) group: u16,
    pub(crate) pool: u16,
    pub(crate) shard: ShardId,
    pub(crate) arrived: Instant,
    /// Its work, where it was recorded.
    pub(crate) service: Option<Duration>,
    pub(crate) repeatable: bool,
    /// What it says of itself.
    pub(crate) claim: Claim,
    /// Which of its group's paths it asks for; none: the group has none.
    pub(crate) path: Option<u16>,
    pub(crate) tried: Tried,
    /// Which try of ours this is.
    pub(crate) attempt: u32,
    /// How often the client has asked before.
    pub(crate) asked: u8,
    pub(crate) place: Place,
    /// What its worker had to do at its last try.
    pub(crate) work: Duration,
    /// The time after which it is slow.
    pub(crate) slow_after: Duration,
    /// The other of two tries that run at the same time.
    pub(crate) beside: Option<Ticket>,
    /// It is the second of two tries, and no exchange of its own.
    pub(crate) is_second: bool,
    /// The client has given up.
    pub(crate) gone: bool,
    /// Its end was counted; what is left of it is work.
    pub(crate) ended: bool,
}

/// Where an exchange is.
#[derive(Debug)]
pub(crate) enum Place {
    /// In the line.
    Waiting,
    /// It has a permit that it does not know of yet.
    Granted { permit: Permit, connection: Connection },
    /// In a worker; with the permit where there is a gate.
    Inside { permit: Option<Permit>, worker: u32, process: u32 },
    /// Between two of these.
    Moving,
}

/// The exchanges of a world.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    places: Vec<(u32, Option<Exchange>)>,
    free: Vec<u32>,
}

impl Exchanges {
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, exchange: Exchange) -> Ticket {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (uses, entry) = &mut self.places[place as usize];
        *entry = Some(exchange);
        Ticket(u64::from(*uses) << 32 | u64::from(place))
    }

    pub(crate) fn find(&mut self, ticket: Ticket) -> Option<&mut Exchange> {
        let (uses, entry) = self.places.get_mut(ticket.0 as u32 as usize)?;
        if u64::from(*uses) == ticket.0 >> 32 { entry.as_mut() } else { None }
    }

    /// The exchange of a ticket that is known to be in use.
    pub(crate) fn at(&mut self, ticket: Ticket) -> &mut Exchange {
        self.find(ticket).expect("the exchange has not left the world")
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) {
        let (uses, entry) = &mut self.places[ticket.0 as u32 as usize];
        assert!(u64::from(*uses) == ticket.0 >> 32 && entry.is_some(), "it leaves once");
        *uses += 1;
        *entry = None;
        self.free.push(ticket.0 as u32);
    }
}
