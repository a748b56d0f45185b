//! A warm exchange allocates nothing: counted over the whole process, while client, worker and
//! shard pass requests around with buffers that they have.
//!
//! A listener, a route, a gate, a kept connection on both sides, metrics and an access record in a
//! file are all there. What is not a matter of exchanges (timers, the writer of the log) may
//! allocate a little; one allocation for each hundred exchanges would already fail.

#[path = "one_pool/listener.rs"]
mod listener;
mod one_pool;

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use spillgate_core::id::ShardId;
use spillgate_proxy::serve::{self, Connections};
use spillgate_proxy::shard::ShardMessage;
use spillgate_runtime::events::{AccessLog, Destination};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::net::listen;
use spillgate_runtime::shard;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WARM_UP: usize = 2_000;
const EXCHANGES: usize = 10_000;
/// What timers and the log's writer may need meanwhile.
const BESIDE_MAX: usize = EXCHANGES / 100;

const REQUEST: &[u8] = b"GET /page?a=1 HTTP/1.1\r\nHost: site.example\r\nUser-Agent: a test\r\n\
    Accept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: visit=8f14e45fceea167a\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: a test\r\n\
    Content-Length: 10\r\n\r\n0123456789";

/// A worker that answers whatever ends like a head, and allocates nothing.
fn start_worker() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("the shard connects");
        let mut request = [0; 4096];
        let mut len = 0;
        while let Ok(count @ 1..) = connection.read(&mut request[len..]) {
            len += count;
            if request[..len].ends_with(b"\r\n\r\n") {
                connection.write_all(ANSWER).expect("the shard reads its answer");
                len = 0;
            }
        }
    });
    address
}

/// Ask and read the answer, which ends like the worker's. Returns its length.
fn ask(client: &mut TcpStream, answer: &mut [u8]) -> usize {
    client.write_all(REQUEST).expect("the shard reads requests");
    let mut len = 0;
    while !answer[..len].ends_with(b"\r\n\r\n0123456789") {
        let count = client.read(&mut answer[len..]).expect("an answer comes");
        assert!(count > 0, "the connection is kept");
        len += count;
    }
    len
}

#[test]
fn a_warm_exchange_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder for the log");
    let file = folder.path().join("access.log");
    let log = AccessLog::start(Destination::File(file.clone())).expect("a file can be made");
    let endpoint = Endpoint::Tcp(start_worker());
    let mut settings = one_pool::settings(&endpoint);
    settings.listeners.push(listener::any_port());
    let sockets = listen::bind(&settings.listeners[0].address, 1, None).expect("a free port");
    let address = listener::address_of(&sockets[0]);
    let connections = Arc::new(Connections::new(vec![10], 10));
    let mailboxes = one_pool::mailboxes();
    let (lines, theirs) = (log.line_buffer(), Arc::clone(&mailboxes));
    let thread = shard::start(ShardId(0), None, move || {
        let shard = one_pool::make_shard(settings, endpoint, Arc::clone(&theirs), Some(lines));
        serve::run(shard, sockets, connections, theirs)
    })
    .expect("a thread can be started");

    let mut client = TcpStream::connect(address).expect("the shard accepts");
    let mut answer = [0; 4096];
    for _ in 0..WARM_UP {
        ask(&mut client, &mut answer);
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..EXCHANGES {
        let len = ask(&mut client, &mut answer);
        assert!(answer[..len].starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    let counted = region.change();
    assert!(counted.allocations + counted.reallocations < BESIDE_MAX, "{counted:?}");

    drop(client);
    mailboxes.shards[0].send(ShardMessage::Stop);
    thread.join().expect("the shard ends well");
    assert!(log.stop(Duration::from_secs(10)), "the log ends in time");
    let lines = std::fs::read_to_string(&file).expect("the log is there").lines().count();
    assert_eq!(lines, WARM_UP + EXCHANGES, "every exchange has its record");
}
