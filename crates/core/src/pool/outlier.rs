//! When a worker is ejected for failing, and for how long.
//!
//! Consecutive failures, as Envoy's outlier detection counts them (5 by default), with a floor of
//! workers that always stay. Ours differs: the n-th ejection in a row lasts n times as long without
//! an upper end other than a thousandfold, and a probe, not the passing of time, readmits.

use crate::gate::Settings;
use crate::time::Duration;

/// Ejections in a row beyond which the time grows no more: a plain choice, hours at the default.
const IN_A_ROW_MAX: u32 = 1000;

/// Failures and ejections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    /// Failures since the last success.
    failures: u32,
    /// Ejections since the last success.
    in_a_row: u32,
}

impl Ejection {
    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// The worker answered well.
    pub(crate) fn succeeded(&mut self) {
        *self = Ejection::default();
    }

    /// The worker failed.
    pub(crate) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Has it failed often enough to be ejected?
    pub(crate) fn is_due(&self, settings: &Settings) -> bool {
        settings.eject_after > 0 && self.failures >= settings.eject_after
    }

    /// It is ejected: for how long.
    pub(crate) fn eject(&mut self, settings: &Settings) -> Duration {
        self.failures = 0;
        self.in_a_row = (self.in_a_row + 1).min(IN_A_ROW_MAX);
        settings.eject_time.saturating_mul(self.in_a_row)
    }
}

/// May one more of `up` workers that are up be ejected, out of `members`?
pub(crate) fn may_eject(settings: &Settings, up: u32, members: u32) -> bool {
    let parts = u64::from(members) * u64::from(settings.eject_keep_min.as_ppm());
    let keep = parts.div_ceil(1_000_000).max(1);
    u64::from(up) > keep
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::settings;
    use crate::units::Ratio;

    use super::*;

    #[test]
    fn the_floor_is_rounded_up_and_never_below_one() {
        let check = |percent, members, up, expected| {
            let settings = Settings { eject_keep_min: Ratio::from_percent(percent), ..settings() };
            let found = may_eject(&settings, up, members);
            assert_eq!(found, expected, "{percent} % of {members}, {up} up");
        };
        check(50, 1, 1, false);
        check(50, 2, 2, true);
        check(50, 3, 3, true);
        check(50, 3, 2, false);
        check(0, 3, 2, true);
        check(0, 3, 1, false);
        check(100, 3, 3, false);
    }

    #[test]
    fn ejections_in_a_row_last_longer_until_a_success() {
        let settings = settings();
        let mut ejection = Ejection::default();
        let times = [1, 2, 3].map(|times| settings.eject_time * times);
        assert_eq!([(); 3].map(|()| ejection.eject(&settings)), times);
        ejection.succeeded();
        assert_eq!(ejection.eject(&settings), settings.eject_time);
    }
}
