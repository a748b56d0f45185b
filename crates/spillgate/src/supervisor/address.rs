//! Where each process of a pool is told to listen.
//!
//! Ports in pairs from `port_base`, free ones, or socket files: one for each side, so that the next
//! process can be ready before the present one stops. Must hold: no two living processes share one.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use spillgate_core::supervise::{ProcessId, Side};
use spillgate_proxy::settings::WorkerListen;
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::process::free_port;

/// Longest path of a Unix socket (`sun_path`, with its final zero).
const SOCKET_PATH_LEN_MAX: usize = 107;

/// The endpoints of a pool: how they are chosen, and which are given to living processes.
#[derive(Debug)]
pub(super) struct Addresses {
    plan: Plan,
    given: BTreeMap<ProcessId, Endpoint>,
}

#[derive(Debug)]
enum Plan {
    /// A port that is free at the time.
    FreePort,
    /// Two ports for each worker, from this one on.
    Ports { base: u16 },
    /// Two sockets for each worker, with names that begin like this; whether we made the folder.
    Sockets { folder: PathBuf, pool: String, made: bool },
}

impl Addresses {
    /// Errors: the folder cannot be made, a socket's path would be too long, or a port too high.
    pub(super) fn new(pool: &str, listen: &WorkerListen, workers: u32) -> io::Result<Addresses> {
        let plan = match listen {
            WorkerListen::Port { base: 0 } => Plan::FreePort,
            WorkerListen::Port { base } => Plan::Ports { base: *base },
            WorkerListen::Socket { folder } => {
                let made = !folder.exists();
                make_folder(folder)?;
                Plan::Sockets { folder: folder.clone(), pool: file_name(pool), made }
            }
        };
        let addresses = Addresses { plan, given: BTreeMap::new() };
        addresses.check(workers)?;
        Ok(addresses)
    }

    /// The last worker's endpoint is the one that can go wrong.
    fn check(&self, workers: u32) -> io::Result<()> {
        match &self.plan {
            Plan::FreePort => Ok(()),
            Plan::Ports { base } => port(*base, workers.saturating_sub(1), Side::B).map(drop),
            Plan::Sockets { folder, pool, .. } => {
                let path = socket(folder, pool, workers, Side::B);
                if path.as_os_str().len() <= SOCKET_PATH_LEN_MAX {
                    return Ok(());
                }
                let text = format!("the socket path {} is too long", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }

    /// The endpoint for a process that is to be started, kept until [`Addresses::take_back`].
    ///
    /// Errors: no port is free.
    pub(super) fn give(&mut self, process: ProcessId, side: Side) -> io::Result<Endpoint> {
        let worker = process.worker.0;
        let endpoint = match &self.plan {
            Plan::FreePort => at_port(free_port(&self.ports())?),
            Plan::Ports { base } => at_port(port(*base, worker, side)?),
            Plan::Sockets { folder, pool, .. } => {
                Endpoint::Unix(socket(folder, pool, worker, side))
            }
        };
        self.given.insert(process, endpoint.clone());
        Ok(endpoint)
    }

    /// Where a living process listens.
    pub(super) fn of(&self, process: ProcessId) -> Option<&Endpoint> {
        self.given.get(&process)
    }

    pub(super) fn take_back(&mut self, process: ProcessId) {
        self.given.remove(&process);
    }

    /// The pool has stopped: a folder that was made for it goes, unless something else is in it.
    pub(super) fn clear(&self) {
        if let Plan::Sockets { folder, made: true, .. } = &self.plan {
            // The sockets in it went with their processes. What others put there is theirs.
            let _ = std::fs::remove_dir(folder);
        }
    }

    fn ports(&self) -> Vec<u16> {
        let port = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp(address) => Some(address.port()),
            Endpoint::Unix(_) => None,
        };
        self.given.values().filter_map(port).collect()
    }
}

fn at_port(port: u16) -> Endpoint {
    Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn port(base: u16, worker: u32, side: Side) -> io::Result<u16> {
    let offset = match side {
        Side::A => 0,
        Side::B => 1,
    };
    let port = worker.checked_mul(2).and_then(|twice| twice.checked_add(u32::from(base) + offset));
    port.and_then(|port| u16::try_from(port).ok()).ok_or_else(|| {
        let text = format!("worker {worker} would need a port above 65535 (port_base = {base})");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

fn socket(folder: &Path, pool: &str, worker: u32, side: Side) -> PathBuf {
    let side = match side {
        Side::A => 'a',
        Side::B => 'b',
    };
    folder.join(format!("{pool}-{worker}-{side}.sock"))
}

/// The pool's name without what could lead out of the folder.
fn file_name(pool: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    pool.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot make {}: {error}", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spillgate_core::id::WorkerId;

    fn process(worker: u32, run: u32) -> ProcessId {
        ProcessId { worker: WorkerId(worker), run }
    }

    #[test]
    fn ports_come_in_pairs_from_the_base_on() {
        let mut addresses =
            Addresses::new("app", &WorkerListen::Port { base: 9002 }, 3).expect("they fit");
        for (worker, side, port) in
            [(0, Side::A, 9002), (0, Side::B, 9003), (2, Side::A, 9006), (2, Side::B, 9007)]
        {
            let given = addresses.give(process(worker, 1), side).expect("it is in range");
            assert_eq!(given, at_port(port));
        }
        let error = Addresses::new("app", &WorkerListen::Port { base: 65_534 }, 2);
        assert!(error.expect_err("too high").to_string().contains("65535"));
        Addresses::new("app", &WorkerListen::Port { base: 65_534 }, 1).expect("just fits");
    }

    #[test]
    fn free_ports_are_given_once() {
        let mut addresses =
            Addresses::new("app", &WorkerListen::Port { base: 0 }, 2).expect("no bound");
        let first = addresses.give(process(0, 1), Side::A).expect("a port is free");
        assert_eq!(addresses.of(process(0, 1)), Some(&first));
        let second = addresses.give(process(1, 1), Side::A).expect("a port is free");
        assert_ne!(first, second);
        addresses.take_back(process(0, 1));
        assert_eq!(addresses.of(process(0, 1)), None);
    }

    #[test]
    fn sockets_stay_in_their_folder_and_within_the_systems_bound() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let inner = folder.path().join("new");
        let listen = WorkerListen::Socket { folder: inner.clone() };
        let mut addresses = Addresses::new("../a b", &listen, 1).expect("it can be made");
        let given = addresses.give(process(0, 1), Side::B).expect("it is a path");
        assert_eq!(given, Endpoint::Unix(inner.join("___a_b-0-b.sock")));

        std::fs::write(inner.join("theirs"), "").expect("it can be written");
        addresses.clear();
        assert!(inner.exists(), "it holds something of somebody else's");
        std::fs::remove_file(inner.join("theirs")).expect("it is there");
        let second = Addresses::new("other", &listen, 1).expect("it is there");
        second.clear();
        assert!(inner.exists(), "who found it leaves it");
        addresses.clear();
        assert!(!inner.exists(), "who made it takes it away");

        let error = Addresses::new(&"x".repeat(100), &listen, 1).expect_err("too long");
        assert!(error.to_string().contains("too long"), "{error}");
    }
}
