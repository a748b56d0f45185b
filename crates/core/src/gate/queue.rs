//! The bounded line of exchanges that wait for a permit.
//!
//! First come, first served, by the moment at which each first asked the gate. Served order, order
//! of wait limits and order of deadlines are three lists through one slab: arrivals come nearly
//! sorted in all three, so adding is a step or two from one end, and removing is a step whatever
//! the length. Other orders and classes belong here, behind the same verbs.
//!
//! Absent: any decision. The queue does not know workers, limits or the time.
//!
//! Invariants: each list holds every waiting exchange once, sorted by its key; equals in the order
//! in which they came, but one that comes back before them, for it was served before them;
//! `bounded` counts those that count against `queue_len_max`.

use std::collections::BTreeMap;

use crate::id::{ShardId, Ticket, WorkerId};
use crate::time::Instant;

use super::Tried;

/// An exchange that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) shard: ShardId,
    /// Its place in line: when it first asked.
    pub(super) since: Instant,
    /// From when its wait limit counts.
    pub(super) waits_from: Instant,
    /// From when its deadline counts; the far future for one that has none.
    pub(super) received: Instant,
    /// When it entered the line this time.
    pub(super) queued: Instant,
    pub(super) tried: Tried,
    /// It comes back: near the head of the line, and outside its bound.
    pub(super) retry: bool,
    pub(super) trial: bool,
    /// It has a slot of this worker, and waits only for a connection there to be closed.
    pub(super) reserved: Option<WorkerId>,
    /// It counts against `queue_len_max`.
    pub(super) bounded: bool,
}

/// Where a waiting exchange is; valid until it leaves.
pub(super) type Place = u32;

const NONE: Place = u32::MAX;

/// The orders in which the line is kept.
#[derive(Clone, Copy)]
enum Order {
    Served,
    WaitLimit,
    Deadline,
}

const ORDERS: [Order; 3] = [Order::Served, Order::WaitLimit, Order::Deadline];

#[derive(Clone, Copy, Debug)]
struct List {
    head: Place,
    tail: Place,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: Place,
    after: Place,
}

#[derive(Debug)]
struct Node {
    waiter: Waiter,
    links: [Link; 3],
}

/// The line.
#[derive(Debug)]
pub(super) struct Queue {
    nodes: Vec<Node>,
    free: Vec<Place>,
    lists: [List; 3],
    places: BTreeMap<Ticket, Place>,
    bounded: u32,
}

impl Queue {
    pub(super) fn new() -> Self {
        let empty = List { head: NONE, tail: NONE };
        let (nodes, free) = (Vec::new(), Vec::new());
        Queue { nodes, free, lists: [empty; 3], places: BTreeMap::new(), bounded: 0 }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists[0].head == NONE
    }

    /// How many count against `queue_len_max`.
    pub(super) fn bounded(&self) -> u32 {
        self.bounded
    }

