//! Faults that were found by attack and mended, each with the shortest way to it.
//!
//! Where a limit has to pass first, something else that it ends is the clock: no test waits for
//! time to pass.

use crate::harness::Worker;

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\n\r\n";

/// The limit on slow request bodies went on to watch what a client says through a tunnel.
#[test]
fn a_tunnel_may_be_silent_for_longer_than_a_body() {
    let (worker, spillgate) =
        Worker::behind(|config| config.listener("body_rate_grace = \"1s\"").top("shards = 1"));
    let mut client = spillgate.connect();
    client.send(UPGRADE);
    let mut link = worker.accept();
    link.receive_request();
    link.send(SWITCHED);
    assert_eq!(client.receive_head().status(), 101);
    let mut slow = spillgate.connect();
    slow.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(slow.receive_response().status(), 408);
    client.send("still there?");
    link.expect("still there?");
    link.send("yes");
    client.expect("yes");
}
