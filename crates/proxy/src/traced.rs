//! A gate of which everything may be recorded.
//!
//! The same calls as a gate's, in the same lock, so that a recording has them in the order in which
//! they were made; `spillgate sim --replay` makes them again. Without a recording it costs one
//! comparison. Absent: the file (`runtime::events::Recording`).

use std::fmt;

use spillgate_core::gate::trace::TraceWriter;
use spillgate_core::gate::{Class, Gate, Input, Output, Reason, Settings, Tried, View};
use spillgate_core::id::{Ticket, WorkerId};
use spillgate_core::time::{Duration, Instant};
use spillgate_runtime::events::{self, Recording};

/// A gate, and the recording of it.
pub(crate) struct Traced {
    gate: Gate,
    born: Instant,
    trace: Option<TraceWriter<Recording>>,
    /// The recording had to end. It is dropped later, for that may take the time of a disk.
    ended: bool,
}

impl Traced {
    pub(crate) fn new(settings: Settings, now: Instant) -> Traced {
        Traced { gate: Gate::new(settings, now), born: now, trace: None, ended: false }
    }

    /// Record from here on. The gate was told nothing before.
    pub(crate) fn record(&mut self, settings: &Settings, recording: Recording) -> fmt::Result {
        self.trace = Some(TraceWriter::begin(recording, settings, self.born)?);
        Ok(())
    }

    /// The recording, which ends when it is dropped: not in the lock.
    pub(crate) fn end_record(&mut self) -> Option<TraceWriter<Recording>> {
        self.trace.take()
    }

    pub(crate) fn handle(&mut self, input: Input, now: Instant) {
        self.note(|trace| trace.input(&input, now));
        self.gate.handle(input, now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.note(|trace| trace.timeout(now));
        self.gate.handle_timeout(now);
    }

    pub(crate) fn view(&mut self, now: Instant) -> View {
        self.note(|trace| trace.view(now));
        self.gate.view(now)
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        let output = self.gate.poll_output()?;
        if let Some(trace) = &mut self.trace
            && !self.ended
        {
            // Memory takes everything; what follows is another part.
            let _ = trace.output(&output);
        }
        Some(output)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.gate.poll_timeout()
    }

    pub(crate) fn is_in_line(&self, ticket: Ticket) -> bool {
        self.gate.is_in_line(ticket)
    }

    pub(crate) fn is_better_elsewhere(&self, worker: WorkerId, tried: &Tried) -> bool {
        self.gate.is_better_elsewhere(worker, tried)
    }

    pub(crate) fn shut(&self, class: Class) -> Option<(Reason, Option<Duration>)> {
        self.gate.shut(class)
    }

    /// Note what the gate is told, unless the recording has to end before it.
    fn note(&mut self, write: impl FnOnce(&mut TraceWriter<Recording>) -> fmt::Result) {
        let Some(trace) = &mut self.trace else { return };
        if self.ended {
            return;
        }
        match trace.sink().begin_part() {
            Ok(()) => {
                let _ = write(trace);
            }
            Err(end) => {
                events::warn("trace", format_args!("the recording has ended: {end}"));
                self.ended = true;
            }
        }
    }
}
