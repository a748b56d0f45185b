//! The phases of the demo.
//!
//! Loads are told as multiples of what the workers can do, so that the story is the same on every
//! machine. Absent: what happens in a phase besides load (`story`).

use std::time::Duration;

/// Workers that are started.
pub(super) const WORKERS: u32 = 4;
/// What an ordinary page costs a worker.
pub(super) const PAGE_COST: Duration = Duration::from_millis(50);
/// What a heavy page costs.
pub(super) const HEAVY_COST: Duration = Duration::from_millis(200);
/// One page in this many is heavy.
pub(super) const HEAVY_EVERY: u64 = 8;
/// `answer_within` of the configuration: a later answer is of no use to its client.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Uploads that come in at the same time.
pub(super) const UPLOADS: u64 = 40;

/// Requests a second that the workers can do when none of them is ever idle.
pub(super) fn capacity() -> f64 {
    let every = HEAVY_EVERY as f64;
    let mean = (PAGE_COST.as_secs_f64() * (every - 1.0) + HEAVY_COST.as_secs_f64()) / every;
    f64::from(WORKERS) / mean
}

/// What happens in a phase besides its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// Nothing.
    Nothing,
    /// A busy worker gets SIGKILL.
    Kill,
    /// Clients with slow lines upload.
    Uploads,
    /// All workers are replaced.
    Restart,
}

/// A part of the story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// Its name.
    pub(super) name: &'static str,
    /// What there is to see, in one line.
    pub(super) about: &'static str,
    /// Its share of the time, in sixtieths.
    pub(super) share: u32,
    /// Its load, as a multiple of [`capacity`].
    pub(super) load: f64,
    /// What else happens.
    pub(super) happening: Happening,
}

/// The whole story.
pub(super) const PHASES: [Phase; 7] = [
    Phase {
        name: "calm",
        about: "half of what the workers can do: hardly anybody waits",
        share: 7,
        load: 0.5,
        happening: Happening::Nothing,
    },
    Phase {
        name: "rush",
        about: "three times what they can do: who cannot be served is told at once",
        share: 12,
        load: 3.0,
        happening: Happening::Nothing,
    },
    Phase {
        name: "kill",
        about: "a busy worker is killed while others wait: its request goes elsewhere",
        share: 10,
        load: 1.5,
        happening: Happening::Kill,
    },
    Phase {
        name: "ebb",
        about: "the queue empties",
        share: 4,
        load: 0.3,
        happening: Happening::Nothing,
    },
    Phase {
        name: "uploads",
        about: "40 slow uploads beside the pages: no worker waits for them",
        share: 12,
        load: 0.5,
        happening: Happening::Uploads,
    },
    Phase {
        name: "restart",
        about: "all workers are replaced, one after the other, under load",
        share: 8,
        load: 0.7,
        happening: Happening::Restart,
    },
    Phase {
        name: "calm again",
        about: "as it was in the beginning",
        share: 7,
        load: 0.5,
        happening: Happening::Nothing,
    },
];

/// How long the phases are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    seconds: u32,
}

impl Plan {
    /// All phases together take `seconds`.
    pub(super) fn of(seconds: u32) -> Plan {
        Plan { seconds }
    }

    /// The length of `phase`.
    pub(super) fn length(self, phase: &Phase) -> Duration {
        Duration::from_secs(u64::from(self.seconds)) * phase.share / 60
    }

    /// The length of all.
    pub(super) fn whole(self) -> Duration {
        Duration::from_secs(u64::from(self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_fill_the_time() {
        let plan = Plan::of(60);
        let sum: Duration = PHASES.iter().map(|phase| plan.length(phase)).sum();
        assert_eq!(sum, plan.whole());
    }

    #[test]
    fn uploads_are_as_many_as_is_said() {
        let phase = PHASES.iter().find(|phase| phase.happening == Happening::Uploads);
        assert!(phase.expect("there is one").about.starts_with(&UPLOADS.to_string()));
    }
}
