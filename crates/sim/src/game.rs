//! The two games with pencil and paper that show why a server without a limit does not come back
//! (G. Polevoy, "Asynchronous scenario", DotNext 2018), calculated exactly.
//!
//! One task comes at the beginning of each period and needs some units of work. In a period each of
//! the n active tasks gets an equal share of the processors, at most one; what a task does not need
//! is not given to others. In the second game a bouncer lets in so many at once and sends home who
//! finds so many waiting: here the bouncer is the real gate.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use spillgate_core::gate::{Arrival, Attempt, Change, Claim, Fate, Gate, Input, Outcome};
use spillgate_core::gate::{Order, Output, Permit, Returned, Settings, Shedding};
use spillgate_core::id::{ShardId, Ticket, WorkerId};
use spillgate_core::time::{Duration, Instant};
use spillgate_core::units::Slots;

use crate::scenario::{Game, PoolKeys};

/// A period of a game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// Tasks that were worked on in it, by number from 1, with the work that is left at its end.
    pub inside: Vec<(u64, Fraction)>,
    /// Tasks that wait at its end.
    pub queue: Vec<u64>,
    /// Tasks that were sent home in it.
    pub refused: Vec<u64>,
}

impl Period {
    /// The work that is left at its end.
    pub fn left(&self) -> Fraction {
        self.inside.iter().fold(Fraction::whole(0), |sum, (_, left)| sum.plus(*left))
    }
}

/// A game that was played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// Its periods.
    pub periods: Vec<Period>,
    /// The tasks that were answered, by number, with the periods from coming to answer.
    pub answered: Vec<(u64, u64)>,
}

/// A fraction that is exact, and not below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    above: u128,
    below: u128,
}

impl Fraction {
    /// A whole number.
    pub fn whole(number: u32) -> Self {
        Fraction { above: u128::from(number), below: 1 }
    }

    /// A quotient, in lowest terms. `below` is above zero.
    pub fn new(above: u128, below: u128) -> Self {
        let common = common(above, below);
        Fraction { above: above / common, below: below / common }
    }

    fn plus(self, other: Fraction) -> Fraction {
        let above = self.above * other.below + other.above * self.below;
        Fraction::new(above, self.below * other.below)
    }

    /// The difference, or zero where `other` is larger.
    fn minus(self, other: Fraction) -> Fraction {
        let above = (self.above * other.below).saturating_sub(other.above * self.below);
        Fraction::new(above, self.below * other.below)
    }

    fn is_zero(self) -> bool {
        self.above == 0
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.below {
            1 => write!(f, "{}", self.above),
            below => write!(f, "{}/{below}", self.above),
        }
    }
}

fn common(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { common(b, a % b) }
}

/// Play a game.
pub(crate) fn play(game: &Game) -> Played {
    let mut bouncer = Bouncer::new(game);
    let mut inside: Vec<(u64, Fraction)> = Vec::new();
    let mut played = Played { periods: Vec::new(), answered: Vec::new() };
    for number in 1..=u64::from(game.periods.0) {
        let mut refused = Vec::new();
        // A slot that came free at the end of a period is given at the beginning of the next,
        // before the one who comes decides.
        let mut let_in = bouncer.give_back();
        let_in.extend(bouncer.arrive(number, &mut refused));
        inside.extend(let_in.into_iter().map(|task| (task, Fraction::whole(game.work.0))));
        let (cpus, active) = (u128::from(game.cpus.0), inside.len() as u128);
        let share = Fraction::new(cpus.min(active.max(1)), active.max(1));
        inside.iter_mut().for_each(|(_, left)| *left = left.minus(share));
        let done = inside.iter().filter(|(_, left)| left.is_zero()).map(|(task, _)| *task);
        for task in done {
            bouncer.done.push(task);
            played.answered.push((task, number - task + 1));
        }
        let queue = bouncer.waiting.clone();
        played.periods.push(Period { inside: inside.clone(), queue, refused });
        inside.retain(|(_, left)| !left.is_zero());
    }
    played
}

/// The real gate at the door; none where everybody comes in.
struct Bouncer {
    gate: Option<Gate>,
    now: Instant,
    permits: BTreeMap<u64, Permit>,
    waiting: Vec<u64>,
    /// Tasks that ended in this period.
    done: Vec<u64>,
}

