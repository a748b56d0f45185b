//! Scripts of inputs and answers, and random worlds in which every body has to come to its end.

mod disk;

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

const KIB: u64 = 1024;

fn budget(memory_kib: u64, body_kib: u64) -> Budget {
    Budget::new(&Settings {
        memory_max: ByteSize::from_kib(memory_kib),
        body_memory_max: ByteSize::from_kib(body_kib),
        body_wait_max: Duration::from_secs(5),
        spill_max: ByteSize::from_kib(1000),
    })
}

/// One line of a script: what is asked, and every answer that it brings out.
enum Line {
    /// Now or not at all: body, KiB.
    Charge(u64, u64, Purpose),
    /// Waiting: body, KiB.
    Wait(u64, u64, Purpose),
    Complete(u64),
    Return(Side, u64),
    Close(u64, Side, u64),
    /// What it held in the spill folders alone.
    CloseSpilled(u64, u64),
    ReturnSpill(u64),
    /// What the kernel holds for a client: before, after, KiB.
    Sockets(u64, u64),
    /// Time passes, to this second.
    Second(u64),
}

use Line::{Close, CloseSpilled, Complete, Return, ReturnSpill, Second, Sockets, Wait};
use Output::{Full, Granted, Shed};
use Purpose::{Growth, Spare, SpillGrowth, SpillStep, SpillWhole, Stage, Step, Whole, Window};
use Side::{Collect, Intake};

fn check(budget: &mut Budget, script: &[(Line, &[Output])]) {
    let mut now = Instant::ZERO;
    for (number, (line, expected)) in script.iter().enumerate() {
        let charge = |body: u64, kib: u64, purpose: Purpose| Charge {
            body: BodyId(body),
            bytes: ByteSize::from_kib(kib),
            purpose,
        };
        let input = match *line {
            Line::Charge(body, kib, purpose) => Input::Charge(charge(body, kib, purpose)),
            Wait(body, kib, purpose) => Input::Wait(charge(body, kib, purpose)),
            Complete(body) => Input::Complete(BodyId(body)),
            Return(side, kib) => Input::Return { side, bytes: ByteSize::from_kib(kib) },
            Close(body, side, kib) => {
                let (bytes, spilled) = (ByteSize::from_kib(kib), ByteSize::ZERO);
                Input::Close { body: BodyId(body), side, bytes, spilled }
            }
            CloseSpilled(body, kib) => {
                let (bytes, spilled) = (ByteSize::ZERO, ByteSize::from_kib(kib));
                Input::Close { body: BodyId(body), side: Intake, bytes, spilled }
            }
            ReturnSpill(kib) => Input::ReturnSpill { bytes: ByteSize::from_kib(kib) },
            Sockets(before, after) => Input::Sockets {
                before: ByteSize::from_kib(before),
                after: ByteSize::from_kib(after),
            },
            Second(second) => {
                now = Instant::from_millis(second * 1000);
                budget.handle_timeout(now);
                let answers: Vec<Output> = std::iter::from_fn(|| budget.poll_output()).collect();
                assert_eq!(answers, *expected, "line {number}");
                continue;
            }
        };
        budget.handle(input, now);
        budget.check_invariants();
        let answers: Vec<Output> = std::iter::from_fn(|| budget.poll_output()).collect();
        assert_eq!(answers, *expected, "line {number}");
    }
}

#[test]
fn intake_may_hold_seven_tenths_and_collect_finds_the_rest() {
    check(
        &mut budget(1000, 1000),
        &[
            (Line::Charge(1, 700, Whole), &[Granted(BodyId(1))]),
            (Line::Charge(2, 1, Whole), &[Full(BodyId(2))]),
            (Line::Charge(3, 64, Window), &[Granted(BodyId(3))]),
            (Line::Charge(3, 136, Growth), &[Granted(BodyId(3))]),
            (Line::Charge(3, 1, Growth), &[Full(BodyId(3))]),
            (Line::Charge(4, 64, Window), &[Granted(BodyId(4))]),
        ],
    );
}

#[test]
fn sockets_take_a_fifth_and_neither_intakes_share_nor_the_windows() {
    check(
        &mut budget(1000, 1000),
        &[
            (Sockets(0, 5000), &[]),
            (Line::Charge(1, 700, Whole), &[Granted(BodyId(1))]),
            (Line::Charge(2, 64, Window), &[Granted(BodyId(2))]),
            (Line::Charge(2, 1, Growth), &[Full(BodyId(2))]),
            (Line::Charge(3, 236, Window), &[Granted(BodyId(3))]),
            (Close(3, Collect, 236), &[]),
            (Sockets(5000, 100), &[]),
            (Line::Charge(2, 36, Growth), &[Granted(BodyId(2))]),
            (Line::Charge(2, 1, Growth), &[Full(BodyId(2))]),
        ],
    );
}

