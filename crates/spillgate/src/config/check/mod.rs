//! What the keys of a file must be together.
//!
//! Each check reads the raw file and adds its problems; none changes anything, none depends on
//! another. A key whose value is bad already has its problem, so checks skip it. What another key
//! says is pointed at with a second label.

mod addresses;
mod agents;
mod callers;
mod files;
mod pools;
pub(super) mod program;
pub(super) mod routes;

use spillgate_core::budget::INTAKE_SHARE;
use spillgate_core::units::ByteSize;
use spillgate_runtime::http::settings::Endpoint;

use super::problem::{Problem, Span};
use super::raw::{Raw, Section};
use super::value::{At, Value};

/// Checks everything that more than one key decides. `cores` is the default of `workers`.
pub(super) fn check(raw: &Raw, cores: u32, problems: &mut Vec<Problem>) {
    sections(raw, problems);
    required(raw, problems);
    proxy_protocol(raw, problems);
    memory(raw, problems);
    addresses::check(raw, cores, problems);
    pools::check(raw, problems);
    agents::check(raw, cores, problems);
    routes::check(raw, problems);
    callers::check(raw, problems);
    files::check(raw, problems);
}

/// The value that the file gives for `name`, through `read`, with its place.
fn given<'a, T>(
    section: &'a Section,
    name: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Option<(T, &'a Span)> {
    let At { value, span } = section.given(name)?;
    Some((read(value)?, span))
}

fn sections(raw: &Raw, problems: &mut Vec<Problem>) {
    if raw.lost {
        return;
    }
    if raw.listeners.is_empty() {
        problems.push(
            Problem::error("no listener")
                .note("nobody could connect")
                .mend("add [listener.main] with address = \"127.0.0.1:8080\""),
        );
    }
    if raw.pools.is_empty() && raw.routes.is_empty() {
        problems.push(
            Problem::error("neither a pool nor a route")
                .note("every request would be refused")
                .mend("add [pool.app] with endpoints = [\"127.0.0.1:9000\"]"),
        );
    }
}

/// Every section has the keys that it cannot do without.
fn required(raw: &Raw, problems: &mut Vec<Problem>) {
    let once = [&raw.spill, &raw.access_log, &raw.admin];
    let many = raw.listeners.iter().chain(&raw.pools).chain(&raw.routes);
    for section in many.chain(once.into_iter().flatten()) {
        section.demand(problems);
    }
    for route in &raw.routes {
        if let Some(At { value: Value::Reply(reply), .. }) = route.given("reply") {
            reply.demand(problems);
        }
    }
}

/// A PROXY protocol header that is believed from nobody closes every connection.
fn proxy_protocol(raw: &Raw, problems: &mut Vec<Problem>) {
    let (networks, unix) = match raw.top.value("trusted_from") {
        Some(Value::TrustedFrom(trusted)) => (!trusted.networks.is_empty(), trusted.unix),
        _ => (true, true),
    };
    for listener in &raw.listeners {
        let Some((true, span)) = given(listener, "proxy_protocol", Value::as_flag) else {
            continue;
        };
        let believed_from_nobody = "believed from nobody, so each connection would be closed";
        match given(listener, "address", Value::as_endpoint) {
            Some((Endpoint::Unix(_), _)) if unix => {}
            Some((Endpoint::Unix(_), address_at)) => problems.push(
                Problem::error("`proxy_protocol` needs `trusted_from`")
                    .at(span, believed_from_nobody)
                    .at(address_at, "clients of a Unix socket have no address")
                    .mend("trust the clients of Unix sockets: trusted_from = [\"unix:\"]"),
            ),
            _ if !networks => problems.push(
                Problem::error("`proxy_protocol` needs `trusted_from`")
                    .at(span, believed_from_nobody)
                    .mend("name the load balancers at the top: trusted_from = [\"10.0.0.0/8\"]"),
            ),
            _ => {}
        }
    }
}

/// Bodies must fit into what holds them.
fn memory(raw: &Raw, problems: &mut Vec<Problem>) {
    let all = raw.top.value("buffer_memory_max").and_then(|value| value.as_size());
    let one = raw.top.value("body_memory_max").and_then(|value| value.as_size());
    let (Some(all), Some(one)) = (all, one) else { return };
    let intake = ByteSize::from_bytes(INTAKE_SHARE.of(all.as_bytes()));
    if one > intake {
        let mut problem = Problem::error(format!(
            "`body_memory_max` is {one}, but request bodies may take {} in all",
            rounded(intake)
        ));
        if let Some(at) = raw.top.given("body_memory_max") {
            problem = problem.at(&at.span, "one body would never fit");
        }
        if let Some(at) = raw.top.given("buffer_memory_max") {
            problem = problem
                .at(&at.span, format!("request bodies get 70 % of this: {}", rounded(intake)));
        }
        problems.push(problem.mend("raise `buffer_memory_max`, or lower `body_memory_max`"));
    }
    let Some(spill) = &raw.spill else { return };
    let room = match spill.value("enabled").and_then(|value| value.as_flag()) {
        Some(false) => {
            Some((intake, "nothing spills, so bodies stay in 70 % of `buffer_memory_max`"))
        }
        _ => spill
            .value("size_max")
            .and_then(|value| value.as_size())
            .map(|size| (size + one, "bodies spill within `size_max` of [spill]")),
    };
    let Some((room, why)) = room else { return };
    for pool in &raw.pools {
        let Some((size, span)) = given(pool, "body_size_max", Value::as_size) else { continue };
        if size > room {
            problems.push(
                Problem::warning(format!("`body_size_max` is {size}, more than there is room for"))
                    .at(span, "bodies near this size are shed")
                    .note(format!("room for {}: {why}", rounded(room)))
                    .mend("lower `body_size_max`, or make more room"),
            );
        }
    }
}

/// `size` in whole MiB, or KiB when it is small.
fn rounded(size: ByteSize) -> ByteSize {
    let unit = if size >= ByteSize::from_mib(1) { 1 << 20 } else { 1 << 10 };
    ByteSize::from_bytes(size.as_bytes() / unit * unit)
}
