//! The four that have a say in whether a worker gets exchanges, and the worst of them.
//!
//! Probes, what exchanges met (passive), whoever runs the worker (admin), and its agent: each is
//! shown for itself, because a worker that gets nothing is mended by whoever knows which of them
//! holds it. The worst counts: an agent that says `up` cannot overrule a probe that fails, as it
//! could where each overwrites the others.

use super::{OutReason, State};

/// The state that each of the four alone would give a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// Questions that we ask.
    pub probe: State,
    /// What exchanges met.
    pub passive: State,
    /// The supervisor's or an operator's word.
    pub admin: State,
    /// What its agent said.
    pub agent: State,
}

impl Signs {
    /// Those of a worker that probes, exchanges and whoever runs it have brought into the state
    /// `base`, with its agent's verdict.
    pub(super) fn of(base: State, supervised: bool, agent: State) -> Self {
        let (mut probe, mut passive, mut admin) = (State::Up, State::Up, State::Up);
        match base {
            State::Up => {}
            State::Starting if !supervised => probe = base,
            State::Out(OutReason::Probe) => probe = base,
            State::Out(_) => passive = base,
            State::Starting | State::Draining | State::Down => admin = base,
        }
        Signs { probe, passive, admin, agent }
    }

    /// What the worker is treated as.
    pub(crate) fn worst(&self) -> State {
        let others = [self.probe, self.passive, self.agent];
        others.into_iter().fold(self.admin, |worst, state| match rank(state) > rank(worst) {
            true => state,
            false => worst,
        })
    }
}

/// The farther from getting exchanges, the higher.
fn rank(state: State) -> u8 {
    match state {
        State::Up => 0,
        State::Draining => 1,
        State::Starting => 2,
        State::Out(OutReason::Maint) => 4,
        State::Out(_) => 3,
        State::Down => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts() {
        let check = |base, agent, expected| {
            assert_eq!(Signs::of(base, false, agent).worst(), expected, "{base:?}, {agent:?}");
        };
        let out = State::Out;
        check(State::Up, State::Up, State::Up);
        check(State::Up, State::Draining, State::Draining);
        check(out(OutReason::Probe), State::Up, out(OutReason::Probe));
        check(out(OutReason::Reset), out(OutReason::Agent), out(OutReason::Reset));
        check(State::Up, out(OutReason::Agent), out(OutReason::Agent));
        check(out(OutReason::Reset), out(OutReason::Maint), out(OutReason::Maint));
        check(State::Starting, State::Draining, State::Starting);
        check(State::Down, out(OutReason::Maint), State::Down);
    }

    #[test]
    fn each_is_told_from_the_others() {
        let signs = |base, supervised| Signs::of(base, supervised, State::Up);
        assert_eq!(signs(State::Starting, false).probe, State::Starting);
        assert_eq!(signs(State::Starting, true).admin, State::Starting);
        let out = State::Out(OutReason::Ejected);
        assert_eq!((signs(out, true).passive, signs(out, true).probe), (out, State::Up));
    }
}
