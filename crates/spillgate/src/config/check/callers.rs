//! Classes by caller mean something only where a field names the caller.
//!
//! Absent: what the tables hold (`many.rs`).

use super::super::problem::Problem;
use super::super::raw::{Raw, Section};
use super::super::value::Value;
use super::given;

pub(super) fn check(raw: &Raw, problems: &mut Vec<Problem>) {
    for pool in &raw.pools {
        named(pool, pool, problems);
    }
    for route in &raw.routes {
        without_pool(route, problems);
        let Some((name, _)) = given(route, "pool", Value::as_text) else { continue };
        if let Some(pool) = raw.pools.iter().find(|pool| pool.name == name) {
            named(route, pool, problems);
        }
    }
}

/// Whoever is in `class_callers` of the section must be known in its pool.
fn named(section: &Section, pool: &Section, problems: &mut Vec<Problem>) {
    let Some(callers) = section.key_span("class_callers") else { return };
    if pool.has("caller_header") {
        return;
    }
    problems.push(
        Problem::error("`class_callers` needs `caller_header`")
            .at(callers, "nobody knows who the caller is")
            .at(&pool.header, "no field names it to this pool")
            .mend(format!("add caller_header = \"x-caller\" to [pool.{}]", pool.name)),
    );
}

/// A reply of ours waits for nobody, so nobody comes first.
fn without_pool(route: &Section, problems: &mut Vec<Problem>) {
    let (Some(callers), Some(reply)) = (route.key_span("class_callers"), route.key_span("reply"))
    else {
        return;
    };
    problems.push(
        Problem::hint("`class_callers` has no effect on a reply")
            .at(callers, "nobody waits here")
            .at(reply, "this is sent at once")
            .mend("remove it"),
    );
}
