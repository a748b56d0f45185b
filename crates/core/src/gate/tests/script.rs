//! Runs a script against a gate.
//!
//! One step a line: `MILLISECONDS VERB ARGUMENTS -> OUTPUT; OUTPUT`. Every output must be named.
//! `timeout` may come only at the very moment that the gate asks for, and no step may pass over
//! one.
//!
//! Verbs: `up`, `join`, `supervised`, `ready`, `down`, `drain`, `leave` with workers; `arrive T`
//! with `s=SHARD`, `since=MS`, `received=MS`, `c=CLASS`, `user=N`, `tenant=N`, `kind=N`, `key=N`,
//! `deadline=MS`, `unsent=W,W` or `sent=W,W` with `deaths=N`, `charged=N`; `hedge T` with the same
//! and `tried=W,W`; `weight W N`; `ok`,
//! `shut` (success, connection closed), `ignore`, `error`, `refused`, `reset`, `refusal`, `stuck`,
//! `cut` with a ticket that has a permit; `abandon T`; `closed W S`; `well W`,
//! `badly W`, `nothing W` (what a probe heard); `slow W` (a probe heard nothing, and the worker may
//! be at it still), then `late WELL|BADLY|NOTHING` with the oldest of those; `agent W` with what
//! its agent mentions of `ready`, `drain`, `maint`, `up`, `down`, `percent=N` and `slots=N`; `load`
//! with a worker and its percentage; `shutdown`. `up` is a supervised worker that is ready, and its
//! outputs are not looked at.

use std::collections::{BTreeMap, VecDeque};

use crate::gate::trace::words;
use crate::gate::{
    Arrival, Attempt, Change, Claim, Class, Connection, Fate, Fault, Gate, Heard, Hedge, Input,
    Late, Outcome, Output, Permit, Probed, Returned, Settings, Tried,
};
use crate::id::{Key, Kind, ShardId, Tenant, Ticket, User, WorkerId};
use crate::pool::Report;
use crate::time::Instant;
use crate::units::Weight;

/// Run `script` against a gate with these settings.
#[track_caller]
pub(super) fn check(settings: &Settings, script: &str) -> Gate {
    let mut runner = Runner {
        gate: Gate::new(settings.clone(), Instant::ZERO),
        held: BTreeMap::new(),
        probes: BTreeMap::new(),
        slow: VecDeque::new(),
    };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once("->").unwrap_or((line, ""));
        let expected: Vec<_> =
            expected.split(';').map(str::trim).filter(|output| !output.is_empty()).collect();
        let outputs = runner.step(step);
        assert_eq!(outputs, expected, "in the step '{}'", step.trim());
        runner.gate.check_invariants();
    }
    runner.gate
}

struct Runner {
    gate: Gate,
    held: BTreeMap<u64, Permit>,
    probes: BTreeMap<u32, Option<Permit>>,
    /// Of probes that were given up.
    slow: VecDeque<Permit>,
}

impl Runner {
    fn step(&mut self, step: &str) -> Vec<String> {
        let words: Vec<_> = step.split_ascii_whitespace().collect();
        let [moment, verb, arguments @ ..] = words.as_slice() else {
            panic!("not a step: {step}");
        };
        let now = Instant::from_millis(number(moment));
        let due = self.gate.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        if *verb == "timeout" {
            assert_eq!(due.as_nanos().div_ceil(1_000_000), number(moment), "the timer, {step}");
            self.gate.handle_timeout(now);
            return self.outputs();
        }
        assert!(due >= now, "a timer at {due:?} was passed over: {step}");
        if *verb == "up" {
            for worker in arguments {
                self.member(worker, Change::JoinSupervised, now);
                self.member(worker, Change::Ready, now);
            }
            self.outputs();
            return Vec::new();
        }
        for input in self.inputs(verb, arguments) {
            self.gate.handle(input, now);
        }
        self.outputs()
    }

