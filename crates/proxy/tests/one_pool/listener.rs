//! A listener on a free port, and where it is.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use spillgate_core::units::ByteSize;
use spillgate_runtime::http::settings::{Endpoint, HalfClose, ListenerSettings};

/// Any port, and generous limits.
pub(crate) fn any_port() -> ListenerSettings {
    let time = Duration::from_secs(60);
    ListenerSettings {
        name: "main".into(),
        address: Endpoint::Tcp(([127, 0, 0, 1], 0).into()),
        proxy_protocol: false,
        half_close: HalfClose::Abandon,
        connections_max: 1_000,
        head_size_max: ByteSize::from_kib(32),
        head_fields_max: 128,
        head_time_max: time,
        body_rate_min: ByteSize::ZERO,
        body_rate_grace: time,
        send_rate_min: ByteSize::ZERO,
        send_rate_grace: time,
        idle_time_max: time,
        send_buffer_max: ByteSize::ZERO,
    }
}

/// Where `socket` listens.
pub(crate) fn address_of(socket: &OwnedFd) -> SocketAddr {
    let socket = TcpListener::from(socket.try_clone().expect("a descriptor is free"));
    socket.local_addr().expect("a bound listener has an address")
}
