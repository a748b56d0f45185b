//! No address is used twice: listeners, admin page, endpoints, and the ports of started workers.
//!
//! Two of ours at one address, an endpoint that is ourselves, ranges of ports that overlap. Absent:
//! whether somebody else has an address now; that is found out at start.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use spillgate_runtime::http::settings::Endpoint;

use super::super::problem::{Problem, Span};
use super::super::raw::{Raw, Section};
use super::super::value::{At, Value};
use super::given;
use crate::counted::counted;

/// An address that we open ourselves.
struct Ours<'a> {
    endpoint: &'a Endpoint,
    span: &'a Span,
    what: String,
}

/// The ports that the workers of one pool get, both ends included.
struct Ports<'a> {
    pool: &'a Section,
    first: u64,
    last: u64,
    span: &'a Span,
}

impl Ports<'_> {
    fn label(&self) -> String {
        format!("pool `{}` uses {} to {}", self.pool.name, self.first, self.last)
    }
}

pub(super) fn check(raw: &Raw, cores: u32, problems: &mut Vec<Problem>) {
    let ours = ours(raw);
    twice(&ours, problems);
    for pool in &raw.pools {
        if let Some(At { value: Value::Endpoints(endpoints, _), .. }) = pool.given("endpoints") {
            same_worker_twice(endpoints, problems);
            loops(endpoints, &ours, problems);
        }
    }
    shared_workers(raw, problems);
    let ranges: Vec<Ports<'_>> =
        raw.pools.iter().filter_map(|pool| ports(pool, cores, problems)).collect();
    overlaps(&ranges, &ours, problems);
    admin(raw, problems);
}

fn ours(raw: &Raw) -> Vec<Ours<'_>> {
    let mut ours = Vec::new();
    for listener in &raw.listeners {
        if let Some((endpoint, span)) = given(listener, "address", Value::as_endpoint) {
            ours.push(Ours { endpoint, span, what: format!("listener `{}`", listener.name) });
        }
    }
    if let Some(admin) = &raw.admin
        && let Some((endpoint, span)) = given(admin, "address", Value::as_endpoint)
    {
        ours.push(Ours { endpoint, span, what: "the admin page".into() });
    }
    ours
}

fn chosen_by_system(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Tcp(address) if address.port() == 0)
}

