//! One worker: its processes, and what the gate was told of it.
//!
//! A worker has one process most of the time (`main`). During a rolling restart it has two: `next`
//! beside the `main` that serves, and after the switch `main` beside the `old` that is ending.

use crate::gate::Change;
use crate::id::WorkerId;
use crate::time::{Duration, Instant};

use super::message::{Exit, ProcessId, Side};
use super::process::Process;
use super::settings::Settings;

/// Which of a worker's processes an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that the gate uses, or will.
    Main,
    /// The one that is to take over.
    Next,
    /// The one that was taken over from.
    Old,
}

impl Role {
    pub(super) const ALL: [Role; 3] = [Role::Main, Role::Next, Role::Old];
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) id: WorkerId,
    pub(super) main: Option<Process>,
    pub(super) next: Option<Process>,
    pub(super) old: Option<Process>,
    /// When `main` is started, while there is none.
    pub(super) start_at: Option<Instant>,
    /// The wait that its last end asks for.
    pub(super) restart_wait: Duration,
    /// The wait that the next end in a row will ask for.
    restart_wait_next: Duration,
    /// What the gate was told last.
    pub(super) told: Change,
    /// Since when there is no process, or since it was made.
    pub(super) idle_since: Instant,
    pub(super) last_exit: Option<Exit>,
    /// Ends that nobody had asked for.
    pub(super) ends: u32,
    last_side: Side,
    runs: u32,
}

impl Worker {
    pub(super) fn new(id: WorkerId, settings: &Settings, now: Instant) -> Worker {
        Worker {
            id,
            main: None,
            next: None,
            old: None,
            start_at: None,
            restart_wait: Duration::ZERO,
            restart_wait_next: settings.restart_wait_min,
            told: Change::JoinSupervised,
            idle_since: now,
            last_exit: None,
            ends: 0,
            last_side: Side::B,
            runs: 0,
        }
    }

    /// Make the record of one more process, on the side used last time's other, or on the one that
    /// is free. Put it into `role`'s place, which must be empty.
    pub(super) fn begin(&mut self, role: Role, settings: &Settings, now: Instant) -> Process {
        let wanted = self.last_side.other();
        let taken = self.processes().any(|process| process.side == wanted);
        let side = if taken { wanted.other() } else { wanted };
        self.last_side = side;
        self.runs += 1;
        let id = ProcessId { worker: self.id, run: self.runs };
        let process = Process::new(id, side, settings, now);
        let place = self.place(role);
        debug_assert!(place.is_none(), "a living process is not overwritten");
        *place = Some(process);
        process
    }

    pub(super) fn place(&mut self, role: Role) -> &mut Option<Process> {
        match role {
            Role::Main => &mut self.main,
            Role::Next => &mut self.next,
            Role::Old => &mut self.old,
        }
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        [&self.main, &self.next, &self.old].into_iter().flatten()
    }

    /// Which place the process `id` has; none when it is gone.
    pub(super) fn role_of(&self, id: ProcessId) -> Option<Role> {
        let is = |place: &Option<Process>| place.is_some_and(|process| process.id == id);
        match id {
            _ if is(&self.main) => Some(Role::Main),
            _ if is(&self.next) => Some(Role::Next),
            _ if is(&self.old) => Some(Role::Old),
            _ => None,
        }
    }

    pub(super) fn main_is_ready(&self) -> bool {
        self.main.is_some_and(|main| main.is_ready())
    }

    /// Is there a next process that may still take over?
    pub(super) fn next_has_hope(&self) -> bool {
        self.next.is_some_and(|next| !next.is_stopping())
    }

    /// Reckon the wait before the next start from how long `ended` served: none after a calm life,
    /// else twice the wait of the end before.
    pub(super) fn note_end(&mut self, ended: &Process, settings: &Settings, now: Instant) {
        if ended.was_calm(settings, now) {
            self.restart_wait = Duration::ZERO;
            self.restart_wait_next = settings.restart_wait_min;
            return;
        }
        self.restart_wait = self.restart_wait_next.min(settings.restart_wait_max);
        self.restart_wait_next = self.restart_wait.saturating_mul(2);
    }

    /// The earliest moment at which something of this worker is due.
    pub(super) fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let processes = self.processes().filter_map(|process| process.deadline(settings));
        processes.chain(self.start_at).min()
    }
}
