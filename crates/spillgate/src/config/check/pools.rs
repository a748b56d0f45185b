//! What the keys of one pool must be together.
//!
//! Who starts the workers, and whether times and limits contradict each other. Absent: addresses
//! and ports (`addresses.rs`), and the ranges of single keys (`table.rs`).

use std::path::Path;

use spillgate_core::units::Weight;

use super::super::problem::Problem;
use super::super::raw::{Raw, Section};
use super::super::unit::duration_text;
use super::super::value::{At, Value};
use super::given;
use crate::counted::counted;

/// Keys that mean something only where we start the workers.
const COMMAND_KEYS: [&str; 13] = [
    "workers",
    "port_base",
    "socket_dir",
    "directory",
    "environment",
    "ready_time_max",
    "heartbeat_time_max",
    "worker_drain_time_max",
    "stop_time_max",
    "stall_stop_time_max",
    "restart_wait_min",
    "restart_wait_max",
    "restart_calm",
];

/// Room that the name of a socket needs after its folder, within the 107 bytes of a socket path.
const SOCKET_NAME_MAX: usize = 32;

pub(super) fn check(raw: &Raw, problems: &mut Vec<Problem>) {
    for pool in &raw.pools {
        who_starts(pool, problems);
        connections(pool, problems);
        limits(pool, problems);
        restarts(pool, problems);
        answers(pool, problems);
        balance(pool, problems);
        sockets(pool, problems);
    }
    shared_folders(raw, problems);
}

/// Exactly one of `endpoints` and `command`, and no key of the other.
fn who_starts(pool: &Section, problems: &mut Vec<Problem>) {
    match (pool.key_span("endpoints"), pool.key_span("command")) {
        (Some(endpoints), Some(command)) => problems.push(
            Problem::error(format!("pool `{}` has both `endpoints` and `command`", pool.name))
                .at(command, "Spillgate starts the workers")
                .at(endpoints, "somebody else starts the workers")
                .mend("keep one; a route can lead to another pool for the rest"),
        ),
        (None, None) => problems.push(
            Problem::error(format!("pool `{}` has no workers", pool.name))
                .at(&pool.header, "neither `endpoints` nor `command`")
                .mend(
                    "add endpoints = [\"127.0.0.1:9000\"], or command = [\"node\", \"server.js\"]",
                ),
        ),
        (Some(endpoints), None) => {
            for (name, span) in pool.keys().filter(|(name, _)| COMMAND_KEYS.contains(name)) {
                problems.push(
                    Problem::error(format!("`{name}` goes with `command`"))
                        .at(span, "has no effect on these workers")
                        .at(endpoints, "somebody else starts them")
                        .mend("remove it"),
                );
            }
        }
        (None, Some(_)) => {}
    }
}

/// A slot without a connection could never be used.
fn connections(pool: &Section, problems: &mut Vec<Problem>) {
    let most = given(pool, "connections_max", Value::as_count);
    let slots = given(pool, "slots", Value::as_count);
    let (Some((most, most_at)), Some((slots, slots_at))) = (most, slots) else { return };
    if most < slots {
        problems.push(
            Problem::error("`connections_max` is below `slots`")
                .at(most_at, counted(most, "connection"))
                .at(
                    slots_at,
                    format!("{}, each on a connection of its own", counted(slots, "exchange")),
                )
                .mend(format!("write connections_max = {slots}, or leave it out")),
        );
    }
}

/// A limit is learned between `limit_min` and `slots`.
fn limits(pool: &Section, problems: &mut Vec<Problem>) {
    let by = given(pool, "limit", Value::as_text).filter(|(by, _)| *by != "fixed");
    let least = given(pool, "limit_min", Value::as_count);
    let slots = given(pool, "slots", Value::as_count);
    let count = slots.map_or(1, |(slots, _)| slots);
    match (by, least) {
        (None, Some((_, at))) => problems.push(
            Problem::hint("`limit_min` has no effect while the limit is fixed")
                .at(at, "no limit is learned")
                .mend("add limit = \"gradient\", or remove it"),
        ),
        (Some((_, by_at)), _) if count == 1 => {
            let mut problem = Problem::hint("with one slot there is no limit to be learned")
                .at(by_at, "between one and one");
            if let Some((_, at)) = slots {
                problem = problem.at(at, "the most that is learned");
            }
            problems.push(problem.mend("raise `slots`, or remove it"));
        }
        (Some(_), Some((least, at))) if least > count => {
            let mut problem =
                Problem::error("`limit_min` is above `slots`").at(at, "the least that is learned");
            if let Some((_, at)) = slots {
                problem = problem.at(at, "the most");
            }
            problems.push(problem.mend(format!("write limit_min = {count}, or less")));
        }
        _ => {}
    }
}

fn restarts(pool: &Section, problems: &mut Vec<Problem>) {
    let value = |name| pool.value(name).and_then(|value| value.as_duration());
    let (Some(least), Some(most)) = (value("restart_wait_min"), value("restart_wait_max")) else {
        return;
    };
    if least <= most {
        return;
    }
    let mut problem = Problem::error(format!(
        "`restart_wait_min` ({}) is above `restart_wait_max` ({})",
        duration_text(least),
        duration_text(most),
    ));
    for (name, label) in
        [("restart_wait_min", "the first wait"), ("restart_wait_max", "the longest")]
    {
        if let Some(at) = pool.given(name) {
            problem = problem.at(&at.span, label);
        }
    }
    problems.push(problem.mend("raise the one or lower the other"));
}

