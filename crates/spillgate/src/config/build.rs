//! From a checked file to settings: defaults are filled in, nothing is checked any more.
//!
//! Runs only for a file without errors, so each value is there and within its range. That is the
//! invariant behind each `expect` here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use spillgate_core::units::{ByteSize, Ratio, Slots, Weight};
use spillgate_core::{gate, supervise};
use spillgate_proxy::settings::{
    AccessLog, AgentSettings, CallerClasses, ClaimSettings, CommandSettings, Destination, Hedging,
    KeyBy, KeySettings, PathMatch, PoolSettings, ReplySettings, RouteSettings, Settings,
    SpillSettings, TraceSettings, WorkerListen, Workers,
};
use spillgate_runtime::http::settings::{Endpoint, HalfClose, ListenerSettings, TrustedFrom};

use super::check::routes::pool_by_default;
use super::key::Place;
use super::raw::{Raw, Section};
use super::value::Value;
use super::{AdminSettings, Config, control_path_default};

/// The settings of a file without errors. `cores` is the default of `workers`.
pub(super) fn build(raw: &Raw, cores: u32) -> Config {
    let top = &raw.top;
    let proxy = Settings {
        shards: top.has("shards").then(|| top.number("shards")),
        trusted_from: match top.value("trusted_from") {
            Some(Value::TrustedFrom(trusted)) if top.has("trusted_from") => trusted,
            _ => TrustedFrom { unsaid: true, ..TrustedFrom::default() },
        },
        buffer_memory_max: top.size("buffer_memory_max"),
        body_memory_max: top.size("body_memory_max"),
        body_wait_max: top.duration("body_wait_max"),
        spill: spill(raw.spill.as_ref().unwrap_or(&Section::empty(Place::Spill, ""))),
        stop_delay: top.duration("stop_delay"),
        drain_time_max: top.duration("drain_time_max"),
        listeners: raw.listeners.iter().map(listener).collect(),
        pools: raw.pools.iter().map(|section| pool(section, cores)).collect(),
        routes: routes(raw),
        access_log: access_log(raw),
    };
    Config { proxy, admin: raw.admin.as_ref().map(admin) }
}

impl Section {
    fn duration(&self, name: &str) -> Duration {
        self.duration_or_off(name).expect("the key has a default, and the file no error")
    }

    fn duration_or_off(&self, name: &str) -> Option<Duration> {
        self.value(name)?.as_duration()
    }

    fn size(&self, name: &str) -> ByteSize {
        let value = self.value(name).and_then(|value| value.as_size());
        value.expect("the key has a default, and the file no error")
    }

    fn share(&self, name: &str) -> Ratio {
        let value = self.value(name).and_then(|value| value.as_share());
        value.expect("the key has a default, and the file no error")
    }

    fn number<T: TryFrom<u64>>(&self, name: &str) -> T {
        let value = self.value(name).and_then(|value| value.as_count());
        let value = value.expect("the key has a value, and the file no error");
        T::try_from(value).ok().expect("the range of the table fits the type of the setting")
    }

    fn text(&self, name: &str) -> Option<String> {
        self.value(name)?.as_text().map(str::to_owned)
    }

    fn class(&self, name: &str) -> Option<gate::Class> {
        gate::Class::from_word(self.text(name)?.as_bytes())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name)?.as_path().cloned()
    }

    fn flag(&self, name: &str) -> bool {
        let value = self.value(name).and_then(|value| value.as_flag());
        value.expect("the key has a default, and the file no error")
    }

    fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.value(name)?.as_endpoint().cloned()
    }
}

fn spill(section: &Section) -> SpillSettings {
    let folders = match section.value("folders") {
        Some(Value::Folders(folders)) => folders.into_iter().map(|at| at.value).collect(),
        _ => Vec::new(),
    };
    SpillSettings {
        enabled: section.value("enabled").and_then(|value| value.as_flag()) != Some(false),
        folders,
        size_max: section.value("size_max").and_then(|value| value.as_size()),
        threads: section.number("threads"),
    }
}

fn listener(section: &Section) -> ListenerSettings {
    ListenerSettings {
        name: section.name.clone(),
        address: section.endpoint("address").expect("each listener has an address"),
        proxy_protocol: section.flag("proxy_protocol"),
        half_close: match section.text("half_close").as_deref() {
            Some("serve") => HalfClose::Serve,
            _ => HalfClose::Abandon,
        },
        connections_max: section.number("connections_max"),
        head_size_max: section.size("head_size_max"),
        head_fields_max: section.number("head_fields_max"),
        head_time_max: section.duration("head_time_max"),
        body_rate_min: section.size("body_rate_min"),
        body_rate_grace: section.duration("body_rate_grace"),
        send_rate_min: section.size("send_rate_min"),
        send_rate_grace: section.duration("send_rate_grace"),
        idle_time_max: section.duration("idle_time_max"),
        send_buffer_max: section.size("send_buffer_max"),
    }
}

