//! Who listens on an address: our process, or a stranger.
//!
//! A connection that is accepted does not prove that the worker is up: somebody else may sit on its
//! port. The kernel's table of sockets names the listener of an address, and the descriptors of a
//! process group tell whether it is theirs. Read once or twice in the life of a process, never on a
//! request's way.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::sys::process::group_of;

/// Who listens on an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A process of the group, and nobody else.
    Group,
    /// Somebody else, or somebody else too; described for the log.
    Other(String),
    /// Nobody any more.
    Nobody,
}

/// Who listens on a TCP address, in words for a person; none: nobody. Blocks for as long as it
/// takes to read some tables of the system.
pub fn listener_of(address: SocketAddr) -> Option<String> {
    // No process is in group 0, so whoever it is, is somebody else.
    match tcp_owner(address, 0) {
        Owner::Other(owner) => Some(owner),
        Owner::Group | Owner::Nobody => None,
    }
}

/// Who gets connections to the TCP address `address`, seen from the process group `group`. Blocks
/// for as long as it takes to read some tables of the system.
pub(super) fn tcp_owner(address: SocketAddr, group: i32) -> Owner {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut listeners = listeners(&read("/proc/self/net/tcp"), address);
    listeners.extend(self::listeners(&read("/proc/self/net/tcp6"), address));
    // The most exact address wins a connection.
    let Some(best) = listeners.iter().map(|listener| listener.fit).max() else {
        return Owner::Nobody;
    };
    listeners.retain(|listener| listener.fit == best);
    let wanted: BTreeSet<u64> = listeners.iter().map(|listener| listener.inode).collect();
    let ours: BTreeSet<u64> =
        processes().filter(|pid| group_of(*pid) == Some(group)).flat_map(sockets_of).collect();
    if wanted.is_subset(&ours) {
        return Owner::Group;
    }
    let strange = wanted.difference(&ours).copied().collect();
    Owner::Other(describe(&strange))
}

/// The name of process `pid` for the log: number and program.
pub(super) fn describe_process(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({name})"),
    }
}

fn describe(inodes: &BTreeSet<u64>) -> String {
    let holder = processes().find(|pid| sockets_of(*pid).any(|inode| inodes.contains(&inode)));
    holder.map_or_else(|| "a process of another user".to_string(), describe_process)
}

/// A listening socket that would take a connection to the address in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    fit: Fit,
    inode: u64,
}

/// How exactly a listener's address matches; the later wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    AnyOfBoth,
    Any,
    Exact,
}

/// The listeners in `table`, which has the form of `/proc/net/tcp` or `tcp6`. Lines that are not
/// understood are left out.
fn listeners(table: &str, address: SocketAddr) -> Vec<Listener> {
    const LISTEN: &str = "0A";
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, local, _, state, _, _, _, _, _, inode, ..] = fields.as_slice() else {
            return None;
        };
        if state != LISTEN {
            return None;
        }
        let fit = fit(parse_address(local)?, address)?;
        Some(Listener { fit, inode: inode.parse().ok()? })
    };
    table.lines().skip(1).filter_map(parse).collect()
}

fn fit(listener: SocketAddr, address: SocketAddr) -> Option<Fit> {
    if listener.port() != address.port() {
        return None;
    }
    match (listener.ip(), address.ip()) {
        (listener, wanted) if listener == wanted => Some(Fit::Exact),
        (IpAddr::V6(listener), IpAddr::V4(wanted)) if listener == wanted.to_ipv6_mapped() => {
            Some(Fit::Exact)
        }
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(_)) => Some(Fit::Any),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(_)) => Some(Fit::Any),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(_)) => Some(Fit::AnyOfBoth),
        _ => None,
    }
}

/// An address of the table: hexadecimal words of four bytes, each in the machine's order.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut bytes = [0; 16];
            bytes.copy_from_slice(words.as_flattened());
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The inodes of the sockets that `pid` has open; none where we may not look.
fn sockets_of(pid: i32) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn addresses_of_the_table_are_read() {
        for (text, wanted) in [
            ("0100007F:1F90", Some("127.0.0.1:8080")),
            ("00000000:0050", Some("0.0.0.0:80")),
            ("00000000000000000000000001000000:0050", Some("[::1]:80")),
            ("0000000000000000FFFF00000100007F:0050", Some("[::ffff:127.0.0.1]:80")),
            ("0100007F", None),
            ("0100007F:1F90F", None),
            ("0100007:1F90", None),
            ("\u{e9}100007\u{e9}:1F90", None),
            ("XXXXXXXX:1F90", None),
        ] {
            if cfg!(target_endian = "little") {
                assert_eq!(parse_address(text), wanted.map(address), "{text}");
            }
        }
    }

    #[test]
    fn the_most_exact_listener_gets_the_connection() {
        let wanted = address("127.0.0.1:80");
        for (listener, fit_wanted) in [
            ("127.0.0.1:80", Some(Fit::Exact)),
            ("[::ffff:127.0.0.1]:80", Some(Fit::Exact)),
            ("0.0.0.0:80", Some(Fit::Any)),
            ("[::]:80", Some(Fit::AnyOfBoth)),
            ("127.0.0.2:80", None),
            ("127.0.0.1:81", None),
            ("[::1]:80", None),
        ] {
            assert_eq!(fit(address(listener), wanted), fit_wanted, "{listener}");
        }
        assert!(Fit::Exact > Fit::Any && Fit::Any > Fit::AnyOfBoth);
    }

    #[test]
    fn a_table_of_nonsense_names_nobody() {
        let table = "head\nx\n\n 0: 0100007F:0050 00000000:0000 0A 0 0 0 0 0 many\n\u{0}\n";
        assert_eq!(listeners(table, address("127.0.0.1:80")), []);
    }

    #[test]
    fn a_listener_of_ours_is_ours_and_one_of_others_has_a_name() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let here = listener.local_addr().expect("it is bound");
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        assert_eq!(tcp_owner(here, group), Owner::Group);
        let Owner::Other(name) = tcp_owner(here, i32::MAX) else { panic!("it is ours alone") };
        assert!(name.contains(&std::process::id().to_string()), "{name}");
        drop(listener);
        assert_eq!(tcp_owner(here, group), Owner::Nobody);
    }
}
