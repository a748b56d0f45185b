//! One client that sends thousands of requests ahead does not hold up a hundred that send one each.
//!
//! All requests are there before the shard begins, those of the greedy client first, and none needs
//! a worker, so nothing but its own turns makes the shard leave the greedy one. The order in which
//! they were served is the order of the access log.

#[path = "one_pool/listener.rs"]
mod listener;
mod one_pool;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use spillgate_core::id::ShardId;
use spillgate_proxy::serve::{self, Connections};
use spillgate_proxy::settings::{
    CallerClasses, Destination, PathMatch, ReplySettings, RouteSettings,
};
use spillgate_proxy::shard::ShardMessage;
use spillgate_runtime::events::{AccessLog, Destination as LogDestination};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::net::listen;
use spillgate_runtime::shard;

const MODEST: usize = 100;
/// Requests of the greedy client: some 64 KiB, less than the kernel holds for it.
const GREEDY: usize = 1_500;
/// How many of them may be served before the last modest one. The shard's turns let some hundred
/// through; without turns it would be all of them.
const BEFORE_MAX: usize = GREEDY / 2;

/// A connection on which `bytes` were sent.
fn client(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(address).expect("the kernel accepts for the shard");
    client.write_all(bytes).expect("the kernel holds that much");
    client
}

#[test]
fn a_greedy_client_lets_modest_ones_have_their_turn() {
    let folder = tempfile::tempdir().expect("a folder for the log");
    let file = folder.path().join("access.log");
    let log = AccessLog::start(LogDestination::File(file.clone())).expect("a file can be made");
    let nobody = Endpoint::Tcp(([127, 0, 0, 1], 1).into());
    let mut settings = one_pool::settings(&nobody);
    settings.listeners.push(listener::any_port());
    let content_type = "text/plain".to_owned();
    let reply = ReplySettings { status: 200, body: "pong".to_owned(), content_type };
    settings.routes = vec![RouteSettings {
        host: None,
        path: PathMatch::Prefix("/".into()),
        class: None,
        class_callers: CallerClasses::default(),
        destination: Destination::Reply(reply),
    }];
    let sockets = listen::bind(&settings.listeners[0].address, 1, None).expect("a free port");
    let address = listener::address_of(&sockets[0]);

    let greedy = b"GET /greedy HTTP/1.1\r\nHost: site.example\r\n\r\n".repeat(GREEDY - 1);
    let last = b"GET /greedy HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n";
    let mut clients = vec![client(address, &[&greedy[..], last].concat())];
    let modest = b"GET /modest HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n";
    clients.extend((0..MODEST).map(|_| client(address, modest)));

    let connections = Arc::new(Connections::new(vec![1_000], 1_000));
    let mailboxes = one_pool::mailboxes();
    let (lines, theirs) = (log.line_buffer(), Arc::clone(&mailboxes));
    let thread = shard::start(ShardId(0), None, move || {
        let shard = one_pool::make_shard(settings, nobody, Arc::clone(&theirs), Some(lines));
        serve::run(shard, sockets, connections, theirs)
    })
    .expect("a thread can be started");
    for mut client in clients {
        client.read_to_end(&mut Vec::new()).expect("it is answered and closed");
    }
    mailboxes.shards[0].send(ShardMessage::Stop);
    thread.join().expect("the shard ends well");
    assert!(log.stop(Duration::from_secs(10)), "the log ends in time");

    let log = std::fs::read_to_string(&file).expect("the log is there");
    let is_greedy: Vec<bool> = log.lines().map(|line| line.contains("/greedy")).collect();
    assert_eq!(is_greedy.len(), GREEDY + MODEST, "every exchange has its record");
    let last = is_greedy.iter().rposition(|greedy| !greedy).expect("modest ones are there");
    let before = is_greedy[..last].iter().filter(|greedy| **greedy).count();
    assert!(before < BEFORE_MAX, "{before} greedy requests before the last modest one");
}
