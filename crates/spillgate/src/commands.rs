//! What the commands of `spillgate ctl` do in this process.
//!
//! The lines and answers are [`crate::ctl`]'s; this file joins them to the parts that act. Absent:
//! anything that a supervisor or a signal could not do as well.

use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};
use spillgate_runtime::drive::{Control, Notify};
use spillgate_runtime::events;
use spillgate_runtime::net::control_socket::ControlSocket;

use crate::ctl::serve::{self, Commands, Restarted};
use crate::observe::Observer;
use crate::supervisor;

/// Serve the command socket. Notifies `stop` when a graceful stop is asked for.
pub(crate) fn start(
    control: &Control,
    socket: ControlSocket,
    observer: &Arc<Observer>,
    stop: &Arc<Notify>,
) {
    let commands = Arc::new(commands(observer, stop));
    control.spawn(async move {
        if let Err(error) = serve::serve(socket, commands).await {
            events::error("control", format_args!("the command socket has ended: {error}"));
        }
    });
}

fn commands(observer: &Arc<Observer>, stop: &Arc<Notify>) -> Commands {
    let (shown, restarted, stop) = (Arc::clone(observer), Arc::clone(observer), Arc::clone(stop));
    Commands {
        status: Box::new(move || Box::pin(Arc::clone(&shown).status())),
        restart: Box::new(move |pool| restart(&restarted, pool)),
        drain: Box::new(move || stop.notify_one()),
        stop: Box::new(stop_at_once),
    }
}

fn restart(observer: &Observer, pool: &str) -> Result<Restarted, String> {
    let workers = observer.workers();
    let index = workers.find(pool).ok_or_else(|| workers.unknown(pool))?;
    let handle = workers
        .supervisor(index)
        .ok_or_else(|| format!("the workers of {pool} are started by others: restart them there"))?
        .clone();
    Ok(Box::pin(async move {
        handle.restart().await.map_err(|error| supervisor::reason(error).to_owned())
    }))
}

/// The way of the signal is the one that is always open.
fn stop_at_once() {
    if let Err(error) = kill_process(getpid(), Signal::QUIT) {
        events::error("control", format_args!("cannot stop at once: {error}"));
    }
}
