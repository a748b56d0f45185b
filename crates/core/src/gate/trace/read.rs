//! Reading a trace. A trace is a file, so it is hostile: a clear error with its line, no panic.
//!
//! The whole file is read and checked before the first step, so that a replay stops for a
//! difference and never for a mistake in the file. Absent: what the steps do to a gate
//! (`sim/replay.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::{FromStr, SplitAsciiWhitespace};

use crate::gate::{
    Arrival, Attempt, Change, Claim, Class, Fate, Fault, Heard, Hedge, Input, Late, Outcome,
};
use crate::gate::{Permit, Probed, Returned, Settings, Tried};
use crate::id::{self, ShardId, Ticket, WorkerId};
use crate::pool::Report;
use crate::time::{Duration, Instant};
use crate::units::{Ratio, Slots, Weight};

use super::{HEADER, words};

/// A trace that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// How the gate was set.
    pub settings: Settings,
    /// When it was made.
    pub began: Instant,
    /// What it was told.
    pub steps: Vec<Step>,
    /// What it said, as [`super::write_output`] writes it.
    pub outputs: String,
}

/// One call of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its line in the trace, from 1.
    pub line: usize,
    /// Its moment.
    pub now: Instant,
    kind: Kind,
}

/// What a step was.
#[derive(Debug)]
pub enum Told {
    /// [`crate::gate::Gate::handle`] was called with this.
    Input(Input),
    /// [`crate::gate::Gate::handle_timeout`] was called.
    Timeout,
    /// [`crate::gate::Gate::view`] was called.
    View,
}

/// An input with permits as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Timeout,
    View,
    Arrive(Arrival),
    Hedge(Hedge),
    Abandon(Ticket),
    Return { permit: u64, outcome: Outcome, fault: Option<Fault>, connection: Fate },
    Closed { worker: WorkerId, shard: ShardId },
    Probed { worker: WorkerId, heard: Heard, permit: Option<u64> },
    Late { permit: u64, heard: Heard },
    Member { worker: WorkerId, change: Change },
    Weight { worker: WorkerId, weight: Weight },
    Report { worker: WorkerId, report: Report },
    Load { worker: WorkerId, utilization: u32 },
    Drain,
}

/// What is wrong with a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What was expected there.
    pub cause: Cause,
}

/// What was expected in a line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The first line of this format.
    Header,
    /// `set`, `begin`, `in`, `at` or `out`, in this order.
    Record,
    /// This field.
    Field(&'static str),
    /// The end of the line.
    End,
    /// A setting of this name with a value in its range, before `begin`.
    Setting(&'static str),
    /// A permit that the gate has granted and that is out.
    Permit(u64),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.cause {
            Cause::Header => write!(f, "expected '{HEADER}'"),
            Cause::Record => write!(f, "expected 'set', 'begin', 'in', 'at' or 'out' in order"),
            Cause::Field(name) => write!(f, "expected the field '{name}'"),
            Cause::End => write!(f, "expected the end of the line"),
            Cause::Setting(name) => write!(f, "expected the setting '{name}' in its range"),
            Cause::Permit(number) => write!(f, "permit {number} is not out"),
        }
    }
}

impl std::error::Error for ParseError {}

impl Trace {
    /// Read a trace.
    ///
    /// # Errors
    ///
    /// The first thing that is not as the format says.
    pub fn parse(text: &str) -> Result<Trace, ParseError> {
        let mut lines = text.lines().zip(1..).map(|(text, line)| Fields::new(text, line));
        let header = lines.next().filter(|first| first.text == HEADER);
        header.ok_or(ParseError { line: 1, cause: Cause::Header })?;
        let (settings, began) = parse_settings(&mut lines)?;
        let mut trace = Trace { settings, began, steps: Vec::new(), outputs: String::new() };
        for mut fields in lines {
            match fields.word("record")? {
                "in" => trace.steps.push(fields.input()?),
                "at" => trace.steps.push(fields.timeout()?),
                "out" => {
                    trace.outputs.push_str(fields.text.trim_start_matches("out "));
                    trace.outputs.push('\n');
                    continue;
                }
                _ => return Err(fields.error(Cause::Record)),
            }
            fields.end()?;
        }
        Ok(trace)
    }
}

