//! The spill folders: scripts, and crowds of which each body would fit alone.

use super::*;

#[test]
fn a_known_length_is_counted_at_once_and_waits_for_its_turn() {
    check(
        &mut budget(1000, 100),
        &[
            (Line::Charge(1, 700, SpillWhole), &[Granted(BodyId(1))]),
            (Wait(2, 700, SpillWhole), &[]),
            (Wait(3, 100, SpillWhole), &[]),
            (Line::Charge(4, 1, SpillGrowth), &[Full(BodyId(4))]),
            (Wait(5, 1001, SpillWhole), &[Shed(BodyId(5))]),
            (CloseSpilled(1, 700), &[Granted(BodyId(2)), Granted(BodyId(3))]),
            (Line::Charge(4, 200, SpillGrowth), &[Granted(BodyId(4))]),
            (Wait(6, 100, SpillWhole), &[]),
            (ReturnSpill(100), &[Granted(BodyId(6))]),
        ],
    );
}

#[test]
fn who_waits_too_long_for_the_disk_is_shed() {
    check(
        &mut budget(1000, 100),
        &[
            (Line::Charge(1, 700, SpillWhole), &[Granted(BodyId(1))]),
            (Wait(2, 400, SpillWhole), &[]),
            (Wait(3, 300, SpillWhole), &[]),
            (Second(4), &[]),
            (Second(5), &[Shed(BodyId(2)), Shed(BodyId(3))]),
        ],
    );
}

#[test]
fn who_holds_something_comes_before_who_holds_nothing() {
    check(
        &mut budget(1000, 100),
        &[
            (Line::Charge(2, 300, SpillStep), &[Granted(BodyId(2))]),
            (Line::Charge(3, 500, SpillWhole), &[Granted(BodyId(3))]),
            (Wait(1, 300, SpillWhole), &[]),
            (Wait(2, 200, SpillStep), &[Granted(BodyId(2))]),
            (Wait(2, 200, SpillStep), &[]),
            (CloseSpilled(3, 500), &[Granted(BodyId(2)), Granted(BodyId(1))]),
        ],
    );
}

#[test]
fn the_youngest_gives_way_to_the_oldest_when_nothing_else_can() {
    check(
        &mut budget(1000, 100),
        &[
            (Line::Charge(1, 400, SpillStep), &[Granted(BodyId(1))]),
            (Line::Charge(2, 300, SpillStep), &[Granted(BodyId(2))]),
            (Line::Charge(3, 300, SpillStep), &[Granted(BodyId(3))]),
            (Wait(3, 100, SpillStep), &[]),
            (Wait(1, 100, SpillStep), &[]),
            // The last that could end by itself: from here on all three wait for each other.
            (Wait(2, 100, SpillStep), &[Shed(BodyId(3))]),
            (CloseSpilled(3, 300), &[Granted(BodyId(1)), Granted(BodyId(2))]),
            (Wait(1, 200, SpillStep), &[]),
            // What a body that is whole holds comes back by itself: it is waited for.
            (Complete(2), &[]),
            (CloseSpilled(2, 400), &[Granted(BodyId(1))]),
            (Wait(1, 400, SpillStep), &[Shed(BodyId(1))]),
        ],
    );
}

/// A crowd of uploads without waits that are too long, in which each body would fit alone.
struct Crowd {
    budget: Budget,
    rng: Rng,
    /// Length, whether it is known, what is charged, what is wanted.
    bodies: Vec<Upload>,
}

#[derive(Clone, Copy, Debug)]
struct Upload {
    len: u64,
    is_known: bool,
    charged: u64,
    wanted: u64,
    end: Option<bool>,
}

const DISK: u64 = 1000;
const STEP: u64 = 50;

impl Crowd {
    fn new(seed: u64) -> Crowd {
        let mut rng = Rng::new(seed);
        let bodies = (0..2 + rng.below(8)).map(|_| Upload {
            len: 1 + rng.below(DISK),
            is_known: rng.below(3) == 0,
            charged: 0,
            wanted: 0,
            end: None,
        });
        let bodies = bodies.collect();
        Crowd { budget: budget(1000, 100), rng, bodies }
    }

    /// Random turns until all have ended; returns who finished.
    fn run(mut self) -> Vec<usize> {
        let mut turns = 0;
        while self.bodies.iter().any(|body| body.end.is_none()) {
            turns += 1;
            assert!(turns < 100_000, "they wait for each other: {:?}", self.bodies);
            let index = self.rng.below(self.bodies.len() as u64) as usize;
            if self.bodies[index].end.is_none() && self.bodies[index].wanted == 0 {
                self.turn(index);
            }
            while let Some(output) = self.budget.poll_output() {
                self.hear(output);
            }
            self.budget.check_invariants();
        }
        assert_eq!(self.budget.view().spilled, ByteSize::ZERO);
        let finished = (0..self.bodies.len()).filter(|index| self.bodies[*index].end == Some(true));
        finished.collect()
    }

    fn turn(&mut self, index: usize) {
        let body = &mut self.bodies[index];
        if body.charged >= body.len {
            return self.close(index, true);
        }
        let (bytes, purpose) = match body.is_known {
            true => (body.len, SpillWhole),
            false => (STEP.min(DISK - body.charged), SpillStep),
        };
        body.wanted = bytes;
        let charge =
            Charge { body: BodyId(index as u64), bytes: ByteSize::from_kib(bytes), purpose };
        self.budget.handle(Input::Wait(charge), Instant::ZERO);
    }

    fn hear(&mut self, output: Output) {
        let index = output.body().0 as usize;
        match output {
            Granted(_) => {
                let body = &mut self.bodies[index];
                body.charged += std::mem::take(&mut body.wanted);
            }
            Shed(_) => self.close(index, false),
            Full(_) => panic!("who waits is not told full"),
        }
    }

    fn close(&mut self, index: usize, finished: bool) {
        self.bodies[index].end = Some(finished);
        let input = Input::Close {
            body: BodyId(index as u64),
            side: Intake,
            bytes: ByteSize::ZERO,
            spilled: ByteSize::from_kib(self.bodies[index].charged),
        };
        self.budget.handle(input, Instant::ZERO);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nobody waits for ever, known lengths are all served, and the oldest that grows always is.
    #[test]
    fn uploads_do_not_shed_one_another_to_the_last(seed in any::<u64>()) {
        let crowd = Crowd::new(seed);
        let known: Vec<bool> = crowd.bodies.iter().map(|body| body.is_known).collect();
        let finished = crowd.run();
        let oldest = known.iter().position(|is_known| !is_known);
        for (index, is_known) in known.iter().enumerate() {
            if *is_known || Some(index) == oldest {
                prop_assert!(finished.contains(&index), "{index} of {known:?}: {finished:?}");
            }
        }
    }
}
