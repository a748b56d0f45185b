//! The status as text for a terminal.
//!
//! What clients sent (paths) is printed without control characters, so that a request cannot write
//! to the operator's terminal.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use spillgate_core::units::ByteSize;

use crate::admin::status::{
    AgentStatus, DoingStatus, EndStatus, PoolStatus, QuantileStatus, Status, WorkerStatus,
};
use crate::counted::counted;

/// Exchanges shown for one worker.
const DOING_SHOWN: usize = 3;

/// The whole picture.
pub(super) fn of(status: &Status) -> String {
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = write_status(&mut text, status);
    text
}

fn write_status(out: &mut String, status: &Status) -> fmt::Result {
    let connections: u64 = status.listeners.iter().map(|listener| listener.connections).sum();
    let (used, most) =
        (shown_bytes(status.budget.memory_used), shown_bytes(status.budget.memory_max));
    writeln!(
        out,
        "spillgate {}, up {}, {connections} client connections, {used} of {most} buffered",
        status.version,
        seconds(status.uptime_s),
    )?;
    for pool in &status.pools {
        writeln!(out)?;
        write_pool(out, pool)?;
    }
    Ok(())
}

fn write_pool(out: &mut String, pool: &PoolStatus) -> fmt::Result {
    writeln!(
        out,
        "pool {}: {} of {} taken, {} waiting, room for {}",
        pool.name,
        pool.in_flight,
        counted(u64::from(pool.slots), "slot"),
        pool.queue_len,
        pool.queue_len_max
    )?;
    if let Some(restart) = &pool.restart {
        let total = pool.workers.len();
        writeln!(
            out,
            "  rolling restart: {} of {total} done, now worker {}",
            restart.done, restart.worker
        )?;
    }
    write_times(out, "wait", &pool.wait)?;
    write_times(out, "service", &pool.service)?;
    write_ends(out, &pool.ends)?;
    for doing in pool.waiting.iter().take(1) {
        writeln!(out, "  longest wait: {}", exchange(doing))?;
    }
    write_workers(out, &pool.workers)
}

fn write_times(out: &mut String, what: &str, of: &QuantileStatus) -> fmt::Result {
    if of.samples == 0 {
        return Ok(());
    }
    let (half, most, nearly_all) = (millis(of.p50_ms), millis(of.p90_ms), millis(of.p99_ms));
    writeln!(out, "  {what:<8} p50 {half}, p90 {most}, p99 {nearly_all}")
}

fn write_ends(out: &mut String, ends: &EndStatus) -> fmt::Result {
    let kinds = [
        ("answered", &ends.successes),
        ("shed", &ends.shed),
        ("refused", &ends.refused),
        ("failed", &ends.failed),
        ("abandoned", &ends.abandoned),
    ];
    write!(out, "  {} =", counted(ends.arrivals, "arrival"))?;
    for (word, counts) in kinds {
        write!(out, " {} {word} +", counts.values().sum::<u64>())?;
    }
    writeln!(out, " {} in progress", ends.in_progress)?;
    for (word, counts) in kinds.into_iter().filter(|(_, counts)| !counts.is_empty()) {
        writeln!(out, "    {word}: {}", reasons(counts))?;
    }
    Ok(())
}

fn reasons(counts: &BTreeMap<String, u64>) -> String {
    let one = |(reason, count): (&String, &u64)| format!("{} {count}", reason.replace('_', " "));
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn write_workers(out: &mut String, workers: &[WorkerStatus]) -> fmt::Result {
    let endpoint_width =
        workers.iter().map(|worker| worker.endpoint.len()).max().unwrap_or(0).max(8);
    writeln!(
        out,
        "  {:>6}  {:<endpoint_width$}  {:>7}  {:<13}  {:>11}  doing",
        "worker", "endpoint", "pid", "state", "for"
    )?;
    for worker in workers {
        let pid = worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let stuck =
            if worker.stuck > 0 { format!("{} stuck", worker.stuck) } else { String::new() };
        let state = if stuck.is_empty() { worker.state.as_str() } else { stuck.as_str() };
        let shown = worker.doing.iter().take(DOING_SHOWN).map(exchange).collect::<Vec<_>>();
        let shown = if shown.is_empty() { ends(worker).into_iter().collect() } else { shown };
        let more = worker.doing.len().saturating_sub(DOING_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(
            out,
            "  {:>6}  {:<endpoint_width$}  {pid:>7}  {state:<13}  {:>11}  {}{more}",
            worker.id,
            worker.endpoint,
            seconds(worker.state_for_s),
            shown.join("; "),
        )?;
        if let Some(said) = worker.agent.as_ref().map(said).filter(|said| !said.is_empty()) {
            writeln!(out, "          its agent says: {said}")?;
        }
    }
    Ok(())
}

/// What became of the processes of a worker that does nothing now.
fn ends(worker: &WorkerStatus) -> Option<String> {
    let (count, last) = (worker.restarts?, worker.last_end.as_deref()?);
    let word = if count == 1 { "crash" } else { "crashes" };
    Some(format!("{count} {word}, the last one {last}"))
}

/// What an agent said and holds, as far as it makes a difference.
fn said(agent: &AgentStatus) -> String {
    let mut said = Vec::new();
    if !matches!(agent.admin.as_str(), "" | "ready") {
        said.push(agent.admin.clone());
    }
    if !matches!(agent.health.as_str(), "" | "up") {
        said.push(printable(&agent.health));
    }
    if agent.weight_percent != 100 {
        said.push(format!("{} % of its weight", agent.weight_percent));
    }
    if agent.maxconn > 0 {
        said.push(format!("at most {} at once", agent.maxconn));
    }
    if !agent.unknown.is_empty() {
        said.push(format!("and '{}', which is not known", printable(&agent.unknown)));
    }
    said.join(", ")
}

fn exchange(doing: &DoingStatus) -> String {
    let line = printable(&format!("{} {}", doing.method, doing.path));
    format!("{line} ({} {})", doing.stage, millis(doing.for_ms))
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn millis(value: f64) -> impl Display {
    match value {
        ..10.0 => format!("{value:.1} ms"),
        ..1000.0 => format!("{value:.0} ms"),
        _ => seconds(value / 1000.0),
    }
}

fn seconds(value: f64) -> String {
    let whole = value as u64;
    match whole {
        0..10 => format!("{value:.1} s"),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// Rounded to whole units, unlike the exact form of the configuration.
fn shown_bytes(bytes: u64) -> ByteSize {
    match bytes {
        0..1024 => ByteSize::from_bytes(bytes),
        1024..1_048_576 => ByteSize::from_kib(bytes / 1024),
        _ => ByteSize::from_mib(bytes / 1_048_576),
    }
}
