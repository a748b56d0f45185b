//! Writing a trace.
//!
//! Each call of a gate is a line and each output another, in their order. Absent: a file, a buffer
//! and a lock; whoever records gives a sink.

use std::fmt::{self, Write};

use crate::gate::{Attempt, Claim, Connection, Input, Output, Permit, Settings, Tried};
use crate::time::{Duration, Instant};

use super::{HEADER, words};

/// Writes what a gate is told and what it says.
///
/// The sink decides what an error is; a `String` never fails.
#[derive(Debug)]
pub struct TraceWriter<W> {
    sink: W,
}

impl<W: Write> TraceWriter<W> {
    /// Begin the trace of a gate that is made with these arguments.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn begin(mut sink: W, settings: &Settings, now: Instant) -> Result<Self, fmt::Error> {
        writeln!(sink, "{HEADER}")?;
        write_settings(&mut sink, settings)?;
        writeln!(sink, "begin {}", now.as_nanos())?;
        Ok(TraceWriter { sink })
    }

    /// [`crate::gate::Gate::handle`] is called with these arguments.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn input(&mut self, input: &Input, now: Instant) -> fmt::Result {
        write!(self.sink, "in {} ", now.as_nanos())?;
        self.write_input(input)?;
        self.sink.write_char('\n')
    }

    /// [`crate::gate::Gate::handle_timeout`] is called with this argument.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn timeout(&mut self, now: Instant) -> fmt::Result {
        writeln!(self.sink, "at {} timeout", now.as_nanos())
    }

    /// [`crate::gate::Gate::view`] is called with this argument.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn view(&mut self, now: Instant) -> fmt::Result {
        writeln!(self.sink, "at {} view", now.as_nanos())
    }

    /// [`crate::gate::Gate::poll_output`] gave this.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn output(&mut self, output: &Output) -> fmt::Result {
        self.sink.write_str("out ")?;
        write_output(&mut self.sink, output)
    }

    /// Where it goes.
    pub fn sink(&mut self) -> &mut W {
        &mut self.sink
    }

    /// End the trace.
    pub fn into_sink(self) -> W {
        self.sink
    }

    fn write_input(&mut self, input: &Input) -> fmt::Result {
        let sink = &mut self.sink;
        match input {
            Input::Arrive(arrival) => {
                let (since, received) = (arrival.since.as_nanos(), arrival.received.as_nanos());
                let (ticket, shard) = (arrival.ticket.0, arrival.shard.0);
                write!(sink, "arrive {ticket} {shard} {since} {received} ")?;
                write_claim(sink, &arrival.claim)?;
                match arrival.attempt {
                    Attempt::First => sink.write_str("first"),
                    Attempt::Unsent(tried) => write_tried(sink, "unsent", &tried),
                    Attempt::Sent(tried) => write_tried(sink, "sent", &tried),
                }
            }
            Input::Hedge(hedge) => {
                let (ticket, shard) = (hedge.ticket.0, hedge.shard.0);
                write!(sink, "hedge {ticket} {shard} {} ", hedge.received.as_nanos())?;
                write_claim(sink, &hedge.claim)?;
                write_tried(sink, "tried", &hedge.tried)
            }
            Input::Abandon(ticket) => write!(sink, "abandon {}", ticket.0),
            Input::Return(returned) => {
                let fault = returned.fault.map_or(words::NONE, words::fault);
                let (number, fate) = (returned.permit.number(), words::fate(returned.connection));
                let outcome = words::outcome(returned.outcome);
                write!(sink, "return {number} {outcome} {fault} {fate}")
            }
            Input::Closed { worker, shard } => write!(sink, "closed {} {}", worker.0, shard.0),
            Input::Probed(probed) => {
                let heard = words::heard(probed.heard);
                write!(sink, "probed {} {heard} ", probed.worker.0)?;
                write_permit(sink, probed.permit.as_ref())
            }
            Input::Late(late) => {
                write!(sink, "late {} {}", late.permit.number(), words::heard(late.heard))
            }
            Input::Member { worker, change } => {
                write!(sink, "member {} {}", worker.0, words::change(*change))
            }
            Input::Weight { worker, weight } => {
                write!(sink, "weight {} {}", worker.0, weight.count())
            }
            Input::Report { worker, report } => {
                let admin = report.admin.map_or(words::NONE, words::admin);
                let health = report.health.map_or(words::NONE, words::health);
                write!(sink, "report {} {admin} {health} ", worker.0)?;
                write_count(sink, report.percent)?;
                sink.write_char(' ')?;
                write_count(sink, report.slots)
            }
            Input::Load { worker, utilization } => write!(sink, "load {} {utilization}", worker.0),
            Input::Drain => sink.write_str("drain"),
        }
    }
}

