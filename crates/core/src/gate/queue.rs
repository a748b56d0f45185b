//! The bounded line of exchanges that wait for a permit.
//!
//! One lane for each class, and for all of them the orders of wait limits and of latest grants.
//! Adding and removing cost a few steps in small trees whatever the length, also when a client says
//! deadlines that come in no order.
//!
//! Absent: any decision. The queue does not know workers, limits or the time.
//!
//! Invariants: who has a reserved slot is in no lane, everybody else in the lane of its class; all
//! are in both orders of time; `bounded` counts those that count against `queue_len_max`.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Key, Kind, ShardId, Tenant, Ticket, WorkerId};
use crate::pool::Seeker;
use crate::time::{Duration, Instant};

use super::answer::Due;
use super::lane::Lane;
use super::{Class, Tried};

/// An exchange that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) shard: ShardId,
    pub(super) class: Class,
    pub(super) tenant: Tenant,
    pub(super) kind: Kind,
    /// With whom it shares a turn where no tenant is named: its kind, where that is known.
    pub(super) flow: Tenant,
    pub(super) key: Key,
    /// When it first asked.
    pub(super) since: Instant,
    /// From when its wait limit counts.
    pub(super) waits_from: Instant,
    /// When its answer is of no use any more.
    pub(super) due: Due,
    /// The last moment at which it can be granted, by what was known when it was last looked at.
    pub(super) latest: Instant,
    /// What it is expected to take of a worker, by what was known when it came.
    pub(super) expected: Duration,
    /// When it entered the line this time.
    pub(super) queued: Instant,
    pub(super) tried: Tried,
    pub(super) trial: bool,
    /// It has a slot of this worker, and waits only for a connection there to be closed.
    pub(super) reserved: Option<WorkerId>,
    /// It counts against `queue_len_max`: it never had a slot.
    pub(super) bounded: bool,
    /// Tells equals apart; set by the queue.
    pub(super) number: u64,
}

impl Waiter {
    /// What it looks for.
    pub(super) fn seeker(&self) -> Seeker {
        Seeker { shard: self.shard, key: self.key, tried: self.tried }
    }
}

/// Where a waiting exchange is; valid until it leaves.
pub(super) type Place = u32;

/// The line.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: Vec<Waiter>,
    free: Vec<Place>,
    places: BTreeMap<Ticket, Place>,
    lanes: [Lane; Class::COUNT],
    by_wait_limit: BTreeSet<(Instant, Place)>,
    by_latest: BTreeSet<(Instant, Place)>,
    bounded: u32,
    numbers: u64,
}

