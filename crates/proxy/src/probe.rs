//! The control side of the gates: their timers, their probes, and what they tell of their workers.
//!
//! Runs off the shards, so that a probe of a worker that hangs costs no exchange a microsecond.

use std::sync::Arc;

use spillgate_core::gate::{Heard, Input, Probe, ProbeKind, Probed};
use spillgate_core::id::WorkerId;
use spillgate_core::pool::{OutReason, State};
use spillgate_runtime::clock;
use spillgate_runtime::drive::{self, ControlHandle, Notify};
use spillgate_runtime::http::ask::{self, AskError};

use crate::agent;
use crate::metrics::ControlMetrics;
use crate::pool::{ControlMessage, Mailboxes, Pool};

/// Who wants to hear of workers: the supervisor and the log.
pub trait Listeners: Send + Sync + 'static {
    /// The state of a worker changed.
    fn state(&self, pool: usize, worker: WorkerId, state: State);
    /// A worker did not answer in time.
    fn stalled(&self, pool: usize, worker: WorkerId);
}

/// Serve the gates of all pools until the process ends.
pub async fn serve_gates(
    control: ControlHandle,
    pools: Vec<Arc<Pool>>,
    mailboxes: Arc<Mailboxes>,
    metrics: Arc<ControlMetrics>,
    listeners: Arc<dyn Listeners>,
) {
    let timers: Vec<Arc<Notify>> = pools.iter().map(|_| Arc::new(Notify::new())).collect();
    for (pool, timer) in pools.iter().zip(&timers) {
        control.spawn(keep_time(Arc::clone(pool), Arc::clone(timer)));
        agent::start(&control, pool, &metrics);
    }
    let mut batch = Vec::new();
    loop {
        mailboxes.control.receive(&mut batch).await;
        for message in batch.drain(..) {
            match message {
                ControlMessage::Probe { pool, probe } => {
                    let (pool, metrics) = (Arc::clone(&pools[pool]), Arc::clone(&metrics));
                    control.spawn(ask_worker(pool, probe, metrics));
                }
                ControlMessage::State { pool, worker, state } => {
                    listeners.state(pool, worker, state);
                    if state == State::Out(OutReason::Stuck) {
                        listeners.stalled(pool, worker);
                    }
                }
                ControlMessage::Timer { pool } => timers[pool].notify_one(),
            }
        }
    }
}

async fn keep_time(pool: Arc<Pool>, earlier: Arc<Notify>) {
    loop {
        match pool.next_timeout() {
            Some(at) if at <= clock::now() => pool.handle_timeout(),
            Some(at) => drop(drive::until(at, earlier.notified()).await),
            None => earlier.notified().await,
        }
    }
}

async fn ask_worker(pool: Arc<Pool>, probe: Probe, metrics: Arc<ControlMetrics>) {
    let Probe { worker, kind, permit } = probe;
    let last = clock::now() + pool.settings.probe_time_max;
    let heard = drive::until(last, hear(&pool, worker, kind)).await.unwrap_or(Heard::Nothing);
    let cells = &metrics.pools[pool.index];
    let cell = if heard == Heard::Well { &cells.succeeded } else { &cells.failed };
    cell.increment();
    pool.tell_from_control(Input::Probed(Probed { worker, heard, permit }));
}

async fn hear(pool: &Pool, worker: WorkerId, kind: ProbeKind) -> Heard {
    let Some((endpoint, _)) = pool.endpoint(worker) else { return Heard::Nothing };
    match kind {
        ProbeKind::Connect if ask::connect(&endpoint).await.is_ok() => Heard::Well,
        ProbeKind::Connect => Heard::Nothing,
        ProbeKind::Exchange => {
            let path = pool.settings.probe_path.as_deref();
            match ask::ask(&endpoint, path).await {
                Ok(status) if path.is_none() || (200..400).contains(&status) => Heard::Well,
                Ok(_) | Err(AskError::Answer(_)) => Heard::Badly,
                Err(AskError::Connect(_)) => Heard::Nothing,
            }
        }
    }
}
