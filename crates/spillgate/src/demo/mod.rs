//! `spillgate demo`: the main job, seen in a minute.
//!
//! Real workers (processes of this very program, see `worker`), the real serving side (`run::run`
//! with a configuration that can be copied), and a crowd of clients that becomes too much for them.
//! The story side sees and moves Spillgate only as an operator could: by HTTP, by signals, by
//! `ctl`.
//!
//! ```text
//! plan      which phases there are
//! story     goes through them: the kill, the restart, the end
//! crowd     clients by a rate, whether or not earlier ones were answered; client: one of them
//! tally     what became of their requests
//! place     folder, ports and configuration; worker: what is started there
//! screen    the live table; summary: the last words
//! ```

mod client;
mod crowd;
mod operator;
mod place;
mod plan;
mod screen;
mod story;
mod summary;
mod tally;
pub(crate) mod worker;

use std::process::ExitCode;
use std::sync::mpsc::sync_channel;

use anyhow::Context;
use spillgate_core::id::ShardId;
use spillgate_runtime::shard;

use crate::cli::DemoArgs;
use crate::config;
use crate::run;

use place::Place;
use plan::Plan;
use screen::Screen;

/// The crowd's thread is no shard of the serving side: a number that none of those gets.
const CROWD: ShardId = ShardId(u16::MAX);

/// Goes through the demo. Success when it was gone through (or interrupted) and no request failed.
///
/// Errors: no folder, port, thread or worker can be had.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let place = Place::prepare(args.free_ports)?;
    let text = place.config()?;
    let checked = config::check_text(place::CONFIG_NAME, &text);
    checked.problems.show();
    let config = checked.config.context("the demo's own configuration has an error")?;
    let mut screen = Screen::new();
    for line in place.introduction(&text) {
        screen.say(&line);
    }

    let plan = Plan::of(args.seconds);
    let (tell, told) = sync_channel(1);
    // Whatever is written from here on to standard error is the program log's.
    let log = place.divert_log()?;
    let its_place = place.clone();
    let story = move || async move {
        let _stop = operator::StopAtEnd;
        let outcome = story::tell(&its_place, &plan, screen).await;
        // The program is ending when nobody wants to hear it.
        let _ = tell.send(outcome);
    };
    shard::start(CROWD, None, story).context("cannot start the crowd")?;
    let served = run::run(config);
    drop(log);
    let code = served?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let outcome = told.recv().context("the story broke off")?;
    let mut screen = Screen::new();
    for line in summary::of(&outcome, &place) {
        screen.say(&line);
    }
    let went_well = outcome.interrupted || outcome.tally.failed() == 0;
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
