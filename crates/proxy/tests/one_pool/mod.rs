//! A pool with one worker, for tests that drive real exchanges.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use spillgate_core::gate::{self, Balance, Change};
use spillgate_core::id::{ShardId, WorkerId};
use spillgate_core::units::{ByteSize, Ratio, Slots};
use spillgate_proxy::metrics::{ShardMetrics, Sizes};
use spillgate_proxy::pool::{Mailboxes, Pool};
use spillgate_proxy::route::Router;
use spillgate_proxy::settings::{
    CallerClasses, ClaimSettings, Destination, Hedging, PathMatch, PoolSettings, RouteSettings,
    Settings, SpillSettings, Workers,
};
use spillgate_proxy::shard::{Parts, Shard};
use spillgate_runtime::buffer::{Storage, StorageSettings};
use spillgate_runtime::events::LineBuffer;
use spillgate_runtime::http::settings::{Endpoint, TrustedFrom};
use spillgate_runtime::shard::Mailbox;

/// Two slots for each worker, and a short queue.
fn gate_settings() -> gate::Settings {
    let second = Duration::from_secs(1);
    gate::Settings {
        limit: gate::Limit::Fixed,
        limit_min: Slots::ONE,
        slots: Slots::new(2).expect("two is not zero"),
        connections_max: Slots::new(2).expect("two is not zero"),
        queue_len_max: 10,
        queue_wait_max: second * 5,
        answer_within: None,
        answer_quantile: Ratio::from_percent(90),
        order: gate::Order::Adaptive,
        shedding: gate::Shedding::Ratio,
        balance: Balance::Turns,
        hash_excess_max: Ratio::from_percent(25),
        ramp_time: None,
        start_hold_max: second * 5,
        retry_max: 2,
        retry_budget: Ratio::from_percent(20),
        retry_budget_min: 10,
        hedge: true,
        eject_after: 5,
        eject_error_share: Ratio::from_percent(50),
        eject_time: second,
        eject_keep_min: Ratio::from_percent(50),
        probe_interval: second,
        probe_exchange: false,
        probe_interval_up: None,
        probe_fall: 3,
        stuck_time_max: Duration::from_secs(60),
    }
}

/// Two slots at `endpoint`, everything leads there, and nothing listens.
pub(crate) fn settings(endpoint: &Endpoint) -> Settings {
    let second = Duration::from_secs(1);
    let pool = PoolSettings {
        name: "app".into(),
        trace: None,
        workers: Workers::Endpoints(vec![endpoint.clone()]),
        weights: Vec::new(),
        gate: gate_settings(),
        claim: ClaimSettings::default(),
        connect_time_max: second * 5,
        exchange_time_max: second * 60,
        progress_time_max: second * 60,
        keep_alive_time_max: second * 5,
        head_size_max: ByteSize::from_kib(32),
        body_size_max: ByteSize::from_mib(1),
        respond_hold_max: ByteSize::from_kib(64),
        respond_hold_wait: second,
        response_size_max: ByteSize::from_mib(64),
        retry_unavailable: true,
        hedge: Hedging::Safe,
        agents: None,
        probe_path: None,
        probe_time_max: second,
    };
    Settings {
        shards: Some(1),
        trusted_from: TrustedFrom::default(),
        buffer_memory_max: ByteSize::from_mib(16),
        body_memory_max: ByteSize::from_mib(1),
        body_wait_max: second,
        spill: SpillSettings { enabled: false, folders: Vec::new(), size_max: None, threads: 1 },
        stop_delay: Duration::ZERO,
        drain_time_max: second,
        listeners: Vec::new(),
        pools: vec![pool],
        routes: vec![everything()],
        access_log: None,
    }
}

/// The route of every request.
fn everything() -> RouteSettings {
    RouteSettings {
        host: None,
        path: PathMatch::Prefix("/".into()),
        class: None,
        class_callers: CallerClasses::default(),
        destination: Destination::Pool(0),
    }
}

/// Where a single shard gets its messages.
pub(crate) fn mailboxes() -> Arc<Mailboxes> {
    Arc::new(Mailboxes { shards: vec![Mailbox::default()], control: Mailbox::default() })
}

/// The only shard, whose worker at `endpoint` is ready.
pub(crate) fn make_shard(
    settings: Settings,
    endpoint: Endpoint,
    mailboxes: Arc<Mailboxes>,
    log: Option<LineBuffer>,
) -> Rc<Shard> {
    let sizes = Sizes { listeners: settings.listeners.len(), pools: 1 };
    let pool = Arc::new(Pool::new(0, settings.pools[0].clone(), mailboxes));
    pool.set_endpoint(WorkerId(0), endpoint);
    pool.change(WorkerId(0), Change::JoinSupervised);
    pool.change(WorkerId(0), Change::Ready);
    let storage = Storage::new(StorageSettings {
        memory_max: settings.buffer_memory_max,
        body_memory_max: settings.body_memory_max,
        body_wait_max: settings.body_wait_max,
        spill: None,
    })
    .expect("nothing spills, so no folder can be missing");
    let parts = Parts {
        router: Arc::new(Router::new(&settings.routes)),
        pools: vec![pool],
        metrics: Arc::new(ShardMetrics::new(sizes)),
        storage,
        log,
        seed: 1,
        settings: Arc::new(settings),
    };
    Shard::new(ShardId(0), parts)
}
