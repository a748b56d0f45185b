//! The listener of the admin page: few connections, each with limits, on the control runtime.
//!
//! The page's router lives in the binary and speaks to streams of the engine; this file is what it
//! gets them from. Absent: HTTP, routes, who may ask what.
//!
//! Invariant: at most `CONNECTIONS_MAX` connections are open, none of them waits for its client for
//! longer than the limits below, and the stillest one is closed where a new one needs its place, so
//! nobody can keep the page from the operator.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use spillgate_core::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{Sleep, sleep};

use super::control_socket;
use super::places::{Place, Places};
use super::socket_file::SocketFile;
use crate::clock;
use crate::events;
use crate::http::settings::Endpoint;

/// Connections open at once. A browser has six, a scraper one.
const CONNECTIONS_MAX: usize = 64;
/// Longest wait for a byte from the client, or for it to take one.
const STILL_MAX: Duration = Duration::from_secs(30);
/// Longest life of a connection; after it, it is closed where it would wait for a request. Against
/// clients that send one byte now and then.
const LIFE_MAX: Duration = Duration::from_secs(300);
/// Pause after a failed accept, which mostly means that descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where the admin page is asked for.
#[derive(Debug)]
pub struct AdminListener {
    /// Of a Unix socket. Taken away before that ends: until then no successor's file can have its
    /// inode.
    _file: Option<SocketFile>,
    socket: Socket,
    address: Endpoint,
    places: Places,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AdminListener {
    /// Listen on `address`. For a task of the control runtime.
    ///
    /// Errors: the address is in use, not ours, or not permitted.
    pub async fn bind(address: &Endpoint) -> io::Result<AdminListener> {
        let (socket, address) = match address {
            Endpoint::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                let address = Endpoint::Tcp(listener.local_addr()?);
                (Socket::Tcp(listener), address)
            }
            Endpoint::Unix(path) => {
                let listener = control_socket::listen(path)?;
                let listener = UnixListener::from_std(listener)?;
                (Socket::Unix(listener), address.clone())
            }
        };
        let _file = match &address {
            Endpoint::Tcp(_) => None,
            Endpoint::Unix(path) => Some(SocketFile::of(path)?),
        };
        Ok(AdminListener { socket, address, places: Places::new(CONNECTIONS_MAX), _file })
    }

    /// Where it listens; the port is the one that the system chose.
    pub fn address(&self) -> &Endpoint {
        &self.address
    }

    /// The next connection. Where there are too many, the stillest one makes room for it. Waits
    /// over errors.
    pub async fn accept(&mut self) -> AdminStream {
        loop {
            match self.socket.accept().await {
                Ok(inner) => return AdminStream::new(inner, self.places.take().await),
                Err(error) => {
                    events::warn("admin", format_args!("cannot accept a connection: {error}"));
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Socket {
    async fn accept(&self) -> io::Result<Inner> {
        match self {
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Only a latency of some milliseconds is lost where it fails.
                let _ = stream.set_nodelay(true);
                Ok(Inner::Tcp(stream))
            }
            Socket::Unix(listener) => Ok(Inner::Unix(listener.accept().await?.0)),
        }
    }
}

/// A connection to the admin page. Ends itself with `TimedOut` when its client stands still for too
/// long, or for longer than others where one more client comes.
#[derive(Debug)]
pub struct AdminStream {
    inner: Inner,
    /// When it ends unless something moves.
    limit: Pin<Box<Sleep>>,
    end: Instant,
    place: Place,
    /// The client sends nothing more. The reader is told only once it has answered what came
    /// before: the router takes an end for a client that has left.
    half_closed: bool,
    /// Something was read to which nothing was written yet.
    owes: Owes,
    reader: Option<Waker>,
}

/// How far the answer is to what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owes {
    Nothing,
    Answer,
    /// Some of it was written, and not all of it is out.
    Flush,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AdminStream {
    fn new(inner: Inner, place: Place) -> Self {
        let limit = Box::pin(sleep(STILL_MAX));
        let end = clock::now() + LIFE_MAX;
        let (half_closed, owes, reader) = (false, Owes::Nothing, None);
        AdminStream { inner, limit, end, place, half_closed, owes, reader }
    }

    /// A reader at the end of what the client sends.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.owes == Owes::Nothing {
            return Poll::Ready(Ok(()));
        }
        self.reader = Some(cx.waker().clone());
        self.limited(cx, Poll::Pending)
    }

    /// Something moved: the wait begins anew, within the life of the connection.
    fn moved(&mut self) {
        self.place.moved();
        let left = self.end.since(clock::now());
        self.limit.set(sleep(left.min(STILL_MAX)));
    }

    /// A byte or two have moved, or it is too late to wait for any.
    fn limited<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.moved();
            return polled;
        }
        // Both are asked, so that either wakes the task.
        let (late, wanted) = (self.limit.as_mut().poll(cx), self.place.poll_wanted(cx));
        match late.is_ready() || wanted.is_ready() {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Poll::Pending,
        }
    }
}

impl AsyncRead for AdminStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.half_closed {
            return self.poll_end(cx);
        }
        let before = buffer.filled().len();
        let polled = match &mut self.inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Inner::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        if matches!(polled, Poll::Ready(Ok(()))) {
            if buffer.filled().len() == before {
                self.half_closed = true;
                return self.poll_end(cx);
            }
            self.owes = Owes::Answer;
        }
        self.limited(cx, polled)
    }
}

impl AsyncWrite for AdminStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Inner::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        if matches!(polled, Poll::Ready(Ok(_))) && self.owes == Owes::Answer {
            self.owes = Owes::Flush;
        }
        self.limited(cx, polled)
    }

    /// The router flushes when all that it has was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match &mut self.inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Inner::Unix(stream) => Pin::new(stream).poll_flush(cx),
        };
        if polled.is_ready() && self.owes == Owes::Flush {
            self.owes = Owes::Nothing;
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Inner::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn local() -> Endpoint {
        Endpoint::Tcp("127.0.0.1:0".parse().expect("an address"))
    }

    async fn connect(listener: &AdminListener) -> TcpStream {
        let Endpoint::Tcp(address) = listener.address() else { panic!("it is a TCP address") };
        TcpStream::connect(address).await.expect("it accepts")
    }

    #[tokio::test]
    async fn bytes_pass_both_ways() {
        let mut listener = AdminListener::bind(&local()).await.expect("a free port");
        let mut client = connect(&listener).await;
        let mut stream = listener.accept().await;
        client.write_all(b"ask").await.expect("sent");
        let mut bytes = [0; 3];
        stream.read_exact(&mut bytes).await.expect("read");
        stream.write_all(b"answer").await.expect("sent");
        drop(stream);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        assert_eq!((&bytes, answer.as_str()), (b"ask", "answer"));
    }

    #[tokio::test]
    async fn a_client_that_stands_still_is_cut_off() {
        let mut listener = AdminListener::bind(&local()).await.expect("a free port");
        let _client = connect(&listener).await;
        let mut stream = listener.accept().await;
        stream.limit.set(sleep(Duration::ZERO));
        let error = stream.read_u8().await.expect_err("nothing comes");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn places_are_bounded_and_come_back() {
        let mut listener = AdminListener::bind(&local()).await.expect("a free port");
        let _client = connect(&listener).await;
        let stream = listener.accept().await;
        assert_eq!(listener.places.free(), CONNECTIONS_MAX - 1);
        drop(stream);
        assert_eq!(listener.places.free(), CONNECTIONS_MAX);
    }
}
