//! What an HTTP listener can be told before it starts.
//!
//! Checked values; every combination here is valid. Absent: defaults and ranges (the table of the
//! binary's configuration has them; they are repeated here for readers only).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use spillgate_core::units::ByteSize;

/// Where a listener listens, or a worker is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket (`unix:/path` in the file).
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Tcp(address) => write!(f, "{address}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Whose word of others is believed. Default: nobody's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedFrom {
    /// Clients with an address in one of these ranges.
    pub networks: Vec<IpNet>,
    /// Clients of Unix sockets, which have no address; the file's mode says who they can be.
    pub unix: bool,
    /// Nothing was said of anybody, not even that it is nobody: then whoever is on this machine may
    /// still say what its own requests are worth.
    pub unsaid: bool,
}

impl TrustedFrom {
    /// Is this client believed? Without an address it is one of a Unix socket.
    pub fn trusts(&self, ip: Option<IpAddr>) -> bool {
        match ip.map(|ip| ip.to_canonical()) {
            Some(ip) => self.networks.iter().any(|network| network.contains(&ip)),
            None => self.unix,
        }
    }

    /// Is it believed what this client says of its own requests: class, tenant, deadline, attempt?
    /// That moves the client within the queue, and lets it pretend to be nobody else.
    pub fn steers(&self, ip: Option<IpAddr>) -> bool {
        let local = ip.is_some_and(|ip| ip.to_canonical().is_loopback());
        self.trusts(ip) || (self.unsaid && local)
    }
}

/// What a half-closed client (it sent its FIN and still reads) means while its exchange waits in a
/// queue. Once dispatched, it is always served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClose {
    /// It has left: the exchange leaves the queue.
    Abandon,
    /// It still wants its answer.
    Serve,
}

/// Settings of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Its name in the file.
    pub name: String,
    /// Where it listens.
    pub address: Endpoint,
    /// Whether each connection starts with a PROXY protocol header (v1 or v2). It is believed from
    /// `trusted_from` only; from anyone else the connection is closed. Default no.
    pub proxy_protocol: bool,
    /// What a half-closed client means while it waits. Default [`HalfClose::Abandon`].
    pub half_close: HalfClose,
    /// Most open client connections on this listener. Default 10,000.
    pub connections_max: u32,
    /// Largest request head. Default 32 KiB; range 1 KiB to 64 KiB - 1.
    pub head_size_max: ByteSize,
    /// Most header fields in a request head. Default 128; range 1 to 1,024.
    pub head_fields_max: u16,
    /// Longest time from the first byte of a head (or from the accept, for the first one) to its
    /// last. Default 5 s.
    pub head_time_max: Duration,
    /// Slowest body that is accepted, in bytes a second, over `body_rate_grace`. Default 64. Zero:
    /// no limit.
    pub body_rate_min: ByteSize,
    /// The time over which `body_rate_min` is reckoned; a body may stand still for that long.
    /// Default 30 s.
    pub body_rate_grace: Duration,
    /// Slowest reader that is served, in bytes a second, over `send_rate_grace`. Default 256. Zero:
    /// no limit.
    pub send_rate_min: ByteSize,
    /// The time over which `send_rate_min` is reckoned. Default 30 s.
    pub send_rate_grace: Duration,
    /// Longest time that a kept connection stays idle between two exchanges. Default 60 s.
    pub idle_time_max: Duration,
    /// Mark from which the kernel takes no more for one client that reads slowly, until it has sent
    /// some of what it holds; 0: the kernel's own tuning. Default 32 KiB.
    pub send_buffer_max: ByteSize,
}

impl ListenerSettings {
    /// `send_buffer_max`, where there is one.
    pub fn unsent_max(&self) -> Option<ByteSize> {
        (self.send_buffer_max > ByteSize::ZERO).then_some(self.send_buffer_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_believed_what() {
        let network = |text: &str| text.parse().expect("a network");
        let said = |networks: &[&str], unix| TrustedFrom {
            networks: networks.iter().map(|text| network(text)).collect(),
            unix,
            unsaid: false,
        };
        let unsaid = TrustedFrom { unsaid: true, ..TrustedFrom::default() };
        let cases = [
            (&unsaid, Some("127.0.0.1"), false, true),
            (&unsaid, Some("::ffff:127.0.0.9"), false, true),
            (&unsaid, Some("::1"), false, true),
            (&unsaid, Some("192.0.2.1"), false, false),
            (&unsaid, None, false, false),
            (&said(&[], false), Some("127.0.0.1"), false, false),
            (&said(&["192.0.2.0/24"], false), Some("192.0.2.1"), true, true),
            (&said(&["192.0.2.0/24"], false), Some("127.0.0.1"), false, false),
            (&said(&[], true), None, true, true),
        ];
        for (trusted_from, ip, trusts, steers) in cases {
            let parsed = ip.map(|ip| ip.parse().expect("an address"));
            let found = (trusted_from.trusts(parsed), trusted_from.steers(parsed));
            assert_eq!(found, (trusts, steers), "{ip:?} with {trusted_from:?}");
        }
    }
}
