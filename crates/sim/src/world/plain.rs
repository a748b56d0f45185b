//! Who admits where there is no gate: nobody, or a pool of threads. For comparison.
//!
//! A server without a limit begins everything at once. One with threads begins as much as it has
//! threads and lets the rest wait in a line without an end; neither looks whether a client is still
//! there.

use spillgate_core::id::Ticket;

use crate::scenario::Admission;

use super::World;
use super::clients::End;

impl World<'_> {
    /// An exchange came to a pool without a gate.
    pub(super) fn admit_plainly(&mut self, pool: u16, ticket: Ticket) {
        let threads = self.threads(pool);
        let own = self.pool(pool);
        if own.admission == Admission::Threads && own.busy >= threads {
            own.line.push_back(ticket);
            let length = own.line.len() as u32;
            own.summary.queue_len_max = own.summary.queue_len_max.max(length);
            return;
        }
        self.begin_plainly(pool, ticket);
    }

    /// Work without a permit has ended, or what did it has.
    pub(super) fn left_plainly(&mut self, pool: u16) {
        self.pool(pool).busy -= 1;
        let threads = self.threads(pool);
        while self.pool(pool).busy < threads
            && let Some(ticket) = self.pool(pool).line.pop_front()
        {
            self.begin_plainly(pool, ticket);
        }
    }

    fn begin_plainly(&mut self, pool: u16, ticket: Ticket) {
        let own = self.pool(pool);
        let count = own.workers.len() as u32;
        let turn = own.turn;
        let mut turns = (0..count).map(|step| (turn + step) % count);
        let Some(worker) = turns.find(|worker| !own.workers[*worker as usize].gone) else {
            return self.end(ticket, End::Failed);
        };
        own.turn = (worker + 1) % count;
        own.busy += 1;
        self.enter(ticket, None, worker);
    }

    fn threads(&self, pool: u16) -> u32 {
        let setup = &self.setup.pools[usize::from(pool)];
        setup.settings.slots.count().saturating_mul(setup.workers.count.0)
    }
}
