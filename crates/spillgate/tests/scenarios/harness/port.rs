//! A TCP port that is ours, although nobody listens on it yet.
//!
//! A port that was found free and given up again may be taken by another scenario before the
//! process under test binds it. So it stays bound here, with `SO_REUSEADDR` and without listening:
//! the kernel then hands it out to nobody who asks for any port, yet lets a process that names it
//! listen on it. Until then a connect to it is refused, which makes it a fine dead worker, too.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, sockopt};

use super::link::socket;

/// A port of the loopback, held until dropped.
pub(crate) struct HeldPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl HeldPort {
    /// Any port that is free.
    pub(crate) fn any() -> HeldPort {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = socket(AddressFamily::INET);
        sockopt::set_socket_reuseaddr(&socket, true).expect("addresses can be shared");
        rustix::net::bind(&socket, &any).expect("some port is free");
        let address = rustix::net::getsockname(&socket).expect("a bound socket has an address");
        let address = SocketAddr::try_from(address).expect("it is an internet address");
        HeldPort { address, _socket: socket }
    }

    /// The address with this port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
