//! What the proxy can be told before it starts: checked values only.
//!
//! The text format of the configuration file is unknown here (`spillgate/src/config` owns it).

use std::path::PathBuf;
use std::time::Duration;

use spillgate_core::gate::{self, Class};
use spillgate_core::id::WorkerId;
use spillgate_core::units::{ByteSize, Weight};
use spillgate_runtime::http::settings::{Endpoint, ListenerSettings, TrustedFrom};

/// Everything the serving side needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of shards; none: one for each core of the affinity mask.
    pub shards: Option<u16>,
    /// Whose forwarded and steering headers, and whose PROXY protocol, are believed. Default none.
    pub trusted_from: TrustedFrom,
    /// Most bytes that all buffers together may hold in memory. Default 256 MiB.
    pub buffer_memory_max: ByteSize,
    /// Bytes of one body that stay in memory; what is beyond goes to the spill folder. Default 1
    /// MiB.
    pub body_memory_max: ByteSize,
    /// Longest time that a body waits for the budget. Default 5 s.
    pub body_wait_max: Duration,
    /// Where bodies spill.
    pub spill: SpillSettings,
    /// Time between "not ready" and the moment the listeners close, after SIGTERM. Default 0.
    pub stop_delay: Duration,
    /// Longest time that running and waiting exchanges get after SIGTERM. Default 30 s.
    pub drain_time_max: Duration,
    /// Where we listen.
    pub listeners: Vec<ListenerSettings>,
    /// The pools.
    pub pools: Vec<PoolSettings>,
    /// The routes, in the order of the file.
    pub routes: Vec<RouteSettings>,
    /// Where access records go; none: nowhere.
    pub access_log: Option<AccessLog>,
}

/// Where bodies spill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillSettings {
    /// Whether they do. Default true.
    pub enabled: bool,
    /// The folders; segment files are made there and unlinked at once. Empty: a folder of the
    /// system for temporary files, if one can be used.
    pub folders: Vec<PathBuf>,
    /// Most bytes that all folders together may hold. None: a share of what is free there.
    pub size_max: Option<ByteSize>,
    /// Threads that read and write spill files. Default 2; range 1 to 64.
    pub threads: u16,
}

/// One pool: the workers that serve one application.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Its name in the file.
    pub name: String,
    /// Its workers.
    pub workers: Workers,
    /// The weights of its workers, in their order; one for those beyond the end.
    pub weights: Vec<Weight>,
    /// Its gate.
    pub gate: gate::Settings,
    /// What its exchanges say of themselves, and where.
    pub claim: ClaimSettings,
    /// Where what its gate is told and decides is recorded; none: nowhere.
    pub trace: Option<TraceSettings>,
    /// Longest connect. Default 1 s.
    pub connect_time_max: Duration,
    /// Longest time from the last request byte sent to the end of the response head. Default 60 s.
    pub exchange_time_max: Duration,
    /// Longest time without a byte from the worker once its head has come. Default 60 s.
    pub progress_time_max: Duration,
    /// How long a worker keeps an idle connection; ours is not used for unsafe methods in the last
    /// second of it, and closed when it is over. A `Keep-Alive: timeout=` of the worker overrides
    /// it. Default 5 s (Node.js).
    pub keep_alive_time_max: Duration,
    /// Largest response head. Default 32 KiB.
    pub head_size_max: ByteSize,
    /// Largest request body; more is refused with 413. Default 64 MiB.
    pub body_size_max: ByteSize,
    /// Response bytes that are held back so that a failing worker can be retried. Default 64 KiB.
    pub respond_hold_max: ByteSize,
    /// Time after the response head after which what is there goes out. Default 20 ms.
    pub respond_hold_wait: Duration,
    /// Responses longer than this are relayed at the client's speed, with the slot held. Default 64
    /// MiB.
    pub response_size_max: ByteSize,
    /// Whether a 503 that only few workers give is tried elsewhere. Default true.
    pub retry_unavailable: bool,
    /// Which exchanges may have a second try beside a first that is slow. Default safe ones.
    pub hedge: Hedging,
    /// The agents of its workers; none: nobody is asked.
    pub agents: Option<AgentSettings>,
    /// The path of the HTTP probe; none: probes are connects.
    pub probe_path: Option<String>,
    /// Longest probe. Default 1 s.
    pub probe_time_max: Duration,
}