    fn inputs(&mut self, verb: &str, arguments: &[&str]) -> Vec<Input> {
        if let Some(change) = change(verb) {
            let member = |id: &&str| Input::Member { worker: worker(id), change };
            return arguments.iter().map(member).collect();
        }
        let input = match verb {
            "arrive" => Input::Arrive(arrival(arguments)),
            "hedge" => Input::Hedge(hedge(arguments)),
            "abandon" => Input::Abandon(Ticket(number(arguments[0]))),
            "closed" => {
                let shard = ShardId(number(arguments[1]) as u16);
                Input::Closed { worker: worker(arguments[0]), shard }
            }
            "well" | "badly" | "nothing" => {
                let worker = worker(arguments[0]);
                let permit = self.probes.remove(&worker.0).expect("a probe is under way");
                Input::Probed(Probed { worker, heard: heard(verb), permit })
            }
            "slow" => {
                let worker = worker(arguments[0]);
                let permit = self.probes.remove(&worker.0).expect("a probe is under way");
                self.slow.extend(permit);
                Input::Probed(Probed { worker, heard: Heard::Nothing, permit: None })
            }
            "late" => {
                let permit = self.slow.pop_front().expect("a probe was slow");
                Input::Late(Late { permit, heard: heard(arguments[0]) })
            }
            "agent" => Input::Report { worker: worker(arguments[0]), report: report(arguments) },
            "weight" => {
                let weight = Weight::new(number(arguments[1]) as u32).expect("a weight");
                Input::Weight { worker: worker(arguments[0]), weight }
            }
            "load" => {
                let utilization = number(arguments[1]) as u32 * 10_000;
                Input::Load { worker: worker(arguments[0]), utilization }
            }
            "shutdown" => Input::Drain,
            _ => {
                let (outcome, fault, connection) = end(verb);
                let ticket = number(arguments[0]);
                let permit = self.held.remove(&ticket).expect("the ticket has a permit");
                Input::Return(Returned { permit, outcome, fault, connection })
            }
        };
        vec![input]
    }

    fn member(&mut self, id: &str, change: Change, now: Instant) {
        self.gate.handle(Input::Member { worker: worker(id), change }, now);
    }

    fn outputs(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(output) = self.gate.poll_output() {
            texts.push(self.take(output));
        }
        texts
    }

