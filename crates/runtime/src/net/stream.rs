//! One connected stream socket, TCP or Unix, on the engine of the current thread.
//!
//! All methods take `&self`, so that one task can read and write at the same time. A socket is
//! registered with the engine once, edge-triggered, and never again: each change of a registration
//! costs half a microsecond. After a short read the readiness is cleared without another read,
//! since a read that only finds nothing costs as much.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use spillgate_core::units::ByteSize;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::pipe::Pipe;
use crate::http::settings::Endpoint;
use crate::sys;

/// Time between two looks at a connection that is half-closed or that nobody reads, of which the
/// engine tells nothing more.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A connected stream socket. Closed when dropped.
#[derive(Debug)]
pub struct Stream {
    fd: AsyncFd<OwnedFd>,
}

/// What is known of the other end without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Nothing to read, nothing closed.
    Quiet,
    /// There may be bytes to read.
    Readable,
    /// It will send no more; it may still read. The task is not woken when that changes, nor while
    /// there are bytes to read: whoever has to know looks again, every [`LOOK_AGAIN`].
    HalfClosed,
    /// Both directions are closed, or the connection was reset.
    Closed,
}

impl Stream {
    /// Wrap a connected, non-blocking socket.
    ///
    /// Errors: the engine's, when it cannot watch another descriptor.
    pub fn new(fd: OwnedFd) -> io::Result<Stream> {
        let fd = sys::watch::watch(fd, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Stream { fd })
    }

