//! Whether each worker has an agent of its own, and only where agents are asked.
//!
//! Two workers with one agent would both be drained by its one word, so a number of agents that is
//! not that of the workers is an error.

use std::net::IpAddr;

use spillgate_runtime::http::settings::Endpoint;

use super::super::problem::Problem;
use super::super::raw::{Raw, Section};
use super::super::value::{At, Value};
use super::given;
use crate::counted::counted;

pub(super) fn check(raw: &Raw, cores: u32, problems: &mut Vec<Problem>) {
    for pool in &raw.pools {
        either(pool, problems);
        number(pool, cores, problems);
        hosts(pool, problems);
        without(pool, problems);
    }
}

fn endpoints<'a>(pool: &'a Section, name: &str) -> Option<&'a [At<Endpoint>]> {
    match pool.given(name) {
        Some(At { value: Value::Endpoints(endpoints, _), .. }) => Some(endpoints),
        _ => None,
    }
}

fn either(pool: &Section, problems: &mut Vec<Problem>) {
    if let (Some(list), Some(port)) = (pool.key_span("agents"), pool.key_span("agent_port")) {
        problems.push(
            Problem::error("`agents` and `agent_port` exclude each other")
                .at(list, "says where each agent is")
                .at(port, "says it, too")
                .mend("keep one"),
        );
    }
}

/// One agent for each worker, and none for two.
fn number(pool: &Section, cores: u32, problems: &mut Vec<Problem>) {
    let Some(agents) = endpoints(pool, "agents") else { return };
    let span = pool.key_span("agents").expect("a key that is given stands somewhere");
    let workers = match endpoints(pool, "endpoints") {
        Some(workers) => workers.len() as u64,
        None if !pool.has("command") => return,
        None if pool.has("workers") => match given(pool, "workers", Value::as_count) {
            Some((workers, _)) => workers,
            None => return,
        },
        None => cores.into(),
    };
    let found = agents.len() as u64;
    if found != workers {
        problems.push(
            Problem::error(format!(
                "{}, but {}",
                counted(workers, "worker"),
                counted(found, "agent")
            ))
            .at(span, "one for each worker is needed, in their order")
            .mend("name an agent for each worker"),
        );
    }
    for (n, late) in agents.iter().enumerate() {
        if let Some(early) = agents[..n].iter().find(|early| early.value == late.value) {
            problems.push(
                Problem::error(format!("the agent {} is listed twice", late.value))
                    .at(&late.span, "again here")
                    .at(&early.span, "first here")
                    .note("one word of it would drain both workers")
                    .mend("give each worker an agent of its own"),
            );
        }
    }
}

/// `agent_port` needs workers on hosts of their own.
fn hosts(pool: &Section, problems: &mut Vec<Problem>) {
    let Some(port) = pool.key_span("agent_port").filter(|_| !pool.has("agents")) else { return };
    let Some(workers) = endpoints(pool, "endpoints") else {
        if pool.has("command") {
            problems.push(
                Problem::error("`agent_port` goes with `endpoints`")
                    .at(port, "all these workers are on one host")
                    .mend("write agents = [\"127.0.0.1:9100\", …], one for each worker"),
            );
        }
        return;
    };
    let mut seen: Vec<(IpAddr, &At<Endpoint>)> = Vec::new();
    for worker in workers {
        let Endpoint::Tcp(address) = &worker.value else {
            problems.push(
                Problem::error("a worker on a Unix socket has no port beside it")
                    .at(&worker.span, "on a socket")
                    .at(port, "so there is no host for this")
                    .mend("write agents = [\"127.0.0.1:9100\", …], one for each worker"),
            );
            continue;
        };
        match seen.iter().find(|(host, _)| *host == address.ip()) {
            Some((host, early)) => problems.push(
                Problem::error(format!("two workers on {host} would have one agent"))
                    .at(&worker.span, "this one")
                    .at(&early.span, "and this one")
                    .at(port, "one port for both")
                    .mend("write agents = [\"127.0.0.1:9100\", …], one for each worker"),
            ),
            None => seen.push((address.ip(), worker)),
        }
    }
}

fn without(pool: &Section, problems: &mut Vec<Problem>) {
    if pool.has("agents") || pool.has("agent_port") {
        return;
    }
    for name in ["agent_interval", "agent_send"] {
        if let Some(span) = pool.key_span(name) {
            problems.push(
                Problem::hint(format!("`{name}` has no effect without agents"))
                    .at(span, "nobody is asked")
                    .mend("add `agents` or `agent_port`, or remove it"),
            );
        }
    }
}
