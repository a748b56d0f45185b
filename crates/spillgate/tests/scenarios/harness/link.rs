//! One end of a connection, in the hands of the test: a client to Spillgate, or a worker to which
//! it has connected.
//!
//! Every verb panics when the other end does something else, with what was received so far.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use super::message::{Ending, Head, Message, field};
use super::wait::PATIENCE;

/// A connected socket.
pub(crate) struct Link {
    socket: Arc<OwnedFd>,
    /// Received, and not asked for yet.
    unread: Vec<u8>,
}

/// What came instead of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A clean end.
    Closed,
    /// A reset.
    Reset,
    /// Nothing at all, for too long.
    Silence,
}

impl Link {
    /// Take a connected socket.
    pub(super) fn new(socket: OwnedFd) -> Link {
        for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&socket, direction, Some(PATIENCE))
                .expect("a socket takes a time limit");
        }
        Link { socket: Arc::new(socket), unread: Vec::new() }
    }

    /// The socket for as long as this lives: for whoever wants to end it from outside.
    pub(super) fn watch(&self) -> Weak<OwnedFd> {
        Arc::downgrade(&self.socket)
    }

    /// Connect to a TCP address; none where that is refused.
    pub(crate) fn connect(address: SocketAddr) -> Option<Link> {
        let socket = socket(AddressFamily::INET);
        sockopt::set_tcp_nodelay(&socket, true).expect("bytes go out as they are sent");
        rustix::net::connect(&socket, &address).ok()?;
        Some(Link::new(socket))
    }

    /// Connect to a Unix socket; none where that is refused.
    pub(crate) fn connect_unix(path: &Path) -> Option<Link> {
        let socket = socket(AddressFamily::UNIX);
        let address = SocketAddrUnix::new(path).expect("the path fits");
        rustix::net::connect(&socket, &address).ok()?;
        Some(Link::new(socket))
    }

    /// Let the kernel take only about so many bytes before we read them. To be said before the
    /// other end sends much.
    pub(crate) fn receive_buffer(&mut self, bytes: usize) {
        sockopt::set_socket_recv_buffer_size(&self.socket, bytes).expect("a size of a buffer");
    }

    /// Where this end is, as the other one sees it.
    pub(crate) fn address(&self) -> SocketAddr {
        let address = rustix::net::getsockname(&self.socket).expect("a socket has an address");
        address.try_into().expect("a TCP address")
    }

    /// Bytes that the kernel holds for us to read.
    pub(crate) fn waiting(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.socket).expect("a socket tells what it holds")
    }

    /// Send all of it.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.try_send(bytes.as_ref());
        assert!(sent, "the other end took no more; it said {}", self.shown());
    }

    /// Send all of it; false when the other end has closed.
    #[track_caller]
    pub(crate) fn try_send(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return false,
                Err(error) => panic!("cannot send: {error}; received {}", self.shown()),
            }
        }
        true
    }

    /// Receive to the end of a head.
    #[track_caller]
    pub(crate) fn receive_head(&mut self) -> Head {
        Head::parse(&self.receive_until(b"\r\n\r\n"))
    }

    /// Receive up to and with `pattern`.
    #[track_caller]
    pub(crate) fn receive_until(&mut self, pattern: &[u8]) -> Vec<u8> {
        let mut from = 0;
        loop {
            let tail = &self.unread[from..];
            if let Some(at) = tail.windows(pattern.len()).position(|window| window == pattern) {
                return self.unread.drain(..from + at + pattern.len()).collect();
            }
            from = self.unread.len().saturating_sub(pattern.len() - 1);
            self.fill_for("more");
        }
    }

    /// Receive exactly `count` bytes.
    #[track_caller]
    pub(crate) fn receive(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            self.fill_for("more");
        }
        self.unread.drain(..count).collect()
    }

    /// Receive these very bytes.
    #[track_caller]
    pub(crate) fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let received = self.receive(bytes.len());
        assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(bytes));
    }

    /// Receive a whole request.
    #[track_caller]
    pub(crate) fn receive_request(&mut self) -> Message {
        let head = self.receive_head();
        let ending = head.request_ending();
        self.receive_rest(head, ending)
    }

    /// Receive a whole request; none when the other end closes before it is whole, or asks nothing.
    pub(super) fn next_request(&mut self) -> Option<Message> {
        while !self.unread.windows(4).any(|window| window == b"\r\n\r\n") {
            self.fill().ok()?;
        }
        Some(self.receive_request())
    }

    /// Receive a whole response to a request with a body in the answer.
    #[track_caller]
    pub(crate) fn receive_response(&mut self) -> Message {
        self.receive_response_to("GET")
    }

    /// Receive a whole response to a request with `method`.
    #[track_caller]
    pub(crate) fn receive_response_to(&mut self, method: &str) -> Message {
        let head = self.receive_head();
        let ending = head.response_ending(method);
        self.receive_rest(head, ending)
    }

    /// Send a request and receive the response to it.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> Message {
        let request = request.as_ref();
        self.send(request);
        let method = request.split(|byte| *byte == b' ').next().unwrap_or_default();
        self.receive_response_to(&String::from_utf8_lossy(method))
    }

    /// Send a request and receive the response to it, of known length; none when the connection
    /// ends before it is whole.
    #[track_caller]
    pub(crate) fn try_ask(&mut self, request: &str) -> Option<Message> {
        if !self.try_send(request.as_bytes()) {
            return None;
        }
        let method = request.split(' ').next().unwrap_or_default();
        let head_len = loop {
            let end = self.unread.windows(4).position(|window| window == b"\r\n\r\n");
            match end {
                Some(at) => break at + 4,
                None => self.fill().ok()?,
            }
        };
        let head = Head::parse(&self.unread[..head_len]);
        let Ending::Length(length) = head.response_ending(method) else {
            panic!("the length is not known: {head:?}")
        };
        while self.unread.len() < head_len + length {
            self.fill().ok()?;
        }
        Some(self.receive_response_to(method))
    }

    #[track_caller]
    fn receive_rest(&mut self, head: Head, ending: Ending) -> Message {
        let mut message = Message { head, ..Message::default() };
        match ending {
            Ending::Length(length) => message.body = self.receive(length),
            Ending::Close => message.body = self.receive_to_end(),
            Ending::Chunked => self.receive_chunks(&mut message),
        }
        message
    }

    #[track_caller]
    fn receive_chunks(&mut self, message: &mut Message) {
        loop {
            let chunk = self.receive_chunk();
            if chunk.is_empty() {
                break;
            }
            message.body.extend(chunk);
        }
        loop {
            let line = self.receive_until(b"\r\n");
            if line == b"\r\n" {
                return;
            }
            message.trailers.push(field(String::from_utf8_lossy(&line).trim_end()));
        }
    }

    /// Receive one chunk with its framing; empty: the last one, after which trailers follow.
    #[track_caller]
    pub(crate) fn receive_chunk(&mut self) -> Vec<u8> {
        let line = self.receive_until(b"\r\n");
        let digits = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
        let size = usize::from_str_radix(&digits, 16)
            .unwrap_or_else(|_| panic!("no chunk size: {digits:?}"));
        let chunk = self.receive(size);
        if size > 0 {
            self.expect("\r\n");
        }
        chunk
    }

    /// Receive until the other end closes cleanly.
    #[track_caller]
    pub(crate) fn receive_to_end(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(End::Closed) => return std::mem::take(&mut self.unread),
                Err(end) => panic!("{end:?} after {}", self.shown()),
            }
        }
    }

    /// Receive until the connection ends, in whatever way.
    #[track_caller]
    pub(crate) fn receive_all(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(End::Silence) => panic!("Silence after {}", self.shown()),
                Err(End::Closed | End::Reset) => return std::mem::take(&mut self.unread),
            }
        }
    }

    /// Nothing more comes, and the other end closes cleanly.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        let rest = self.receive_to_end();
        assert!(rest.is_empty(), "bytes before the end: {}", String::from_utf8_lossy(&rest));
    }

    /// The connection breaks off: whatever came before it, there is no clean end. Returns that.
    #[track_caller]
    pub(crate) fn expect_reset(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(End::Reset) => return std::mem::take(&mut self.unread),
                Err(end) => panic!("{end:?} after {}", self.shown()),
            }
        }
    }

    /// Nothing more comes, and the connection ends in whatever way.
    #[track_caller]
    pub(crate) fn expect_gone(&mut self) {
        let end = loop {
            if let Err(end) = self.fill() {
                break end;
            }
        };
        assert!(end != End::Silence && self.unread.is_empty(), "{end:?} after {}", self.shown());
    }

    /// No bytes have come so far that were not asked for. Looks, and does not wait.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(&self.socket, &mut [0u8; 1], flags);
        let silent = matches!(peeked, Err(Errno::AGAIN) | Ok((_, 0)));
        assert!(self.unread.is_empty() && silent, "not silent: {peeked:?}, {}", self.shown());
    }

    /// Nothing has come so far, not even an end. Looks, and does not wait.
    #[track_caller]
    pub(crate) fn expect_open(&mut self) {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(&self.socket, &mut [0u8; 1], flags);
        assert!(matches!(peeked, Err(Errno::AGAIN)), "not open: {peeked:?}");
    }

    /// Read for so long; true where neither bytes nor an end came. This is how a client is slow.
    pub(crate) fn is_quiet_for(&mut self, time: Duration) -> bool {
        let limit = |time| {
            sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(time))
                .expect("a socket takes a time limit");
        };
        limit(time);
        let peeked = rustix::net::recv(&self.socket, &mut [0u8; 1], RecvFlags::PEEK);
        limit(PATIENCE);
        matches!(peeked, Err(Errno::AGAIN))
    }

    /// Wait for a byte of the other end, or its end; true where it was a byte.
    pub(super) fn is_spoken_on(&self) -> bool {
        let peeked = rustix::net::recv(&self.socket, &mut [0u8; 1], RecvFlags::PEEK);
        matches!(peeked, Ok((_, 1..)))
    }

    /// Send a FIN: no more bytes from us, but we still read.
    pub(crate) fn half_close(&mut self) {
        rustix::net::shutdown(&self.socket, Shutdown::Write).expect("the connection is open");
    }

    /// Close.
    pub(crate) fn close(self) {
        drop(self.socket);
    }

    /// Close with a reset.
    pub(crate) fn reset(self) {
        sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO))
            .expect("a connected socket lingers as it is told");
        drop(self.socket);
    }

    #[track_caller]
    fn fill_for(&mut self, what: &str) {
        if let Err(end) = self.fill() {
            panic!("{end:?} instead of {what}, after {}", self.shown());
        }
    }

    #[track_caller]
    fn fill(&mut self) -> Result<(), End> {
        let mut bytes = [0u8; 64 * 1024];
        loop {
            match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Err(End::Closed),
                Ok((_, count)) => {
                    self.unread.extend_from_slice(&bytes[..count]);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(End::Reset),
                Err(Errno::AGAIN) => return Err(End::Silence),
                Err(error) => panic!("cannot receive: {error}"),
            }
        }
    }

    /// The beginning of what was received and not asked for.
    fn shown(&self) -> String {
        let shown = &self.unread[..self.unread.len().min(1000)];
        format!("{} bytes: {:?}", self.unread.len(), String::from_utf8_lossy(shown))
    }
}

/// A stream socket that no child inherits: it would keep open what the test closes.
pub(super) fn socket(family: AddressFamily) -> OwnedFd {
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .expect("a socket can be made")
}