#[test]
fn what_sockets_give_back_goes_to_who_waits() {
    check(
        &mut budget(1000, 700),
        &[
            (Line::Charge(1, 64, Window), &[Granted(BodyId(1))]),
            (Line::Charge(1, 400, Growth), &[Granted(BodyId(1))]),
            (Sockets(0, 200), &[]),
            (Wait(2, 300, Whole), &[]),
            (Sockets(200, 50), &[Granted(BodyId(2))]),
        ],
    );
}

#[test]
fn a_promised_step_is_given_whatever_sockets_hold() {
    check(
        &mut budget(1000, 600),
        &[
            (Wait(1, 16, Step), &[Granted(BodyId(1))]),
            (Line::Charge(2, 250, Window), &[Granted(BodyId(2))]),
            (Sockets(0, 900), &[]),
            (Wait(1, 600, Step), &[Granted(BodyId(1))]),
        ],
    );
}

#[test]
fn waiters_are_served_by_age_and_no_younger_one_slips_by() {
    check(
        &mut budget(1000, 700),
        &[
            (Line::Charge(1, 600, Whole), &[Granted(BodyId(1))]),
            (Wait(3, 200, Whole), &[]),
            (Wait(2, 300, Whole), &[]),
            (Wait(4, 10, Whole), &[]),
            (Line::Charge(5, 10, Whole), &[Full(BodyId(5))]),
            (Line::Charge(6, 10, Growth), &[Full(BodyId(6))]),
            (Close(1, Intake, 600), &[Granted(BodyId(2)), Granted(BodyId(3)), Granted(BodyId(4))]),
        ],
    );
}

#[test]
fn who_waits_too_long_is_shed_and_lets_the_next_one_through() {
    check(
        &mut budget(1000, 700),
        &[
            (Line::Charge(1, 600, Whole), &[Granted(BodyId(1))]),
            (Wait(2, 300, Whole), &[]),
            (Second(4), &[]),
            (Wait(3, 100, Whole), &[]),
            (Second(5), &[Shed(BodyId(2)), Granted(BodyId(3))]),
            (Wait(4, 701, Whole), &[Shed(BodyId(4))]),
        ],
    );
}

#[test]
fn the_oldest_growing_body_finds_room_to_finish() {
    check(
        &mut budget(1000, 600),
        &[
            (Wait(1, 16, Step), &[Granted(BodyId(1))]),
            (Wait(2, 16, Step), &[Granted(BodyId(2))]),
            (Wait(2, 90, Step), &[]),
            (Wait(3, 16, Whole), &[]),
            (Wait(1, 584, Step), &[Granted(BodyId(1))]),
            (Complete(1), &[]),
            (Close(1, Intake, 600), &[Granted(BodyId(2)), Granted(BodyId(3))]),
        ],
    );
}

#[test]
fn bytes_that_could_spill_leave_the_rest_of_the_share_to_stages() {
    check(
        &mut budget(1000, 1000),
        &[
            (Line::Charge(1, 350, Spare(Intake)), &[Granted(BodyId(1))]),
            (Line::Charge(2, 1, Spare(Intake)), &[Full(BodyId(2))]),
            (Line::Charge(2, 16, Whole), &[Granted(BodyId(2))]),
            (Line::Charge(3, 100, Spare(Collect)), &[Granted(BodyId(3))]),
            (Line::Charge(3, 1, Spare(Collect)), &[Full(BodyId(3))]),
            (Return(Collect, 10), &[]),
            (Line::Charge(3, 10, Spare(Collect)), &[Granted(BodyId(3))]),
            (Line::Charge(3, 100, Stage), &[Granted(BodyId(3))]),
            (Line::Charge(3, 1, Stage), &[Full(BodyId(3))]),
        ],
    );
}

#[test]
fn memory_is_short_for_a_side_that_would_be_refused_a_block() {
    // Held by each side in KiB of 1000, and for which of them memory is short then.
    for (intake, collect, expected) in [
        (0, 0, [false, false]),
        (286, 36, [false, false]),
        (287, 36, [true, false]),
        (286, 37, [false, true]),
        (0, 836, [false, true]),
        (0, 837, [true, true]),
    ] {
        let mut budget = budget(1000, 1000);
        check(
            &mut budget,
            &[
                (Line::Charge(1, intake, Whole), &[Granted(BodyId(1))]),
                (Line::Charge(2, collect, Window), &[Granted(BodyId(2))]),
            ],
        );
        let short = [Intake, Collect].map(|side| budget.is_short(side));
        assert_eq!(short, expected, "{intake} {collect}");
    }
}

