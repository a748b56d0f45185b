//! A simulated worker: a process that may be gone, hang, be slow, or refuse.
//!
//! It keeps books of its own (inside, open), so that a promise of the gate is checked against what
//! a worker saw and not against what the gate believes. Absent: the work, which is in a station.

use spillgate_core::time::Instant;

/// A simulated worker.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// Counts its processes, and the times between them.
    pub(crate) process: u32,
    /// Nothing listens: connections are refused.
    pub(crate) gone: bool,
    /// It accepts and does not answer until then.
    halted: Instant,
    /// It answers that it cannot take more, until then.
    refusing: Instant,
    /// It answers with this status, in so many percent of all cases, until then.
    erring: (Instant, u16, u32),
    /// It is so many times as slow, until then.
    slow: (Instant, u32),
    /// Exchanges and probes inside the present process.
    inside: u32,
    /// Those of them that were given up.
    orphans: u32,
    /// The most that were ever inside one process.
    pub(crate) inside_max: u32,
    /// Connections that the present process sees.
    open: u32,
    /// The most that a process ever saw.
    pub(crate) open_max: u32,
    pub(crate) answers: u64,
}

impl Worker {
    /// A worker of which nothing runs.
    pub(crate) fn new() -> Self {
        Worker { gone: true, ..Worker::default() }
    }

    /// A new process serves.
    pub(crate) fn start(&mut self) {
        self.renew(false);
    }

    /// The process ends.
    pub(crate) fn end(&mut self) {
        self.renew(true);
    }

    fn renew(&mut self, gone: bool) {
        self.process += 1;
        self.gone = gone;
        (self.halted, self.refusing) = (Instant::ZERO, Instant::ZERO);
        (self.erring, self.slow) = ((Instant::ZERO, 500, 0), (Instant::ZERO, 1));
        (self.inside, self.orphans, self.open) = (0, 0, 0);
    }

    pub(crate) fn is_halted(&self, now: Instant) -> bool {
        self.halted > now
    }

    pub(crate) fn is_refusing(&self, now: Instant) -> bool {
        self.refusing > now
    }

    /// Nothing shortens a hang.
    pub(crate) fn halt(&mut self, until: Instant) {
        self.halted = self.halted.max(until);
    }

    pub(crate) fn refuse(&mut self, until: Instant) {
        self.refusing = self.refusing.max(until);
    }

    pub(crate) fn slow_down(&mut self, until: Instant, factor: u32) {
        self.slow = (until, factor);
    }

    pub(crate) fn err(&mut self, until: Instant, status: u16, percent: u32) {
        self.erring = (until, status, percent);
    }

    /// The status with which it answers, and how often in a hundred; none: it does its work.
    pub(crate) fn error(&self, now: Instant) -> Option<(u16, u32)> {
        let (until, status, percent) = self.erring;
        (until > now).then_some((status, percent))
    }

    /// The speed of its work at `now`.
    pub(crate) fn speed(&self, now: Instant) -> f64 {
        match self.slow {
            _ if self.halted > now => 0.0,
            (until, factor) if until > now => 1.0 / f64::from(factor),
            _ => 1.0,
        }
    }

    pub(crate) fn connect(&mut self) {
        self.open += 1;
        self.open_max = self.open_max.max(self.open);
    }

    /// A connection to `process` is closed.
    pub(crate) fn disconnect(&mut self, process: u32) {
        if process == self.process {
            self.open -= 1;
        }
    }

    /// Something goes in.
    pub(crate) fn enter(&mut self) {
        self.inside += 1;
        self.inside_max = self.inside_max.max(self.inside);
    }

    /// Something inside `process` was given up; it goes on all the same.
    pub(crate) fn orphan(&mut self, process: u32) {
        if process == self.process {
            self.orphans += 1;
        }
    }

    pub(crate) fn has_orphans(&self) -> bool {
        self.orphans > 0
    }

    /// Something that was given up has ended.
    pub(crate) fn end_orphan(&mut self) {
        self.orphans -= 1;
    }

    /// Something that went into `process` comes out.
    pub(crate) fn leave(&mut self, process: u32) {
        if process == self.process {
            self.inside -= 1;
        }
    }
}
