//! Drives one HTTP/1 connection of a client: heads in, exchanges through the service, replies out.
//!
//! ```text
//! accepted → (PROXY header) → head → exchange → head → exchange → … → closed
//!                              │ broken or slow      │ body unread, or the client asked to close
//!                              └──→ refusal ──────→ linger → closed
//! ```
//! Between two exchanges, one that is idle for long rests (`resting.rs`) and comes back from there.
//!
//! Invariants: requests of one connection are served one after the other, in order; an idle
//! connection holds no buffer; after a reply that leaves request bytes unread, the connection is
//! closed in a way that lets the client read the reply.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use spillgate_core::time::{Duration, Instant};
use spillgate_wire::http1::{HeadLimits, Method, RequestHead, Version};
use spillgate_wire::proxy_protocol;

use super::end::CloseReason;
use super::inbound::Inbound;
use super::lend::Lent;
use super::request_body::{BodyRate, H1Body};
use super::respond::{H1Responder, SendRate, Wanted, WayOut};
use super::resting::{REST_AFTER, REST_WORTH_MIN, Rested};
use super::service::{Client, Refusal, RefusalKind, Request, Service};
use super::settings::{ListenerSettings, TrustedFrom};
use crate::buffer::{SocketBytes, Storage};
use crate::clock;
use crate::deadline::Deadline;
use crate::net::stream::{LOOK_AGAIN, Stream};

/// Longest time that a client gets to read a reply that left its request unread.
const LINGER_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest silence in that time.
const LINGER_QUIET_MAX: Duration = Duration::from_secs(2);

/// Most bytes that are read and forgotten in that time.
const LINGER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Idle time that a kept connection gets once we are stopping: a request may be on its way.
const STOP_IDLE_MAX: Duration = Duration::from_secs(1);

/// Exchanges that one connection may have served from what it sent ahead before the others of its
/// shard get their turn. Plain choice: a few hundred microseconds.
const TURN_EXCHANGES_MAX: u32 = 32;

/// Longest PROXY protocol header: what version 2 allows for addresses and a few extensions.
const PROXY_HEADER_MAX: usize = 4096;

/// Whether a shard is stopping. Shared by its connections.
#[derive(Debug, Default)]
pub struct Stopping(Cell<bool>);

impl Stopping {
    /// From here on replies close their connection, and idle ones end.
    pub fn begin(&self) {
        self.0.set(true);
        crate::deadline::wake_all();
    }

    /// Has it begun?
    pub fn is_on(&self) -> bool {
        self.0.get()
    }
}

/// What all connections of a listener share on one shard.
pub struct Shared<S> {
    /// The listener's settings.
    pub settings: ListenerSettings,
    /// Whose word is believed.
    pub trusted_from: TrustedFrom,
    /// What is done with requests.
    pub service: Rc<S>,
    /// Whether we are stopping.
    pub stopping: Rc<Stopping>,
    /// What pays for what the kernel holds for slow clients.
    pub storage: Arc<Storage>,
}

impl<S> Shared<S> {
    fn client(&self, address: Option<SocketAddr>) -> Client {
        let ip = address.map(|address| address.ip());
        let (trusted, steers) = (self.trusted_from.trusts(ip), self.trusted_from.steers(ip));
        Client { address, trusted, steers }
    }

    fn limits(&self) -> HeadLimits {
        HeadLimits {
            size_max: self.settings.head_size_max.as_len(),
            fields_max: self.settings.head_fields_max,
        }
    }

    fn send_rate(&self) -> SendRate {
        SendRate { min: self.settings.send_rate_min, grace: self.settings.send_rate_grace }
    }
}

/// How the serving of a connection ends.
pub enum End {
    /// With the connection.
    Closed(CloseReason),
    /// It is idle, and may rest until it speaks again.
    Idle(Rested),
}

