//! How the parts are joined: from a checked configuration to a serving process, and back to
//! nothing.
//!
//! Order matters twice. At start everything that can fail for a reason outside of us (an address in
//! use, a folder that is missing) comes before the first worker is started. At stop the listeners
//! close first, then the exchanges end, then the workers, then the log.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use spillgate_proxy::probe;
use spillgate_runtime::drive::{self, Control};
use spillgate_runtime::process::{Guard, WorkerOutput};
use spillgate_runtime::shutdown::{Wish, Wishes};
use spillgate_runtime::{clock, events};

use crate::claim::AdminSockets;
use crate::commands;
use crate::config::Config;
use crate::observe;
use crate::serving::Serving;
use crate::supervisor::Surroundings;
use crate::workers::WorkersOfPools;

/// Longest time that the last lines of the workers may take.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Serve until a signal or a command says stop.
///
/// Errors: something that is needed at start cannot be had.
pub(crate) fn run(config: Config) -> anyhow::Result<ExitCode> {
    // First of all: it keeps a copy of our memory as it is when it starts.
    let guard = Guard::start().context("cannot start the guard of the workers")?;
    let control = Control::start().context("cannot start the control runtime")?;
    let mut wishes =
        control.block_on(async { Wishes::listen() }).context("cannot listen to signals")?;
    let mut serving = Serving::prepare(config.proxy)?;
    let admin = config.admin.as_ref().map(|admin| AdminSockets::claim(&control, admin));
    let admin = admin.transpose()?;
    let stop = Arc::new(drive::Notify::new());

    let surroundings = Surroundings {
        control: control.handle(),
        output: WorkerOutput::to_standard().context("cannot pass the output of workers on")?,
        guard,
    };
    let workers = Arc::new(WorkersOfPools::start(&serving, &surroundings)?);
    let observer = Arc::new(observe::Observer::new(&serving, Arc::clone(&workers)));
    if let Some(AdminSockets { page, control: socket }) = admin {
        commands::start(&control, socket, &observer, &stop);
        if let Some(page) = page {
            observe::start(&control, page, &observer);
        }
    }
    control.spawn(Arc::clone(&serving.storage).shed_late());
    control.spawn(probe::serve_gates(
        control.handle(),
        serving.pools.clone(),
        Arc::clone(&serving.mailboxes),
        Arc::clone(&serving.control_metrics),
        Arc::clone(&workers) as Arc<dyn probe::Listeners>,
    ));
    serving.start()?;
    observer.set_ready();

    let code = control.block_on(async {
        wait_for_stop(&mut wishes, &serving, &stop).await?;
        observer.set_stopping();
        drive::select! {
            () = stop_in_order(&mut serving, &workers) => Ok(()),
            () = wait_for_stop_now(&mut wishes) => Err(StopNow),
        }
    });
    if code == Err(StopNow) {
        control.block_on(workers.kill());
    }
    surroundings.output.flush(OUTPUT_GRACE);
    serving.close_logs();
    Ok(if code.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Somebody wants us to stop at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StopNow;

/// Balancers first, then the listeners and the exchanges, then the workers.
async fn stop_in_order(serving: &mut Serving, workers: &WorkersOfPools) {
    drive::sleep_until(clock::now() + serving.settings.stop_delay).await;
    serving.finish().await;
    workers.stop().await;
}

async fn wait_for_stop_now(wishes: &mut Wishes) {
    while wishes.next().await != Wish::StopNow {}
}

/// Wait until somebody wants us to stop: gracefully, or (in error) at once.
async fn wait_for_stop(
    wishes: &mut Wishes,
    serving: &Serving,
    stop: &drive::Notify,
) -> Result<(), StopNow> {
    loop {
        let wish = drive::select! {
            wish = wishes.next() => wish,
            () = stop.notified() => Wish::Stop,
        };
        match wish {
            Wish::Stop => return Ok(()),
            Wish::StopNow => return Err(StopNow),
            Wish::Reopen => serving.reopen_log(),
            Wish::Reload => {
                events::warn("signal", "the file is read at start only: restart to change it");
            }
        }
    }
}
