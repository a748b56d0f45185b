//! The last words: what happened to everybody, in numbers and in plain words.
//!
//! Pure: from what was counted to lines. The clients' numbers are told beside those of Spillgate's
//! own books, which must add up.

use super::place::Place;
use super::plan::{ANSWER_WITHIN, PHASES, WORKERS};
use super::screen::millis;
use super::story::{Killed, Outcome};
use super::tally::Count;
use crate::admin::status::EndStatus;
use crate::counted::counted;

/// All lines.
pub(super) fn of(outcome: &Outcome, place: &Place) -> Vec<String> {
    let mut lines = vec![String::new(), head()];
    let phases = PHASES.iter().map(|phase| phase.name).zip(&outcome.tally.phases);
    lines.extend(phases.chain([("(uploads)", &outcome.tally.uploads)]).map(row));
    lines.push(String::new());
    if outcome.interrupted {
        lines.push("Ended early.".to_owned());
    } else {
        lines.extend(story(outcome));
    }
    let failed = outcome.tally.failed();
    lines.push(format!("failed requests: {failed}{}", failures(outcome)));
    lines.push(String::new());
    lines.push(format!("Look into {}:", place.folder().display()));
    lines.push("  spillgate.toml  the configuration: spillgate serve --config FILE".to_owned());
    lines
        .push("  access.log      one line for each request, with a time for each stage".to_owned());
    lines.push("  program.log     what Spillgate said".to_owned());
    lines
}

fn head() -> String {
    format!(
        "{:<12}{:>9}{:>10}{:>9}{:>9}{:>8}{:>10}{:>10}",
        "phase", "offered", "answered", "in time", "shed", "failed", "p50", "p99"
    )
}

fn row((name, count): (&str, &Count)) -> String {
    format!(
        "{name:<12}{:>9}{:>10}{:>9}{:>9}{:>8}{:>10}{:>10}",
        count.offered,
        count.answered,
        count.in_time,
        count.shed_sum(),
        count.failed_sum(),
        millis(count.quantile(50)),
        millis(count.quantile(99)),
    )
}

fn story(outcome: &Outcome) -> Vec<String> {
    let [calm, rush, _, _, uploads, restart, _] = &outcome.tally.phases;
    let within = ANSWER_WITHIN.as_secs();
    let mut lines = vec![format!(
        "Rush: {} came, {} got their page within {within} s, {} were told that they would not \
         (503 with Retry-After); the workers did useful work only.",
        rush.offered,
        rush.in_time,
        rush.shed_sum()
    )];
    lines.push(killed(outcome.killed.as_ref(), outcome.retries));
    lines.push(format!(
        "Uploads: {} slow ones held no worker until they were whole; pages beside them: p99 {}, \
         against {} in the calm.",
        outcome.tally.uploads.offered,
        millis(uploads.quantile(99)),
        millis(calm.quantile(99))
    ));
    lines.push(match &outcome.restarted {
        Some(Ok(took)) => format!(
            "Restart: all {WORKERS} workers were replaced in {} ms, while {} pages were asked for \
             and {} failed.",
            took.as_millis(),
            restart.offered,
            restart.failed_sum()
        ),
        Some(Err(error)) => format!("Restart: it did not go through: {error}."),
        None => "Restart: it did not end in time.".to_owned(),
    });
    lines.extend(outcome.counted.as_ref().map(books));
    lines
}

fn killed(killed: Option<&Killed>, retries: u64) -> String {
    let Some(killed) = killed else { return "Kill: no worker was busy.".to_owned() };
    let Killed { worker, pid, waiting, back_after } = killed;
    let back = match back_after {
        Some(time) => format!("its next process served after {} ms", time.as_millis()),
        None => "its next process was not ready in time".to_owned(),
    };
    format!(
        "Kill: worker {worker} (pid {pid}) got SIGKILL while busy, with {waiting} waiting; what it \
         held was tried again on another one (retries in all: {retries}), and {back}."
    )
}

/// Spillgate's own books.
fn books(ends: &EndStatus) -> String {
    let sum = |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum::<u64>();
    format!(
        "Spillgate counted {} = {} successes + {} shed + {} refused + {} failed + \
         {} abandoned + {} in progress.",
        counted(ends.arrivals, "arrival"),
        sum(&ends.successes),
        sum(&ends.shed),
        sum(&ends.refused),
        sum(&ends.failed),
        sum(&ends.abandoned),
        ends.in_progress
    )
}

fn failures(outcome: &Outcome) -> String {
    let counts = outcome.tally.phases.iter().chain([&outcome.tally.uploads]);
    let reasons: Vec<String> = counts
        .flat_map(|count| &count.failed)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}