/// Write an output as one line, as a trace shows it after `out `.
///
/// # Errors
///
/// What the sink says.
pub fn write_output(sink: &mut impl Write, output: &Output) -> fmt::Result {
    match output {
        Output::Grant(grant) => {
            let (ticket, shard) = (grant.ticket.0, grant.shard.0);
            let (worker, number) = (grant.permit.worker().0, grant.permit.number());
            let connection = words::connection(grant.connection);
            write!(sink, "grant {ticket} {shard} {worker} {number} {connection} ")?;
            if let Connection::Moved(from) = grant.connection {
                write!(sink, "{} ", from.0)?;
            }
            write_duration(sink, Some(grant.wait))?;
            sink.write_char(' ')?;
            write_duration(sink, grant.hedge_after)?;
        }
        Output::Shed(shed) => {
            let (ticket, shard, reason) = (shed.ticket.0, shed.shard.0, words::reason(shed.reason));
            write!(sink, "shed {ticket} {shard} {reason} ")?;
            write_duration(sink, shed.retry_after)?;
        }
        Output::Withheld(withheld) => {
            let (ticket, shard) = (withheld.ticket.0, withheld.shard.0);
            write!(sink, "withheld {ticket} {shard} {}", words::withhold_reason(withheld.reason))?;
        }
        Output::CloseIdle { worker, shard } => write!(sink, "close {} {}", worker.0, shard.0)?,
        Output::Probe(probe) => {
            write!(sink, "probe {} {} ", probe.worker.0, words::kind(probe.kind))?;
            write_permit(sink, probe.permit.as_ref())?;
        }
        Output::State { worker, state } => {
            write!(sink, "state {} {}", worker.0, words::state(*state))?;
        }
    }
    sink.write_char('\n')
}

fn write_settings(sink: &mut impl Write, settings: &Settings) -> fmt::Result {
    let nanos = |duration: Duration| duration.as_nanos() as u64;
    let optional = |duration: Option<Duration>| match duration {
        Some(duration) => nanos(duration).to_string(),
        None => words::NONE.to_owned(),
    };
    let Settings { slots, connections_max, queue_len_max, queue_wait_max, .. } = settings;
    writeln!(sink, "set slots {}", slots.count())?;
    writeln!(sink, "set limit {}", place(&words::LIMITS, settings.limit))?;
    writeln!(sink, "set limit_min {}", settings.limit_min.count())?;
    writeln!(sink, "set connections_max {}", connections_max.count())?;
    writeln!(sink, "set queue_len_max {queue_len_max}")?;
    writeln!(sink, "set queue_wait_max {}", nanos(*queue_wait_max))?;
    writeln!(sink, "set answer_within {}", optional(settings.answer_within))?;
    writeln!(sink, "set answer_quantile {}", settings.answer_quantile.as_ppm())?;
    writeln!(sink, "set order {}", place(&words::ORDERS, settings.order))?;
    writeln!(sink, "set shedding {}", place(&words::SHEDDINGS, settings.shedding))?;
    writeln!(sink, "set balance {}", place(&words::BALANCES, settings.balance))?;
    writeln!(sink, "set hash_excess_max {}", settings.hash_excess_max.as_ppm())?;
    writeln!(sink, "set ramp_time {}", optional(settings.ramp_time))?;
    writeln!(sink, "set start_hold_max {}", nanos(settings.start_hold_max))?;
    writeln!(sink, "set retry_max {}", settings.retry_max)?;
    writeln!(sink, "set retry_budget {}", settings.retry_budget.as_ppm())?;
    writeln!(sink, "set retry_budget_min {}", settings.retry_budget_min)?;
    writeln!(sink, "set hedge {}", u8::from(settings.hedge))?;
    writeln!(sink, "set eject_after {}", settings.eject_after)?;
    writeln!(sink, "set eject_error_share {}", settings.eject_error_share.as_ppm())?;
    writeln!(sink, "set eject_time {}", nanos(settings.eject_time))?;
    writeln!(sink, "set eject_keep_min {}", settings.eject_keep_min.as_ppm())?;
    writeln!(sink, "set probe_interval {}", nanos(settings.probe_interval))?;
    writeln!(sink, "set probe_exchange {}", u8::from(settings.probe_exchange))?;
    writeln!(sink, "set probe_interval_up {}", optional(settings.probe_interval_up))?;
    writeln!(sink, "set probe_fall {}", settings.probe_fall)?;
    writeln!(sink, "set stuck_time_max {}", nanos(settings.stuck_time_max))
}

/// Settings are numbers in a trace: a word of a closed set is its place in the list of all.
fn place<T: PartialEq>(all: &[T], value: T) -> usize {
    all.iter().position(|other| *other == value).expect("the list holds all")
}

fn write_claim(sink: &mut impl Write, claim: &Claim) -> fmt::Result {
    let Claim { class, user, tenant, kind, key, deadline } = *claim;
    write!(sink, "{} {} {} {} {} ", class.number(), user.0, tenant.0, kind.0, key.0)?;
    match deadline {
        Some(deadline) => write!(sink, "{} ", deadline.as_nanos()),
        None => write!(sink, "{} ", words::NONE),
    }
}

fn write_tried(sink: &mut impl Write, word: &str, tried: &Tried) -> fmt::Result {
    write!(sink, "{word} {} {}", tried.deaths, tried.charged)?;
    tried.iter().try_for_each(|worker| write!(sink, " {}", worker.0))
}

fn write_permit(sink: &mut impl Write, permit: Option<&Permit>) -> fmt::Result {
    match permit {
        Some(permit) => write!(sink, "{}", permit.number()),
        None => sink.write_str(words::NONE),
    }
}

fn write_count(sink: &mut impl Write, count: Option<u32>) -> fmt::Result {
    match count {
        Some(count) => write!(sink, "{count}"),
        None => sink.write_str(words::NONE),
    }
}

fn write_duration(sink: &mut impl Write, duration: Option<Duration>) -> fmt::Result {
    match duration {
        Some(duration) => write!(sink, "{}", duration.as_nanos()),
        None => sink.write_str(words::NONE),
    }
}