/// Serve one accepted connection until it ends or rests.
pub async fn serve<S: Service>(
    stream: Stream,
    address: Option<SocketAddr>,
    shared: Rc<Shared<S>>,
) -> End {
    if let (None, Some(unsent_max)) = (address, shared.settings.unsent_max()) {
        stream.cap_unsent(unsent_max);
    }
    let client = shared.client(address);
    let mut connection = Connection::new(stream, client, shared);
    if connection.shared.settings.proxy_protocol && connection.proxy_header().await.is_none() {
        return End::Closed(CloseReason::ProxyHeader);
    }
    match connection.run().await {
        Some(reason) => End::Closed(reason),
        None => End::Idle(connection.rest()),
    }
}

/// Serve one on that has rested.
pub async fn resume<S: Service>(rested: Rested, shared: Rc<Shared<S>>) -> End {
    let Ok(stream) = Stream::new(rested.fd) else { return End::Closed(CloseReason::Broken) };
    let mut connection = Connection::new(stream, rested.client, shared);
    connection.first = false;
    match connection.run().await {
        Some(reason) => End::Closed(reason),
        None => End::Idle(connection.rest()),
    }
}

struct Connection<S> {
    stream: Stream,
    /// What the kernel holds for a client that could not take all at once.
    socket_bytes: SocketBytes,
    /// When to look how much of that is left, while nothing is sent.
    next_look: Option<Deadline>,
    inbound: Inbound,
    deadline: Deadline,
    client: Client,
    shared: Rc<Shared<S>>,
    started: Instant,
    first: bool,
    /// Exchanges since the last time that it let others have their turn.
    turn: u32,
}

enum Next {
    Head(Lent<RequestHead>),
    Refused(RefusalKind),
    Idle,
    Ended(CloseReason),
}

enum After {
    Next,
    Linger(CloseReason),
    Close(CloseReason),
}

impl<S: Service> Connection<S> {
    fn new(stream: Stream, client: Client, shared: Rc<Shared<S>>) -> Connection<S> {
        Connection {
            stream,
            socket_bytes: SocketBytes::new(&shared.storage),
            next_look: None,
            inbound: Inbound::new(),
            deadline: Deadline::unset(),
            client,
            shared,
            started: Instant::ZERO,
            first: true,
            turn: 0,
        }
    }

    /// Serve exchanges until the connection has to be closed, or (none) may rest.
    async fn run(&mut self) -> Option<CloseReason> {
        loop {
            self.take_turns().await;
            let more = match self.next_head().await {
                Next::Head(head) => self.exchange(head).await,
                Next::Refused(kind) => {
                    let end = match kind {
                        RefusalKind::Bad(_) => CloseReason::BadInput,
                        RefusalKind::Slow => CloseReason::HeadTimeout,
                    };
                    self.refuse(kind).await;
                    return Some(end);
                }
                Next::Idle => return None,
                Next::Ended(end) => return Some(end),
            };
            match more {
                After::Next => {}
                After::Linger(end) => {
                    self.linger().await;
                    return Some(end);
                }
                After::Close(end) => return Some(end),
            }
        }
    }

