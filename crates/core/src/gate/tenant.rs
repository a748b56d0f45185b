//! Whose turn it is among the tenants of one lane.
//!
//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995), in the form that may go into debt:
//! who has something left of its share is served, what is then taken from it is the time that the
//! exchange is expected to take, and the difference is settled when the permit comes back. So
//! tenants share the time of the workers, not the number of exchanges, and nobody has to know the
//! size of an exchange before it is over. As there, a tenant without anybody waiting keeps nothing.
//!
//! Which of a tenant's exchanges is served is not decided here. Invariants: `ring` and `flows` hold
//! the same tenants, those of which somebody waits; `by_len` holds each once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::Tenant;
use crate::time::Duration;

/// The tenants of whom somebody waits in one lane.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    flows: BTreeMap<Tenant, Flow>,
    ring: VecDeque<Tenant>,
    by_len: BTreeSet<(u32, Tenant)>,
}

#[derive(Debug, Default)]
struct Flow {
    /// Nanoseconds of worker time that are left of its share; below zero: its debt.
    left: i64,
    len: u32,
}

impl Tenants {
    /// One more exchange of `tenant` waits.
    pub(super) fn join(&mut self, tenant: Tenant) {
        let flow = self.flows.entry(tenant).or_default();
        if flow.len == 0 {
            self.ring.push_back(tenant);
        }
        flow.len += 1;
        self.by_len.remove(&(flow.len - 1, tenant));
        self.by_len.insert((flow.len, tenant));
    }

    /// One fewer waits.
    pub(super) fn leave(&mut self, tenant: Tenant) {
        let flow = self.flows.get_mut(&tenant).expect("who leaves has joined");
        self.by_len.remove(&(flow.len, tenant));
        flow.len -= 1;
        if flow.len > 0 {
            self.by_len.insert((flow.len, tenant));
            return;
        }
        self.flows.remove(&tenant);
        self.ring.retain(|other| *other != tenant);
    }

    /// Whose turn it is; each turn is worth `quantum`.
    pub(super) fn turn(&mut self, quantum: Duration) -> Option<Tenant> {
        let quantum = nanos(quantum).max(1);
        loop {
            let tenant = *self.ring.front()?;
            let flow = self.flows.get_mut(&tenant).expect("the ring holds those who wait");
            if flow.left > 0 || self.ring.len() == 1 {
                return Some(tenant);
            }
            flow.left += quantum;
            self.ring.rotate_left(1);
        }
    }

    /// `tenant` takes so much worker time; does that count? It does not while nobody else waits, or
    /// nobody of the tenant.
    pub(super) fn charge(&mut self, tenant: Tenant, time: Duration) -> bool {
        self.change(tenant, -nanos(time))
    }

    /// It took less than was charged.
    pub(super) fn refund(&mut self, tenant: Tenant, time: Duration) {
        self.change(tenant, nanos(time));
    }

    fn change(&mut self, tenant: Tenant, by: i64) -> bool {
        // Who is alone takes nothing from anybody.
        let alone = self.ring.len() == 1;
        let Some(flow) = self.flows.get_mut(&tenant) else { return false };
        flow.left = if alone { 0 } else { flow.left.saturating_add(by) };
        !alone
    }

    /// How many exchanges of `tenant` wait.
    pub(super) fn len(&self, tenant: Tenant) -> u32 {
        self.flows.get(&tenant).map_or(0, |flow| flow.len)
    }

    /// How many tenants have somebody waiting.
    pub(super) fn count(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Of whom most wait, and how many.
    pub(super) fn longest(&self) -> Option<(Tenant, u32)> {
        self.by_len.last().map(|(len, tenant)| (*tenant, *len))
    }

    pub(super) fn check_invariants(&self, waiting: usize) {
        let sum: u32 = self.flows.values().map(|flow| flow.len).sum();
        assert_eq!(sum as usize, waiting, "everybody who waits is of a tenant");
        assert_eq!(self.ring.len(), self.flows.len(), "each tenant has one turn");
        let lens: BTreeSet<_> = self.flows.iter().map(|(id, flow)| (flow.len, *id)).collect();
        assert!(self.by_len == lens && lens.iter().all(|(len, _)| *len > 0));
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: Duration = Duration::from_millis(10);

    /// Two tenants who always wait, whose exchanges take so many milliseconds: the time of each.
    fn share(one: u64, other: u64) -> [u64; 2] {
        let mut tenants = Tenants::default();
        for tenant in [1, 2] {
            (0..2).for_each(|_| tenants.join(Tenant(tenant)));
        }
        let mut used = [0; 2];
        for _ in 0..2000 {
            let tenant = tenants.turn(QUANTUM).expect("both wait");
            let index = tenant.0 as usize - 1;
            let time = [one, other][index];
            used[index] += time;
            tenants.charge(tenant, Duration::from_millis(time));
            tenants.check_invariants(4);
        }
        used
    }

    #[test]
    fn time_is_shared_and_not_the_number_of_exchanges() {
        for (one, other) in [(10, 10), (10, 1), (3, 100), (7, 9)] {
            let [first, second] = share(one, other);
            assert!(first.abs_diff(second) * 100 <= first.max(second) * 5, "{first} {second}");
        }
    }

    #[test]
    fn what_was_charged_too_much_is_given_back() {
        let mut tenants = Tenants::default();
        (1..=2).for_each(|tenant| tenants.join(Tenant(tenant)));
        let mut turns = [0; 2];
        for _ in 0..1000 {
            let tenant = tenants.turn(QUANTUM).expect("both wait");
            turns[tenant.0 as usize - 1] += 1;
            tenants.charge(tenant, Duration::from_millis(20));
            if tenant == Tenant(1) {
                tenants.refund(tenant, Duration::from_millis(10));
            }
        }
        assert!((650..=680).contains(&turns[0]), "twice as many for half the time: {turns:?}");
    }

    #[test]
    fn who_is_alone_runs_up_no_debt() {
        let mut tenants = Tenants::default();
        tenants.join(Tenant(1));
        for _ in 0..1000 {
            assert_eq!(tenants.turn(QUANTUM), Some(Tenant(1)));
            tenants.charge(Tenant(1), Duration::from_secs(1));
        }
        tenants.join(Tenant(2));
        let served: Vec<_> = (0..4)
            .map(|_| {
                let tenant = tenants.turn(QUANTUM).expect("both wait");
                tenants.charge(tenant, QUANTUM);
                tenant.0
            })
            .collect();
        assert!(served.contains(&1) && served.contains(&2), "{served:?}");
    }

    #[test]
    fn the_longest_is_known() {
        let mut tenants = Tenants::default();
        assert_eq!(tenants.longest(), None);
        [1, 2, 2, 3].map(Tenant).into_iter().for_each(|tenant| tenants.join(tenant));
        assert_eq!(tenants.longest(), Some((Tenant(2), 2)));
        (0..2).for_each(|_| tenants.leave(Tenant(2)));
        assert_eq!((tenants.longest(), tenants.len(Tenant(2))), (Some((Tenant(3), 1)), 0));
        tenants.check_invariants(2);
    }
}
