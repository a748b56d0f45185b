//! Whether an exchange may be tried again.
//!
//! A try of which nothing reached a worker is free: it cannot have done anything, and charging it
//! is what lets a dead worker burn the retries of a whole queue. A try that a worker may have begun
//! is charged to the exchange and to a budget for the whole pool: a share of recent first arrivals,
//! as in Finagle and Envoy, so that retries cannot double the load of a pool that is failing.
//! Charged at the decision, so a burst of failures cannot all pass before the first is counted.

use crate::stats::rate::Rate;
use crate::time::{Duration, Instant};

use super::{Attempt, Reason, Settings, Tried};

/// The budget looks back this far: long enough for a share of few arrivals to mean something, short
/// enough to follow a change of load. Finagle's default time to live of a retry deposit.
const WINDOW: Duration = Duration::from_secs(10);

/// Deaths of workers after which an exchange is taken to be their cause.
const DEATHS_MAX: u8 = 2;

/// Counts of recent first arrivals and charged retries.
#[derive(Debug)]
pub(super) struct RetryBudget {
    arrivals: Rate,
    retries: Rate,
}

impl RetryBudget {
    pub(super) fn new(now: Instant) -> Self {
        RetryBudget { arrivals: Rate::new(WINDOW, now), retries: Rate::new(WINDOW, now) }
    }

    /// An exchange came for the first time.
    pub(super) fn arrived(&mut self, now: Instant) {
        self.arrivals.count(now);
    }

    /// May this attempt be made? Charges it if so.
    pub(super) fn charge(
        &mut self,
        attempt: Attempt,
        settings: &Settings,
        now: Instant,
    ) -> Result<(), Reason> {
        let Attempt::Sent(tried) = attempt else {
            return Ok(());
        };
        self.look(tried, settings, now)?;
        self.retries.count(now);
        Ok(())
    }

    /// Could an exchange that has tried these workers be charged for another try now?
    pub(super) fn look(
        &self,
        tried: Tried,
        settings: &Settings,
        now: Instant,
    ) -> Result<(), Reason> {
        if tried.deaths >= DEATHS_MAX || tried.charged > settings.retry_max {
            return Err(Reason::WorkerFailed);
        }
        let share = settings.retry_budget.of(u64::from(self.arrivals.peek(now)));
        let allowed = share.max(u64::from(settings.retry_budget_min));
        match u64::from(self.retries.peek(now)) >= allowed {
            true => Err(Reason::RetryBudget),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::Tried;
    use crate::gate::tests::settings;

    use super::*;

    fn tried(deaths: u8, charged: u8) -> Tried {
        let mut tried = Tried::default();
        (tried.deaths, tried.charged) = (deaths, charged);
        tried
    }

    fn sent(deaths: u8, charged: u8) -> Attempt {
        Attempt::Sent(tried(deaths, charged))
    }

    #[test]
    fn the_second_death_and_the_last_try_are_final() {
        let check = |attempt, expected| {
            let mut budget = RetryBudget::new(Instant::ZERO);
            assert_eq!(budget.charge(attempt, &settings(), Instant::ZERO), expected, "{attempt:?}");
        };
        check(Attempt::First, Ok(()));
        check(Attempt::Unsent(tried(2, 9)), Ok(()));
        check(sent(1, 1), Ok(()));
        check(sent(0, 2), Ok(()));
        check(sent(0, 3), Err(Reason::WorkerFailed));
        check(sent(2, 1), Err(Reason::WorkerFailed));
    }

    #[test]
    fn the_budget_is_a_share_of_recent_arrivals_with_a_minimum() {
        let check = |arrivals, expected| {
            let mut budget = RetryBudget::new(Instant::ZERO);
            (0..arrivals).for_each(|_| budget.arrived(Instant::ZERO));
            let tries = (0..100).map(|_| budget.charge(sent(1, 1), &settings(), Instant::ZERO));
            assert_eq!(tries.filter(Result::is_ok).count(), expected, "{arrivals} arrivals");
            let later = Instant::ZERO + WINDOW;
            assert_eq!(budget.charge(sent(1, 1), &settings(), later), Ok(()), "it refills");
        };
        check(0, 10);
        check(50, 10);
        check(100, 20);
    }
}