#[test]
fn a_window_is_told_no_when_there_is_nothing_at_all() {
    check(
        &mut budget(100, 100),
        &[
            (Line::Charge(1, 64, Window), &[Granted(BodyId(1))]),
            (Line::Charge(2, 64, Window), &[Full(BodyId(2))]),
            (Close(1, Collect, 64), &[]),
            (Line::Charge(2, 64, Window), &[Granted(BodyId(2))]),
        ],
    );
}

/// Where a body of the random world is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Its client sends.
    Receiving,
    /// It waits for the budget.
    Waiting,
    /// It is whole; a worker has it for so many more steps.
    Serving(u64),
    /// Its response comes: so many KiB are left.
    Responding(u64),
    Gone,
}

#[derive(Debug)]
struct Body {
    id: BodyId,
    len: u64,
    known: bool,
    charged: u64,
    received: u64,
    wanted: u64,
    response: u64,
    phase: Phase,
    shed: bool,
}

struct World {
    rng: Rng,
    budget: Budget,
    bodies: Vec<Body>,
    now: Instant,
    patient: bool,
}

/// The largest body of the random world, and all that intake may hold there.
const BODY_MAX: u64 = 128 * KIB;

impl World {
    /// A budget in which one body of the largest size fits, and some bodies that want it.
    fn new(seed: u64, patient: bool) -> World {
        let mut rng = Rng::new(seed);
        let wait = if patient { Duration::from_secs(1 << 32) } else { Duration::from_millis(50) };
        let budget = Budget::new(&Settings {
            memory_max: ByteSize::from_bytes(BODY_MAX * 10 / 7 + 1),
            body_memory_max: ByteSize::from_bytes(BODY_MAX),
            body_wait_max: wait,
            spill_max: ByteSize::ZERO,
        });
        let bodies = (0..2 + rng.below(30))
            .map(|number| Body {
                id: BodyId(number),
                len: 1 + rng.below(BODY_MAX),
                known: rng.below(2) == 0,
                charged: 0,
                received: 0,
                wanted: 0,
                response: 0,
                phase: Phase::Receiving,
                shed: false,
            })
            .collect();
        World { rng, budget, bodies, now: Instant::ZERO, patient }
    }

    fn run(mut self) {
        for _ in 0..400_000 {
            let alive: Vec<usize> = (0..self.bodies.len())
                .filter(|index| self.bodies[*index].phase != Phase::Gone)
                .collect();
            if alive.is_empty() {
                return self.check_end();
            }
            self.now = self.now + Duration::from_micros(self.rng.below(500));
            let index = alive[self.rng.below(alive.len() as u64) as usize];
            self.step(index);
            self.take_answers();
            if self.budget.poll_timeout().is_some_and(|until| until <= self.now) {
                self.budget.handle_timeout(self.now);
                self.take_answers();
            }
            self.check_sums();
        }
        panic!("bodies that never end: {:?}", self.bodies);
    }

    fn step(&mut self, index: usize) {
        // Clients leave, but not one that waits in a patient world: it would hide a deadlock.
        let stays = self.patient && self.bodies[index].phase == Phase::Waiting;
        if self.rng.below(500) == 0 && !stays {
            return self.close(index);
        }
        let pace = 1 + self.rng.below(20 * KIB);
        let body = &mut self.bodies[index];
        match body.phase {
            Phase::Receiving if body.received == body.len => {
                body.phase = Phase::Serving(self.rng.below(20));
                let id = body.id;
                self.budget.handle(Input::Complete(id), self.now);
            }
            Phase::Receiving if body.received < body.charged => {
                body.received = body.len.min(body.charged).min(body.received + pace);
            }
            Phase::Receiving => self.ask(index),
            Phase::Waiting => {}
            Phase::Serving(0) => self.open_window(index),
            Phase::Serving(steps) => body.phase = Phase::Serving(steps - 1),
            Phase::Responding(0) => self.close(index),
            Phase::Responding(left) => self.respond(index, left, pace),
            Phase::Gone => unreachable!("the dead take no steps"),
        }
    }

