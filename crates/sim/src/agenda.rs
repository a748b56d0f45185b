//! What is going to happen, in order: the moment first, then the order of planning.
//!
//! Two things at one moment happen in the order in which they were planned, so a run is a function
//! of its scenario and its seed. Absent: taking things back; what does not matter any more is
//! looked at and forgotten when its moment comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spillgate_core::time::Instant;

/// Things to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    number: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Agenda { heap: BinaryHeap::new(), planned: 0 }
    }

    /// Plan something for `at`, after everything that is planned for that moment.
    pub(crate) fn plan(&mut self, at: Instant, what: T) {
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, number: self.planned, what }));
    }

    /// Plan something for `at`, before everything else of that moment.
    pub(crate) fn plan_first(&mut self, at: Instant, what: T) {
        self.heap.push(Reverse(Entry { at, number: 0, what }));
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next thing.
    pub(crate) fn pop(&mut self) -> Option<(Instant, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_in_order_and_plans_of_one_moment_too() {
        let mut agenda = Agenda::new();
        for (at, what) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b')] {
            agenda.plan(Instant::from_millis(at), what);
        }
        agenda.plan_first(Instant::from_millis(2), '!');
        assert_eq!(agenda.next_at(), Some(Instant::from_millis(1)));
        let order: String = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "ab!cd");
    }
}