impl Bouncer {
    fn new(game: &Game) -> Self {
        let now = Instant::ZERO;
        let gate = game.inside.map(|inside| {
            let slots = Slots::new(inside.0).expect("the number of tasks inside begins at 1");
            let mut gate = Gate::new(settings(slots, game.outside.0), now);
            let worker = WorkerId(0);
            gate.handle(Input::Member { worker, change: Change::JoinSupervised }, now);
            gate.handle(Input::Member { worker, change: Change::Ready }, now);
            while gate.poll_output().is_some() {}
            gate
        });
        Bouncer { gate, now, permits: BTreeMap::new(), waiting: Vec::new(), done: Vec::new() }
    }

    /// Tasks that get the slots of those that are done.
    fn give_back(&mut self) -> Vec<u64> {
        let mut let_in = Vec::new();
        for task in std::mem::take(&mut self.done) {
            if let Some(permit) = self.permits.remove(&task) {
                let (outcome, connection) = (Outcome::Success, Fate::Kept);
                let returned = Returned { permit, outcome, fault: None, connection };
                self.tell(Input::Return(returned), &mut let_in, &mut Vec::new());
            }
        }
        let_in
    }

    /// A task comes; who is let in now.
    fn arrive(&mut self, task: u64, refused: &mut Vec<u64>) -> Vec<u64> {
        if self.gate.is_none() {
            return vec![task];
        }
        self.now = Instant::ZERO + Duration::from_secs(task);
        self.waiting.push(task);
        let (ticket, shard) = (Ticket(task), ShardId(0));
        let (since, received, attempt) = (self.now, self.now, Attempt::First);
        let claim = Claim::default();
        let arrival = Arrival { ticket, shard, since, received, claim, attempt };
        let mut let_in = Vec::new();
        self.tell(Input::Arrive(arrival), &mut let_in, refused);
        let_in
    }

    fn tell(&mut self, input: Input, let_in: &mut Vec<u64>, refused: &mut Vec<u64>) {
        let Some(gate) = &mut self.gate else { return };
        gate.handle(input, self.now);
        gate.check_invariants();
        while let Some(output) = gate.poll_output() {
            let (task, list) = match output {
                Output::Grant(grant) => {
                    self.permits.insert(grant.ticket.0, grant.permit);
                    (grant.ticket.0, &mut *let_in)
                }
                Output::Shed(shed) => (shed.ticket.0, &mut *refused),
                _ => continue,
            };
            list.push(task);
            self.waiting.retain(|waiting| *waiting != task);
        }
    }
}

/// Only what a bouncer has: so many inside, so many outside.
fn settings(slots: Slots, queue_len_max: u32) -> Settings {
    let long = Duration::from_secs(86_400);
    let defaults = PoolKeys::default().settings();
    Settings {
        order: Order::Fifo,
        shedding: Shedding::Off,
        slots,
        connections_max: slots,
        queue_len_max,
        queue_wait_max: long,
        start_hold_max: long,
        ..defaults
    }
}

/// The periods as a table.
pub fn periods(name: &str, played: &Played) -> String {
    let list = |tasks: &[u64]| {
        let names: Vec<_> = tasks.iter().map(|task| format!("r{task}")).collect();
        if names.is_empty() { "–".to_owned() } else { names.join(" ") }
    };
    let mut text = format!("{name}\n");
    let mut line = |period: String, inside: String, rest: [String; 4]| {
        let [active, sum, queue, refused] = rest;
        let line = format!("{period:>6}  {active:>6}  {sum:>9}  {queue:9}  {refused:7}  {inside}");
        writeln!(text, "{}", line.trim_end()).expect("a string takes everything");
    };
    let heads = ["active", "work left", "queue", "refused"].map(str::to_owned);
    line("period".to_owned(), "work left of each".to_owned(), heads);
    for (period, number) in played.periods.iter().zip(1..) {
        let each: Vec<_> =
            period.inside.iter().map(|(task, left)| format!("r{task}:{left}")).collect();
        let active = period.inside.len().to_string();
        let (queue, refused) = (list(&period.queue), list(&period.refused));
        line(
            format!("{number}"),
            each.join(" "),
            [active, period.left().to_string(), queue, refused],
        );
    }
    let times: Vec<_> =
        played.answered.iter().map(|(task, periods)| format!("r{task} {periods}")).collect();
    writeln!(text, "periods until the answer: {}", times.join(", ")).expect("a string takes it");
    text
}