    /// A client that sends its requests ahead waits for the others of its shard now and then.
    async fn take_turns(&mut self) {
        if self.inbound.bytes().is_empty() {
            self.turn = 0;
        } else {
            self.turn += 1;
            if self.turn > TURN_EXCHANGES_MAX {
                self.turn = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    fn rest(self) -> Rested {
        let until = clock::now() + (self.shared.settings.idle_time_max - REST_AFTER);
        Rested { fd: self.stream.into_fd(), client: self.client, until }
    }

    /// Read the PROXY header; none when the connection must be closed.
    async fn proxy_header(&mut self) -> Option<()> {
        if !self.client.trusted {
            return None;
        }
        self.deadline.set(clock::now() + self.shared.settings.head_time_max);
        loop {
            match proxy_protocol::parse(self.inbound.bytes()) {
                Ok(Some((consumed, header))) => {
                    self.inbound.consume(consumed);
                    self.inbound.park();
                    if let Some(source) = header.source {
                        self.client = self.shared.client(Some(source));
                    }
                    return Some(());
                }
                Ok(None) if self.inbound.bytes().len() < PROXY_HEADER_MAX => {}
                Ok(None) | Err(_) => return None,
            }
            let filled = poll_fn(|cx| self.poll_more(cx)).await;
            if filled == Filled::Nothing {
                return None;
            }
        }
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Filled> {
        match self.inbound.poll_fill(&self.stream, cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Filled::Nothing),
            Poll::Ready(Ok(_)) => Poll::Ready(Filled::Some),
            Poll::Pending => self.deadline.poll_passed(cx).map(|()| Filled::Nothing),
        }
    }

    async fn next_head(&mut self) -> Next {
        // The first head must come soon, a later one whenever the client has something to ask.
        let idle = if self.shared.stopping.is_on() {
            STOP_IDLE_MAX
        } else if self.first {
            self.shared.settings.head_time_max
        } else {
            self.shared.settings.idle_time_max
        };
        // What the kernel still holds for a client is counted by its task.
        let is_done = !self.first && self.socket_bytes.counted() == 0;
        let rests = is_done && idle >= REST_WORTH_MIN;
        self.deadline.set_after(if rests { REST_AFTER } else { idle });
        self.first = false;
        if !self.inbound.bytes().is_empty() {
            // It was sent behind the request before it.
            self.started = clock::now();
        }
        let limits = self.shared.limits();
        let mut begun = false;
        // Taken when there is something to parse: an idle connection holds no head.
        let mut head: Option<Lent<RequestHead>> = None;
        let outcome = poll_fn(|cx| self.poll_head(cx, &limits, &mut begun, &mut head)).await;
        match outcome {
            Next::Ended(CloseReason::Idle) if rests => Next::Idle,
            outcome => outcome,
        }
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        limits: &HeadLimits,
        begun: &mut bool,
        slot: &mut Option<Lent<RequestHead>>,
    ) -> Poll<Next> {
        loop {
            if !self.inbound.bytes().is_empty() {
                let mut head = slot.take().unwrap_or_else(Lent::take);
                match head.parse(self.inbound.bytes(), limits) {
                    Ok(Some(consumed)) => {
                        self.inbound.consume(consumed);
                        return Poll::Ready(Next::Head(head));
                    }
                    Ok(None) => *slot = Some(head),
                    Err(error) => return Poll::Ready(Next::Refused(RefusalKind::Bad(error))),
                }
                if !*begun {
                    *begun = true;
                    self.deadline.set_after(self.shared.settings.head_time_max);
                }
            }
            match self.inbound.poll_fill(&self.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    return Poll::Ready(Next::Ended(CloseReason::Client));
                }
                Poll::Ready(Ok(_)) if !*begun => self.started = clock::now(),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return self.poll_waited(cx, *begun),
            }
        }
    }

    fn poll_waited(&mut self, cx: &mut Context<'_>, begun: bool) -> Poll<Next> {
        if self.shared.stopping.is_on() && !begun {
            // Woken by the stop: what is left of the idle time shrinks to a moment. Later looks
            // change nothing.
            self.deadline.shorten(clock::now() + STOP_IDLE_MAX);
        }
        self.count_what_is_left(cx);
        ready!(self.deadline.poll_passed(cx));
        Poll::Ready(match begun {
            true => Next::Refused(RefusalKind::Slow),
            false if self.shared.stopping.is_on() => Next::Ended(CloseReason::Draining),
            false => Next::Ended(CloseReason::Idle),
        })
    }

    /// A slow client goes on taking the last response from the kernel, which tells nobody.
    fn count_what_is_left(&mut self, cx: &mut Context<'_>) {
        if self.socket_bytes.counted() == 0 {
            return;
        }
        self.socket_bytes.count(self.stream.send_memory());
        match self.socket_bytes.counted() {
            0 => self.next_look = None,
            _ => self.next_look.get_or_insert_with(Deadline::unset).look_again(LOOK_AGAIN, cx),
        }
    }

    async fn exchange(&mut self, head: Lent<RequestHead>) -> After {
        self.deadline.clear();
        let wanted = Wanted {
            modern: head.version() == Version::Http11,
            keep_alive: head.keep_alive(),
            head_only: head.method() == Method::Head,
        };
        let rate = self.shared.send_rate();
        let stopping = &self.shared.stopping;
        let way_out = WayOut { stream: &self.stream, socket_bytes: &self.socket_bytes };
        let mut responder = H1Responder::new(way_out, &self.deadline, rate, wanted, stopping);
        let settings = &self.shared.settings;
        let mut body = H1Body::new(&self.stream, &mut self.inbound, &self.deadline, head.framing());
        body.half_close = settings.half_close;
        body.rate = BodyRate { min: settings.body_rate_min, grace: settings.body_rate_grace };
        if head.expects_continue() && wanted.modern {
            body.expects_continue();
        }
        if body.is_done() {
            // Only pipelined requests can lie here: they wait parked.
            body.inbound.park();
        }
        let request =
            Request { head: &head, body: &mut body, client: &self.client, started: self.started };
        self.shared.service.exchange(request, &mut responder).await;
        let (unread, slow_body) = (!body.is_done(), body.slow);
        if responder.is_switched() {
            return After::Close(CloseReason::Tunnel);
        }
        if responder.is_broken() {
            if responder.must_reset() {
                self.stream.reset_on_close();
            }
            let end = if responder.was_slow() {
                CloseReason::SendRate
            } else if responder.has_left() {
                CloseReason::Abandoned
            } else {
                CloseReason::Broken
            };
            return After::Close(end);
        }
        if !responder.has_begun() {
            return After::Close(CloseReason::Abandoned);
        }
        if unread {
            return After::Linger(if slow_body {
                CloseReason::BodyRate
            } else {
                CloseReason::Answered
            });
        }
        if responder.must_close() {
            let pipelined = !self.inbound.bytes().is_empty();
            let end = if stopping.is_on() { CloseReason::Draining } else { CloseReason::Answered };
            return if pipelined { After::Linger(end) } else { After::Close(end) };
        }
        After::Next
    }

    async fn refuse(&mut self, kind: RefusalKind) {
        self.deadline.clear();
        self.inbound.park();
        let wanted = Wanted { modern: true, keep_alive: false, head_only: false };
        let rate = self.shared.send_rate();
        let stopping = &self.shared.stopping;
        let way_out = WayOut { stream: &self.stream, socket_bytes: &self.socket_bytes };
        let mut responder = H1Responder::new(way_out, &self.deadline, rate, wanted, stopping);
        let refusal = Refusal { kind, client: &self.client, started: self.started };
        self.shared.service.refuse(refusal, &mut responder).await;
        if responder.is_complete() {
            self.linger().await;
        }
    }

    /// Say that we are done, then read and forget what the client still sends, so that closing does
    /// not reset the connection before it has read our reply.
    async fn linger(&mut self) {
        self.stream.shutdown_write();
        let last = clock::now() + LINGER_TIME_MAX;
        self.deadline.set(clock::now() + LINGER_QUIET_MAX);
        let mut left = LINGER_BYTES_MAX;
        poll_fn(|cx| {
            loop {
                let here = self.inbound.bytes().len();
                self.inbound.consume(here);
                left = left.saturating_sub(here as u64);
                match self.inbound.poll_fill(&self.stream, cx) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(_)) if left == 0 => return Poll::Ready(()),
                    Poll::Ready(Ok(_)) => {
                        self.deadline.set(last.min(clock::now() + LINGER_QUIET_MAX));
                    }
                    Poll::Pending => return self.deadline.poll_passed(cx),
                }
            }
        })
        .await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    Some,
    Nothing,
}
