//! The full sweep over what must always hold. Tests and the simulator call it after every step.
//!
//! Here rather than beside each part, because what must hold mostly holds between parts: permits
//! and slots, reserved slots and places in the queue, free slots and who waits. Never called while
//! serving.

use crate::pool::State;

use super::Gate;

impl Gate {
    /// Check everything that must hold between two steps. Cost: linear in workers, permits and
    /// waiting exchanges.
    ///
    /// # Panics
    ///
    /// When something does not hold, with a message that says what.
    pub fn check_invariants(&self) {
        self.pool.check_invariants();
        self.queue.check_invariants();
        self.check_permits();
        self.check_reserved();
        self.check_work_conserving();
        assert_eq!(self.pool.up() == 0, self.none_up_since.is_some(), "who is up is known");
        assert!(self.queue.bounded() <= self.settings.queue_len_max, "the queue is bounded");
        assert!(!self.draining || self.queue.is_empty(), "a gate that drains keeps nobody waiting");
        let due = self.pool.workers().iter().map(|worker| worker.probing.due);
        assert!(due.min().is_none_or(|due| due == self.probe_at), "the next probe is known");
    }

    fn check_permits(&self) {
        for worker in self.pool.workers() {
            let all = self.permits.iter().filter(|held| held.worker == worker.id);
            assert_eq!(all.count(), worker.permits as usize, "permits of {:?}", worker.id);
            let present = self
                .permits
                .iter()
                .filter(|held| held.worker == worker.id && held.incarnation == worker.incarnation);
            let taken = present.count() + worker.reserved.len() + worker.stuck as usize;
            assert_eq!(taken, worker.in_flight as usize, "slots of {:?}", worker.id);
        }
        let members: u32 = self.pool.workers().iter().map(|worker| worker.permits).sum();
        assert_eq!(members as usize, self.permits.len(), "every permit is of a member");
    }

    fn check_reserved(&self) {
        let waiting = self.queue.iter().filter(|waiter| waiter.reserved.is_some()).count();
        let slots = self.pool.workers().iter().map(|worker| worker.reserved.len()).sum::<usize>();
        assert_eq!(waiting, slots, "reserved slots and those who have them");
        for worker in self.pool.workers() {
            for ticket in &worker.reserved {
                let place = self.queue.find(*ticket).expect("who has a slot waits");
                assert_eq!(self.queue.get(place).reserved, Some(worker.id));
            }
            let closing = worker.connections.closing() as usize;
            assert!(worker.reserved.len() <= closing, "a connection is being closed for each");
        }
    }

    fn check_work_conserving(&self) {
        for index in 0..self.pool.workers().len() {
            let worker = self.pool.worker(index);
            if worker.state != State::Up || worker.in_flight >= self.pool.limit(index) {
                continue;
            }
            let kept = |class| self.is_kept_from(class);
            let waiting = self.queue.iter().filter(|waiter| waiter.reserved.is_none());
            for waiter in waiting.filter(|waiter| !kept(waiter.class)) {
                let may = self.pool.may_take(index, &waiter.tried);
                assert!(!may, "{:?} waits while {:?} is free", waiter.ticket, worker.id);
            }
        }
    }
}
