//! What clients do: they come, wait, give up, ask again; and how what became of them is counted.
//!
//! Must hold: each exchange is counted once at its beginning and once at its end.

use spillgate_core::gate::{Attempt, Claim, Input, Reason, Tried};
use spillgate_core::id::{Key, Kind, ShardId, Tenant, Ticket, User};
use spillgate_core::time::{Duration, Instant};

use crate::scenario::Admission;
use crate::summary::{PhaseSummary, Point, TenantSummary};

use super::exchange::{Exchange, Place};
use super::{Happening, World};

/// Wait before a client asks again where the scenario does not say.
const RETRY_WAIT: Duration = Duration::from_millis(100);
/// Most doublings of that wait.
const DOUBLINGS_MAX: u8 = 10;

/// How an exchange ends.
pub(super) enum End {
    Answered,
    Shed {
        reason: Reason,
        retry_after: Option<Duration>,
    },
    Failed,
    /// The worker answered with a 5xx.
    Error,
}

impl World<'_> {
    /// A client asks; it has asked so many times before.
    pub(super) fn arrive(&mut self, group: u16, service: Option<Duration>, asked: u8) {
        let own = &self.setup.groups[usize::from(group)];
        let pool = own.pool as u16;
        let shard = ShardId(self.rng.below(u64::from(self.setup.shards)) as u16);
        let repeatable = self.rng.below(100) >= u64::from(own.clients.unsafe_percent.0);
        let (claim, path) = self.claim(group);
        let ticket = self.exchanges.insert(Exchange {
            group,
            pool,
            shard,
            arrived: self.now,
            service,
            repeatable,
            claim,
            path,
            tried: Tried::default(),
            attempt: 0,
            asked,
            place: Place::Moving,
            work: Duration::ZERO,
            slow_after: Duration::ZERO,
            beside: None,
            is_second: false,
            gone: false,
            ended: false,
        });
        let counts = &mut self.groups[usize::from(group)];
        counts.arrivals += 1;
        counts.asked_again += u64::from(asked > 0);
        if let Some(path) = path {
            counts.paths[usize::from(path)].arrivals += 1;
        }
        if let Some(phase) = self.phase(self.now) {
            phase.arrivals += 1;
        }
        if let Some(tenant) = self.tenant(claim.tenant) {
            tenant.arrivals += 1;
        }
        self.pool(pool).concurrency += 1;
        self.point(pool).arrivals += 1;
        if let Some(patience) = own.clients.patience {
            self.plan(patience.0, Happening::Leave(ticket));
        }
        self.ask(ticket, Attempt::First);
        // Who was turned away at once was never inside.
        let own = &mut self.pools[usize::from(pool)];
        own.summary.concurrency_max = own.summary.concurrency_max.max(own.concurrency);
        let point = own.summary.series.at(self.now);
        point.concurrency = point.concurrency.max(own.concurrency);
        point.slots = own.gate.slots();
    }

    /// What an exchange of this group says of itself, and which of the group's paths it asks for.
    /// Nothing is drawn for what the scenario does not speak of.
    fn claim(&mut self, group: u16) -> (Claim, Option<u16>) {
        let own = &self.setup.groups[usize::from(group)];
        let clients = &own.clients;
        let tenants = u64::from(clients.tenants.0);
        let tenant = match tenants {
            0 => Tenant::default(),
            1 => Tenant(own.first_tenant),
            _ => Tenant(own.first_tenant + self.rng.below(tenants)),
        };
        let user = match clients.users {
            // Users of different groups are different people.
            Some(users) => User((u64::from(group) << 32) + self.rng.below(u64::from(users.0))),
            None => User::default(),
        };
        let path = clients.draw_path(&mut self.rng);
        // Zero is a kind that is not known.
        let kind = path.map_or(0, |path| (u64::from(group) << 16) + u64::from(path) + 1);
        let deadline = clients.deadline.map(|within| self.now + within.0);
        // Where the balance goes by keys, each path has its own, or else each user.
        let key = Key(if kind == 0 { user.0 } else { kind });
        let (class, kind) = (clients.class.0, Kind(kind));
        (Claim { class, user, tenant, kind, key, deadline }, path)
    }

    /// The books of the phase of the load that this moment is in; none: there are no phases.
    fn phase(&mut self, at: Instant) -> Option<&mut PhaseSummary> {
        let at = at.since(Instant::ZERO);
        let number = self.phases.partition_point(|phase| phase.from <= at);
        self.phases.get_mut(number.checked_sub(1)?)
    }

    /// The books of a tenant; none: it is none.
    fn tenant(&mut self, tenant: Tenant) -> Option<&mut TenantSummary> {
        self.tenants.get_mut((tenant.0 as usize).checked_sub(1)?)
    }

    /// The client of an exchange has waited long enough, if it still waits.
    pub(super) fn lose_patience(&mut self, ticket: Ticket) {
        let Some(exchange) = self.exchanges.find(ticket) else { return };
        if exchange.ended {
            return;
        }
        exchange.gone = true;
        let (group, pool, asked) = (exchange.group, exchange.pool, exchange.asked);
        self.groups[usize::from(group)].timeouts += 1;
        self.point(pool).timeouts += 1;
        if self.setup.groups[usize::from(group)].clients.hangs_up {
            self.hang_up(ticket);
        }
        self.ask_again(group, asked, None);
    }

    fn hang_up(&mut self, ticket: Ticket) {
        let exchange = self.exchanges.at(ticket);
        let (group, pool) = (exchange.group, exchange.pool);
        exchange.ended = true;
        let waits = matches!(exchange.place, Place::Waiting);
        self.groups[usize::from(group)].abandoned += 1;
        // Where there is no gate, nobody looks at the connection before the work is done.
        if waits && self.pool(pool).admission == Admission::Gate {
            self.pool(pool).waiting -= 1;
            self.forget(ticket);
            self.tell(pool, Input::Abandon(ticket));
        }
    }

    /// An exchange ends, and leaves the world.
    pub(super) fn end(&mut self, ticket: Ticket, end: End) {
        let exchange = self.exchanges.at(ticket);
        let (group, pool, gone) = (exchange.group, exchange.pool, exchange.gone);
        let (time, asked) = (self.now.since(exchange.arrived), exchange.asked);
        let (claim, path, arrived) = (exchange.claim, exchange.path, exchange.arrived);
        let exchange = self.exchanges.at(ticket);
        let ended = std::mem::replace(&mut exchange.ended, true);
        self.forget(ticket);
        if ended {
            return;
        }
        let slo = self.setup.groups[usize::from(group)].slo;
        let in_time = !gone && slo.is_none_or(|slo| time <= slo);
        self.count_apart(&end, in_time.then_some(time), (arrived, claim.tenant));
        let class = usize::from(claim.class.number());
        let counts = &mut self.groups[usize::from(group)];
        let point = self.pools[usize::from(pool)].summary.series.at(self.now);
        match &end {
            End::Answered => {
                counts.times.push(time);
                if let Some(path) = path {
                    let path = &mut counts.paths[usize::from(path)];
                    path.times.push(time);
                    path.served += u64::from(in_time);
                }
                point.times.push(time);
                if in_time {
                    counts.served += 1;
                    point.served += 1;
                    point.served_by_class[class] += 1;
                } else {
                    counts.late += 1;
                    point.late += 1;
                }
            }
            End::Shed { reason, .. } => {
                *counts.shed.entry(*reason).or_default() += 1;
                *point.shed.entry(*reason).or_default() += 1;
                point.shed_by_class[class] += 1;
            }
            End::Failed => {
                counts.failed += 1;
                point.failed += 1;
            }
            End::Error => {
                counts.errors += 1;
                point.failed += 1;
            }
        }
        match end {
            End::Answered => {}
            _ if gone => {}
            End::Shed { retry_after, .. } => self.ask_again(group, asked, retry_after),
            End::Failed | End::Error => self.ask_again(group, asked, None),
        }
    }

    /// Count an end in the books of the phase in which it came, and of its tenant; `in_time` is
    /// what an answer that is of use took.
    fn count_apart(
        &mut self,
        end: &End,
        in_time: Option<Duration>,
        (arrived, tenant): (Instant, Tenant),
    ) {
        let shed = u64::from(matches!(end, End::Shed { .. }));
        let time = in_time.filter(|_| matches!(end, End::Answered));
        if let Some(phase) = self.phase(arrived) {
            phase.shed += shed;
            phase.served += u64::from(time.is_some());
            phase.times.extend(time);
        }
        if let Some(tenant) = self.tenant(tenant) {
            tenant.shed += shed;
            tenant.served += u64::from(time.is_some());
        }
    }

    /// An exchange leaves the world.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        let Exchange { pool, is_second, .. } = *self.exchanges.at(ticket);
        self.exchanges.remove(ticket);
        if !is_second {
            self.pool(pool).concurrency -= 1;
        }
    }

    fn ask_again(&mut self, group: u16, asked: u8, retry_after: Option<Duration>) {
        let clients = &self.setup.groups[usize::from(group)].clients;
        if u32::from(asked) >= clients.retries.0 || self.now >= self.end {
            return;
        }
        let wait = clients.retry_wait.map_or(RETRY_WAIT, |wait| wait.0);
        let wait = wait.saturating_mul(1 << asked.min(DOUBLINGS_MAX));
        let half = (wait / 2).as_nanos() as u64;
        let wait = Duration::from_nanos(half + self.rng.below(half + 1));
        let told = retry_after.filter(|_| clients.retry_after).unwrap_or_default();
        self.coming_back += 1;
        self.plan(wait.max(told), Happening::AskAgain { group, asked: asked + 1 });
    }

    /// The part of the time that it is now, for the charts of a pool.
    fn point(&mut self, pool: u16) -> &mut Point {
        let now: Instant = self.now;
        self.pool(pool).summary.series.at(now)
    }
}
