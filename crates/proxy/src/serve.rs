//! A shard from its first accepted connection to its last.
//!
//! Accepting pauses while descriptors or connections are short, and what the kernel has completed
//! waits in its queue. On stop a shard accepts until that queue is empty before its sockets close,
//! so that no connection is reset, and then waits for its exchanges.

use std::cell::Cell;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use spillgate_core::time::{Duration, Instant};
use spillgate_runtime::drive::{self, Notify};
use spillgate_runtime::http::resting::{Resting, Woken};
use spillgate_runtime::http::server::{self, End, Shared, Stopping};
use spillgate_runtime::metrics::LabelSet;
use spillgate_runtime::net::listen::{Accepted, Listener};
use spillgate_runtime::{clock, events, shard as threads};

use crate::metrics::label::{CloseReason, PauseReason};
use crate::pool::Mailboxes;
use crate::shard::{Shard, ShardMessage};

/// How often a shard looks after its idle connections and hands over its access records.
const TICK: Duration = Duration::from_millis(200);

/// How long accepting pauses when something is short.
const PAUSE: Duration = Duration::from_millis(20);

/// What exchanges get that were shed at the end of the drain, to be told so.
const LAST_REPLIES: Duration = Duration::from_millis(100);

/// How many client connections are open, and may be. Shared by all shards.
#[derive(Debug)]
pub struct Connections {
    /// By listener.
    open: Vec<AtomicU32>,
    /// By listener.
    open_max: Vec<u32>,
    /// All listeners together: what the descriptor limit leaves.
    total: AtomicU32,
    total_max: u32,
}

impl Connections {
    /// No connections; `total_max` over all listeners, `open_max` for each.
    pub fn new(open_max: Vec<u32>, total_max: u32) -> Connections {
        let open = open_max.iter().map(|_| AtomicU32::new(0)).collect();
        Connections { open, open_max, total: AtomicU32::new(0), total_max }
    }

