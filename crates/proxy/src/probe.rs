//! The control side of the gates: their timers, their probes, and what they tell of their workers.
//!
//! Runs off the shards, so that a probe of a worker that hangs costs no exchange a microsecond.

use std::sync::Arc;

use spillgate_core::gate::{Heard, Input, Late, Permit, Probe, ProbeKind, Probed};
use spillgate_core::id::WorkerId;
use spillgate_core::pool::{OutReason, State};
use spillgate_core::time::Instant;
use spillgate_runtime::drive::{self, ControlHandle, Notify};
use spillgate_runtime::http::ask::{self, Opened};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::{clock, events};

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

/// Connect to a worker. That it lets nobody in is told once, with the reason, since whoever has
/// misspelt an address looks for it in the log.
async fn open(pool: &Pool, worker: WorkerId, endpoint: &Endpoint, last: Instant) -> Option<Opened> {
    let reason = match drive::until(last, ask::open(endpoint)).await {
        Some(Ok(opened)) => {
            pool.begins_silence(worker, false);
            return Some(opened);
        }
        Some(Err(error)) => error.to_string(),
        None => "it accepts no connection in probe_time_max".to_owned(),
    };
    if pool.begins_silence(worker, true) {
        let (name, id) = (&pool.settings.name, worker.0);
        events::warn("pool", format_args!("{name}: worker {id} at {endpoint}: {reason}"));
    }
    None
}

async fn ask_worker(pool: Arc<Pool>, probe: Probe, metrics: Arc<ControlMetrics>) {
    let Probe { worker, kind, mut permit } = probe;
    let last = clock::now() + pool.settings.probe_time_max;
    let endpoint = pool.endpoint(worker).map(|(endpoint, _)| endpoint);
    let opened = match &endpoint {
        Some(endpoint) => open(&pool, worker, endpoint, last).await,
        None => None,
    };
    let mut late = None;
    let heard = match (opened, &endpoint) {
        (Some(opened), Some(endpoint)) if kind == ProbeKind::Exchange => {
            let mut asking = Box::pin(hear(&pool, opened, endpoint));
            let heard = drive::until(last, asking.as_mut()).await;
            if heard.is_none() {
                late = permit.take().map(|permit| (permit, asking));
            }
            heard.unwrap_or(Heard::Nothing)
        }
        (Some(_), _) => Heard::Well,
        (None, _) => Heard::Nothing,
    };
    let cells = &metrics.pools[pool.index];
    let cell = if heard == Heard::Well { &cells.succeeded } else { &cells.failed };
    cell.increment();
    pool.tell_from_control(Input::Probed(Probed { worker, heard, permit }));
    if let Some((permit, asking)) = late {
        let late = hear_late(&pool, permit, asking).await;
        pool.tell_from_control(Input::Late(late));
    }
}

/// A worker that was too slow for a probe may be at it still, so the slot stays taken until it says
/// something, as that of an exchange does.
async fn hear_late(pool: &Pool, permit: Permit, asking: impl Future<Output = Heard>) -> Late {
    let last = clock::now() + pool.settings.exchange_time_max;
    let heard = drive::until(last, asking).await;
    Late { permit, heard: heard.unwrap_or(Heard::Nothing) }
}

async fn hear(pool: &Pool, opened: Opened, endpoint: &Endpoint) -> Heard {
    let path = pool.settings.probe_path.as_deref();
    match ask::ask(opened, endpoint, path).await {
        Ok(status) if path.is_none() || (200..400).contains(&status) => Heard::Well,
        Ok(_) | Err(_) => Heard::Badly,
    }
}