fn pool(section: &Section, cores: u32) -> PoolSettings {
    PoolSettings {
        name: section.name.clone(),
        workers: workers(section, cores),
        weights: weights(section),
        gate: gate(section),
        claim: claim(section),
        trace: trace(section),
        connect_time_max: section.duration("connect_time_max"),
        exchange_time_max: section.duration("exchange_time_max"),
        progress_time_max: section.duration("progress_time_max"),
        keep_alive_time_max: section.duration("keep_alive_time_max"),
        head_size_max: section.size("head_size_max"),
        body_size_max: section.size("body_size_max"),
        respond_hold_max: section.size("respond_hold_max"),
        respond_hold_wait: section.duration("respond_hold_wait"),
        response_size_max: section.size("response_size_max"),
        retry_unavailable: section.flag("retry_unavailable"),
        hedge: hedging(section),
        agents: agents(section),
        probe_path: section.text("probe_path"),
        probe_time_max: section.duration("probe_time_max"),
    }
}

fn weights(section: &Section) -> Vec<Weight> {
    match section.value("endpoints") {
        Some(Value::Endpoints(_, weights)) => weights,
        _ => Vec::new(),
    }
}

/// The default goes by weights wherever there are some: set, or growing.
fn balance(section: &Section, slots: u32) -> gate::Balance {
    let is_weighed = weights(section).iter().any(|weight| *weight != Weight::ONE);
    match section.text("balance").as_deref() {
        Some("turns") => gate::Balance::Turns,
        Some("least_loaded") => gate::Balance::LeastLoaded,
        Some("first") => gate::Balance::First,
        Some("weighted") => gate::Balance::Weighted,
        Some("hash") => gate::Balance::Hash,
        _ if slots > 1 => gate::Balance::LeastLoaded,
        _ if is_weighed || section.has("ramp_time") => gate::Balance::Weighted,
        _ => gate::Balance::Turns,
    }
}

fn hedging(section: &Section) -> Hedging {
    match section.text("hedge").as_deref() {
        Some("off") => Hedging::Off,
        Some("idempotent") => Hedging::Idempotent,
        Some("all") => Hedging::All,
        _ => Hedging::Safe,
    }
}

fn trace(section: &Section) -> Option<TraceSettings> {
    let path = section.path("trace_path")?;
    Some(TraceSettings { path, size_max: section.size("trace_size_max") })
}

fn gate(section: &Section) -> gate::Settings {
    let slots: u32 = section.number("slots");
    let connections: u32 = match section.has("connections_max") {
        true => section.number("connections_max"),
        false => slots,
    };
    gate::Settings {
        slots: Slots::new(slots).expect("slots begin at 1"),
        limit: match section.text("limit").as_deref() {
            Some("gradient") => gate::Limit::Gradient,
            Some("aimd") => gate::Limit::Aimd,
            _ => gate::Limit::Fixed,
        },
        limit_min: Slots::new(section.number("limit_min")).expect("limits begin at 1"),
        connections_max: Slots::new(connections).expect("connections begin at 1"),
        queue_len_max: section.number("queue_len_max"),
        queue_wait_max: section.duration("queue_wait_max"),
        answer_within: section.duration_or_off("answer_within"),
        answer_quantile: section.share("answer_quantile"),
        order: match section.text("order").as_deref() {
            Some("fifo") => gate::Order::Fifo,
            Some("lifo") => gate::Order::Lifo,
            Some("priority") => gate::Order::Priority,
            _ => gate::Order::Adaptive,
        },
        shedding: match section.text("shedding").as_deref() {
            Some("codel") => gate::Shedding::Codel,
            Some("off") => gate::Shedding::Off,
            _ => gate::Shedding::Ratio,
        },
        balance: balance(section, slots),
        hash_excess_max: section.share("hash_excess_max"),
        ramp_time: section.duration_or_off("ramp_time"),
        start_hold_max: section.duration("start_hold_max"),
        retry_max: section.number("retry_max"),
        retry_budget: section.share("retry_budget"),
        retry_budget_min: section.number("retry_budget_min"),
        hedge: hedging(section) != Hedging::Off,
        eject_after: section.number("eject_after"),
        eject_error_share: section.share("eject_error_share"),
        eject_time: section.duration("eject_time"),
        eject_keep_min: section.share("eject_keep_min"),
        probe_interval: section.duration("probe_interval"),
        probe_exchange: section.has("probe_path"),
        probe_interval_up: section.duration_or_off("probe_interval_up"),
        probe_fall: section.number("probe_fall"),
        stuck_time_max: section.duration("exchange_time_max"),
    }
}

fn agents(section: &Section) -> Option<AgentSettings> {
    let port = section.has("agent_port").then(|| section.number("agent_port"));
    let endpoints = match (section.value("agents"), section.value("endpoints"), port) {
        (Some(Value::Endpoints(agents, _)), ..) => agents.into_iter().map(|at| at.value).collect(),
        (_, Some(Value::Endpoints(workers, _)), Some(port)) => {
            workers.into_iter().map(|at| beside(&at.value, port)).collect()
        }
        _ => return None,
    };
    Some(AgentSettings {
        endpoints,
        interval: section.duration("agent_interval"),
        send: section.text("agent_send").unwrap_or_default(),
    })
}