    fn ask(&mut self, index: usize) {
        let body = &mut self.bodies[index];
        body.phase = Phase::Waiting;
        let (wanted, purpose) = match body.known {
            true => (body.len, Whole),
            false => ((16 * KIB).min(BODY_MAX - body.charged), Step),
        };
        body.wanted = wanted;
        let (body, bytes) = (body.id, ByteSize::from_bytes(wanted));
        self.budget.handle(Input::Wait(Charge { body, bytes, purpose }), self.now);
    }

    fn open_window(&mut self, index: usize) {
        let id = BodyId(self.bodies[index].id.0 + 1000);
        let charge = Charge { body: id, bytes: COLLECT_WINDOW, purpose: Window };
        self.budget.handle(Input::Charge(charge), self.now);
        // A window that is not free is a relay: the response goes on without memory.
        if self.answer_of(id) == Granted(id) {
            self.bodies[index].response = COLLECT_WINDOW.as_bytes();
        }
        self.bodies[index].phase = Phase::Responding(self.rng.below(300) * KIB);
    }

    fn respond(&mut self, index: usize, left: u64, pace: u64) {
        let id = BodyId(self.bodies[index].id.0 + 1000);
        let bytes = ByteSize::from_bytes(pace);
        if self.rng.below(3) == 0 {
            let charge = Charge { body: id, bytes, purpose: Growth };
            self.budget.handle(Input::Charge(charge), self.now);
            if self.answer_of(id) == Granted(id) {
                self.bodies[index].response += pace;
            }
        }
        self.bodies[index].phase = Phase::Responding(left.saturating_sub(pace));
    }

    /// Ends a body wherever it is.
    fn close(&mut self, index: usize) {
        let body = &mut self.bodies[index];
        body.phase = Phase::Gone;
        let intake = Input::Close {
            body: body.id,
            side: Intake,
            bytes: ByteSize::from_bytes(std::mem::take(&mut body.charged)),
            spilled: ByteSize::ZERO,
        };
        let collect = Input::Close {
            body: BodyId(body.id.0 + 1000),
            side: Collect,
            bytes: ByteSize::from_bytes(std::mem::take(&mut body.response)),
            spilled: ByteSize::ZERO,
        };
        self.budget.handle(intake, self.now);
        self.budget.handle(collect, self.now);
    }

    /// The answer at once to a response body; others' answers are kept.
    fn answer_of(&mut self, id: BodyId) -> Output {
        let mut own = None;
        while let Some(output) = self.budget.poll_output() {
            match output.body() == id {
                true => own = Some(output),
                false => self.take(output),
            }
        }
        own.expect("a charge is answered at once")
    }

    fn take_answers(&mut self) {
        while let Some(output) = self.budget.poll_output() {
            self.take(output);
        }
    }

    fn take(&mut self, output: Output) {
        let index = output.body().0 as usize;
        let body = &mut self.bodies[index];
        assert_eq!(body.phase, Phase::Waiting, "{output:?} for who does not wait");
        match output {
            Granted(_) => {
                body.charged += body.wanted;
                body.phase = Phase::Receiving;
            }
            Shed(_) => {
                body.shed = true;
                self.close(index);
            }
            Full(_) => panic!("who waits is not told full"),
        }
    }

    fn check_sums(&self) {
        self.budget.check_invariants();
        let sum = |of: fn(&Body) -> u64| ByteSize::from_bytes(self.bodies.iter().map(of).sum());
        let view = self.budget.view();
        assert_eq!(view.intake, sum(|body| body.charged));
        assert_eq!(view.collect, sum(|body| body.response));
        let waiting = self.bodies.iter().filter(|body| body.phase == Phase::Waiting).count();
        assert_eq!(view.waiting as usize, waiting);
    }

    fn check_end(&self) {
        let view = self.budget.view();
        assert_eq!((view.intake, view.collect), (ByteSize::ZERO, ByteSize::ZERO));
        assert_eq!(self.budget.poll_timeout(), None);
        let shed = self.bodies.iter().filter(|body| body.shed).count() as u64;
        assert_eq!(view.shed, shed);
        assert!(!self.patient || shed == 0, "shed although everybody could wait");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The promise of the module: with room for one body, nobody has to be shed.
    #[test]
    fn everything_finishes_with_a_budget_of_one_body(seed in any::<u64>()) {
        World::new(seed, true).run();
    }

    /// With a short wait some are shed, and the sums still hold.
    #[test]
    fn everything_ends_when_waits_are_short(seed in any::<u64>()) {
        World::new(seed, false).run();
    }
}