impl Step {
    /// What the gate was told in this step. Permits are taken from `permits`, by their numbers.
    ///
    /// # Errors
    ///
    /// [`Cause::Permit`] when the permit is not there.
    pub fn told(&self, permits: &mut BTreeMap<u64, Permit>) -> Result<Told, ParseError> {
        let mut take = |number: u64| {
            let missing = ParseError { line: self.line, cause: Cause::Permit(number) };
            permits.remove(&number).ok_or(missing)
        };
        let input = match self.kind.clone() {
            Kind::Timeout => return Ok(Told::Timeout),
            Kind::View => return Ok(Told::View),
            Kind::Arrive(arrival) => Input::Arrive(arrival),
            Kind::Hedge(hedge) => Input::Hedge(hedge),
            Kind::Abandon(ticket) => Input::Abandon(ticket),
            Kind::Return { permit, outcome, fault, connection } => {
                let permit = take(permit)?;
                Input::Return(Returned { permit, outcome, fault, connection })
            }
            Kind::Closed { worker, shard } => Input::Closed { worker, shard },
            Kind::Probed { worker, heard, permit } => {
                let permit = permit.map(take).transpose()?;
                Input::Probed(Probed { worker, heard, permit })
            }
            Kind::Late { permit, heard } => Input::Late(Late { permit: take(permit)?, heard }),
            Kind::Member { worker, change } => Input::Member { worker, change },
            Kind::Weight { worker, weight } => Input::Weight { worker, weight },
            Kind::Report { worker, report } => Input::Report { worker, report },
            Kind::Load { worker, utilization } => Input::Load { worker, utilization },
            Kind::Drain => Input::Drain,
        };
        Ok(Told::Input(input))
    }
}

/// The fields of one line.
struct Fields<'a> {
    text: &'a str,
    words: SplitAsciiWhitespace<'a>,
    line: usize,
}

impl<'a> Fields<'a> {
    fn new(text: &'a str, line: usize) -> Self {
        Fields { text, words: text.split_ascii_whitespace(), line }
    }

    fn error(&self, cause: Cause) -> ParseError {
        ParseError { line: self.line, cause }
    }

    fn word(&mut self, name: &'static str) -> Result<&'a str, ParseError> {
        self.words.next().ok_or(self.error(Cause::Field(name)))
    }

    fn number<T: FromStr>(&mut self, name: &'static str) -> Result<T, ParseError> {
        self.word(name)?.parse().map_err(|_| self.error(Cause::Field(name)))
    }

    fn optional<T: FromStr>(&mut self, name: &'static str) -> Result<Option<T>, ParseError> {
        match self.word(name)? {
            words::NONE => Ok(None),
            word => word.parse().map(Some).map_err(|_| self.error(Cause::Field(name))),
        }
    }

    fn one_of<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        word_of: fn(T) -> &'static str,
    ) -> Result<T, ParseError> {
        let word = self.word(name)?;
        let found = all.iter().copied().find(|value| word_of(*value) == word);
        found.ok_or(self.error(Cause::Field(name)))
    }

    fn end(&mut self) -> Result<(), ParseError> {
        match self.words.next() {
            None => Ok(()),
            Some(_) => Err(self.error(Cause::End)),
        }
    }

    fn instant(&mut self, name: &'static str) -> Result<Instant, ParseError> {
        self.number(name).map(Instant::from_nanos)
    }

    fn worker(&mut self) -> Result<WorkerId, ParseError> {
        self.number("worker").map(WorkerId)
    }

    fn shard(&mut self) -> Result<ShardId, ParseError> {
        self.number("shard").map(ShardId)
    }

    fn timeout(&mut self) -> Result<Step, ParseError> {
        let now = self.instant("now")?;
        match self.word("timeout")? {
            "timeout" => Ok(Step { line: self.line, now, kind: Kind::Timeout }),
            "view" => Ok(Step { line: self.line, now, kind: Kind::View }),
            _ => Err(self.error(Cause::Field("timeout"))),
        }
    }

