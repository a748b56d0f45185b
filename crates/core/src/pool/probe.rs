//! When a worker is asked whether it can serve, and what the answers mean.
//!
//! At most one question per worker runs at a time, a plain consequence of [`Running`]. An answer
//! counts only when nothing happened to the worker since the question: one that was asked before a
//! fault, or to an earlier process, says nothing of what is there now.
//!
//! When more than half of the workers that were in fail their probes together, it is more likely
//! the asking that is broken than the workers: see [`is_asking_broken`]. The rule is Envoy's panic
//! threshold (50 %), applied to probes alone: what exchanges met themselves is not overruled.

use crate::time::Instant;

use super::{OutReason, State, Worker};

/// The questions to one worker.
#[derive(Debug)]
pub(crate) struct Probing {
    /// When to ask next.
    pub(crate) due: Instant,
    /// It is ejected until then, and not asked before.
    pub(crate) not_before: Instant,
    /// A question is due, and waits for a slot or for room for its connection.
    pub(crate) waiting: bool,
    /// Failed answers in a row while the worker was in.
    fails: u8,
    /// Its probes fail, and it was in when they began to.
    pub(crate) failing: bool,
    running: Running,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    No,
    Yes,
    /// The worker changed since it was asked: the answer will not count.
    Outdated,
}

impl Default for Probing {
    fn default() -> Self {
        Probing {
            due: Instant::FAR_FUTURE,
            not_before: Instant::ZERO,
            waiting: false,
            fails: 0,
            failing: false,
            running: Running::No,
        }
    }
}

impl Probing {
    /// Is a question under way?
    pub(crate) fn is_running(&self) -> bool {
        self.running != Running::No
    }

    /// The question waits until a slot or room for its connection comes free.
    pub(crate) fn wait(&mut self) {
        self.waiting = true;
        self.due = Instant::FAR_FUTURE;
    }

    /// It is to be asked at once, however long it should have stayed out.
    pub(crate) fn recall(&mut self, now: Instant) {
        self.not_before = Instant::ZERO;
        if !self.is_running() {
            self.due = now;
        }
    }

    /// A question is sent.
    pub(crate) fn start(&mut self) {
        self.running = Running::Yes;
        self.waiting = false;
        self.due = Instant::FAR_FUTURE;
    }

    /// The answer came: does it count?
    pub(crate) fn finish(&mut self) -> bool {
        std::mem::replace(&mut self.running, Running::No) == Running::Yes
    }

    /// The worker changed: an answer under way counts no more, and a question that waited is moot.
    pub(crate) fn outdate(&mut self) {
        self.waiting = false;
        if self.running == Running::Yes {
            self.running = Running::Outdated;
        }
    }

    /// The worker answered well, or is a new process.
    pub(crate) fn clear_fails(&mut self) {
        self.fails = 0;
        self.failing = false;
    }

    /// A worker that is in did not answer well; `fall` such answers in a row make it failing.
    pub(crate) fn failed(&mut self, fall: u8) {
        self.fails = self.fails.saturating_add(1);
        self.failing |= self.fails >= fall.max(1);
    }
}

/// Do more than half of the workers that were in before their probes failed, fail together?
pub(crate) fn is_asking_broken(workers: &[Worker]) -> bool {
    let failing = workers.iter().filter(|worker| worker.probing.failing).count();
    let in_before = |worker: &&Worker| worker.probing.failing || worker.base == State::Up;
    failing * 2 > workers.iter().filter(in_before).count()
}

/// The state that its probes alone would give a worker; none: they change nothing.
pub(crate) fn verdict(worker: &Worker, asking_broken: bool) -> Option<State> {
    match worker.base {
        State::Up if worker.probing.failing && !asking_broken => Some(State::Out(OutReason::Probe)),
        State::Out(OutReason::Probe) if asking_broken => Some(State::Up),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::id::WorkerId;

    use super::*;

    #[test]
    fn an_answer_counts_only_if_nothing_happened_since_the_question() {
        let mut probing = Probing::default();
        probing.start();
        assert!(probing.is_running() && probing.finish());
        probing.start();
        probing.outdate();
        assert!(probing.is_running() && !probing.finish());
        assert!(!probing.is_running());
    }

    #[test]
    fn the_last_known_state_stays_when_most_fail_together() {
        let check = |failing: usize, up: usize, expected: bool| {
            let worker = |id: usize| {
                let mut worker = Worker::new(WorkerId(id as u32), false, Instant::ZERO);
                worker.base = if id < up { State::Up } else { State::Down };
                worker.probing.failing = id < failing;
                worker
            };
            let workers: Vec<_> = (0..10).map(worker).collect();
            assert_eq!(is_asking_broken(&workers), expected, "{failing} of {up}");
        };
        check(0, 0, false);
        check(1, 1, true);
        check(1, 2, false);
        check(2, 2, true);
        check(5, 10, false);
        check(6, 10, true);
    }
}