/// Keys that have no effect with this `balance`.
fn balance(pool: &Section, problems: &mut Vec<Problem>) {
    let balance = pool.value("balance");
    let balance = balance.as_ref().and_then(Value::as_text);
    for name in ["hash_by", "hash_header", "hash_excess_max"] {
        if let Some(at) = pool.given(name).filter(|_| balance != Some("hash")) {
            problems.push(
                Problem::hint(format!("`{name}` has no effect without `balance = \"hash\"`"))
                    .at(&at.span, "no key is looked for")
                    .mend("add balance = \"hash\", or remove it"),
            );
        }
    }
    let Some(balance) = balance.filter(|balance| ["turns", "first"].contains(balance)) else {
        return;
    };
    let weighed = match pool.given("endpoints") {
        Some(At { value: Value::Endpoints(entries, weights), .. }) => {
            let at = weights.iter().position(|weight| *weight != Weight::ONE);
            at.map(|place| &entries[place].span)
        }
        _ => None,
    };
    if let Some(span) = weighed {
        problems.push(
            Problem::warning(format!("weights have no effect with `balance = \"{balance}\"`"))
                .at(span, "gets no more and no less than the others")
                .mend("write balance = \"weighted\" or \"least_loaded\", or leave it out"),
        );
    }
}

/// Settings that keep `answer_within` from doing its work.
fn answers(pool: &Section, problems: &mut Vec<Problem>) {
    let Some((within, within_at)) = given(pool, "answer_within", Value::as_duration) else {
        if let Some(at) = pool.given("answer_quantile").filter(|_| !pool.has("answer_within")) {
            problems.push(
                Problem::hint("`answer_quantile` has no effect without `answer_within`")
                    .at(&at.span, "nothing is reckoned with it")
                    .mend("add `answer_within`, or remove it"),
            );
        }
        return;
    };
    let shown = duration_text(within);
    if let Some((wait, at)) = given(pool, "queue_wait_max", Value::as_duration)
        && wait > within
    {
        problems.push(
            Problem::hint("`queue_wait_max` is longer than `answer_within`")
                .at(at, "reached only until enough service times were measured")
                .at(within_at, "sheds earlier")
                .note(format!("no answer is useful after {shown}, so no wait is")),
        );
    }
    let hold = pool.value("respond_hold_wait").and_then(|value| value.as_duration());
    if hold.is_some_and(|hold| hold >= within) {
        let mut problem = Problem::warning("holding a response back may alone make it late")
            .at(within_at, format!("useful for {shown}"));
        if let Some(at) = pool.given("respond_hold_wait") {
            problem = problem.at(&at.span, "held back for this long after its head");
        }
        problems.push(problem.mend("lower `respond_hold_wait` well below `answer_within`"));
    }
    if let Some((exchange, at)) = given(pool, "exchange_time_max", Value::as_duration)
        && exchange < within
    {
        problems.push(
            Problem::hint("`exchange_time_max` is shorter than `answer_within`")
                .at(at, "a worker that takes longer is replaced")
                .at(within_at, "though its answer would still be useful"),
        );
    }
}

fn sockets(pool: &Section, problems: &mut Vec<Problem>) {
    let Some((folder, span)) = given(pool, "socket_dir", Value::as_path) else { return };
    if let Some((base, base_at)) = given(pool, "port_base", Value::as_count) {
        problems.push(
            Problem::error("`socket_dir` and `port_base` exclude each other")
                .at(span, "workers listen on sockets")
                .at(base_at, format!("workers listen on ports from {base}"))
                .mend("keep one"),
        );
    }
    if !folder.is_absolute() {
        let shown = folder.display();
        problems.push(
            Problem::error("`socket_dir` must begin with `/`")
                .at(span, "workers may run in another directory")
                .mend(format!("write \"/run/{shown}\", for instance")),
        );
    }
    let room = 107 - SOCKET_NAME_MAX;
    if length(folder) > room {
        problems.push(
            Problem::error("`socket_dir` is too long")
                .at(span, format!("{} bytes; {room} at most", length(folder)))
                .note("the system takes 107 bytes for the path of a socket, its name included"),
        );
    }
}

fn length(path: &Path) -> usize {
    path.as_os_str().len()
}

/// Two pools with one folder would take each other's sockets away.
fn shared_folders(raw: &Raw, problems: &mut Vec<Problem>) {
    let folders: Vec<_> = raw
        .pools
        .iter()
        .filter_map(|pool| given(pool, "socket_dir", Value::as_path).map(|at| (pool, at)))
        .collect();
    for (n, (late, (folder, span))) in folders.iter().enumerate() {
        let Some((early, (_, early_at))) = folders[..n].iter().find(|(_, (f, _))| f == folder)
        else {
            continue;
        };
        problems.push(
            Problem::error("two pools share one `socket_dir`")
                .at(span, format!("pool `{}`", late.name))
                .at(early_at, format!("pool `{}`", early.name))
                .mend("give each pool a folder of its own"),
        );
    }
}