    /// An output as scripts name it; permits are put aside.
    fn take(&mut self, output: Output) -> String {
        match output {
            Output::Grant(grant) => {
                let (ticket, worker) = (grant.ticket.0, grant.permit.worker().0);
                self.held.insert(ticket, grant.permit);
                let waited = match grant.wait.as_millis() {
                    0 => String::new(),
                    millis => format!(" waited {millis}"),
                };
                let from = match grant.connection {
                    Connection::Moved(from) => format!(" {}", from.0),
                    Connection::Idle | Connection::New => String::new(),
                };
                let connection = words::connection(grant.connection);
                let slow = match grant.hedge_after {
                    Some(after) => format!(" slow {}", after.as_millis()),
                    None => String::new(),
                };
                format!("grant {ticket} {worker} {connection}{from}{waited}{slow}")
            }
            Output::Shed(shed) => {
                let retry = match shed.retry_after {
                    Some(after) if !after.is_zero() => format!(" retry {}", after.as_millis()),
                    _ => String::new(),
                };
                format!("shed {} {}{retry}", shed.ticket.0, words::reason(shed.reason))
            }
            Output::Withheld(withheld) => {
                let (ticket, reason) = (withheld.ticket.0, withheld.reason);
                format!("withheld {ticket} {}", words::withhold_reason(reason))
            }
            Output::CloseIdle { worker, shard } => format!("close {} {}", worker.0, shard.0),
            Output::Probe(probe) => {
                let slot = if probe.permit.is_some() { " slot" } else { "" };
                let text = format!("probe {} {}{slot}", probe.worker.0, words::kind(probe.kind));
                self.probes.insert(probe.worker.0, probe.permit);
                text
            }
            Output::State { worker, state } => {
                format!("state {} {}", worker.0, words::state(state))
            }
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

fn worker(word: &str) -> WorkerId {
    WorkerId(number(word) as u32)
}

fn heard(word: &str) -> Heard {
    let found = words::HEARD.into_iter().find(|heard| words::heard(*heard) == word);
    found.expect("the word is one of the three")
}

fn change(verb: &str) -> Option<Change> {
    Some(match verb {
        "join" => Change::Join,
        "supervised" => Change::JoinSupervised,
        "ready" => Change::Ready,
        "down" => Change::Down,
        "drain" => Change::Drain,
        "leave" => Change::Leave,
        _ => return None,
    })
}

fn report(arguments: &[&str]) -> Report {
    let mut report = Report::default();
    for argument in &arguments[1..] {
        match argument.split_once('=') {
            Some(("percent", percent)) => report.percent = Some(number(percent) as u32),
            Some(("slots", slots)) => report.slots = Some(number(slots) as u32),
            _ => {
                let admin = words::ADMINS.into_iter().find(|one| words::admin(*one) == *argument);
                let health =
                    words::HEALTHS.into_iter().find(|one| words::health(*one) == *argument);
                assert!(admin.is_some() || health.is_some(), "not a word: {argument}");
                report.admin = admin.or(report.admin);
                report.health = health.or(report.health);
            }
        }
    }
    report
}

fn end(verb: &str) -> (Outcome, Option<Fault>, Fate) {
    match verb {
        "ok" => (Outcome::Success, None, Fate::Kept),
        "shut" => (Outcome::Success, None, Fate::Closed),
        "ignore" => (Outcome::Ignore, None, Fate::Kept),
        "error" => (Outcome::Success, Some(Fault::Error), Fate::Kept),
        "refused" => (Outcome::Ignore, Some(Fault::Refused), Fate::Closed),
        "reset" => (Outcome::Ignore, Some(Fault::Reset), Fate::Closed),
        "refusal" => (Outcome::Overload, Some(Fault::Refusal), Fate::Kept),
        "stuck" => (Outcome::Overload, Some(Fault::Stuck), Fate::Cut),
        "cut" => (Outcome::Ignore, None, Fate::Cut),
        _ => panic!("not a verb: {verb}"),
    }
}

/// A second try of what an arrival with these arguments would be.
fn hedge(arguments: &[&str]) -> Hedge {
    let Arrival { ticket, shard, received, claim, attempt, .. } = arrival(arguments);
    Hedge { ticket, shard, received, claim, tried: attempt.tried() }
}

fn arrival(arguments: &[&str]) -> Arrival {
    let named = |name: &str| {
        let values = arguments.iter().filter_map(|argument| argument.split_once('='));
        values.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    };
    let count = |name: &str| named(name).map_or(0, number);
    let tried = |workers: &str| {
        let mut tried = Tried::default();
        workers.split(',').for_each(|id| tried.insert(worker(id)));
        (tried.deaths, tried.charged) = (count("deaths") as u8, count("charged") as u8);
        tried
    };
    let attempt = match (named("unsent").or(named("tried")), named("sent")) {
        (Some(workers), _) => Attempt::Unsent(tried(workers)),
        (_, Some(workers)) => Attempt::Sent(tried(workers)),
        _ => Attempt::First,
    };
    let far = |name: &str| named(name).map(|millis| Instant::from_millis(number(millis)));
    let class = named("c").map(|class| Class::from_word(class.as_bytes()).expect("a class"));
    let claim = Claim {
        class: class.unwrap_or_default(),
        user: User(count("user")),
        tenant: Tenant(count("tenant")),
        kind: Kind(count("kind")),
        key: Key(count("key")),
        deadline: far("deadline"),
    };
    Arrival {
        ticket: Ticket(number(arguments[0])),
        shard: ShardId(count("s") as u16),
        since: far("since").unwrap_or(Instant::FAR_FUTURE),
        received: far("received").unwrap_or(Instant::FAR_FUTURE),
        claim,
        attempt,
    }
}
