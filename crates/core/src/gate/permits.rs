//! The permits that are out, by number.
//!
//! A slab: a number is a place and how often that place was used before, so numbers are unique in
//! one gate, finding is one index, and nothing is allocated once the slab has grown to the most
//! permits that were ever out together.

use crate::id::{Kind, ShardId, Tenant, WorkerId};
use crate::time::{Duration, Instant};

use super::Class;
use super::permit::Permit;

/// What the gate remembers of a permit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) worker: WorkerId,
    /// The process of the worker for which it was granted.
    pub(super) incarnation: u32,
    /// Where its connection is kept afterwards; none for a probe, whose connection never is.
    pub(super) shard: Option<ShardId>,
    pub(super) granted: Instant,
    /// What it was granted for.
    pub(super) kind: Kind,
    /// The share of its tenant that it was charged to, and how much; zero where nobody waited.
    pub(super) class: Class,
    pub(super) tenant: Tenant,
    pub(super) charged: Duration,
    /// It was let through only to learn whether the workers are faster again.
    pub(super) trial: bool,
}

impl Held {
    /// What is remembered of the permit that a probe takes.
    pub(super) fn for_probe(worker: WorkerId, incarnation: u32, granted: Instant) -> Held {
        Held {
            worker,
            incarnation,
            shard: None,
            granted,
            kind: Kind::default(),
            class: Class::default(),
            tenant: Tenant::default(),
            charged: Duration::ZERO,
            trial: false,
        }
    }
}

/// The permits that are out.
#[derive(Debug, Default)]
pub(super) struct Permits {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    uses: u32,
    held: Option<Held>,
}

impl Permits {
    /// How many are out.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Make a permit.
    pub(super) fn grant(&mut self, held: Held) -> Permit {
        let worker = held.worker;
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(Place { uses: 0, held: None });
                self.places.len() as u32 - 1
            }
        };
        let entry = &mut self.places[place as usize];
        entry.held = Some(held);
        Permit::new(worker, u64::from(entry.uses) << 32 | u64::from(place))
    }

    /// Take a permit back; none if it is not one of this gate's.
    pub(super) fn take_back(&mut self, permit: Permit) -> Option<Held> {
        let number = permit.number();
        let place = number as u32;
        let entry = self.places.get_mut(place as usize)?;
        if u64::from(entry.uses) != number >> 32 {
            return None;
        }
        let held = entry.held.take()?;
        entry.uses = entry.uses.wrapping_add(1);
        self.free.push(place);
        Some(held)
    }

    /// Those that are out, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.places.iter().filter_map(|place| place.held.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(worker: u32) -> Held {
        let granted = Instant::ZERO;
        Held::for_probe(WorkerId(worker), 0, granted)
    }

    #[test]
    fn a_number_is_used_once() {
        let mut permits = Permits::default();
        let mut numbers = Vec::new();
        for worker in 0..10 {
            let permit = permits.grant(held(worker));
            numbers.push(permit.number());
            assert_eq!(permits.take_back(permit).map(|held| held.worker), Some(WorkerId(worker)));
        }
        numbers.dedup();
        assert_eq!((numbers.len(), permits.len()), (10, 0));
    }

    #[test]
    fn a_permit_of_another_gate_is_not_taken() {
        let mut ours = Permits::default();
        let kept = ours.grant(held(0));
        let mut theirs = Permits::default();
        let first = theirs.grant(held(0));
        theirs.take_back(first);
        assert!(ours.take_back(theirs.grant(held(0))).is_none());
        assert_eq!(ours.len(), 1);
        assert!(ours.take_back(kept).is_some());
    }
}
