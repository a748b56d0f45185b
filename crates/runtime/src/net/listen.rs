//! Listening sockets: made by the control side, lent to the shards.
//!
//! TCP gets one `SO_REUSEPORT` socket for each shard, so that the kernel spreads the connections; a
//! Unix socket is one, shared by all shards. They are made before any shard runs, so that an
//! address in use is a start-up error with a name and not a log line later.
//!
//! What accepted connections inherit is set here, once: no coalescing of small writes, questions to
//! silent clients, and how many unsent bytes the kernel takes for one client.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use spillgate_core::time::Duration;
use spillgate_core::units::ByteSize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::stream::Stream;
use crate::http::settings::Endpoint;
use crate::sys;

/// Connections that the kernel completes and holds for us until we accept them. The kernel caps it
/// at `net.core.somaxconn` (4,096 by default).
const BACKLOG: i32 = 4096;

/// Silence after which the kernel asks a client's system whether the connection still exists. A
/// client that vanished, or closed an event stream on which nothing is said, would keep its slot
/// for ever.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Time between two such questions. The kernel gives up after nine
/// (`net.ipv4.tcp_keepalive_probes`).
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Listen on `address` with `count` sockets (one, shared, for a Unix address).
///
/// `unsent_max` is the mark from which the kernel takes no more for one client until some of it was
/// sent (`TCP_NOTSENT_LOWAT`); none: the kernel's own tuning. What is on its way to the client does
/// not count, so a fast client far away is not slowed down. A Unix socket inherits no such mark:
/// see [`Stream::cap_unsent`].
///
/// Errors: the address is in use, not ours, or not permitted; a Unix path that is not a socket, or
/// on which somebody listens, is "in use".
pub fn bind(
    address: &Endpoint,
    count: usize,
    unsent_max: Option<ByteSize>,
) -> io::Result<Vec<OwnedFd>> {
    match address {
        Endpoint::Tcp(address) => bind_tcp(*address, count, unsent_max),
        Endpoint::Unix(path) => {
            let first = bind_unix(path)?;
            let mut all = vec![first];
            while all.len() < count {
                all.push(all[0].try_clone()?);
            }
            Ok(all)
        }
    }
}

fn bind_tcp(
    address: SocketAddr,
    count: usize,
    unsent_max: Option<ByteSize>,
) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::with_capacity(count);
    let mut address = address;
    // SO_REUSEPORT would let two processes of one user share the port silently, so the address is
    // claimed without it first.
    drop(listening_tcp(address, false).and_then(|claim| {
        if address.port() == 0 {
            address = claim.local_addr()?.as_socket().unwrap_or(address);
        }
        Ok(claim)
    })?);
    for _ in 0..count {
        let socket = listening_tcp(address, true)?;
        if let Some(unsent_max) = unsent_max {
            let mark = u32::try_from(unsent_max.as_bytes()).unwrap_or(u32::MAX);
            socket.set_tcp_notsent_lowat(mark)?;
        }
        all.push(socket.into());
    }
    Ok(all)
}

fn listening_tcp(address: SocketAddr, share: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if share {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE_MAX).with_interval(ASK_AGAIN))?;
    socket.bind(&SockAddr::from(address))?;
    if share {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "the path exists and is no socket",
            ));
        }
        // A socket that nobody listens on is left over from a process that was killed.
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
            }
            _ => {
                let why = "another process listens there";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
            }
        },
        Err(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A listening socket on the engine of the current thread.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The other end; none for a Unix socket.
    pub address: Option<SocketAddr>,
}

impl Listener {
    /// Take a socket made by [`bind`].
    ///
    /// Errors: the engine's, when it cannot watch another descriptor.
    pub fn new(fd: OwnedFd) -> io::Result<Listener> {
        Ok(Listener { fd: sys::watch::watch(fd, Interest::READABLE)? })
    }

    /// Where it listens; none for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        let address = rustix::net::getsockname(self.fd.get_ref()).ok()?;
        address.try_into().ok()
    }

    /// The next connection. A connection that died before it was accepted is passed over.
    ///
    /// Errors: descriptors or memory are short; the caller pauses.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match self.accept_now()? {
                Some(accepted) => return Poll::Ready(Ok(accepted)),
                None => guard.clear_ready(),
            }
        }
    }

    /// The next connection that the kernel has completed; none: there is none. Asks the kernel
    /// itself, since the engine may not have heard of the newest ones.
    ///
    /// Errors: descriptors or memory are short.
    pub fn accept_now(&self) -> io::Result<Option<Accepted>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match rustix::net::acceptfrom_with(self.fd.get_ref(), flags) {
                Ok((fd, address)) => {
                    let stream = Stream::new(fd)?;
                    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
                    return Ok(Some(Accepted { stream, address }));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