/// The same host, another port.
fn beside(endpoint: &Endpoint, port: u16) -> Endpoint {
    match endpoint {
        Endpoint::Tcp(address) => Endpoint::Tcp(SocketAddr::new(address.ip(), port)),
        Endpoint::Unix(_) => panic!("an agent has a port only beside a worker that has one"),
    }
}

fn claim(section: &Section) -> ClaimSettings {
    ClaimSettings {
        class_header: section.text("class_header"),
        class: section.class("class").expect("the key has a default"),
        class_methods: match section.value("class_methods") {
            Some(Value::Classes(pairs)) => pairs,
            _ => Vec::new(),
        },
        caller_header: section.text("caller_header"),
        class_callers: class_callers(section),
        tenant_header: section.text("tenant_header"),
        tenant_by_address: section.flag("tenant_by_address"),
        deadline_header: section.text("deadline_header"),
        key: key(section),
    }
}

fn class_callers(section: &Section) -> CallerClasses {
    match section.value("class_callers") {
        Some(Value::Callers(callers)) => callers,
        _ => CallerClasses::default(),
    }
}

fn key(section: &Section) -> Option<KeySettings> {
    if section.text("balance").as_deref() != Some("hash") {
        return None;
    }
    let by = match section.text("hash_by").as_deref() {
        Some("address") => KeyBy::Address,
        _ => KeyBy::Path,
    };
    Some(KeySettings { header: section.text("hash_header"), by })
}

fn workers(section: &Section, cores: u32) -> Workers {
    if let Some(Value::Endpoints(endpoints, _)) = section.value("endpoints") {
        return Workers::Endpoints(endpoints.into_iter().map(|at| at.value).collect());
    }
    let Some(Value::Command(command)) = section.value("command") else {
        panic!("each pool has endpoints or a command");
    };
    let environment = match section.value("environment") {
        Some(Value::Environment(pairs)) => pairs,
        _ => Vec::new(),
    };
    Workers::Command(Box::new(CommandSettings {
        command,
        directory: section.path("directory"),
        environment,
        workers: if section.has("workers") { section.number("workers") } else { cores },
        listen: match section.path("socket_dir") {
            Some(folder) => WorkerListen::Socket { folder },
            None => WorkerListen::Port { base: section.number("port_base") },
        },
        supervise: supervise(section),
    }))
}

fn supervise(section: &Section) -> supervise::Settings {
    supervise::Settings {
        ready_time_max: section.duration("ready_time_max"),
        heartbeat_time_max: section.duration_or_off("heartbeat_time_max"),
        drain_time_max: section.duration("worker_drain_time_max"),
        stop_time_max: section.duration("stop_time_max"),
        stall_stop_time_max: section.duration("stall_stop_time_max"),
        restart_wait_min: section.duration("restart_wait_min"),
        restart_wait_max: section.duration("restart_wait_max"),
        restart_calm: section.duration("restart_calm"),
    }
}

fn routes(raw: &Raw) -> Vec<RouteSettings> {
    let mut routes: Vec<RouteSettings> =
        raw.routes.iter().map(|route| of_file(raw, route)).collect();
    if let Some(pool) = pool_by_default(raw) {
        routes.push(RouteSettings {
            host: None,
            path: PathMatch::Prefix("/".into()),
            class: None,
            class_callers: CallerClasses::default(),
            destination: Destination::Pool(pool),
        });
    }
    routes
}

fn of_file(raw: &Raw, route: &Section) -> RouteSettings {
    let path = match route.text("path_exact") {
        Some(path) => PathMatch::Exact(path),
        None => PathMatch::Prefix(route.text("path").expect("the path has a default")),
    };
    let destination = match route.value("reply") {
        Some(Value::Reply(reply)) => Destination::Reply(ReplySettings {
            status: reply.number("status"),
            body: reply.text("body").unwrap_or_default(),
            content_type: reply.text("content_type").expect("the media type has a default"),
        }),
        _ => {
            let name = route.text("pool").expect("each route leads somewhere");
            let index = raw.pools.iter().position(|pool| pool.name == name);
            Destination::Pool(index.expect("each pool that a route names is defined"))
        }
    };
    RouteSettings {
        host: route.text("host"),
        path,
        class: route.class("class"),
        class_callers: class_callers(route),
        destination,
    }
}

fn access_log(raw: &Raw) -> Option<AccessLog> {
    let Some(path) = raw.access_log.as_ref().and_then(|section| section.path("path")) else {
        return Some(AccessLog::Stdout);
    };
    match path.to_str() {
        Some("stdout") => Some(AccessLog::Stdout),
        Some("off") => None,
        _ => Some(AccessLog::File(path)),
    }
}

fn admin(section: &Section) -> AdminSettings {
    AdminSettings {
        address: section.endpoint("address"),
        control: section.path("control").unwrap_or_else(control_path_default),
    }
}
