//! How the parts are joined: from a checked configuration to a serving process, and back to nothing.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use spillgate_core::gate::Change;
use spillgate_core::id::{ShardId, WorkerId};
use spillgate_core::pool::State;
use spillgate_proxy::metrics::{ControlMetrics, ShardMetrics, Sizes};
use spillgate_proxy::pool::{Mailboxes, Pool};
use spillgate_proxy::route::Router;
use spillgate_proxy::serve::{self, Connections};
use spillgate_proxy::settings::{self, Settings, Workers};
use spillgate_proxy::shard::{Parts, Shard, ShardMessage};
use spillgate_proxy::probe;
use spillgate_runtime::buffer::{Storage, StorageSettings};
use spillgate_runtime::drive::{self, Control};
use spillgate_runtime::events::{self, AccessLog, Destination};
use spillgate_runtime::net::listen;
use spillgate_runtime::shutdown::{Wish, Wishes};
use spillgate_runtime::{clock, descriptors, shard, spill};

use crate::config::Config;

/// Serve until a signal says stop.
///
/// Errors: something that is needed at start cannot be had (an address, a file, a thread).
pub(crate) fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let control = Control::start().context("cannot start the control runtime")?;
    let mut wishes = control
        .block_on(async { Wishes::listen() })
        .context("cannot listen to signals")?;
    let mut serving = Serving::start(config.proxy, &control)?;
    control.block_on(async {
        loop {
            match wishes.next().await {
                Wish::Stop => break,
                Wish::StopNow => std::process::exit(1),
                Wish::Reopen => serving.reopen_log(),
                Wish::Reload => events::warn("signal", "reload is not supported; restart instead"),
            }
        }
        drive::sleep_until(clock::now() + serving.settings.stop_delay).await;
    });
    serving.stop();
    Ok(ExitCode::SUCCESS)
}

/// A serving process.
struct Serving {
    settings: Arc<Settings>,
    mailboxes: Arc<Mailboxes>,
    shards: Vec<JoinHandle<()>>,
    log: Option<AccessLog>,
}

impl Serving {
    fn start(settings: Settings, control: &Control) -> anyhow::Result<Serving> {
        let settings = Arc::new(settings);
        let cores = shard::cores();
        let count = settings.shards.map_or(cores.len(), usize::from);
        let connections_max = descriptors::client_connections_max(descriptors::raise());
        let sockets = bind(&settings, count)?;
        let storage = storage(&settings)?;
        let log = settings.access_log.as_ref().map(open_log).transpose()?;
        let mailboxes = Arc::new(Mailboxes {
            shards: (0..count).map(|_| shard::Mailbox::default()).collect(),
            control: shard::Mailbox::default(),
        });
        let pools: Vec<Arc<Pool>> = settings
            .pools
            .iter()
            .enumerate()
            .map(|(index, pool)| Arc::new(Pool::new(index, pool.clone(), Arc::clone(&mailboxes))))
            .collect();
        let sizes = Sizes { listeners: settings.listeners.len(), pools: pools.len() };
        let metrics: Vec<Arc<ShardMetrics>> =
            (0..count).map(|_| Arc::new(ShardMetrics::new(sizes))).collect();
        let open_max = settings.listeners.iter().map(|listener| listener.connections_max).collect();
        let connections = Arc::new(Connections::new(open_max, connections_max));
        let router = Arc::new(Router::new(&settings.routes));

        control.spawn(Arc::clone(&storage).shed_late());
        control.spawn(probe::serve_gates(
            control.handle(),
            pools.clone(),
            Arc::clone(&mailboxes),
            Arc::new(ControlMetrics::new(pools.len())),
            Arc::new(Told),
        ));
        for pool in &pools {
            join_endpoints(pool);
        }

        let mut shards = Vec::with_capacity(count);
        for (index, sockets) in sockets.into_iter().enumerate() {
            let id = ShardId(u16::try_from(index).context("too many shards")?);
            let parts = Parts {
                settings: Arc::clone(&settings),
                router: Arc::clone(&router),
                pools: pools.clone(),
                metrics: Arc::clone(&metrics[index]),
                storage: Arc::clone(&storage),
                log: log.as_ref().map(AccessLog::line_buffer),
                seed: clock::wall().nanos.into(),
            };
            let (connections, mailboxes) = (Arc::clone(&connections), Arc::clone(&mailboxes));
            let core = (count == cores.len()).then(|| cores[index]);
            let run = move || {
                let shard = Shard::new(id, parts);
                serve::run(shard, sockets, connections, mailboxes)
            };
            shards.push(shard::start(id, core, run).context("cannot start a shard")?);
        }
        Ok(Serving { settings, mailboxes, shards, log })
    }

    fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Accept what has come, finish what is running, end.
    fn stop(&mut self) {
        for mailbox in &self.mailboxes.shards {
            mailbox.send(ShardMessage::Stop);
        }
        for shard in self.shards.drain(..) {
            if shard.join().is_err() {
                events::error("shard", "ended with a panic");
            }
        }
    }
}

/// What the gates tell of their workers goes to the log.
struct Told;

impl probe::Listeners for Told {
    fn state(&self, pool: usize, worker: WorkerId, state: State) {
        events::info("worker", format_args!("pool {pool} worker {}: {state:?}", worker.0));
    }

    fn stalled(&self, pool: usize, worker: WorkerId) {
        events::warn("worker", format_args!("pool {pool} worker {}: no answer in time", worker.0));
    }
}

/// Sockets by shard, each with one for every listener.
fn bind(settings: &Settings, shards: usize) -> anyhow::Result<Vec<Vec<OwnedFd>>> {
    let mut by_shard: Vec<Vec<OwnedFd>> = (0..shards).map(|_| Vec::new()).collect();
    for listener in &settings.listeners {
        let sockets = listen::bind(&listener.address, shards).with_context(|| {
            format!("listener.{}: cannot listen on {}", listener.name, listener.address)
        })?;
        for (shard, socket) in by_shard.iter_mut().zip(sockets) {
            shard.push(socket);
        }
    }
    Ok(by_shard)
}

fn storage(settings: &Settings) -> anyhow::Result<Arc<Storage>> {
    let spill = settings.spill.as_ref().map(|spill| spill::Settings {
        folders: spill.folders.clone(),
        size_max: spill.size_max,
        threads: spill.threads,
    });
    let storage = StorageSettings {
        memory_max: settings.buffer_memory_max,
        body_memory_max: settings.body_memory_max,
        body_wait_max: settings.body_wait_max,
        spill,
    };
    Storage::new(storage).context("spill: cannot make the segment files")
}

fn open_log(log: &settings::AccessLog) -> anyhow::Result<AccessLog> {
    let (destination, name) = match log {
        settings::AccessLog::Stdout => (Destination::Stdout, "stdout".to_owned()),
        settings::AccessLog::File(path) => {
            (Destination::File(path.clone()), path.display().to_string())
        }
    };
    AccessLog::start(destination).with_context(|| format!("access_log: cannot open {name}"))
}

/// Tell the gate of the workers that others have started.
fn join_endpoints(pool: &Pool) {
    let Workers::Endpoints(endpoints) = &pool.settings.workers else { return };
    for (id, endpoint) in (0..).map(WorkerId).zip(endpoints) {
        pool.set_endpoint(id, endpoint.clone());
        pool.change(id, Change::Join);
    }
}
