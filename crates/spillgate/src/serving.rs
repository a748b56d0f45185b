//! The serving side as one thing: what all shards share, and the shards themselves.
//!
//! Sockets, folders and files are claimed by [`Serving::prepare`], before any thread runs, so that
//! a refusal is an error at start; shards run from [`Serving::start`] to [`Serving::finish`].
//! Absent: workers, the admin side, and the order of a stop (`run.rs`).

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use spillgate_core::id::ShardId;
use spillgate_proxy::metrics::{ControlMetrics, ShardMetrics, Sizes};
use spillgate_proxy::pool::{Mailboxes, Pool};
use spillgate_proxy::route::Router;
use spillgate_proxy::serve::{self, Connections};
use spillgate_proxy::settings::{self, Settings, SpillSettings};
use spillgate_proxy::shard::{Parts, Shard, ShardMessage};
use spillgate_runtime::buffer::{Storage, StorageSettings};
use spillgate_runtime::events::{self, AccessLog, Destination, Recording};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::net::socket_file::SocketFile;
use spillgate_runtime::net::{listen, pipe};
use spillgate_runtime::{clock, descriptors, drive, shard, spill};

use crate::claim;

/// Longest time that the last access records may take.
const LOG_GRACE: Duration = Duration::from_secs(2);

/// Time between two looks at shards that are to end.
const END_LOOK_INTERVAL: spillgate_core::time::Duration =
    spillgate_core::time::Duration::from_millis(5);

/// The serving side.
pub(crate) struct Serving {
    pub(crate) settings: Arc<Settings>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) metrics: Vec<Arc<ShardMetrics>>,
    pub(crate) control_metrics: Arc<ControlMetrics>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) log: Option<AccessLog>,
    /// Sockets by shard, each with one for every listener, until the shards take them.
    sockets: Vec<Vec<OwnedFd>>,
    /// Those of Unix sockets; taken away when nobody listens any more.
    socket_files: Vec<SocketFile>,
    shards: Vec<JoinHandle<()>>,
}

impl Serving {
    /// Get everything that can be refused: addresses, folders, files.
    pub(crate) fn prepare(settings: Settings) -> anyhow::Result<Serving> {
        let settings = Arc::new(settings);
        let count = settings.shards.map_or_else(|| shard::cores().len(), usize::from);
        let descriptors = descriptors::raise();
        let connections_max = descriptors::client_connections_max(descriptors);
        pipe::allow(descriptors::pipes_max(descriptors));
        let sockets = bind(&settings, count)?;
        let socket_files = socket_files(&settings)?;
        let storage = storage(&settings)?;
        let log = settings.access_log.as_ref().map(open_log).transpose()?;
        let mailboxes = Arc::new(Mailboxes {
            shards: (0..count).map(|_| shard::Mailbox::default()).collect(),
            control: shard::Mailbox::default(),
        });
        let pool = |(index, pool): (usize, &settings::PoolSettings)| {
            Arc::new(Pool::new(index, pool.clone(), Arc::clone(&mailboxes)))
        };
        let pools: Vec<Arc<Pool>> = settings.pools.iter().enumerate().map(pool).collect();
        pools.iter().try_for_each(|pool| record(pool))?;
        let sizes = Sizes { listeners: settings.listeners.len(), pools: pools.len() };
        let metrics = (0..count).map(|_| Arc::new(ShardMetrics::new(sizes))).collect();
        let open_max = settings.listeners.iter().map(|listener| listener.connections_max).collect();
        let connections = Arc::new(Connections::new(open_max, connections_max));
        let control_metrics = Arc::new(ControlMetrics::new(pools.len()));
        Ok(Serving {
            settings,
            mailboxes,
            pools,
            metrics,
            control_metrics,
            connections,
            storage,
            log,
            sockets,
            socket_files,
            shards: Vec::new(),
        })
    }

