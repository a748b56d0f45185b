//! The control runtime, and the few words in which everything above speaks to the async engine.
//!
//! The control side (supervisor, probes, admin page, listener descriptors) runs on one small
//! multi-threaded engine, apart from the shards, so that a busy shard never delays it and it never
//! delays a shard. Crates above spawn, sleep, select and send through the names of this file, and
//! none of them names the engine.
//!
//! Absent: unbounded channels (each queue has a length of its own), and a global runtime: whoever
//! spawns holds a [`ControlHandle`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use spillgate_core::time::{Duration, Instant};

pub use tokio::select;
pub use tokio::sync::Notify;
pub use tokio::sync::mpsc::{Receiver, Sender, channel};
pub use tokio::sync::oneshot;

use crate::clock;

/// Threads of the control runtime: one may be held up by a slow scrape while the other still stops
/// and starts workers.
const THREADS: usize = 2;

/// The control runtime. Dropping it stops all its tasks where they wait.
#[derive(Debug)]
pub struct Control {
    engine: tokio::runtime::Runtime,
}

impl Control {
    /// Start the threads of the control runtime.
    ///
    /// Errors: the system refuses a thread, or the descriptors of the engine.
    pub fn start() -> io::Result<Control> {
        let engine = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("control")
            .enable_all()
            .build()?;
        Ok(Control { engine })
    }

    /// Something that can be cloned and kept by whoever spawns.
    pub fn handle(&self) -> ControlHandle {
        ControlHandle { engine: self.engine.handle().clone() }
    }

    /// Run `task` beside everything else. See [`ControlHandle::spawn`].
    pub fn spawn<F>(&self, task: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle().spawn(task)
    }

    /// Run `task` on the calling thread until it ends. Panics inside a task of any engine.
    pub fn block_on<F: Future>(&self, task: F) -> F::Output {
        self.engine.block_on(task)
    }

    /// Stop, and give blocking calls that still run at most `grace` to end.
    pub fn stop(self, grace: Duration) {
        self.engine.shutdown_timeout(grace);
    }
}

/// The way to put tasks on the control runtime, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    engine: tokio::runtime::Handle,
}

impl ControlHandle {
    /// Run `task` beside everything else. Dropping the returned [`Task`] lets it run on.
    pub fn spawn<F>(&self, task: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Task { inner: self.engine.spawn(task) }
    }

    /// Run `work`, which may block, on a thread of its own.
    pub fn spawn_blocking<F, T>(&self, work: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Task { inner: self.engine.spawn_blocking(work) }
    }

    /// Run `task` on the calling thread until it ends. Panics inside a task of any engine.
    pub fn block_on<F: Future>(&self, task: F) -> F::Output {
        self.engine.block_on(task)
    }
}

/// A running task. Await it for what it returns.
#[derive(Debug)]
pub struct Task<T> {
    inner: tokio::task::JoinHandle<T>,
}

impl<T> Task<T> {
    /// Stop the task at its next wait. Nothing happens when it has ended.
    pub fn abort(&self) {
        self.inner.abort();
    }

    /// Has it ended?
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.inner).poll(cx).map(|ended| ended.map_err(TaskError))
    }
}

/// A task that did not return: it panicked, or was aborted.
#[derive(Debug, thiserror::Error)]
#[error("a task did not end well")]
pub struct TaskError(#[source] tokio::task::JoinError);

/// Wait until the moment `at`; at once when it has passed, for ever when it is
/// [`Instant::FAR_FUTURE`]. Panics outside the control runtime or a shard.
pub async fn sleep_until(at: Instant) {
    if at == Instant::FAR_FUTURE {
        return std::future::pending().await;
    }
    tokio::time::sleep(at.since(clock::now())).await;
}

/// `task`'s output, or none when the moment `at` comes first; the task is dropped then.
pub async fn until<F: Future>(at: Instant, task: F) -> Option<F::Output> {
    select! {
        biased;
        output = task => Some(output),
        () = sleep_until(at) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_sleep_and_talk() {
        let control = Control::start().expect("the control runtime starts");
        let (sender, mut receiver) = channel::<u32>(1);
        let task = control.spawn(async move {
            sleep_until(clock::now() + Duration::from_millis(1)).await;
            sender.send(7).await.expect("the receiver waits");
            11
        });
        control.block_on(async {
            assert_eq!(receiver.recv().await, Some(7));
            assert_eq!(task.await.expect("it returns"), 11);
            assert!(until(clock::now(), std::future::pending::<()>()).await.is_none());
        });
    }

    #[test]
    fn a_panic_in_a_task_is_an_error_of_that_task() {
        let control = Control::start().expect("the control runtime starts");
        let task = control.spawn(async { panic!("on purpose") });
        assert!(control.block_on(task).is_err());
    }
}
