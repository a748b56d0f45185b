//! The admin side's eyes: copies of the numbers of everything, for the page, the metrics and `ctl`.
//!
//! Nothing here can change anything. Shards are asked by message what their exchanges are doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use spillgate_core::id::WorkerId;
use spillgate_core::time::Instant;
use spillgate_core::units::ByteSize;
use spillgate_proxy::active::Doing;
use spillgate_proxy::metrics::scrape::{self, BudgetReading, LogReading, PoolReading, Reading};
use spillgate_proxy::metrics::{ControlMetrics, ShardMetrics, sums};
use spillgate_proxy::pool::{Mailboxes, Pool};
use spillgate_proxy::serve::Connections;
use spillgate_proxy::settings::Settings;
use spillgate_proxy::shard::{Report, ShardMessage};
use spillgate_runtime::buffer::Storage;
use spillgate_runtime::clock;
use spillgate_runtime::drive::{Control, oneshot};
use spillgate_runtime::events::{self, LogWatch};
use spillgate_runtime::metrics::Family;
use spillgate_runtime::net::admin::AdminListener;

use crate::admin::status::{self, ListenerStatus, PoolParts, ShardStatus, Status};
use crate::admin::{self, Ready, Source};
use crate::serving::Serving;
use crate::workers::WorkersOfPools;

/// Sees everything, changes nothing.
pub(crate) struct Observer {
    settings: Arc<Settings>,
    mailboxes: Arc<Mailboxes>,
    pools: Vec<Arc<Pool>>,
    metrics: Vec<Arc<ShardMetrics>>,
    control_metrics: Arc<ControlMetrics>,
    connections: Arc<Connections>,
    storage: Arc<Storage>,
    log: Option<LogWatch>,
    workers: Arc<WorkersOfPools>,
    started: Instant,
    ready: AtomicU8,
}

impl Observer {
    /// Look at this process.
    pub(crate) fn new(serving: &Serving, workers: Arc<WorkersOfPools>) -> Observer {
        Observer {
            settings: Arc::clone(&serving.settings),
            mailboxes: Arc::clone(&serving.mailboxes),
            pools: serving.pools.clone(),
            metrics: serving.metrics.clone(),
            control_metrics: Arc::clone(&serving.control_metrics),
            connections: Arc::clone(&serving.connections),
            storage: Arc::clone(&serving.storage),
            log: serving.log.as_ref().map(spillgate_runtime::events::AccessLog::watch),
            workers,
            started: clock::now(),
            ready: AtomicU8::new(0),
        }
    }

    /// The listeners are open.
    pub(crate) fn set_ready(&self) {
        self.ready.store(1, Ordering::Release);
    }

    /// New connections are not welcome any more.
    pub(crate) fn set_stopping(&self) {
        self.ready.store(2, Ordering::Release);
    }

    fn ready(&self) -> Ready {
        match self.ready.load(Ordering::Acquire) {
            0 => Ready::Starting,
            1 => Ready::Ready,
            _ => Ready::Stopping,
        }
    }

    /// The workers, for commands.
    pub(crate) fn workers(&self) -> &WorkersOfPools {
        &self.workers
    }

