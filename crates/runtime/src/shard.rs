//! Shards: the threads on which connections live.
//!
//! A shard is one thread with its own engine. A connection is accepted, served and closed on one
//! shard; what crosses shards does so through a [`Mailbox`]. Nothing here knows what a connection
//! is for.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;

use spillgate_core::id::ShardId;
use spillgate_core::time::{Duration, Instant};
use tokio::sync::Notify;

use crate::net::pipe;
use crate::{clock, deadline, events, scratch};

/// What the process ends with after a fault of its own: what a panic of the main thread gives.
const FAULT_EXIT_CODE: i32 = 101;

/// A look at the limits that comes this long after the one before says that the shard stood still
/// itself (stopped, or starved by others). What has come meanwhile was not read, so that time
/// counts for nobody.
const LATE_MIN: Duration = Duration::from_millis(250);

/// Start a shard. `body` runs on its thread, inside its engine, until the future it makes ends.
///
/// With `core` the thread stays on that processor core.
///
/// Errors: the thread cannot be started.
pub fn start<F>(
    id: ShardId,
    core: Option<usize>,
    body: impl FnOnce() -> F + Send + 'static,
) -> io::Result<JoinHandle<()>>
where
    F: Future<Output = ()> + 'static,
{
    std::thread::Builder::new().name(format!("shard-{}", id.0)).spawn(move || {
        let _end = EndOnPanic;
        if let Some(core) = core {
            pin(core);
        }
        let engine = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .expect("a shard can make its engine: descriptors are reserved for it");
        engine.block_on(async move {
            tokio::task::spawn_local(sweep_limits());
            let mailbox = Arc::new(Mailbox::default());
            BELL.set(Some(Arc::clone(&mailbox)));
            tokio::task::spawn_local(answer_bell(mailbox));
            body().await;
        });
    })
}

/// Ends the process when its shard dies of a fault of ours (one in a task ends that task alone): a
/// process that has lost a shard would refuse a part of its clients and look healthy.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            events::error("shard", "died of a fault of our own; the process ends");
            std::process::exit(FAULT_EXIT_CODE);
        }
    }
}

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // Where it is not permitted the scheduler decides, as for any other thread.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// The processor cores that this process may use, by number.
pub fn cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return vec![0];
    };
    let cores: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    if cores.is_empty() { vec![0] } else { cores }
}

async fn sweep_limits() {
    let mut ticks = tokio::time::interval(deadline::SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = clock::now();
    let mut late = false;
    loop {
        ticks.tick().await;
        scratch::shrink();
        pipe::shrink();
        let now = clock::now();
        // Once, so that a shard which is always late has limits all the same.
        late = !late && now.since(last) >= LATE_MIN;
        last = now;
        match late {
            true => deadline::pass_over(now),
            false => deadline::sweep(now),
        }
    }
}

/// Run `task` on this shard beside everything else. A panic ends that task alone.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(task);
}

/// Wait until `at`, to the millisecond. One engine timer; not for every exchange.
pub async fn sleep_until(at: Instant) {
    tokio::time::sleep(at.since(clock::now())).await;
}

/// Messages for one shard, from any thread.
///
/// Sharing: any number of senders, one receiver. The lock is held for a push or a swap. Unbounded,
/// but each message answers something that the shard itself has in progress, or takes an idle
/// connection from it, so what bounds the shard's exchanges and connections bounds its mailbox.
#[derive(Debug)]
pub struct Mailbox<T> {
    waiting: Mutex<Vec<T>>,
    wake: Notify,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox { waiting: Mutex::new(Vec::new()), wake: Notify::new() }
    }
}

impl<T> Mailbox<T> {
    /// Put `message` in; wakes the shard when it is the first.
    pub fn send(&self, message: T) {
        let first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(message);
            waiting.len() == 1
        };
        if first {
            self.wake.notify_one();
        }
    }

    /// Wait for messages and move them into `batch`, which should be empty.
    pub async fn receive(&self, batch: &mut Vec<T>) {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if !waiting.is_empty() {
                    std::mem::swap(&mut *waiting, batch);
                    return;
                }
            }
            self.wake.notified().await;
        }
    }
}

thread_local! {
    /// What other threads ring on this one; none where it is no shard.
    static BELL: RefCell<Option<Arc<Mailbox<Waker>>>> = const { RefCell::new(None) };
}

/// How another thread wakes tasks of a shard: one ring for all that it wakes before the shard has
/// answered. Waking each by itself is a system call for each.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Option<Arc<Mailbox<Waker>>>);

impl Bell {
    /// That of the calling thread. Where this is no shard, tasks are woken one by one.
    pub(crate) fn of_this_thread() -> Bell {
        Bell(BELL.with_borrow(Clone::clone))
    }

    /// Wakes the task of `waker`, which belongs to the thread of this bell.
    pub(crate) fn wake(self, waker: Waker) {
        match self.0 {
            Some(mailbox) => mailbox.send(waker),
            None => waker.wake(),
        }
    }
}

async fn answer_bell(mailbox: Arc<Mailbox<Waker>>) {
    let mut woken = Vec::new();
    loop {
        mailbox.receive(&mut woken).await;
        woken.drain(..).for_each(Waker::wake);
    }
}

/// A number that nobody can guess, to seed a shard's generator with.
pub fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library keys each such state from the system's random source.
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::spill::{Haste, Order, doubles};

    #[test]
    fn a_bell_wakes_every_task_that_waits_for_a_job() {
        let (tell, told) = mpsc::sync_channel(1);
        let thread = start(ShardId(0), None, move || async move {
            let (spill, _knobs) = doubles::spill(16 << 20, 2);
            let (end, mut ends) = tokio::sync::mpsc::channel(1);
            for number in 0..40_u8 {
                let (spill, end) = (Arc::clone(&spill), end.clone());
                spawn(async move {
                    assert!(Bell::of_this_thread().0.is_some(), "a shard has a bell");
                    let mut chain = crate::spill::Chain::new(&spill);
                    assert!(chain.extend(1, None), "there is an extent for each");
                    for haste in [Haste::Lazy, Haste::Now, Haste::Lazy] {
                        let order = Order { offset: 0, data: vec![number], haste };
                        let mut turn = None;
                        let transfer = chain.write(order, &mut turn, None);
                        let mut transfer = transfer.expect("the queue is longer");
                        std::future::poll_fn(|cx| transfer.poll(Some(cx.waker()))).await;
                    }
                    drop(chain);
                    end.send(number).await.expect("the shard waits");
                });
            }
            drop(end);
            let mut sum = 0;
            while let Some(number) = ends.recv().await {
                sum += u32::from(number);
            }
            tell.send(sum).expect("the test waits");
        });
        thread.expect("a thread can be started").join().expect("the shard ends well");
        assert_eq!(told.recv(), Ok((0..40).sum()));
    }
}