    fn input(&mut self) -> Result<Step, ParseError> {
        let now = self.instant("now")?;
        let kind = match self.word("verb")? {
            "arrive" => Kind::Arrive(Arrival {
                ticket: self.number("ticket").map(Ticket)?,
                shard: self.shard()?,
                since: self.instant("since")?,
                received: self.instant("received")?,
                claim: self.claim()?,
                attempt: self.attempt()?,
            }),
            "hedge" => Kind::Hedge(Hedge {
                ticket: self.number("ticket").map(Ticket)?,
                shard: self.shard()?,
                received: self.instant("received")?,
                claim: self.claim()?,
                tried: match self.word("tried")? {
                    "tried" => self.tried()?,
                    _ => return Err(self.error(Cause::Field("tried"))),
                },
            }),
            "abandon" => Kind::Abandon(self.number("ticket").map(Ticket)?),
            "return" => Kind::Return {
                permit: self.number("permit")?,
                outcome: self.one_of("outcome", &words::OUTCOMES, words::outcome)?,
                fault: self.maybe_one_of("fault", &words::FAULTS, words::fault)?,
                connection: self.one_of("fate", &words::FATES, words::fate)?,
            },
            "closed" => Kind::Closed { worker: self.worker()?, shard: self.shard()? },
            "probed" => Kind::Probed {
                worker: self.worker()?,
                heard: self.one_of("heard", &words::HEARD, words::heard)?,
                permit: self.optional("permit")?,
            },
            "late" => Kind::Late {
                permit: self.number("permit")?,
                heard: self.one_of("heard", &words::HEARD, words::heard)?,
            },
            "member" => Kind::Member {
                worker: self.worker()?,
                change: self.one_of("change", &words::CHANGES, words::change)?,
            },
            "weight" => Kind::Weight { worker: self.worker()?, weight: self.weight()? },
            "report" => Kind::Report { worker: self.worker()?, report: self.report()? },
            "load" => {
                Kind::Load { worker: self.worker()?, utilization: self.number("utilization")? }
            }
            "drain" => Kind::Drain,
            _ => return Err(self.error(Cause::Field("verb"))),
        };
        Ok(Step { line: self.line, now, kind })
    }

    fn claim(&mut self) -> Result<Claim, ParseError> {
        let class = Class::from_number(self.number("class")?);
        Ok(Claim {
            class: class.ok_or(self.error(Cause::Field("class")))?,
            user: self.number("user").map(id::User)?,
            tenant: self.number("tenant").map(id::Tenant)?,
            kind: self.number("kind").map(id::Kind)?,
            key: self.number("key").map(id::Key)?,
            deadline: self.optional("deadline")?.map(Instant::from_nanos),
        })
    }

    fn attempt(&mut self) -> Result<Attempt, ParseError> {
        match self.word("attempt")? {
            "first" => Ok(Attempt::First),
            "unsent" => self.tried().map(Attempt::Unsent),
            "sent" => self.tried().map(Attempt::Sent),
            _ => Err(self.error(Cause::Field("attempt"))),
        }
    }

    fn tried(&mut self) -> Result<Tried, ParseError> {
        let (deaths, charged) = (self.number("deaths")?, self.number("charged")?);
        let workers: Result<Vec<u32>, _> = self.words.by_ref().map(str::parse).collect();
        let workers = workers.map_err(|_| self.error(Cause::Field("tried workers")))?;
        let mut tried = Tried::default();
        (tried.deaths, tried.charged) = (deaths, charged);
        workers.iter().rev().for_each(|worker| tried.insert(WorkerId(*worker)));
        Ok(tried)
    }

    fn maybe_one_of<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        word_of: fn(T) -> &'static str,
    ) -> Result<Option<T>, ParseError> {
        let ahead = self.words.clone().next();
        if ahead == Some(words::NONE) {
            self.words.next();
            return Ok(None);
        }
        self.one_of(name, all, word_of).map(Some)
    }

    fn weight(&mut self) -> Result<Weight, ParseError> {
        let weight = self.number("weight")?;
        Weight::new(weight).ok_or(self.error(Cause::Field("weight")))
    }

    fn report(&mut self) -> Result<Report, ParseError> {
        Ok(Report {
            admin: self.maybe_one_of("admin", &words::ADMINS, words::admin)?,
            health: self.maybe_one_of("health", &words::HEALTHS, words::health)?,
            percent: self.optional("percent")?,
            slots: self.optional("slots")?,
        })
    }
}

