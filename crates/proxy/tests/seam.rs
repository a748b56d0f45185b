//! Two exchanges on one made-up multiplexed connection: proof that an exchange needs nothing of a
//! connection but the service seam, so that HTTP/2 can come below it.
//!
//! The first stream's body comes late. The second stream, begun after it, is answered first; both
//! meet a real worker over a real socket.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use spillgate_core::id::ShardId;
use spillgate_proxy::shard::Shard;
use spillgate_runtime::clock;
use spillgate_runtime::http::service::{
    BodyFailure, BodySource, Client, Length, Request, Responder, SendFailure, Service,
};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::net::pipe::Pipe;
use spillgate_runtime::scratch::Scratch;
use spillgate_runtime::shard;
use spillgate_wire::http1::{BodyDecoder, FieldIter, Framing, HeadLimits, RequestHead};

mod one_pool;

use one_pool::{mailboxes, make_shard, settings};

/// One stream of the made-up connection: its body in, its response out.
#[derive(Default)]
struct Stream {
    body: RefCell<Arriving>,
    response: RefCell<Vec<u8>>,
}

#[derive(Default)]
struct Arriving {
    bytes: Vec<u8>,
    ended: bool,
    waker: Option<Waker>,
}

impl Stream {
    fn arrive(&self, bytes: &[u8]) {
        let mut body = self.body.borrow_mut();
        body.bytes.extend_from_slice(bytes);
        body.ended = true;
        if let Some(waker) = body.waker.take() {
            waker.wake();
        }
    }
}

struct StreamBody {
    stream: Rc<Stream>,
    length: Option<u64>,
    chunk: Vec<u8>,
    no_trailers: BodyDecoder,
}

impl StreamBody {
    fn new(stream: &Rc<Stream>, length: Option<u64>) -> Self {
        let no_trailers = BodyDecoder::new(Framing::None);
        StreamBody { stream: Rc::clone(stream), length, chunk: Vec::new(), no_trailers }
    }
}

impl BodySource for StreamBody {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn take_whole(&mut self) -> Option<Scratch> {
        None
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], BodyFailure>> {
        let mut body = self.stream.body.borrow_mut();
        if body.bytes.is_empty() && !body.ended {
            body.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.chunk.clone_from(&body.bytes);
        Poll::Ready(Ok(&self.chunk))
    }

    fn consume(&mut self, count: usize) {
        self.stream.body.borrow_mut().bytes.drain(..count);
    }

    fn park(&mut self) {}

    fn poll_left(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn trailers(&self) -> FieldIter<'_> {
        self.no_trailers.trailers()
    }

    fn switch(&mut self) {}
}

struct StreamResponder(Rc<Stream>);

impl Responder for StreamResponder {
    fn begin(&mut self, status: u16, _reason: &[u8], _length: Length) {
        self.0.response.borrow_mut().extend_from_slice(format!("{status} ").as_bytes());
    }

    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    fn poll_send(
        &mut self,
        _cx: &mut Context<'_>,
        bytes: &[u8],
        _last: bool,
    ) -> Poll<Result<usize, SendFailure>> {
        self.0.response.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn takes_pipe(&self) -> bool {
        false
    }

    fn poll_splice(
        &mut self,
        _cx: &mut Context<'_>,
        _pipe: &mut Pipe,
    ) -> Poll<Result<usize, SendFailure>> {
        panic!("a stream takes no pipe, and says so");
    }

    fn poll_room(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        Poll::Ready(Ok(()))
    }

    fn poll_idle(&mut self, _cx: &mut Context<'_>) -> Poll<SendFailure> {
        Poll::Pending
    }

    fn trailer(&mut self, _name: &[u8], _value: &[u8]) {}

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        Poll::Ready(Ok(()))
    }

    fn interim(&mut self, _status: u16, _reason: &[u8], _fields: &[(&[u8], &[u8])]) {}

    fn takes_trailers(&self) -> bool {
        true
    }

    fn close_after(&mut self) {}

    fn abort(&mut self) {}

    fn switch(&mut self, _protocol: &[u8]) {}
}

/// A worker that answers each request with what it read of it.
fn start_worker() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("the connection of our own process");
            std::thread::spawn(move || {
                let mut request = Vec::new();
                let mut piece = [0; 1024];
                while let Ok(count @ 1..) = connection.read(&mut piece) {
                    request.extend_from_slice(&piece[..count]);
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    if head.contains("Content-Length: 4") && body.len() < 4 {
                        continue;
                    }
                    let target = head.split(' ').nth(1).unwrap_or("");
                    let answer = format!("{target}={body}");
                    let length = answer.len();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    connection
                        .write_all(format!("{head}{answer}").as_bytes())
                        .expect("the proxy reads its answer");
                    request.clear();
                }
            });
        }
    });
    Endpoint::Tcp(address)
}

async fn exchange(shard: Rc<Shard>, head: &'static [u8], stream: Rc<Stream>, length: Option<u64>) {
    let mut parsed = RequestHead::new();
    let limits = HeadLimits { size_max: 4096, fields_max: 16 };
    let whole = parsed.parse(head, &limits).expect("a sound head");
    assert_eq!(whole, Some(head.len()));
    let client = Client { address: None, trusted: false, steers: false };
    let mut body = StreamBody::new(&stream, length);
    let request =
        Request { head: &parsed, body: &mut body, client: &client, started: clock::now() };
    shard.exchange(request, &mut StreamResponder(stream)).await;
}

#[test]
fn two_exchanges_share_one_connection() {
    let endpoint = start_worker();
    let settings = settings(&endpoint);
    let (tell, told) = mpsc::sync_channel(2);
    let thread = shard::start(ShardId(0), None, move || async move {
        let shard = make_shard(settings, endpoint, mailboxes(), None);
        let (slow, quick) = (Rc::new(Stream::default()), Rc::new(Stream::default()));
        let first = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
        let mut late = Box::pin(exchange(Rc::clone(&shard), first, Rc::clone(&slow), Some(4)));
        let second = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut soon = Box::pin(exchange(shard, second, Rc::clone(&quick), Some(0)));
        // Both run in this one task, as the streams of one connection do.
        std::future::poll_fn(|cx| {
            assert!(late.as_mut().poll(cx).is_pending(), "its body has not come");
            soon.as_mut().poll(cx)
        })
        .await;
        tell.send(quick.response.take()).expect("the test waits");
        slow.arrive(b"body");
        late.await;
        tell.send(slow.response.take()).expect("the test waits");
    })
    .expect("a thread can be started");
    thread.join().expect("the shard ends well");
    let responses: Vec<String> =
        told.iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
    assert_eq!(responses, ["200 /quick=", "200 /slow=body"]);
}
