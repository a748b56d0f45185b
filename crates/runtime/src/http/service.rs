//! The seam between a protocol and what is done with a request.
//!
//! Below it a connection speaks HTTP/1 (later HTTP/2 and 3); above it an exchange knows one request
//! and one response and never sees a connection, so several exchanges can run on one. Both sides
//! are poll-based, so that nothing has to be boxed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use spillgate_core::time::Instant;
use spillgate_wire::http1::{BodyError, FieldIter, Name, RequestError, RequestHead};

use crate::net::pipe::Pipe;
use crate::scratch::Scratch;

/// Turns requests into responses.
pub trait Service {
    /// Answer one request.
    fn exchange(
        &self,
        request: Request<'_>,
        responder: &mut dyn Responder,
    ) -> impl Future<Output = ()>;

    /// Answer something that never became a request.
    fn refuse(
        &self,
        refusal: Refusal<'_>,
        responder: &mut dyn Responder,
    ) -> impl Future<Output = ()>;
}

/// A request whose head is whole.
pub struct Request<'c> {
    /// Its head.
    pub head: &'c RequestHead,
    /// Its body, as the connection delivers it.
    pub body: &'c mut dyn BodySource,
    /// Who sent it.
    pub client: &'c Client,
    /// When its first byte came.
    pub started: Instant,
}

/// Who is at the other end of a client connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address, as the kernel or a believed PROXY header tells; none for a Unix socket.
    pub address: Option<SocketAddr>,
    /// Whether what the client says of others is believed (`trusted_from`).
    pub trusted: bool,
    /// Whether what it says of its own requests is believed: class, tenant, deadline, attempt.
    pub steers: bool,
}

impl Client {
    /// Its IP address; none for a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        // An IPv4 client of an IPv6 listener is shown as what it is.
        self.address.map(|address| address.ip().to_canonical())
    }
}

/// The body of a request.
pub trait BodySource {
    /// Its length, where the client told it. 0: there is none.
    fn length(&self) -> Option<u64>;

    /// The whole body at once, if it is here already and fits; then nothing is left to poll for.
    fn take_whole(&mut self) -> Option<Scratch>;

    /// The next bytes. Empty: the body has ended. The same bytes come again until they are
    /// consumed. The first call says `100 Continue` to a client that waits for it.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], BodyFailure>>;

    /// `count` of the bytes were used.
    fn consume(&mut self, count: usize);

    /// Called before waiting for anything else: shared buffers are given back.
    fn park(&mut self);

    /// Has the client left? Ready when so; the task is woken when it does.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The trailer fields that came after the body.
    fn trailers(&self) -> FieldIter<'_>;

    /// From here on the connection carries raw bytes: the other protocol of an upgrade.
    fn switch(&mut self);
}

/// Why a body did not become whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyFailure {
    /// The client closed or reset the connection.
    Left,
    /// The client sends too slowly (`body_rate_min`).
    Slow,
    /// The framing is broken.
    Bad(BodyError),
}

/// How long a response body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// There is none, and the response says nothing of a length (1xx, 204, 304).
    Absent,
    /// So many bytes.
    Known(u64),
    /// It ends when it ends.
    Unknown,
}

/// Where a response goes.
pub trait Responder {
    /// Begin the head. Framing and connection fields are the protocol's own business.
    fn begin(&mut self, status: u16, reason: &[u8], length: Length);

    /// Add a field to the head.
    fn field(&mut self, name: &[u8], value: &[u8]);

    /// Add those of `fields` that `keep` wants; it is given what a field is and whether it must not
    /// be forwarded.
    fn fields(&mut self, fields: FieldIter<'_>, keep: fn(Name, bool) -> bool) {
        for field in fields.filter(|field| keep(field.id, field.hop)) {
            self.field(field.name, field.value);
        }
    }

    /// Send body bytes; the first call sends the head with them. Returns how many were taken; those
    /// that were not must be offered again first. `last`: nothing follows these.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        last: bool,
    ) -> Poll<Result<usize, SendFailure>>;

    /// Can body bytes go out through a pipe? To be asked once the head was begun.
    fn takes_pipe(&self) -> bool;

    /// Send the body bytes in `pipe`, which is not empty; otherwise as
    /// [`poll_send`](Responder::poll_send). Only where the responder takes it.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
    ) -> Poll<Result<usize, SendFailure>>;

    /// Wait until a send would be taken, so that its bytes need not be fetched before.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>>;

    /// There is nothing to send for now: hand over what was gathered, the head too. Ready only when
    /// the client has closed the connection altogether; the task is woken when it does.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<SendFailure>;

    /// Trailer fields, before the end.
    fn trailer(&mut self, name: &[u8], value: &[u8]);

    /// The body has ended; wait until everything is handed over.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>>;

    /// An interim response (103) with these fields, queued before the head. Ignored where the
    /// client cannot take it.
    fn interim(&mut self, status: u16, reason: &[u8], fields: &[(&[u8], &[u8])]);

    /// Can the response carry trailers and an unknown length without closing?
    fn takes_trailers(&self) -> bool;

    /// Close the connection after this response.
    fn close_after(&mut self);

    /// The response cannot be completed: the client must see an error, never a clean end.
    fn abort(&mut self);

    /// From here on the connection carries raw bytes: the other protocol of an upgrade.
    fn switch(&mut self, protocol: &[u8]);
}

/// Why a response did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// The client closed or reset the connection.
    Left,
    /// The client reads too slowly (`send_rate_min`).
    Slow,
}

impl From<io::Error> for SendFailure {
    fn from(_: io::Error) -> Self {
        SendFailure::Left
    }
}

/// Something that never became a request.
pub struct Refusal<'c> {
    /// What was wrong.
    pub kind: RefusalKind,
    /// Who sent it.
    pub client: &'c Client,
    /// When its first byte came.
    pub started: Instant,
}

/// What was wrong with a request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It breaks a rule.
    Bad(RequestError),
    /// It did not come whole within `head_time_max`.
    Slow,
}
