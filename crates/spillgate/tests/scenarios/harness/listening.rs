//! The accepting side of a worker.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

use rustix::net::Shutdown;

use super::link::Link;

/// A listening socket whose connections are accepted on a thread of its own, until it is dropped.
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    listener: TcpListener,
}

impl Listening {
    /// Listen on a port from the OS and hand each connection to `accept`.
    pub(super) fn start(accept: impl FnMut(Link) + Send + 'static) -> Listening {
        Listening::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), accept)
    }

    /// Listen here and hand each connection to `accept`.
    pub(super) fn at(
        address: SocketAddr,
        mut accept: impl FnMut(Link) + Send + 'static,
    ) -> Listening {
        let listener = TcpListener::bind(address).expect("the port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let accepting = listener.try_clone().expect("a descriptor is left");
        thread::spawn(move || {
            while let Ok((stream, _)) = accepting.accept() {
                stream.set_nodelay(true).expect("bytes go out as they are sent");
                accept(Link::new(stream.into()));
            }
        });
        Listening { address, listener }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Wakes the accepting thread with an error, which ends it.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
    }
}