    /// Connect to `endpoint`. The time limit is the caller's.
    ///
    /// Errors: the connect's own (refused, no such socket, no descriptor left).
    pub async fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
        let stream = Stream::begin_connect(endpoint)?;
        std::future::poll_fn(|cx| stream.poll_connected(cx)).await?;
        Ok(stream)
    }

    fn begin_connect(endpoint: &Endpoint) -> io::Result<Stream> {
        let family = match endpoint {
            Endpoint::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Endpoint::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Endpoint::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let outcome = match endpoint {
            Endpoint::Tcp(address) => {
                rustix::net::sockopt::set_tcp_nodelay(&fd, true)?;
                rustix::net::connect(&fd, address)
            }
            Endpoint::Unix(path) => {
                rustix::net::connect(&fd, &rustix::net::SocketAddrUnix::new(path.as_path())?)
            }
        };
        match outcome {
            Ok(()) | Err(Errno::INPROGRESS) => Stream::new(fd),
            Err(error) => Err(error.into()),
        }
    }

    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ready = ready!(self.fd.poll_write_ready(cx))?;
        match rustix::net::sockopt::socket_error(&self.fd)? {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Wait until a read is worth trying, so that a buffer is taken only then.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<Readable<'_>>> {
        let guard = ready!(self.fd.poll_read_ready(cx))?;
        Poll::Ready(Ok(Readable { guard }))
    }

    /// Read into `buffer`; 0 is the end of the stream.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if let Some(outcome) = ready!(self.poll_readable(cx))?.read(buffer) {
                return Poll::Ready(outcome);
            }
        }
    }

    /// Write what fits of `bytes` now; waits when nothing fits.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = self.poll_send(cx, |fd| Ok(rustix::net::send(fd, bytes, SendFlags::NOSIGNAL)?));
        self.note_short(cx, bytes.len(), &sent);
        sent
    }

    /// Write what fits of two pieces with one system call; waits when nothing fits.
    pub fn poll_write_two(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        let sent = self.poll_send(cx, |fd| {
            let mut control = rustix::net::SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(fd, &pieces, &mut control, SendFlags::NOSIGNAL)?)
        });
        self.note_short(cx, first.len() + second.len(), &sent);
        sent
    }

    /// After a send of `wanted` bytes: one that took fewer has filled the socket, so the next is
    /// not worth a call before the engine tells of room. What it has not told yet is not lost: it
    /// is run by this thread.
    fn note_short(&self, cx: &mut Context<'_>, wanted: usize, sent: &Poll<io::Result<usize>>) {
        if matches!(sent, Poll::Ready(Ok(count)) if *count < wanted)
            && let Poll::Ready(Ok(mut guard)) = self.fd.poll_write_ready(cx)
        {
            guard.clear_ready();
        }
    }

    /// Move up to `max` bytes into `pipe`, which is empty; 0 is the end of the stream.
    pub fn poll_splice_into(
        &self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match pipe.fill(guard.get_inner(), max) {
                // Less than was asked for says nothing: the pipe may have been full.
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Move out of `pipe`, which is not empty, what fits now; waits when nothing fits.
    pub fn poll_splice_from(
        &self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |fd| pipe.drain(fd))
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(&AsyncFd<OwnedFd>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        // Nearly always there is room, and then there is nothing to wait for and nobody to wake.
        let tried = self.fd.try_io(Interest::WRITABLE, |_| send(&self.fd));
        if !tried.as_ref().is_err_and(is_passing) {
            return Poll::Ready(tried);
        }
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(cx))?;
            match send(&self.fd) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    /// Wait until the kernel would take more, for bytes that have to be fetched first. Asks it, as
    /// the engine knows only that a write has failed.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(cx))?;
            let mut asked = [PollFd::new(&self.fd, PollFlags::OUT)];
            match rustix::event::poll(&mut asked, Some(&Timespec::default())) {
                // What is told between the two is not cleared with what was known before.
                Ok(0) => guard.clear_ready(),
                // An error counts as room: the write tells it.
                Ok(_) => return Poll::Ready(Ok(())),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// What the engine has seen of the other end, without a system call. The caller's task is woken
    /// when that changes.
    pub fn peer_state(&self, cx: &mut Context<'_>) -> PeerState {
        let Poll::Ready(Ok(mut guard)) = self.fd.poll_read_ready(cx) else {
            return PeerState::Quiet;
        };
        let ready = guard.ready();
        guard.retain_ready();
        if ready.is_error() || (ready.is_read_closed() && self.write_closed(cx)) {
            PeerState::Closed
        } else if ready.is_read_closed() {
            PeerState::HalfClosed
        } else {
            PeerState::Readable
        }
    }

    fn write_closed(&self, cx: &mut Context<'_>) -> bool {
        match self.fd.poll_write_ready(cx) {
            Poll::Ready(Ok(mut guard)) => {
                let closed = guard.ready().is_write_closed();
                guard.retain_ready();
                closed
            }
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// Is a connection that should be silent really open and silent? With `ask_kernel` the kernel
    /// is asked, otherwise what the engine has seen last is believed.
    pub fn is_idle(&self, ask_kernel: bool) -> bool {
        let has_spoken = self.fd.try_io(Interest::READABLE, |_| Ok(())).is_ok();
        if !has_spoken && !ask_kernel {
            return true;
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&self.fd, &mut [0u8; 1], flags), Err(Errno::AGAIN))
    }

    /// Take it away from the engine.
    pub fn into_fd(self) -> OwnedFd {
        self.fd.into_inner()
    }

    /// Send a FIN: we write no more.
    pub fn shutdown_write(&self) {
        // Fails only when the connection is gone already, which is what we want.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write);
    }

    /// Close with a reset instead of a FIN when dropped, so that the other end sees an error and
    /// not a clean end.
    pub fn reset_on_close(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.fd.as_fd(), Some(Duration::ZERO));
    }

    /// Bytes that the kernel has taken from us and the other end has not taken from it.
    pub fn unsent(&self) -> u64 {
        sys::unsent::unsent(self.fd.as_fd())
    }

    /// Bytes of memory that the kernel holds for what we have written.
    pub fn send_memory(&self) -> u64 {
        sys::unsent::memory(self.fd.as_fd())
    }

    /// Cap what the kernel takes for the other end of a Unix socket (`SO_SNDBUF`), all of which is
    /// on this machine: there is nothing on its way. A TCP socket has its mark from its listener.
    pub fn cap_unsent(&self, unsent_max: ByteSize) {
        // The kernel doubles the number, for its bookkeeping. A refusal leaves its own tuning in
        // force, which is only less frugal.
        let _ =
            rustix::net::sockopt::set_socket_send_buffer_size(&self.fd, unsent_max.as_len() / 2);
    }
}

/// A socket from which a read is worth trying.
pub struct Readable<'s> {
    guard: AsyncFdReadyGuard<'s, OwnedFd>,
}

impl Readable<'_> {
    /// Read into `buffer`; 0 is the end of the stream. None: there is nothing after all, wait
    /// again.
    pub fn read(mut self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        match rustix::net::recv(self.guard.get_inner(), &mut *buffer, RecvFlags::empty()) {
            Ok((_, count)) => {
                // Edge-triggered: a short read has emptied the socket, unless its end is near.
                if count > 0 && count < buffer.len() {
                    self.guard.clear_ready();
                }
                Some(Ok(count))
            }
            Err(Errno::AGAIN) => {
                self.guard.clear_ready();
                None
            }
            Err(Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// Does it say no more than "not now"?
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use super::*;

    #[test]
    fn room_is_waited_for_and_told() {
        let engine = tokio::runtime::Builder::new_current_thread().enable_all().build();
        engine.expect("an engine").block_on(async {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let pair =
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
            let (one, other) = pair.expect("a pair of sockets");
            let stream = Stream::new(one).expect("a stream");
            poll_fn(|cx| stream.poll_writable(cx)).await.expect("there is room at first");
            while rustix::net::send(&stream.fd, &[7; 4096], SendFlags::NOSIGNAL).is_ok() {}
            // The engine has not seen a write fail: the kernel is asked.
            let mut cx = Context::from_waker(Waker::noop());
            assert!(stream.poll_writable(&mut cx).is_pending());
            let empty = async {
                let mut bytes = [0; 4096];
                while rustix::net::recv(&other, &mut bytes, RecvFlags::empty()).is_ok() {}
            };
            let room = poll_fn(|cx| stream.poll_writable(cx));
            let (room, ()) = tokio::join!(room, empty);
            room.expect("there is room again");
            drop(other);
            poll_fn(|cx| stream.poll_writable(cx)).await.expect("the write tells the end");
        });
    }
}