fn parse_settings<'a>(
    lines: &mut impl Iterator<Item = Fields<'a>>,
) -> Result<(Settings, Instant), ParseError> {
    let mut values = Values(BTreeMap::new());
    let mut last = 1;
    for mut fields in lines {
        last = fields.line;
        match fields.word("record")? {
            "set" => {
                let name = fields.word("name")?;
                values.0.insert(name, fields.optional("value")?);
                fields.end()?;
            }
            "begin" => {
                let began = fields.instant("begin")?;
                fields.end()?;
                let settings = values.settings();
                return settings.map(|settings| (settings, began)).map_err(|e| fields.error(e));
            }
            _ => return Err(fields.error(Cause::Record)),
        }
    }
    Err(ParseError { line: last, cause: Cause::Record })
}

/// Settings as read, by name.
struct Values<'a>(BTreeMap<&'a str, Option<u64>>);

impl Values<'_> {
    fn settings(&self) -> Result<Settings, Cause> {
        Ok(Settings {
            slots: self.slots("slots")?,
            limit: self.one_of("limit", &words::LIMITS)?,
            limit_min: self.slots("limit_min")?,
            connections_max: self.slots("connections_max")?,
            queue_len_max: self.count("queue_len_max")?,
            queue_wait_max: self.duration("queue_wait_max")?,
            answer_within: self.optional("answer_within")?,
            answer_quantile: Ratio::from_ppm(self.count("answer_quantile")?),
            order: self.one_of("order", &words::ORDERS)?,
            shedding: self.one_of("shedding", &words::SHEDDINGS)?,
            balance: self.one_of("balance", &words::BALANCES)?,
            hash_excess_max: Ratio::from_ppm(self.count("hash_excess_max")?),
            ramp_time: self.optional("ramp_time")?,
            start_hold_max: self.duration("start_hold_max")?,
            retry_max: self.count("retry_max")?,
            retry_budget: Ratio::from_ppm(self.count("retry_budget")?),
            retry_budget_min: self.count("retry_budget_min")?,
            hedge: self.count::<u8>("hedge")? != 0,
            eject_after: self.count("eject_after")?,
            eject_error_share: Ratio::from_ppm(self.count("eject_error_share")?),
            eject_time: self.duration("eject_time")?,
            eject_keep_min: Ratio::from_ppm(self.count("eject_keep_min")?),
            probe_interval: self.duration("probe_interval")?,
            probe_exchange: self.count::<u8>("probe_exchange")? != 0,
            probe_interval_up: self.optional("probe_interval_up")?,
            probe_fall: self.count("probe_fall")?,
            stuck_time_max: self.duration("stuck_time_max")?,
        })
    }

    fn count<T: TryFrom<u64>>(&self, name: &'static str) -> Result<T, Cause> {
        let value = self.0.get(name).copied().flatten();
        value.and_then(|value| T::try_from(value).ok()).ok_or(Cause::Setting(name))
    }

    fn one_of<T: Copy>(&self, name: &'static str, all: &[T]) -> Result<T, Cause> {
        all.get(self.count::<usize>(name)?).copied().ok_or(Cause::Setting(name))
    }

    fn slots(&self, name: &'static str) -> Result<Slots, Cause> {
        Slots::new(self.count(name)?).ok_or(Cause::Setting(name))
    }

    fn duration(&self, name: &'static str) -> Result<Duration, Cause> {
        self.count(name).map(Duration::from_nanos)
    }

    fn optional(&self, name: &'static str) -> Result<Option<Duration>, Cause> {
        let value = self.0.get(name).ok_or(Cause::Setting(name))?;
        Ok(value.map(Duration::from_nanos))
    }
}
