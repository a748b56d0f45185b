//! Second tries beside a first that is slow for its kind.
//!
//! A second try is granted at this very moment or not, and may be asked for again: it is never
//! queued, and takes a slot only where nobody waits for one. So there is none under overload, and
//! none makes anybody wait who is here already. It is charged to the retry budget, which retries
//! and second tries share.
//!
//! Source: Dean and Barroso, "The Tail at Scale" (2013), hedge after the 95 % quantile of the
//! class. Ours goes by kind, and asks whether a slot is free. Whichever try loses is let run to its
//! end, so that what is slow is learned from all of them. Their tied requests, an entry in the
//! queues of two workers of which the first that gets to it strikes the other out, are what one
//! queue for all workers is.
//!
//! Absent: which methods may, when the moment is, and the race itself (the shell's).

use crate::id::Kind;
use crate::pool::{Choice, Seeker, Way};
use crate::time::Duration;

use super::admit::Recipient;
use super::{Attempt, Gate, Hedge, Output, Withheld, WithholdReason};

impl Gate {
    /// Grant a second try, or say why not.
    pub(super) fn hedge(&mut self, hedge: &Hedge) {
        let Hedge { ticket, shard, claim, .. } = *hedge;
        let choice = match self.may_hedge(hedge) {
            Ok(choice) => choice,
            Err(reason) => {
                let withheld = Withheld { ticket, shard, reason };
                return self.outputs.push_back(Output::Withheld(withheld));
            }
        };
        self.totals.hedges += 1;
        let to = Recipient {
            ticket,
            shard,
            kind: claim.kind,
            class: claim.class,
            tenant: claim.tenant,
            charged: Duration::ZERO,
            queued: self.now,
            trial: false,
            hedge: true,
        };
        self.grant(to, choice.index, self.connection(choice));
    }

    /// The time after which an exchange of this kind should ask for a second try; none: too little
    /// is known, or there is nobody else to try.
    pub(super) fn hedge_after(&self, kind: Kind) -> Option<Duration> {
        if !self.settings.hedge || self.pool.up() < 2 {
            return None;
        }
        self.answers.slow_after(kind, self.now)
    }

    fn may_hedge(&mut self, hedge: &Hedge) -> Result<Choice, WithholdReason> {
        let Hedge { shard, received, claim, tried, .. } = *hedge;
        if self.draining {
            return Err(WithholdReason::Draining);
        }
        if self.load.is_excess() {
            return Err(WithholdReason::Overload);
        }
        if !self.queue.is_empty() {
            return Err(WithholdReason::Waiting);
        }
        if self.latest_grant(received, &claim) < self.now {
            return Err(WithholdReason::Late);
        }
        let choice = self.choose(&Seeker { shard, key: claim.key, tried });
        // Where nobody else is up those that were tried are chosen again, and where all connections
        // are being closed somebody has to wait for one.
        let is_at_hand = |choice: &Choice| {
            choice.way != Way::Full && !tried.contains(self.pool.worker(choice.index).id)
        };
        let choice = choice.filter(is_at_hand).ok_or(WithholdReason::NoSlot)?;
        let attempt = Attempt::Sent(tried);
        let charged = self.retry_budget.charge(attempt, &self.settings, self.now);
        charged.map(|()| choice).map_err(|_| WithholdReason::RetryBudget)
    }
}
