//! The life of one process, watched by one task of the control runtime.
//!
//! It hears the process's notifications, tries its endpoint until it is ready, passes its lines on,
//! and waits for its end by a process descriptor, which no other part of the program can take away
//! (as it could a SIGCHLD).

use std::future::Future;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use spillgate_core::supervise::{Exit, ProcessId};
use spillgate_core::time::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

use super::ProcessEvent;
use super::address::clear_stale_socket;
use super::group::Group;
use super::notify::{Notice, Notifications, NotifySocket};
use super::output::{Stream, WorkerOutput, relay};
use super::ready;
use super::spawn::Living;
use crate::clock;
use crate::http::settings::Endpoint;
use crate::sys::watch::watch as watch_descriptor;

/// Heartbeats closer together than this are told as one: a worker that sends them without pause
/// must not crowd out the events of others.
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// How long the end of a process waits for the last of its lines, so that its dying words come
/// before the news of its death. Longer only where somebody outside its group holds its output.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_millis(200);

/// A process that has just been made.
#[derive(Debug)]
pub(super) struct Born {
    pub(super) id: ProcessId,
    pub(super) endpoint: Endpoint,
    pub(super) prefix: String,
    pub(super) process: Child,
    pub(super) group: Arc<Group>,
    /// Readable once the process has ended.
    pub(super) exit: OwnedFd,
    pub(super) notify: NotifySocket,
}

/// Follow a process to its end.
pub(super) async fn watch(
    born: Born,
    events: Sender<ProcessEvent>,
    living: Living,
    output: WorkerOutput,
) {
    let Born { id, endpoint, prefix, mut process, group, exit, notify } = born;
    let pid = process.id();
    tell(&events, ProcessEvent::Spawned { id, pid }).await;
    let lines = [
        process.stdout.take().map(|pipe| pass_on(pipe.into(), Stream::Out, &prefix, &output)),
        process.stderr.take().map(|pipe| pass_on(pipe.into(), Stream::Err, &prefix, &output)),
    ];
    let watched =
        watch_descriptor(exit, Interest::READABLE).and_then(|exit| Ok((exit, notify.listen()?)));
    match watched {
        Ok((exit, notices)) => {
            let connect = ready::by_connect(id, endpoint.clone(), group.clone(), events.clone());
            let news = News { id, group: &group, events: &events };
            news.until_end(&exit, &notices, connect).await;
        }
        // The engine takes no more descriptors: what cannot be watched must not run.
        Err(_) => group.signal(rustix::process::Signal::KILL),
    }
    let exit = reap(process, group).await;
    living.remove(id);
    if let Endpoint::Unix(path) = &endpoint {
        // A process that was killed leaves its socket. What cannot be removed stays.
        let _ = clear_stale_socket(path);
    }
    wait_for_last_words(lines).await;
    tell(&events, ProcessEvent::Exited { id, exit }).await;
}

/// What a living process has to say.
struct News<'a> {
    id: ProcessId,
    group: &'a Group,
    events: &'a Sender<ProcessEvent>,
}

impl News<'_> {
    /// Tell what happens until the process ends. A process that notifies at all is ready when it
    /// says so; for one that does not, `connect` ends when it is.
    async fn until_end(
        &self,
        exit: &AsyncFd<OwnedFd>,
        notices: &Notifications,
        connect: impl Future<Output = ()>,
    ) {
        let mut connect = Some(Box::pin(connect));
        let mut said = Said::default();
        loop {
            tokio::select! {
                biased;
                // An error of the descriptor would be one of the engine; the reaping waits anyhow.
                _ended = exit.readable() => return,
                notice = notices.next(self.group) => self.take(notice, &mut said).await,
                () = wait_for(&mut connect) => {
                    said.anything = true;
                    self.tell_ready(&mut said).await;
                }
            }
            if said.anything {
                // Given up at once: its connection may be the only one that the worker can serve.
                connect = None;
            }
        }
    }

    async fn take(&self, notice: Notice, said: &mut Said) {
        said.anything = true;
        if notice.ready {
            self.tell_ready(said).await;
        }
        let now = clock::now();
        let due = said.alive_at.is_none_or(|at| now.since(at) >= HEARTBEAT_INTERVAL_MIN);
        if notice.alive && due {
            said.alive_at = Some(now);
            tell(self.events, ProcessEvent::Heartbeat(self.id)).await;
        }
        if notice.leaving && !said.leaving {
            said.leaving = true;
            tell(self.events, ProcessEvent::Leaving(self.id)).await;
        }
    }

    async fn tell_ready(&self, said: &mut Said) {
        if !said.ready {
            said.ready = true;
            tell(self.events, ProcessEvent::Ready(self.id)).await;
        }
    }
}

/// The end of `task`; never where there is none.
async fn wait_for(task: &mut Option<Pin<Box<impl Future<Output = ()>>>>) {
    match task {
        Some(task) => task.as_mut().await,
        None => std::future::pending().await,
    }
}

/// What was said of a process so far.
#[derive(Debug, Default)]
struct Said {
    /// Anything at all, so that connecting is no longer the way to learn of its readiness.
    anything: bool,
    ready: bool,
    leaving: bool,
    alive_at: Option<Instant>,
}

async fn tell(events: &Sender<ProcessEvent>, event: ProcessEvent) {
    // Without a receiver the pool is being dropped, and its processes die.
    let _ = events.send(event).await;
}

fn pass_on(
    pipe: OwnedFd,
    stream: Stream,
    prefix: &str,
    output: &WorkerOutput,
) -> Option<JoinHandle<()>> {
    // Without its reader the pipe is closed, and the worker's writes fail; it is not blocked.
    let pipe = pipe::Receiver::from_owned_fd(pipe).ok()?;
    Some(tokio::spawn(relay(pipe, stream, prefix.to_string(), output.clone())))
}

/// Take the exit status. It is there, unless the process could not be watched and was killed, so
/// the wait is on a thread that may block.
async fn reap(mut process: Child, group: Arc<Group>) -> Exit {
    let status = tokio::task::spawn_blocking(move || group.reap(&mut process)).await;
    match status {
        Ok(Ok(status)) => exit_of(status),
        // Somebody else took it: all that is known is that it ended.
        Ok(Err(_)) | Err(_) => Exit::Signal(0),
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

async fn wait_for_last_words(lines: [Option<Option<JoinHandle<()>>>; 2]) {
    let all = async {
        for lines in lines.into_iter().flatten().flatten() {
            // It ends with the pipe; it does not panic.
            let _ = lines.await;
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS_TIME_MAX, all).await;
}