    /// The whole picture.
    pub(crate) async fn status(self: Arc<Self>) -> Status {
        let doing = self.doing().await;
        let now = clock::now();
        let pools = (0..self.pools.len()).map(|index| self.pool(index, &doing, now)).collect();
        let listener =
            |(index, listener): (usize, &spillgate_runtime::http::settings::ListenerSettings)| {
                ListenerStatus {
                    name: listener.name.clone(),
                    address: listener.address.to_string(),
                    connections: u64::from(self.connections.open(index)),
                }
            };
        let shard = |(id, shard): (u16, &Arc<ShardMetrics>)| ShardStatus {
            id,
            connections: sums::connections_of(shard),
        };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: now.since(self.started).as_secs_f64(),
            listeners: self.settings.listeners.iter().enumerate().map(listener).collect(),
            shards: (0..).zip(&self.metrics).map(shard).collect(),
            budget: status::budget(&self.budget()),
            pools,
            poolless: status::ends(&sums::pool_sums(&self.metrics, None)),
        }
    }

    fn pool(&self, index: usize, doing: &[Doing], now: Instant) -> status::PoolStatus {
        let pool = &self.pools[index];
        let view = pool.view();
        let endpoint = |id: WorkerId| Some((id, pool.endpoint(id)?.0.to_string()));
        let endpoints: Vec<(WorkerId, String)> =
            view.workers.iter().filter_map(|worker| endpoint(worker.id)).collect();
        let here: Vec<Doing> =
            doing.iter().filter(|doing| doing.pool == Some(index)).cloned().collect();
        let supervisor = self.workers.supervisor(index).map(|handle| handle.view());
        status::pool_from_view(&PoolParts {
            name: &pool.settings.name,
            view: &view,
            sums: &sums::pool_sums(&self.metrics, Some(index)),
            asked: &pool.asked(),
            endpoints: &endpoints,
            supervisor: supervisor.as_ref(),
            doing: &here,
            now,
        })
    }

    /// What the exchanges of all shards are doing.
    async fn doing(&self) -> Vec<Doing> {
        let mut answers = Vec::with_capacity(self.mailboxes.shards.len());
        for mailbox in &self.mailboxes.shards {
            let (tell, answer) = oneshot::channel();
            // Where nobody waits for the answer any more, it is not missed.
            let tell = Report(Box::new(move |doing| drop(tell.send(doing))));
            mailbox.send(ShardMessage::Report(tell));
            answers.push(answer);
        }
        let mut all = Vec::new();
        for answer in answers {
            all.extend(answer.await.unwrap_or_default());
        }
        all
    }

    fn budget(&self) -> BudgetReading {
        let view = self.storage.view();
        BudgetReading {
            memory_used: view.budget.intake + view.budget.collect,
            memory_max: view.budget.memory_max,
            spill_used: view.budget.spilled,
            spill_max: view.spill.map_or(ByteSize::ZERO, |spill| spill.size_max),
            sockets: view.budget.sockets,
            waiting: u64::from(view.budget.waiting),
            spilled_bytes: view.spill.map_or(ByteSize::ZERO, |spill| spill.written),
            spilled_bodies: view.spilled,
        }
    }

    fn families(&self) -> Vec<Family> {
        let names: Vec<String> =
            self.settings.listeners.iter().map(|listener| listener.name.clone()).collect();
        let pools: Vec<PoolReading> = self
            .pools
            .iter()
            .map(|pool| PoolReading { name: pool.settings.name.clone(), view: pool.view() })
            .collect();
        let log = self.log.as_ref().map(LogWatch::view).unwrap_or_default();
        scrape::families(&Reading {
            shards: &self.metrics,
            control: &self.control_metrics,
            listeners: &names,
            pools: &pools,
            budget: self.budget(),
            log: LogReading { dropped: log.dropped, errors: log.errors },
            uptime: clock::now().since(self.started),
        })
    }

    fn source(self: &Arc<Self>) -> Source {
        let (status, metrics, ready) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        Source {
            status: Box::new(move || Box::pin(Arc::clone(&status).status())),
            metrics: Box::new(move || metrics.families()),
            ready: Box::new(move || ready.ready()),
        }
    }
}

/// Serve the admin page.
pub(crate) fn start(control: &Control, listener: AdminListener, observer: &Arc<Observer>) {
    let address = listener.address();
    events::info("admin", format_args!("page, /status, /metrics and /ready on {address}"));
    let source = Arc::new(observer.source());
    control.spawn(async move {
        if let Err(error) = admin::serve(listener, source).await {
            events::error("admin", format_args!("the page has ended: {error}"));
        }
    });
}
