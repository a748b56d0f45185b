//! What a worker, or an agent beside it, says of what it can take.
//!
//! The model of HAProxy's agent-check: each report changes what it mentions and nothing else, and
//! what was said holds until the opposite is said, however long nobody speaks. Ours differs in what
//! a weight does: it also cuts the slots, because with one queue for all a worker that is always
//! offered the next exchange when it has room gets its share by its room alone.
//!
//! Absent: words and lines (`wire`), and the weight in the file, of which percents are taken.

use super::{OutReason, State};

/// What one report mentions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether the worker wants exchanges.
    pub admin: Option<Admin>,
    /// Its weight in percent of the configured one; 0: no new exchanges.
    pub percent: Option<u32>,
    /// The most exchanges that it wants at once; 0: as many as are configured.
    pub slots: Option<u32>,
    /// Whether it works.
    pub health: Option<Health>,
}

/// Whether a worker wants exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// It does.
    Ready,
    /// It ends what it has.
    Drain,
    /// It is being worked on: no exchanges, and no probes.
    Maint,
}

/// Whether a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does, as far as the agent knows.
    Up,
    /// It does not.
    Down,
}

/// Everything that was said of one worker and holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Whether it wants exchanges.
    pub admin: Admin,
    /// Its weight in percent of the configured one.
    pub percent: u32,
    /// The most exchanges that it wants at once; 0: as many as are configured.
    pub slots: u32,
    /// Whether it works.
    pub health: Health,
}

impl Said {
    /// What holds before anything was said.
    pub const NOTHING: Said =
        Said { admin: Admin::Ready, percent: 100, slots: 0, health: Health::Up };

    /// Take over what a report mentions.
    pub(crate) fn hear(&mut self, report: &Report) {
        self.admin = report.admin.unwrap_or(self.admin);
        self.percent = report.percent.unwrap_or(self.percent);
        self.slots = report.slots.unwrap_or(self.slots);
        self.health = report.health.unwrap_or(self.health);
    }

    /// The state that this alone would give the worker.
    pub(crate) fn verdict(&self) -> State {
        match (self.admin, self.health) {
            (Admin::Maint, _) => State::Out(OutReason::Maint),
            (_, Health::Down) => State::Out(OutReason::Agent),
            (Admin::Drain, Health::Up) => State::Draining,
            (Admin::Ready, Health::Up) if self.percent == 0 => State::Draining,
            (Admin::Ready, Health::Up) => State::Up,
        }
    }

    /// How many of `slots` it may use. At least one: whether it gets any exchange is the verdict's.
    pub(crate) fn limit(&self, slots: u32) -> u32 {
        let share = (u64::from(slots) * u64::from(self.percent)).div_ceil(100);
        let asked = if self.slots == 0 { slots } else { self.slots };
        slots.min(asked).min(u32::try_from(share).unwrap_or(slots)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(percent: u32) -> Report {
        Report { percent: Some(percent), ..Report::default() }
    }

    fn slots(slots: u32) -> Report {
        Report { slots: Some(slots), ..Report::default() }
    }

    fn admin(admin: Admin) -> Report {
        Report { admin: Some(admin), ..Report::default() }
    }

    fn health(health: Health) -> Report {
        Report { health: Some(health), ..Report::default() }
    }

    #[track_caller]
    fn check(reports: &[Report], state: State, of_40: u32) {
        let mut said = Said::NOTHING;
        reports.iter().for_each(|report| said.hear(report));
        assert_eq!((said.verdict(), said.limit(40)), (state, of_40), "{reports:?}");
    }

    #[test]
    fn what_is_not_mentioned_stays() {
        check(&[], State::Up, 40);
        check(&[percent(75), slots(35)], State::Up, 30);
        check(&[percent(75), slots(20)], State::Up, 20);
        check(&[percent(75), slots(20), Report::default()], State::Up, 20);
        check(&[percent(75), slots(20), slots(0)], State::Up, 30);
        check(&[percent(300)], State::Up, 40);
        check(&[percent(1)], State::Up, 1);
        check(&[percent(0)], State::Draining, 1);
        check(&[percent(0), percent(50)], State::Up, 20);
        check(&[admin(Admin::Drain), Report::default()], State::Draining, 40);
        check(&[admin(Admin::Drain), admin(Admin::Ready)], State::Up, 40);
        check(&[admin(Admin::Maint), admin(Admin::Drain)], State::Draining, 40);
        check(&[admin(Admin::Drain), health(Health::Up)], State::Draining, 40);
        check(&[health(Health::Down), percent(50)], State::Out(OutReason::Agent), 20);
        check(&[health(Health::Down), admin(Admin::Maint)], State::Out(OutReason::Maint), 40);
        check(&[health(Health::Down), health(Health::Up)], State::Up, 40);
    }
}
