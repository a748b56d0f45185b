//! What is learned of limits, from the permits that come back.
//!
//! Absent: the limits (`pool/limit`), and anything at all where they are fixed.

use crate::pool::{Answer, Went};
use crate::stats::octave::Octaves;
use crate::time::Duration;

use super::permits::Held;
use super::{Gate, Outcome};

impl Gate {
    /// What an exchange says of how many its worker, at `index`, can hold well; its permit is of
    /// the present process, and counted as out. `time` is what it took, where it went well.
    pub(super) fn learn_limit(
        &mut self,
        index: usize,
        held: &Held,
        (time, outcome): (Option<Duration>, Outcome),
    ) {
        let worker = self.pool.worker(index);
        let Some(learned) = &worker.learned else { return };
        let (level, inside) = (learned.level(), worker.in_flight);
        let went = match time {
            _ if outcome == Outcome::Overload => Went::Overload,
            None => return,
            Some(time) => self.went(held, time, level),
        };
        let wanted = !self.queue.is_empty();
        let answer = Answer { granted: held.granted, inside, wanted, went };
        self.pool.learn(index, answer, self.now);
    }

    fn went(&mut self, held: &Held, time: Duration, level: Option<Octaves>) -> Went {
        match level {
            Some(level) => Went::Well(self.answers.beside_usual(held.kind, time, level)),
            None if self.answers.is_too_late(time) => Went::Overload,
            None => Went::Well(None),
        }
    }
}
