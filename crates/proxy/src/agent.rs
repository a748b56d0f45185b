//! The agents beside the workers: each is asked at intervals what its worker can take.
//!
//! An agent speaks of its worker as HAProxy's agent-check has it, and the gate is told what it
//! said. That nobody answers is no sign of anything: whether the worker can be reached is for
//! probes and exchanges to find out, and what was said holds until the opposite is said. So an
//! agent is asked for ever, also after it said that its worker is down.
//!
//! Runs off the shards. Absent: what a report changes, which the gate decides.

use std::sync::Arc;

use spillgate_core::gate::Input;
use spillgate_core::id::WorkerId;
use spillgate_core::pool::{Admin, Health, Report};
use spillgate_core::time::Instant;
use spillgate_core::units;
use spillgate_runtime::clock;
use spillgate_runtime::drive::{self, ControlHandle};
use spillgate_runtime::events;
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::metrics::LabelSet;
use spillgate_runtime::net::ask_line::ask_line;
use spillgate_wire::agent_line::{self, AgentLine, Weight};

use crate::metrics::ControlMetrics;
use crate::metrics::label::AgentOutcome;
use crate::pool::Pool;
use crate::settings::AgentSettings;

/// Most bytes of what an agent said that are kept to be shown: a line of a terminal and a half.
const SHOWN_MAX: usize = 120;

/// What came of asking the agent of one worker, for whoever looks.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where it is asked.
    pub endpoint: Endpoint,
    /// What came of the last question; none: there was none yet.
    pub outcome: Option<AgentOutcome>,
    /// When it last said a line; none: never.
    pub heard: Option<Instant>,
    /// The last word of health that it said, with its description; empty: none was said. Text
    /// without control characters, cut.
    pub health: String,
    /// The first word of its last line that we do not know; empty: we know all. As above.
    pub unknown: String,
}

/// Ask the agents of the workers of `pool` until the process ends, spread over the interval.
pub(crate) fn start(control: &ControlHandle, pool: &Arc<Pool>, metrics: &Arc<ControlMetrics>) {
    let Some(agents) = &pool.settings.agents else { return };
    let count = u32::try_from(agents.endpoints.len()).expect("a pool has fewer workers");
    let begin = clock::now();
    for number in 0..count {
        let first = begin + agents.interval * number / count;
        let (pool, metrics) = (Arc::clone(pool), Arc::clone(metrics));
        control.spawn(async move {
            let Some(agents) = &pool.settings.agents else { return };
            keep_asking(&pool, agents, WorkerId(number), first, &metrics).await;
        });
    }
}

async fn keep_asking(
    pool: &Pool,
    agents: &AgentSettings,
    worker: WorkerId,
    first: Instant,
    metrics: &ControlMetrics,
) {
    let endpoint = &agents.endpoints[worker.0 as usize];
    let mut asked = Asked {
        endpoint: endpoint.clone(),
        outcome: None,
        heard: None,
        health: String::new(),
        unknown: String::new(),
    };
    pool.set_asked(worker, asked.clone());
    let mut due = first;
    loop {
        drive::sleep_until(due).await;
        due = clock::now() + agents.interval;
        let line = ask_line(endpoint, agents.send.as_bytes(), agent_line::LINE_SIZE_MAX);
        let answer = match drive::until(due, line).await {
            Some(Ok(bytes)) => bytes,
            Some(Err(_)) | None => Vec::new(),
        };
        let outcome = hear(pool, worker, &answer, &mut asked);
        metrics.pools[pool.index].agents[outcome.index()].increment();
        asked.outcome = Some(outcome);
        pool.set_asked(worker, asked.clone());
    }
}

/// Tell the gate what an agent said.
fn hear(pool: &Pool, worker: WorkerId, answer: &[u8], asked: &mut Asked) -> AgentOutcome {
    if answer.is_empty() {
        return AgentOutcome::Silent;
    }
    let Ok(Some(line)) = agent_line::parse(answer) else {
        return AgentOutcome::Incomplete;
    };
    pool.tell_from_control(Input::Report {
        worker,
        report: report(&line, pool.settings.weight(worker)),
    });
    asked.heard = Some(clock::now());
    if let Some(health) = line.health {
        asked.health = match line.description {
            Some(why) => format!("{}: {}", health_word(health), shown(why)),
            None => health_word(health).to_owned(),
        };
    }
    let unknown = line.unknown.map(shown).unwrap_or_default();
    if !unknown.is_empty() && unknown != asked.unknown {
        let (name, worker) = (&pool.settings.name, worker.0);
        events::warn(
            "agent",
            format_args!("{name}: the agent of worker {worker} said '{unknown}', not a word of it"),
        );
    }
    asked.unknown = unknown;
    match line.unknown {
        Some(_) => AgentOutcome::UnknownWord,
        None => AgentOutcome::Heard,
    }
}

/// What a line mentions, as the gate takes it.
pub(crate) fn report(line: &AgentLine<'_>, configured: units::Weight) -> Report {
    Report {
        admin: line.admin.map(|admin| match admin {
            agent_line::Admin::Ready => Admin::Ready,
            agent_line::Admin::Drain => Admin::Drain,
            agent_line::Admin::Maint => Admin::Maint,
        }),
        percent: line.weight.map(|weight| match weight {
            Weight::Percent(percent) => percent,
            Weight::Absolute(weight) => configured.percent_of(weight),
        }),
        slots: line.slots,
        health: line.health.map(|health| match health {
            agent_line::Health::Up => Health::Up,
            agent_line::Health::Down | agent_line::Health::Failed | agent_line::Health::Stopped => {
                Health::Down
            }
        }),
    }
}

fn health_word(health: agent_line::Health) -> &'static str {
    match health {
        agent_line::Health::Up => "up",
        agent_line::Health::Down => "down",
        agent_line::Health::Failed => "failed",
        agent_line::Health::Stopped => "stopped",
    }
}

/// Text of an agent that cannot harm a terminal or a page.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_told_to_the_gate() {
        let check = |line: &str, expected| {
            let line = agent_line::words(line.as_bytes());
            assert_eq!(report(&line, units::Weight::ONE), expected, "{line:?}");
        };
        let full = Report {
            admin: Some(Admin::Ready),
            percent: Some(75),
            slots: Some(30),
            health: Some(Health::Up),
        };
        check("ready 75% maxconn:30 up", full);
        check("bogus", Report::default());
        check("weight:3", Report { percent: Some(300), ..Report::default() });
        let of_four = units::Weight::new(4).expect("a weight");
        let said = report(&agent_line::words(b"weight:3"), of_four);
        assert_eq!(said, Report { percent: Some(75), ..Report::default() });
        for down in ["down", "fail", "failed", "stopped"] {
            check(down, Report { health: Some(Health::Down), ..Report::default() });
        }
        check("drain", Report { admin: Some(Admin::Drain), ..Report::default() });
        check("maint", Report { admin: Some(Admin::Maint), ..Report::default() });
    }

    #[test]
    fn what_is_shown_is_short_and_harmless() {
        assert_eq!(shown(b"db \x1b[31mlost\xff"), "db ?[31mlost\u{fffd}");
        assert_eq!(shown(&[b'a'; 2 * SHOWN_MAX]).len(), SHOWN_MAX);
    }
}