/// Which exchanges may have a second try beside a first that is slow for its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedging {
    /// None.
    Off,
    /// Those that only read, by their method. The default.
    Safe,
    /// Those of which two have the effect of one, by their method.
    Idempotent,
    /// All.
    All,
}

/// The agents of a pool's workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// Where they are asked, in the order of the workers, one for each.
    pub endpoints: Vec<Endpoint>,
    /// Time between two questions to one of them, and the longest answer. Default 2 s (HAProxy's).
    pub interval: Duration,
    /// What each is told first. Default nothing.
    pub send: String,
}

/// How class, caller, tenant and deadline are read from a request. Header fields count from
/// `trusted_from` only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSettings {
    /// The field that names the class; none: no field does.
    pub class_header: Option<String>,
    /// The class of an exchange that nothing else gives one. Default normal.
    pub class: Class,
    /// Classes by method.
    pub class_methods: Vec<(String, Class)>,
    /// The field that names the caller; none: no field does.
    pub caller_header: Option<String>,
    /// Classes by caller, for routes that say nothing of theirs.
    pub class_callers: CallerClasses,
    /// The field that names the tenant; none: no field does.
    pub tenant_header: Option<String>,
    /// Whether an exchange that names no tenant is its client's address's. Default no.
    pub tenant_by_address: bool,
    /// The field that says when an answer is of no use any more; none: only `grpc-timeout` does.
    pub deadline_header: Option<String>,
    /// What the key is of an exchange, by which it finds its worker; none: it has none.
    pub key: Option<KeySettings>,
}

/// What the key of an exchange is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// A header field, where the request has it.
    pub header: Option<String>,
    /// Else.
    pub by: KeyBy,
}

/// What the key of an exchange is where no header field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBy {
    /// The path, without the query.
    Path,
    /// The client's address.
    Address,
}

impl PoolSettings {
    /// The weight of a worker.
    pub fn weight(&self, worker: WorkerId) -> Weight {
        self.weights.get(worker.0 as usize).copied().unwrap_or(Weight::ONE)
    }
}

impl ClaimSettings {
    /// The class that all requests with this method have.
    pub fn class_of_method(&self, method: &[u8]) -> Option<Class> {
        class_of(&self.class_methods, method)
    }

    /// The fields that steer.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        [&self.class_header, &self.caller_header, &self.tenant_header, &self.deadline_header]
            .into_iter()
            .filter_map(|name| name.as_deref())
    }
}

/// The class of the entry with this name.
fn class_of(entries: &[(String, Class)], name: &[u8]) -> Option<Class> {
    let found = entries.iter().find(|(known, _)| known.as_bytes() == name);
    found.map(|(_, class)| *class)
}

/// The classes that callers have: of one route, or of a whole pool. Default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerClasses(
    /// Sorted by name, since there may be hundreds.
    Vec<(String, CallerClass)>,
);

/// The class of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerClass {
    /// Whatever it asks.
    Any(Class),
    /// By method; with another one it has none here.
    ByMethod(Vec<(String, Class)>),
}

impl CallerClasses {
    /// Of callers by name, each named once.
    pub fn new(mut callers: Vec<(String, CallerClass)>) -> CallerClasses {
        callers.sort_by(|(one, _), (other, _)| one.cmp(other));
        CallerClasses(callers)
    }

    /// The class of a request of `caller`, whose name is compared byte for byte.
    pub fn class(&self, caller: &[u8], method: &[u8]) -> Option<Class> {
        let at = self.0.binary_search_by(|(name, _)| name.as_bytes().cmp(caller)).ok()?;
        match &self.0[at].1 {
            CallerClass::Any(class) => Some(*class),
            CallerClass::ByMethod(methods) => class_of(methods, method),
        }
    }
}

