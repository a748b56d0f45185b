//! A simulated worker: a process that may be gone, hang, or refuse, and what is inside it.
//!
//! It keeps books of its own (inside, open), so that a promise of the gate is checked against what
//! a worker saw and not against what the gate believes. Absent: service times, which the world
//! draws.

use spillgate_core::time::Instant;

/// What a worker's process does with an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Nothing listens: connections are refused.
    Gone,
    /// It serves.
    Serving,
    /// It accepts and does not answer until then.
    Hanging(Instant),
    /// It answers that it cannot take more, until then.
    Refusing(Instant),
}

/// A simulated worker.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Counts its processes.
    pub(crate) process: u32,
    mood: Mood,
    /// Exchanges and probes inside the present process.
    inside: u32,
    /// The most that were ever inside one process.
    pub(crate) inside_max: u32,
    /// Connections that the present process sees.
    open: u32,
    /// The most that a process ever saw.
    pub(crate) open_max: u32,
    pub(crate) served: u64,
}

impl Worker {
    pub(crate) fn new() -> Self {
        let mood = Mood::Gone;
        Worker { process: 0, mood, inside: 0, inside_max: 0, open: 0, open_max: 0, served: 0 }
    }

    pub(crate) fn mood(&self, now: Instant) -> Mood {
        match self.mood {
            Mood::Hanging(until) | Mood::Refusing(until) if until <= now => Mood::Serving,
            mood => mood,
        }
    }

    /// A new process serves.
    pub(crate) fn start(&mut self) {
        self.process += 1;
        (self.mood, self.inside, self.open) = (Mood::Serving, 0, 0);
    }

    /// The process ends.
    pub(crate) fn end(&mut self) {
        self.process += 1;
        (self.mood, self.inside, self.open) = (Mood::Gone, 0, 0);
    }

    /// Nothing shortens a hang, and nobody who is gone has a mood.
    pub(crate) fn set_mood(&mut self, mood: Mood, now: Instant) {
        match (self.mood(now), mood) {
            (Mood::Gone, _) => {}
            (Mood::Hanging(until), Mood::Hanging(later)) if until < later => self.mood = mood,
            (Mood::Hanging(_), _) => {}
            _ => self.mood = mood,
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

    /// Something that went into `process` comes out.
    pub(crate) fn leave(&mut self, process: u32) {
        if process == self.process {
            self.inside -= 1;
        }
    }
}