    /// Let an exchange wait. Its ticket must not be waiting already.
    pub(super) fn push(&mut self, waiter: Waiter) -> Place {
        let unlinked = Link { before: NONE, after: NONE };
        let node = Node { waiter, links: [unlinked; 3] };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as Place - 1
            }
        };
        self.places.insert(waiter.ticket, place);
        self.bounded += u32::from(waiter.bounded);
        for order in ORDERS {
            self.link(order, place);
        }
        place
    }

    /// An exchange waits no more.
    pub(super) fn remove(&mut self, place: Place) -> Waiter {
        for order in ORDERS {
            self.unlink(order, place);
        }
        let waiter = self.nodes[place as usize].waiter;
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
        &self.nodes[place as usize].waiter
    }

    /// It has a slot of `worker`: from here on it is outside the bound.
    pub(super) fn reserve(&mut self, place: Place, worker: WorkerId) {
        let waiter = &mut self.nodes[place as usize].waiter;
        self.bounded -= u32::from(waiter.bounded);
        waiter.bounded = false;
        waiter.reserved = Some(worker);
    }

    /// The slot it had is lost: it waits like the others, at its place.
    pub(super) fn unreserve(&mut self, place: Place) {
        self.nodes[place as usize].waiter.reserved = None;
    }

    /// Who is to be served first.
    pub(super) fn first(&self) -> Option<Place> {
        some(self.lists[Order::Served as usize].head)
    }

    /// Who is to be served after `place`.
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        some(self.nodes[place as usize].links[Order::Served as usize].after)
    }

    /// Whose wait limit comes first.
    pub(super) fn first_by_wait_limit(&self) -> Option<Place> {
        some(self.lists[Order::WaitLimit as usize].head)
    }

    /// Whose deadline comes first.
    pub(super) fn first_by_deadline(&self) -> Option<Place> {
        some(self.lists[Order::Deadline as usize].head)
    }

    fn key(&self, order: Order, place: Place) -> Instant {
        let waiter = self.get(place);
        match order {
            Order::Served => waiter.since,
            Order::WaitLimit => waiter.waits_from,
            Order::Deadline => waiter.received,
        }
    }

    fn link(&mut self, order: Order, place: Place) {
        let before = self.predecessor(order, place);
        let list = &mut self.lists[order as usize];
        let after = match before {
            NONE => std::mem::replace(&mut list.head, place),
            before => {
                let link = &mut self.nodes[before as usize].links[order as usize];
                std::mem::replace(&mut link.after, place)
            }
        };
        match after {
            NONE => list.tail = place,
            after => self.nodes[after as usize].links[order as usize].before = place,
        }
        self.nodes[place as usize].links[order as usize] = Link { before, after };
    }

    /// After whom `place` belongs. A retry is older than most, so its place is sought from the
    /// head.
    fn predecessor(&self, order: Order, place: Place) -> Place {
        let key = self.key(order, place);
        let list = self.lists[order as usize];
        let mut before = list.tail;
        if self.get(place).retry && before != NONE && self.key(order, before) >= key {
            before = NONE;
            let mut at = list.head;
            while self.key(order, at) < key {
                before = at;
                at = self.nodes[at as usize].links[order as usize].after;
            }
            return before;
        }
        while before != NONE && self.key(order, before) > key {
            before = self.nodes[before as usize].links[order as usize].before;
        }
        before
    }

    fn unlink(&mut self, order: Order, place: Place) {
        let Link { before, after } = self.nodes[place as usize].links[order as usize];
        match before {
            NONE => self.lists[order as usize].head = after,
            before => self.nodes[before as usize].links[order as usize].after = after,
        }
        match after {
            NONE => self.lists[order as usize].tail = before,
            after => self.nodes[after as usize].links[order as usize].before = before,
        }
    }

    /// Those who wait, in the order in which they are to be served.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.places_by(Order::Served).map(|place| self.get(place))
    }

    fn places_by(&self, order: Order) -> impl Iterator<Item = Place> {
        let after =
            move |place: &Place| some(self.nodes[*place as usize].links[order as usize].after);
        std::iter::successors(some(self.lists[order as usize].head), after)
    }

    /// Full sweep over the lists.
    pub(super) fn check_invariants(&self) {
        for order in ORDERS {
            let places: Vec<_> = self.places_by(order).collect();
            assert_eq!(places.len(), self.len(), "every list holds everyone");
            assert_eq!(places.last().copied(), some(self.lists[order as usize].tail));
            assert!(places.is_sorted_by_key(|place| self.key(order, *place)), "lists are sorted");
        }
        let bounded = self.iter().filter(|waiter| waiter.bounded).count();
        assert_eq!(self.bounded as usize, bounded, "those within the bound are counted");
        for (ticket, place) in &self.places {
            assert_eq!(self.get(*place).ticket, *ticket, "tickets lead to their places");
        }
    }
}

fn some(place: Place) -> Option<Place> {
    (place != NONE).then_some(place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiter(ticket: u64, since: u64, retry: bool) -> Waiter {
        Waiter {
            ticket: Ticket(ticket),
            shard: ShardId(0),
            since: Instant::from_millis(since),
            waits_from: Instant::from_millis(since + ticket % 3),
            received: Instant::from_millis(since.saturating_sub(ticket % 5)),
            queued: Instant::ZERO,
            tried: Tried::default(),
            retry,
            trial: false,
            reserved: None,
            bounded: !retry,
        }
    }

    fn tickets(queue: &Queue) -> Vec<u64> {
        queue.iter().map(|waiter| waiter.ticket.0).collect()
    }

    #[test]
    fn a_retry_comes_back_at_its_age() {
        let mut queue = Queue::new();
        for (ticket, since, retry) in
            [(1, 10, false), (2, 20, false), (3, 30, false), (4, 20, true)]
        {
            queue.push(waiter(ticket, since, retry));
        }
        assert_eq!((tickets(&queue), queue.bounded()), (vec![1, 4, 2, 3], 3));
        queue.push(waiter(5, 5, true));
        queue.push(waiter(6, 40, true));
        assert_eq!(tickets(&queue), [5, 1, 4, 2, 3, 6]);
        queue.check_invariants();
    }

    #[test]
    fn whoever_has_a_slot_is_outside_the_bound_for_good() {
        let mut queue = Queue::new();
        let place = queue.push(waiter(1, 1, false));
        queue.reserve(place, WorkerId(0));
        queue.unreserve(place);
        assert_eq!((queue.bounded(), queue.len()), (0, 1));
        queue.check_invariants();
    }

    proptest! {
        #[test]
        fn the_line_is_sorted_whatever_comes_and_goes(
            steps in prop::collection::vec((0u64..40, any::<bool>(), 0u64..50), 1..200),
        ) {
            let mut queue = Queue::new();
            for (since, retry, ticket) in steps {
                match queue.find(Ticket(ticket)) {
                    Some(place) => assert_eq!(queue.remove(place).ticket, Ticket(ticket)),
                    None => {
                        queue.push(waiter(ticket, since, retry));
                    }
                }
                queue.check_invariants();
            }
        }
    }
}
