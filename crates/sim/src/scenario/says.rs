//! What an agent says in a scenario.

use serde::Deserialize;
use spillgate_core::pool::{self, Report};

/// A report; what it does not mention stays.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Says {
    admin: Option<Admin>,
    percent: Option<u32>,
    slots: Option<u32>,
    health: Option<Health>,
}

/// Whether a worker wants exchanges.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Admin {
    Ready,
    Drain,
    Maint,
}

/// Whether a worker works.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Up,
    Down,
}

impl Says {
    /// As the gate takes it.
    pub(crate) fn report(self) -> Report {
        Report {
            admin: self.admin.map(|admin| match admin {
                Admin::Ready => pool::Admin::Ready,
                Admin::Drain => pool::Admin::Drain,
                Admin::Maint => pool::Admin::Maint,
            }),
            percent: self.percent,
            slots: self.slots,
            health: self.health.map(|health| match health {
                Health::Up => pool::Health::Up,
                Health::Down => pool::Health::Down,
            }),
        }
    }
}
