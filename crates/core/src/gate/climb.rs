//! Workers that have come, or come back, and get their full share little by little.
//!
//! Slots change only here, at the moments that the gate's timer asks for, so that between two
//! inputs a worker's limit is what it was. Absent: how much is due when (`pool/ramp.rs`).

use crate::pool::Ramp;
use crate::time::Instant;

use super::Gate;

impl Gate {
    /// The worker at `index` is up. Those with which a pool begins are taken to be warm, where
    /// others have started them.
    pub(super) fn start_climb(&mut self, index: usize) {
        let (time, now) = (self.settings.ramp_time, self.now);
        let worker = self.pool.worker_mut(index);
        worker.ramp = time.filter(|_| worker.climbs).map(|time| Ramp::new(time, now));
        if worker.ramp.is_some() {
            self.pool.refresh(index);
            self.find_next_climb();
        }
    }

    /// Let those have more for whom it is time.
    pub(super) fn climb_due(&mut self) {
        if self.now < self.climb_at {
            return;
        }
        let (slots, now) = (self.pool.slots(), self.now);
        for index in 0..self.pool.workers().len() {
            let worker = self.pool.worker_mut(index);
            if worker.ramp.as_mut().is_some_and(|ramp| ramp.climb(slots, now)) {
                worker.ramp = None;
            }
            self.pool.refresh(index);
        }
        self.find_next_climb();
        self.dispatch();
    }

    fn find_next_climb(&mut self) {
        let slots = self.pool.slots();
        let next = self.pool.workers().iter().filter_map(|worker| Some(worker.ramp?.next(slots)));
        self.climb_at = next.min().unwrap_or(Instant::FAR_FUTURE);
    }
}