impl Queue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many count against `queue_len_max`.
    pub(super) fn bounded(&self) -> u32 {
        self.bounded
    }

    /// Let an exchange wait. Its ticket must not be waiting already.
    pub(super) fn push(&mut self, waiter: Waiter) -> Place {
        let waiter = Waiter { number: self.numbers, ..waiter };
        self.numbers += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.waiters[place as usize] = waiter;
                place
            }
            None => {
                self.waiters.push(waiter);
                self.waiters.len() as Place - 1
            }
        };
        self.places.insert(waiter.ticket, place);
        self.bounded += u32::from(waiter.bounded);
        self.by_wait_limit.insert((waiter.waits_from, place));
        self.by_latest.insert((waiter.latest, place));
        self.lane_mut(waiter.class).insert(&waiter, place);
        place
    }

    /// An exchange waits no more.
    pub(super) fn remove(&mut self, place: Place) -> Waiter {
        let waiter = self.waiters[place as usize];
        if waiter.reserved.is_none() {
            self.lane_mut(waiter.class).remove(&waiter, place);
        }
        self.by_wait_limit.remove(&(waiter.waits_from, place));
        self.by_latest.remove(&(waiter.latest, place));
        self.places.remove(&waiter.ticket);
        self.bounded -= u32::from(waiter.bounded);
        self.free.push(place);
        waiter
    }

    /// Where `ticket` waits.
    pub(super) fn find(&self, ticket: Ticket) -> Option<Place> {
        self.places.get(&ticket).copied()
    }

    pub(super) fn get(&self, place: Place) -> &Waiter {
        &self.waiters[place as usize]
    }

    /// It has a slot of `worker`: from here on it is outside the bound.
    pub(super) fn reserve(&mut self, place: Place, worker: WorkerId) {
        let waiter = self.waiters[place as usize];
        self.lane_mut(waiter.class).remove(&waiter, place);
        self.bounded -= u32::from(waiter.bounded);
        let waiter = &mut self.waiters[place as usize];
        (waiter.bounded, waiter.reserved) = (false, Some(worker));
    }

    /// The slot it had is lost: it waits like those who come back.
    pub(super) fn unreserve(&mut self, place: Place) {
        self.waiters[place as usize].reserved = None;
        let waiter = self.waiters[place as usize];
        self.lane_mut(waiter.class).insert(&waiter, place);
    }

    /// It can be granted until `latest`.
    pub(super) fn set_latest(&mut self, place: Place, latest: Instant) {
        let waiter = &mut self.waiters[place as usize];
        self.by_latest.remove(&(waiter.latest, place));
        waiter.latest = latest;
        self.by_latest.insert((latest, place));
    }

    pub(super) fn lane(&self, class: Class) -> &Lane {
        &self.lanes[usize::from(class.number())]
    }

    pub(super) fn lane_mut(&mut self, class: Class) -> &mut Lane {
        &mut self.lanes[usize::from(class.number())]
    }

    /// Whose wait limit comes first.
    pub(super) fn first_by_wait_limit(&self) -> Option<Place> {
        self.by_wait_limit.first().map(|(_, place)| *place)
    }

    /// Whose latest grant comes first.
    pub(super) fn first_by_latest(&self) -> Option<Place> {
        self.by_latest.first().map(|(_, place)| *place)
    }

    /// Anybody who waits.
    pub(super) fn any(&self) -> Option<Place> {
        self.first_by_wait_limit()
    }

    /// The places of all who wait, oldest wait limit first.
    pub(super) fn places(&self) -> Vec<Place> {
        self.by_wait_limit.iter().map(|(_, place)| *place).collect()
    }

    /// Those who wait, those with a reserved slot too.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.by_wait_limit.iter().map(|(_, place)| self.get(*place))
    }

    /// Full sweep over the orders.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.by_wait_limit.len(), self.len(), "everybody has a wait limit");
        assert_eq!(self.by_latest.len(), self.len(), "everybody has a latest grant");
        let bounded = self.iter().filter(|waiter| waiter.bounded).count();
        assert_eq!(self.bounded as usize, bounded, "those within the bound are counted");
        for (ticket, place) in &self.places {
            let waiter = self.get(*place);
            assert_eq!(waiter.ticket, *ticket, "tickets lead to their places");
            assert!(self.by_wait_limit.contains(&(waiter.waits_from, *place)));
            assert!(self.by_latest.contains(&(waiter.latest, *place)));
        }
        for class in Class::ALL {
            let of_class = |waiter: &&Waiter| waiter.class == class && waiter.reserved.is_none();
            let waiting = self.iter().filter(of_class).count();
            assert_eq!(self.lane(class).iter().count(), waiting, "the lane of {class:?}");
            self.lane(class).check_invariants();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUANTUM: Duration = Duration::from_millis(10);

    fn waiter(ticket: u64, since: u64, bounded: bool) -> Waiter {
        Waiter {
            ticket: Ticket(ticket),
            shard: ShardId(0),
            class: Class::ALL[ticket as usize % 2],
            tenant: Tenant(ticket % 3),
            kind: Kind(0),
            flow: Tenant::default(),
            key: Key::NONE,
            since: Instant::from_millis(since),
            waits_from: Instant::from_millis(since + ticket % 3),
            due: Due { promised: Instant::FAR_FUTURE, deadline: Instant::FAR_FUTURE },
            latest: Instant::from_millis(since.saturating_sub(ticket % 5)),
            expected: Duration::from_millis(ticket % 7),
            queued: Instant::ZERO,
            tried: Tried::default(),
            trial: false,
            reserved: None,
            bounded,
            number: 0,
        }
    }

    fn of_one_lane(ticket: u64, since: u64, expected: u64) -> Waiter {
        let expected = Duration::from_millis(expected);
        Waiter { class: Class::Normal, tenant: Tenant(0), expected, ..waiter(ticket, since, true) }
    }

    fn order(waiters: &[Waiter], youngest_first: bool) -> Vec<u64> {
        let mut queue = Queue::default();
        for waiter in waiters {
            queue.push(*waiter);
        }
        let mut served = Vec::new();
        while let Some(turn) = queue.lane_mut(Class::Normal).turn(QUANTUM) {
            let next = queue.lane(Class::Normal).in_order(turn, youngest_first).next();
            let next = next.expect("whose turn it is waits");
            served.push(queue.remove(next).ticket.0);
        }
        served
    }

    #[test]
    fn short_ones_pass_long_ones_for_a_while() {
        let waiters = [(1, 0, 200), (2, 50, 10), (3, 100, 10), (4, 120, 10)]
            .map(|(ticket, since, expected)| of_one_lane(ticket, since, expected));
        assert_eq!(order(&waiters, false), [2, 1, 3, 4]);
        assert_eq!(order(&waiters, true), [4, 3, 2, 1]);
    }

    #[test]
    fn equals_are_served_as_they_came() {
        let waiters = [5, 3, 9].map(|ticket| of_one_lane(ticket, 10, 7));
        assert_eq!(order(&waiters, false), [5, 3, 9]);
        assert_eq!(order(&waiters, true), [9, 3, 5]);
    }

    #[test]
    fn whoever_has_a_slot_is_outside_the_bound_for_good() {
        let mut queue = Queue::default();
        let place = queue.push(waiter(1, 1, true));
        queue.reserve(place, WorkerId(0));
        queue.check_invariants();
        queue.unreserve(place);
        assert_eq!((queue.bounded(), queue.len()), (0, 1));
        assert_eq!(queue.lane(Class::Normal).returned().count(), 1);
        queue.check_invariants();
    }

    proptest! {
        #[test]
        fn the_books_are_right_whatever_comes_and_goes(
            steps in prop::collection::vec((0u64..40, any::<bool>(), 0u64..50, 0u8..4), 1..200),
        ) {
            let mut queue = Queue::default();
            for (since, bounded, ticket, what) in steps {
                match queue.find(Ticket(ticket)) {
                    Some(place) if what == 0 && queue.get(place).reserved.is_none() => {
                        queue.reserve(place, WorkerId(0));
                    }
                    Some(place) if what == 1 && queue.get(place).reserved.is_some() => {
                        queue.unreserve(place);
                    }
                    Some(place) if what == 2 => {
                        queue.set_latest(place, Instant::from_millis(since));
                    }
                    Some(place) => assert_eq!(queue.remove(place).ticket, Ticket(ticket)),
                    None => {
                        queue.push(waiter(ticket, since, bounded));
                    }
                }
                queue.check_invariants();
            }
        }
    }
}