fn twice(ours: &[Ours<'_>], problems: &mut Vec<Problem>) {
    for (n, late) in ours.iter().enumerate() {
        let early = ours[..n].iter().find(|early| early.endpoint == late.endpoint);
        let Some(early) = early.filter(|_| !chosen_by_system(late.endpoint)) else { continue };
        problems.push(
            Problem::error(format!("the address {} is used twice", late.endpoint))
                .at(late.span, format!("{} cannot have it", late.what))
                .at(early.span, format!("{} has it", early.what))
                .mend("give one of them another port or path"),
        );
    }
}

fn same_worker_twice(endpoints: &[At<Endpoint>], problems: &mut Vec<Problem>) {
    let mut order: Vec<&At<Endpoint>> = endpoints.iter().collect();
    order.sort_by_key(|at| (at.value.to_string(), at.span.start));
    for pair in order.windows(2) {
        if pair[0].value == pair[1].value {
            problems.push(
                Problem::error(format!("the endpoint {} is listed twice", pair[1].value))
                    .at(&pair[1].span, "again here")
                    .at(&pair[0].span, "first here")
                    .note("one worker would be counted as two, and get twice its `slots`")
                    .mend("remove one of them"),
            );
        }
    }
}

fn loops(endpoints: &[At<Endpoint>], ours: &[Ours<'_>], problems: &mut Vec<Problem>) {
    for at in endpoints {
        let Some(own) = ours.iter().find(|own| reaches(own.endpoint, &at.value)) else { continue };
        problems.push(
            Problem::error(format!("the endpoint {} is Spillgate itself", at.value))
                .at(&at.span, "exchanges would come back to us")
                .at(own.span, format!("{} listens here", own.what))
                .mend("write the address of the worker"),
        );
    }
}

/// Whether a connect to `to` ends at `listening`.
fn reaches(listening: &Endpoint, to: &Endpoint) -> bool {
    match (listening, to) {
        (Endpoint::Tcp(listening), Endpoint::Tcp(to)) => {
            let any = listening.ip().is_unspecified() && to.ip().is_loopback();
            listening.port() == to.port() && (any || listening.ip() == to.ip())
        }
        _ => listening == to,
    }
}

/// A worker of two pools gets the slots of both.
fn shared_workers(raw: &Raw, problems: &mut Vec<Problem>) {
    let mut all: Vec<(String, usize, &At<Endpoint>)> = Vec::new();
    for (n, pool) in raw.pools.iter().enumerate() {
        if let Some(At { value: Value::Endpoints(endpoints, _), .. }) = pool.given("endpoints") {
            all.extend(endpoints.iter().map(|at| (at.value.to_string(), n, at)));
        }
    }
    all.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    for pair in all.windows(2) {
        let [(early, first, a), (late, second, b)] = pair else { continue };
        if early == late && first != second {
            problems.push(
                Problem::warning(format!("the worker {late} is in two pools"))
                    .at(&b.span, format!("pool `{}`", raw.pools[*second].name))
                    .at(&a.span, format!("pool `{}`", raw.pools[*first].name))
                    .note("each pool counts its `slots` alone, so the worker may get the sum")
                    .mend("lead both routes to one pool"),
            );
        }
    }
}

fn ports<'a>(pool: &'a Section, cores: u32, problems: &mut Vec<Problem>) -> Option<Ports<'a>> {
    let (first, span) = given(pool, "port_base", Value::as_count).filter(|(port, _)| *port > 0)?;
    if !pool.has("command") {
        return None;
    }
    let workers = match pool.has("workers") {
        true => given(pool, "workers", Value::as_count)?.0,
        false => u64::from(cores),
    };
    let last = first + 2 * workers - 1;
    if last > u64::from(u16::MAX) {
        let mut problem = Problem::error(format!(
            "ports up to {last} are needed by {}",
            counted(workers, "worker")
        ))
        .at(span, "two ports for each worker, from here on");
        if let Some(at) = pool.given("workers") {
            problem = problem.at(&at.span, "so many workers");
        }
        let most = 65_536_u64.saturating_sub(2 * workers);
        problems.push(
            problem
                .note("the last port is 65535")
                .mend(format!("write port_base = {most} or less, or 0 for free ports")),
        );
        return None;
    }
    Some(Ports { pool, first, last, span })
}

fn overlaps(ranges: &[Ports<'_>], ours: &[Ours<'_>], problems: &mut Vec<Problem>) {
    for (n, late) in ranges.iter().enumerate() {
        for early in &ranges[..n] {
            if late.first <= early.last && early.first <= late.last {
                problems.push(
                    Problem::error("two pools use the same ports")
                        .at(late.span, late.label())
                        .at(early.span, early.label())
                        .mend(format!("write port_base = {}, for instance", early.last + 1)),
                );
            }
        }
        for our in ours {
            let Endpoint::Tcp(address) = our.endpoint else { continue };
            let port = address.port();
            if on_loopback(address) && (late.first..=late.last).contains(&port.into()) {
                problems.push(
                    Problem::error(format!("a worker would get the port of {}", our.what))
                        .at(late.span, late.label())
                        .at(our.span, format!("{} has port {port}", our.what))
                        .mend("choose another `port_base`, or 0 for free ports"),
                );
            }
        }
    }
}

/// Whether `address` takes a port of 127.0.0.1, where workers listen.
fn on_loopback(address: &SocketAddr) -> bool {
    address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) || address.ip().is_unspecified()
}

fn admin(raw: &Raw, problems: &mut Vec<Problem>) {
    let Some(admin) = &raw.admin else { return };
    let Some((Endpoint::Tcp(address), span)) = given(admin, "address", Value::as_endpoint) else {
        return;
    };
    if !address.ip().is_loopback() {
        problems.push(
            Problem::warning("the admin page can be reached from other machines")
                .at(span, "not a loopback address")
                .note("it is read-only, but shows paths, workers and load to whoever asks")
                .mend(format!(
                    "write \"127.0.0.1:{}\", unless a firewall guards it",
                    address.port()
                )),
        );
    }
}