    /// Is any open, on any listener and shard?
    fn any_open(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// How many are open on this listener.
    pub fn open(&self, listener: usize) -> u32 {
        self.open[listener].load(Ordering::Relaxed)
    }

    /// Count one more as open, if it may be.
    fn try_open(&self, listener: usize) -> Result<(), PauseReason> {
        let below = |max: u32| move |open: u32| (open < max).then_some(open + 1);
        let (of_listener, max) = (&self.open[listener], self.open_max[listener]);
        let order = Ordering::Relaxed;
        of_listener.fetch_update(order, order, below(max)).map_err(|_| PauseReason::Connections)?;
        self.total.fetch_update(order, order, below(self.total_max)).map_err(|_| {
            of_listener.fetch_sub(1, order);
            PauseReason::Descriptors
        })?;
        Ok(())
    }

    /// One more is open, whether or not it may be.
    fn opened(&self, listener: usize) {
        self.open[listener].fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    fn closed(&self, listener: usize) {
        self.open[listener].fetch_sub(1, Ordering::Relaxed);
        self.total.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Run a shard until it is told to stop and everything has ended, or the drain takes too long.
pub async fn run(
    shard: Rc<Shard>,
    sockets: Vec<OwnedFd>,
    connections: Arc<Connections>,
    mailboxes: Arc<Mailboxes>,
) {
    let stopping = Rc::new(Stopping::default());
    let stop = Rc::new(Notify::new());
    let open = Rc::new(Cell::new(0u32));
    for (index, socket) in sockets.into_iter().enumerate() {
        let made = Listener::new(socket).and_then(|socket| Ok((socket, Resting::new()?)));
        let (listener, resting) = match made {
            Ok(made) => made,
            Err(error) => {
                events::error("listener", format_args!("cannot be watched: {error}"));
                continue;
            }
        };
        let accepting = Accepting {
            shard: Rc::clone(&shard),
            index,
            listener,
            connections: Arc::clone(&connections),
            shared: Rc::new(Shared {
                settings: shard.settings.listeners[index].clone(),
                trusted_from: shard.settings.trusted_from.clone(),
                service: Rc::clone(&shard),
                stopping: Rc::clone(&stopping),
                storage: Arc::clone(&shard.storage),
            }),
            stop: Rc::clone(&stop),
            open: Rc::clone(&open),
            resting: Rc::new(resting),
        };
        threads::spawn(wake_resting(Rc::clone(&accepting.resting), Rc::clone(&accepting.shared)));
        threads::spawn(accepting.run());
    }
    threads::spawn(tick(Rc::clone(&shard)));
    let mailbox = &mailboxes.shards[usize::from(shard.id.0)];
    serve_messages(&shard, mailbox, None).await;
    stopping.begin();
    stop.notify_waiters();
    let last = clock::now() + shard.settings.drain_time_max;
    // Each listener holds a handle of the stop until it has accepted what the kernel had completed.
    // Exchanges of other shards may want this shard's idle connections closed, so it serves its
    // mailbox until the last connection of any shard has ended.
    let is_busy = || connections.any_open() || Rc::strong_count(&stop) > 1;
    while is_busy() && clock::now() < last {
        serve_messages(&shard, mailbox, Some(clock::now() + PAUSE)).await;
    }
    if open.get() > 0 {
        shard.shed_waiting();
        serve_messages(&shard, mailbox, Some(clock::now() + LAST_REPLIES)).await;
    }
    if open.get() > 0 {
        let count = open.get();
        events::warn("drain", format_args!("{count} connections cut off at drain_time_max"));
    }
    shard.close_idle();
    shard.flush_log();
}

/// Handle messages until one says stop, or until `last`.
async fn serve_messages(
    shard: &Shard,
    mailbox: &threads::Mailbox<ShardMessage>,
    last: Option<Instant>,
) {
    let mut batch = Vec::new();
    loop {
        match last {
            Some(last) => {
                if drive::until(last, mailbox.receive(&mut batch)).await.is_none() {
                    return;
                }
            }
            None => mailbox.receive(&mut batch).await,
        }
        let mut stop = false;
        for message in batch.drain(..) {
            stop |= matches!(message, ShardMessage::Stop);
            shard.handle(message);
        }
        if stop && last.is_none() {
            return;
        }
    }
}

/// Serve on those that have rested, and close those whose idle time is over.
async fn wake_resting(resting: Rc<Resting<Counted>>, shared: Rc<Shared<Shard>>) {
    let mut woken = Vec::new();
    loop {
        poll_fn(|cx| resting.poll_woken(cx, shared.stopping.is_on(), &mut woken)).await;
        for Woken { rested, with, serve } in woken.drain(..) {
            if !serve {
                with.end(CloseReason::Idle);
                continue;
            }
            let (resting, shared) = (Rc::clone(&resting), Rc::clone(&shared));
            threads::spawn(async move {
                with.served(server::resume(rested, shared).await, &resting);
            });
        }
    }
}

async fn tick(shard: Rc<Shard>) {
    loop {
        let now = clock::now();
        threads::sleep_until(now + TICK).await;
        shard.sweep_idle(clock::now());
        shard.flush_log();
    }
}

/// One listener on one shard.
struct Accepting {
    shard: Rc<Shard>,
    index: usize,
    listener: Listener,
    connections: Arc<Connections>,
    shared: Rc<Shared<Shard>>,
    stop: Rc<Notify>,
    open: Rc<Cell<u32>>,
    resting: Rc<Resting<Counted>>,
}

impl Accepting {
    async fn run(self) {
        while !self.shared.stopping.is_on() {
            let accepted = drive::select! {
                accepted = poll_fn(|cx| self.poll_accept(cx)) => accepted,
                () = self.stop.notified() => break,
            };
            match accepted {
                Ok(accepted) => self.serve(accepted),
                Err(reason) => self.pause(reason).await,
            }
        }
        self.accept_rest();
    }

    /// The next connection, counted as open. Counted before it is accepted, since other shards
    /// accept at the same time; a place that nobody came for is given back at once.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Accepted, PauseReason>> {
        self.connections.try_open(self.index)?;
        let accepted = self.listener.poll_accept(cx);
        if !matches!(accepted, Poll::Ready(Ok(_))) {
            self.connections.closed(self.index);
        }
        accepted.map_err(|_| PauseReason::Descriptors)
    }

    /// What has come waits in the kernel's queue until something is free.
    async fn pause(&self, reason: PauseReason) {
        self.shard.metrics.listeners[self.index].pauses.increment(reason);
        let (name, word) = (&self.shared.settings.name, reason.name());
        events::warn("listener", format_args!("{name}: accepting pauses, no {word} left"));
        threads::sleep_until(clock::now() + PAUSE).await;
    }

    /// What the kernel has completed already is served before the socket closes.
    fn accept_rest(&self) {
        while let Ok(Some(accepted)) = self.listener.accept_now() {
            self.connections.opened(self.index);
            self.serve(accepted);
        }
    }

    /// Serve a connection that is counted as open.
    fn serve(&self, accepted: Accepted) {
        let cells = &self.shard.metrics.listeners[self.index];
        cells.accepted.increment();
        let counted = Counted::new(self);
        let (shared, resting) = (Rc::clone(&self.shared), Rc::clone(&self.resting));
        let Accepted { stream, address } = accepted;
        threads::spawn(async move {
            counted.served(server::serve(stream, address, shared).await, &resting);
        });
    }
}

/// An open connection, which is counted as such until it is dropped.
struct Counted {
    shard: Rc<Shard>,
    index: usize,
    connections: Arc<Connections>,
    open: Rc<Cell<u32>>,
    reason: CloseReason,
}

impl Counted {
    fn new(accepting: &Accepting) -> Counted {
        accepting.open.set(accepting.open.get() + 1);
        Counted {
            shard: Rc::clone(&accepting.shard),
            index: accepting.index,
            connections: Arc::clone(&accepting.connections),
            open: Rc::clone(&accepting.open),
            // Unless it is said otherwise: a panic.
            reason: CloseReason::Broken,
        }
    }

    /// Its task ends: with it, or only until it speaks again.
    fn served(self, end: End, resting: &Resting<Counted>) {
        match end {
            End::Closed(reason) => self.end(reason),
            End::Idle(rested) => {
                if let Err(counted) = resting.put(rested, self) {
                    counted.end(CloseReason::Idle);
                }
            }
        }
    }

    fn end(mut self, reason: CloseReason) {
        self.reason = reason;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.closed(self.index);
        self.open.set(self.open.get() - 1);
        self.shard.metrics.listeners[self.index].closed.increment(self.reason);
    }
}
