//! One process, from its start to its end.
//!
//! Plain data with the two rules that belong to a single process: when it must be looked at again,
//! and when its heartbeat counts as missing. What follows from that is the machine's.

use crate::time::{Duration, Instant};

use super::message::{ProcessId, Side};
use super::settings::Settings;

/// Where a process is in its life.
///
/// ```text
///  Spawn ──▶ Starting ──Ready──▶ Ready ──Leaving──▶ Leaving
///               │                  │                   │
///   ready_time_max              stall,             drain_time_max
///               │           restart, Stop              │
///               ▼                  ▼                   ▼
///            Stopping: SIGTERM ── stop_time_max or stall_stop_time_max ──▶ SIGKILL
///
///  any ──Exited or SpawnFailed──▶ gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Started, not ready; given up at this moment.
    Starting { until: Instant },
    /// Can serve.
    Ready,
    /// Said that it will end by itself; stopped at this moment if it has not.
    Leaving { until: Instant },
    /// Was sent SIGTERM; SIGKILL follows at this moment. None: that was sent too.
    Stopping { kill_at: Option<Instant> },
}

/// A process that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) side: Side,
    pub(super) phase: Phase,
    pub(super) phase_since: Instant,
    /// The system's number for it, once known.
    pub(super) pid: Option<u32>,
    pub(super) started: Instant,
    /// When it became ready, if it ever did.
    pub(super) ready: Option<Instant>,
    /// The newest heartbeat.
    pub(super) beat: Option<Instant>,
    /// Since when it takes no connections although it was ready.
    pub(super) unreached: Option<Instant>,
    /// Whether its end is what we want, so that it says nothing about a crash loop.
    pub(super) asked: bool,
}

impl Process {
    pub(super) fn new(id: ProcessId, side: Side, settings: &Settings, now: Instant) -> Process {
        Process {
            id,
            side,
            phase: Phase::Starting { until: now + settings.ready_time_max },
            phase_since: now,
            pid: None,
            started: now,
            ready: None,
            beat: None,
            unreached: None,
            asked: false,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.phase_since = now;
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping { .. })
    }

    /// When this process must be looked at if nothing is heard of it.
    pub(super) fn deadline(&self, settings: &Settings) -> Option<Instant> {
        match self.phase {
            Phase::Starting { until } | Phase::Leaving { until } => Some(until),
            Phase::Ready => {
                let deadlines = [self.beat_deadline(settings), self.reach_deadline(settings)];
                deadlines.into_iter().flatten().min()
            }
            Phase::Stopping { kill_at } => kill_at,
        }
    }

    /// When its heartbeat is missing. It is watched from the moment that it is ready (a boot may
    /// block it for long), and only if it ever sent one.
    fn beat_deadline(&self, settings: &Settings) -> Option<Instant> {
        let last = self.beat?.max(self.ready?);
        Some(last + settings.heartbeat_time_max?)
    }

    /// When it counts as unreachable: it gets as long as a start may take, since some programs open
    /// their socket anew.
    pub(super) fn reach_deadline(&self, settings: &Settings) -> Option<Instant> {
        Some(self.unreached? + settings.ready_time_max)
    }

    /// The age of the last heartbeat.
    pub(super) fn beat_age(&self, now: Instant) -> Duration {
        now.since(self.beat.unwrap_or(self.started))
    }

    /// Did it serve long enough for its end to be no sign of a crash loop?
    pub(super) fn was_calm(&self, settings: &Settings, now: Instant) -> bool {
        self.ready.is_some_and(|ready| now.since(ready) >= settings.restart_calm)
    }
}
