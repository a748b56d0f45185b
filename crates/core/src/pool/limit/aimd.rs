//! One more for each round of answers that go well, nine tenths of it when one does not.
//!
//! Additive increase, multiplicative decrease (Chiu and Jain 1989), with the numbers of Netflix's
//! concurrency-limits (`AIMDLimit`): nine tenths, and no increase while less than half of the limit
//! is used. Ours differs: the floor is the user's and not 20, it begins at the ceiling, one more is
//! for a limit's worth of answers and not for each, and of the exchanges that were in the worker
//! together only the first that goes wrong cuts, for the others say nothing of the new limit.
//!
//! It knows nothing of times: for workers that say no, or do not answer in time, when they have too
//! much.

use crate::time::Instant;

use super::{Answer, Bounds, Went, back_off};

/// The limit of one worker.
#[derive(Debug)]
pub(crate) struct Aimd {
    limit: u32,
    /// When it was cut last. What was granted before says nothing of it.
    cut: Instant,
    /// Answers since the last change.
    answers: u32,
}

impl Aimd {
    pub(super) fn new(max: u32, now: Instant) -> Self {
        Aimd { limit: max, cut: now, answers: 0 }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn hear(&mut self, answer: Answer, bounds: Bounds, now: Instant) {
        match answer.went {
            Went::Overload if answer.granted >= self.cut => {
                self.limit = back_off(self.limit, bounds.min);
                (self.cut, self.answers) = (now, 0);
            }
            Went::Overload => {}
            Went::Well(_) => self.answered(answer, bounds),
        }
    }

    fn answered(&mut self, answer: Answer, bounds: Bounds) {
        self.answers += 1;
        if self.answers < self.limit {
            return;
        }
        self.answers = 0;
        if answer.inside * 2 >= self.limit {
            self.limit = (self.limit + 1).min(bounds.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::Limit;

    use super::*;

    const BOUNDS: Bounds = Bounds { by: Limit::Aimd, min: 2, max: 16 };

    /// Exchanges in a worker that held so many: when each was granted and came back, and whether
    /// it went well.
    #[track_caller]
    fn check(exchanges: &[(u64, u64, u32, bool)], expected: u32) {
        let mut aimd = Aimd::new(BOUNDS.max, Instant::ZERO);
        for (granted, now, inside, well) in exchanges {
            let went = if *well { Went::Well(None) } else { Went::Overload };
            let granted = Instant::from_millis(*granted);
            let answer = Answer { granted, inside: *inside, wanted: false, went };
            aimd.hear(answer, BOUNDS, Instant::from_millis(*now));
        }
        assert_eq!(aimd.limit(), expected, "{exchanges:?}");
    }

    #[test]
    fn an_overload_cuts_once_for_all_that_were_inside_together() {
        check(&[], 16);
        check(&[(0, 10, 16, false)], 14);
        check(&[(0, 10, 16, false), (5, 11, 16, false), (9, 12, 16, false)], 14);
        check(&[(0, 10, 16, false), (10, 20, 16, false)], 12);
        check(&[(0, 10, 16, false), (11, 20, 16, false)], 12);
    }

    #[test]
    fn it_never_falls_below_the_floor() {
        let all: Vec<_> = (0..40).map(|at| (at * 10 + 5, at * 10 + 9, 16, false)).collect();
        check(&all, 2);
    }

    #[test]
    fn a_limits_worth_of_answers_is_one_more_if_it_is_used() {
        let answers = |count: usize, inside| {
            let mut all = vec![(0, 10, 16, false)];
            all.extend(std::iter::repeat_n((20, 30, inside, true), count));
            all
        };
        check(&answers(13, 14), 14);
        check(&answers(14, 14), 15);
        check(&answers(14 + 15, 14), 16);
        check(&answers(100, 16), 16);
        check(&answers(100, 6), 14);
    }
}