/// Who the workers of a pool are.
#[derive(Clone, Debug)]
pub enum Workers {
    /// Started by others, reached here.
    Endpoints(Vec<Endpoint>),
    /// Started and supervised by us.
    Command(Box<CommandSettings>),
}

/// A pool whose workers we start.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory; none: ours.
    pub directory: Option<PathBuf>,
    /// Environment added to ours, in the order of the file.
    pub environment: Vec<(String, String)>,
    /// How many workers.
    pub workers: u32,
    /// How each worker is told where to listen.
    pub listen: WorkerListen,
    /// Times of start, stop, stall and restart.
    pub supervise: spillgate_core::supervise::Settings,
}

/// How a worker that we start is told where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerListen {
    /// `PORT` in its environment, on 127.0.0.1: `port_base + 2 * id` and the next, in turn. Base 0:
    /// free ports, chosen at each start.
    Port {
        /// The first port. Default 0.
        base: u16,
    },
    /// `SPILLGATE_SOCKET` in its environment: a Unix socket in this folder.
    Socket {
        /// The folder.
        folder: PathBuf,
    },
}

/// One route.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// Host it applies to, lower case, without port; none: any.
    pub host: Option<String>,
    /// Which paths.
    pub path: PathMatch,
    /// The class of its exchanges; none: that of the method or the pool.
    pub class: Option<Class>,
    /// The classes of those of certain callers, which come first.
    pub class_callers: CallerClasses,
    /// Where it leads.
    pub destination: Destination,
}

/// Which paths a route applies to. Exact wins over prefix, a longer prefix over a shorter one. In
/// the form of [`crate::path::plain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// Paths that start with this, at a segment border (`/api` matches `/api` and `/api/x`, not
    /// `/apix`).
    Prefix(String),
    /// This path alone.
    Exact(String),
}

/// Where a route leads.
#[derive(Clone, Debug)]
pub enum Destination {
    /// The pool with this index in [`Settings::pools`].
    Pool(usize),
    /// A reply of our own.
    Reply(ReplySettings),
}

/// A reply of our own, from the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplySettings {
    /// 200 to 599.
    pub status: u16,
    /// Its body.
    pub body: String,
    /// Its `Content-Type`. Default `text/plain; charset=utf-8`.
    pub content_type: String,
}

/// Where what a gate is told and decides is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The file; made anew at each start.
    pub path: PathBuf,
    /// The recording ends when it has this length. Default 1 GiB.
    pub size_max: ByteSize,
}

/// Where access records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Standard output.
    Stdout,
    /// A file, opened for appending; reopened on SIGUSR1.
    File(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_the_class_of_its_name_and_method() {
        let methods = vec![("GET".to_owned(), Class::Degraded), ("POST".to_owned(), Class::Bulk)];
        let callers = CallerClasses::new(vec![
            ("reports".to_owned(), CallerClass::ByMethod(methods)),
            ("checkout".to_owned(), CallerClass::Any(Class::Critical)),
            ("app-7".to_owned(), CallerClass::Any(Class::Normal)),
        ]);
        for (caller, method, expected) in [
            ("checkout", "GET", Some(Class::Critical)),
            ("checkout", "PATCH", Some(Class::Critical)),
            ("reports", "GET", Some(Class::Degraded)),
            ("reports", "POST", Some(Class::Bulk)),
            ("reports", "DELETE", None),
            ("app-7", "GET", Some(Class::Normal)),
            ("app-70", "GET", None),
            ("Checkout", "GET", None),
            ("", "GET", None),
        ] {
            let class = callers.class(caller.as_bytes(), method.as_bytes());
            assert_eq!(class, expected, "{caller} {method}");
        }
        assert_eq!(CallerClasses::default().class(b"checkout", b"GET"), None);
    }
}
