//! Where routes lead, and whether each can ever apply.
//!
//! Also who gets what no route names ([`pool_by_default`]), which `build.rs` asks as well, so that
//! what is checked is what is served.

use std::collections::BTreeMap;

use super::super::problem::{Problem, Span, shown};
use super::super::raw::{Raw, Section};
use super::super::value::{Value, nearest};
use super::given;

/// Most names that one message lists.
const LISTED_MAX: usize = 12;

pub(super) fn check(raw: &Raw, problems: &mut Vec<Problem>) {
    for route in &raw.routes {
        destination(raw, route, problems);
        both_paths(route, problems);
        body_of_reply(route, problems);
    }
    twice(raw, problems);
    unused_pools(raw, problems);
}

/// The pool that gets every request for which the file has no route.
///
/// It is the only pool, when no route leads to it and no route of any host has the prefix `/`.
pub(in super::super) fn pool_by_default(raw: &Raw) -> Option<usize> {
    let taken = |route: &Section| {
        route.has("pool") || matches!(matched(route), Some((None, "path", path)) if path == "/")
    };
    (raw.pools.len() == 1 && !raw.routes.iter().any(taken)).then_some(0)
}

/// Host, key and path of a route; none when one of them is bad.
fn matched(route: &Section) -> Option<(Option<String>, &'static str, String)> {
    let text = |name| route.value(name).and_then(|value| value.as_text().map(str::to_owned));
    let host = if route.has("host") { Some(text("host")?) } else { None };
    let key = if route.has("path_exact") { "path_exact" } else { "path" };
    Some((host, key, text(key)?))
}

fn destination(raw: &Raw, route: &Section, problems: &mut Vec<Problem>) {
    match (route.key_span("pool"), route.key_span("reply")) {
        (Some(pool), Some(reply)) => problems.push(
            Problem::error("a route leads to one destination")
                .at(reply, "a reply")
                .at(pool, "and a pool")
                .mend("keep one of `pool` and `reply`"),
        ),
        (None, None) => problems.push(
            Problem::error("this route leads nowhere")
                .at(&route.header, "neither `pool` nor `reply`")
                .mend("add pool = \"NAME\", or reply = { status = 200 }"),
        ),
        _ => {}
    }
    let Some((name, span)) = given(route, "pool", Value::as_text) else { return };
    if raw.pools.iter().any(|pool| pool.name == name) {
        return;
    }
    let names = || raw.pools.iter().map(|pool| pool.name.as_str());
    let mut problem = Problem::error(format!("pool `{}` is not defined", shown(name)))
        .at(span, "the route leads to it");
    let near = nearest(name, names());
    if let Some(pool) = raw.pools.iter().find(|pool| Some(pool.name.as_str()) == near) {
        problem = problem.at(&pool.header, "this one is defined");
    }
    problem = match near {
        Some(near) => problem.mend(format!("did you mean `{}`?", shown(near))),
        None => problem.mend("write the name of a pool, or add its section"),
    };
    let mut listed: Vec<String> =
        names().take(LISTED_MAX).map(|n| format!("`{}`", shown(n))).collect();
    if raw.pools.len() > LISTED_MAX {
        listed.push("…".into());
    }
    problems.push(match listed.is_empty() {
        true => problem.note("no pool is defined"),
        false => problem.note(format!("defined pools: {}", listed.join(", "))),
    });
}

fn both_paths(route: &Section, problems: &mut Vec<Problem>) {
    if let (Some(path), Some(exact)) = (route.key_span("path"), route.key_span("path_exact")) {
        problems.push(
            Problem::error("a route has one path")
                .at(exact, "this path alone")
                .at(path, "paths that begin with this")
                .mend("keep one; a second route can have the other"),
        );
    }
}

fn body_of_reply(route: &Section, problems: &mut Vec<Problem>) {
    let Some(at) = route.given("reply") else { return };
    let Value::Reply(reply) = &at.value else { return };
    let Some((status @ (204 | 304), status_at)) = given(reply, "status", Value::as_count) else {
        return;
    };
    if let Some((body, body_at)) = given(reply, "body", Value::as_text)
        && !body.is_empty()
    {
        problems.push(
            Problem::error(format!("a reply with status {status} has no body"))
                .at(body_at, "this could not be sent")
                .at(status_at, "with this status")
                .mend("remove the body, or write status = 200"),
        );
    }
}

fn twice(raw: &Raw, problems: &mut Vec<Problem>) {
    let mut seen: BTreeMap<(Option<String>, &str, String), &Span> = BTreeMap::new();
    for route in &raw.routes {
        let Some(matched) = matched(route) else { continue };
        let (host, key, path) = &matched;
        let place = |route: &Section| match route.given(key) {
            Some(at) => at.span.clone(),
            None => route.header.clone(),
        };
        if let Some(early) = seen.get(&matched) {
            let of = host.as_ref().map_or("any host".to_owned(), |host| format!("host `{host}`"));
            let kind = if *key == "path" { "the prefix" } else { "exactly" };
            problems.push(
                Problem::error("two routes apply to the same requests")
                    .at(&place(route), format!("again {kind} `{}` of {}", shown(path), shown(&of)))
                    .at(early, "first here")
                    .mend("remove one of them, or give it another host or path"),
            );
            continue;
        }
        let span = route.given(key).map_or(&route.header, |at| &at.span);
        seen.insert(matched, span);
    }
}

fn unused_pools(raw: &Raw, problems: &mut Vec<Problem>) {
    let by_default = pool_by_default(raw);
    for (n, pool) in raw.pools.iter().enumerate() {
        let leads_here = |route: &Section| {
            given(route, "pool", Value::as_text).is_some_and(|(name, _)| name == pool.name)
        };
        let unsure = raw.routes.iter().any(|route| {
            route.has("pool")
                && given(route, "pool", Value::as_text)
                    .is_none_or(|(name, _)| !raw.pools.iter().any(|pool| pool.name == name))
        });
        if by_default == Some(n) || unsure || raw.routes.iter().any(leads_here) {
            continue;
        }
        problems.push(
            Problem::warning(format!("no route leads to pool `{}`", shown(&pool.name)))
                .at(&pool.header, "its workers never get an exchange")
                .mend(format!("add a [[route]] with pool = \"{}\"", shown(&pool.name))),
        );
    }
}