    /// Start the shards: from here on connections are accepted.
    ///
    /// Errors: the system refuses a thread.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        let router = Arc::new(Router::new(&self.settings.routes));
        let cores = shard::cores();
        let count = self.sockets.len();
        for (index, sockets) in std::mem::take(&mut self.sockets).into_iter().enumerate() {
            let id = ShardId(u16::try_from(index).context("too many shards")?);
            let parts = Parts {
                settings: Arc::clone(&self.settings),
                router: Arc::clone(&router),
                pools: self.pools.clone(),
                metrics: Arc::clone(&self.metrics[index]),
                storage: Arc::clone(&self.storage),
                log: self.log.as_ref().map(AccessLog::line_buffer),
                seed: shard::seed(),
            };
            let (connections, mailboxes) =
                (Arc::clone(&self.connections), Arc::clone(&self.mailboxes));
            let core = (count == cores.len()).then(|| cores[index]);
            let run = move || serve::run(Shard::new(id, parts), sockets, connections, mailboxes);
            self.shards.push(shard::start(id, core, run).context("cannot start a shard")?);
        }
        for listener in &self.settings.listeners {
            let (name, address) = (&listener.name, &listener.address);
            events::info("listener", format_args!("{name}: listening on {address}"));
        }
        Ok(())
    }

    /// Accept what has come, finish what runs and waits, end. Can be given up at any time.
    pub(crate) async fn finish(&mut self) {
        let begun = clock::now();
        for mailbox in &self.mailboxes.shards {
            mailbox.send(ShardMessage::Stop);
        }
        while !self.shards.iter().all(JoinHandle::is_finished) {
            drive::sleep_until(clock::now() + END_LOOK_INTERVAL).await;
        }
        for shard in self.shards.drain(..) {
            if shard.join().is_err() {
                events::error("shard", "ended with a panic");
            }
        }
        self.socket_files.clear();
        let took = clock::now().since(begun).as_millis();
        events::info("drain", format_args!("the shards have ended after {took} ms"));
    }

    /// Open the access log anew: somebody has renamed its file.
    pub(crate) fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Write the last access records, and the last parts of the traces.
    pub(crate) fn close_logs(&mut self) {
        self.pools.iter().for_each(|pool| pool.end_record());
        if let Some(log) = self.log.take()
            && !log.stop(LOG_GRACE)
        {
            events::warn("access log", "its destination is too slow: the last records are lost");
        }
    }
}

fn bind(settings: &Settings, shards: usize) -> anyhow::Result<Vec<Vec<OwnedFd>>> {
    let mut by_shard: Vec<Vec<OwnedFd>> = (0..shards).map(|_| Vec::new()).collect();
    for listener in &settings.listeners {
        let key = || format!("listener.{}.address", listener.name);
        let sockets = listen::bind(&listener.address, shards, listener.unsent_max())
            .map_err(|error| claim::refused(&key(), &listener.address, &error))?;
        for (shard, socket) in by_shard.iter_mut().zip(sockets) {
            shard.push(socket);
        }
    }
    Ok(by_shard)
}

fn socket_files(settings: &Settings) -> anyhow::Result<Vec<SocketFile>> {
    let paths = settings.listeners.iter().filter_map(|listener| match &listener.address {
        Endpoint::Unix(path) => Some(path),
        Endpoint::Tcp(_) => None,
    });
    let of = |path: &PathBuf| {
        SocketFile::of(path).with_context(|| format!("{} is gone already", path.display()))
    };
    paths.map(of).collect()
}

fn storage(settings: &Settings) -> anyhow::Result<Arc<Storage>> {
    let storage = StorageSettings {
        memory_max: settings.buffer_memory_max,
        body_memory_max: settings.body_memory_max,
        body_wait_max: settings.body_wait_max,
        spill: spill(&settings.spill)?,
    };
    let told = storage.spill.as_ref().map(|spill| (spill.folders.clone(), spill.size_max));
    let storage = Storage::new(storage).context("spill: cannot make the segment files")?;
    if let Some((folders, size_max)) = told {
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let folders = folders.join(", ");
        events::info("spill", format_args!("bodies spill to {folders}, up to {size_max}"));
    }
    for warning in storage.warnings() {
        events::warn("spill", warning);
    }
    Ok(storage)
}

/// Where bodies spill. None: they do not, or no folder was named and none of the system's can be
/// used.
fn spill(settings: &SpillSettings) -> anyhow::Result<Option<spill::Settings>> {
    if !settings.enabled {
        return Ok(None);
    }
    let within = |folders: Vec<PathBuf>| {
        let size_max = settings.size_max.map_or_else(|| spill::share_of_free(&folders), Ok)?;
        Ok(spill::Settings { folders, size_max, threads: settings.threads })
    };
    if !settings.folders.is_empty() {
        let named: io::Result<_> = within(settings.folders.clone());
        return named.map(Some).context("spill: cannot be used");
    }
    match spill::temporary_folder().and_then(|folder| within(vec![folder])) {
        Ok(spill) => Ok(Some(spill)),
        Err(error) => {
            events::warn("spill", format_args!("bodies stay in memory: {error}"));
            Ok(None)
        }
    }
}

fn record(pool: &Pool) -> anyhow::Result<()> {
    let Some(trace) = &pool.settings.trace else { return Ok(()) };
    let recording = Recording::start(&trace.path, trace.size_max).with_context(|| {
        let (name, path) = (&pool.settings.name, trace.path.display());
        format!("pool.{name}.trace_path: cannot make {path}")
    })?;
    pool.record(recording);
    Ok(())
}

fn open_log(log: &settings::AccessLog) -> anyhow::Result<AccessLog> {
    let (destination, name) = match log {
        settings::AccessLog::Stdout => (Destination::Stdout, "stdout".to_owned()),
        settings::AccessLog::File(path) => {
            (Destination::File(path.clone()), path.display().to_string())
        }
    };
    AccessLog::start(destination).with_context(|| format!("access_log.path: cannot open {name}"))
}
