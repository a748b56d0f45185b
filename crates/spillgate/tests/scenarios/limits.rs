//! Each limit is hit once: the client is told so, the worker is spared, and the reason is counted.

use std::time::Duration;

use crate::harness::{Config, Echo, Link, Message, Spillgate, Worker, get, post};

/// What must be seen of a refusal: status, reason in the reply and in the books, and the end of the
/// connection.
#[track_caller]
fn expect_refused(spillgate: &Spillgate, client: &mut Link, status: u16, reason: &str) {
    let response = client.receive_response();
    assert_eq!(response.status(), status, "{}", response.text());
    assert!(response.text().contains(reason), "{}", response.text());
    assert_eq!(response.get("connection"), Some("close"));
    client.expect_end();
    let record = spillgate.record_where(reason, |record| record["reason"] == reason);
    assert_eq!((&record["end"], &record["blame"]), (&"refused".into(), &"client".into()));
    let refused =
        spillgate.metrics().sum("spillgate_exchange_refused_total", &[("reason", reason)]);
    assert!(refused > 0, "{reason} is not counted");
}

/// A GET with a head of exactly `size` bytes.
fn head_of(size: usize) -> String {
    let rest = get("/head").replace("\r\n\r\n", "\r\nX: \r\n\r\n").len();
    get("/head").replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "x".repeat(size - rest)))
}

#[test]
fn the_size_of_a_request_head() {
    for (line, max) in [("head_size_max = \"2KiB\"", 2048), ("", 32 * 1024)] {
        let (echo, spillgate) = Echo::behind(|config| config.listener(line));
        assert_eq!(spillgate.ask(head_of(max)).status(), 200);
        let mut client = spillgate.connect();
        client.send(head_of(max + 1));
        expect_refused(&spillgate, &mut client, 431, "head_too_large");
        assert_eq!(echo.seen().len(), 1);
    }
}

#[test]
fn a_head_without_end_is_cut_off() {
    let (echo, spillgate) = Echo::behind(|config| config);
    for endless in ["GET / HTTP/1.1\r\nHost: a\r\nX: ", "GET /", "GET"] {
        let mut client = spillgate.connect();
        client.try_send(&[endless.as_bytes(), &[b'x'; 1 << 20]].concat());
        assert_eq!(client.receive_response().status(), 431, "{endless}");
        client.expect_end();
    }
    assert!(echo.seen().is_empty());
}

#[test]
fn the_number_of_fields() {
    for (line, max) in [("head_fields_max = 10", 10), ("", 128)] {
        let (echo, spillgate) = Echo::behind(|config| config.listener(line));
        let head = |count: usize| {
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1))
        };
        assert_eq!(spillgate.ask(head(max)).status(), 200);
        let mut client = spillgate.connect();
        client.send(head(max + 1));
        expect_refused(&spillgate, &mut client, 431, "head_fields_too_many");
        assert_eq!(echo.seen().len(), 1);
    }
}

#[test]
fn the_size_of_a_response_head() {
    let (worker, spillgate) = Worker::behind(|config| config.pool("head_size_max = \"2KiB\""));
    for (size, status) in [(2048, 200), (2049, 502)] {
        let mut client = spillgate.connect();
        client.send(get(&format!("/{size}")));
        let mut link = worker.accept();
        link.receive_request();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\nX: \r\n\r\n";
        let filled = format!("X: {}\r\n", "x".repeat(size - head.len()));
        link.send(head.replace("X: \r\n", &filled));
        assert_eq!(client.receive_response().status(), status);
    }
    assert_eq!(spillgate.record("/2049")["reason"], "response_head_too_large");
}

/// A chunked POST with a body of so many bytes, in chunks of 1,000.
fn chunked(size: usize) -> Vec<u8> {
    let mut request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in vec![b'x'; size].chunks(1000) {
        request.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend(chunk);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    request
}

#[test]
fn the_size_of_a_request_body() {
    let (echo, spillgate) = Echo::behind(|config| config.pool("body_size_max = \"100KiB\""));
    let max = 100 * 1024;
    assert_eq!(spillgate.ask(post("/", vec![b'x'; max])).status(), 200);
    assert_eq!(spillgate.ask(chunked(max)).status(), 200);
    for request in [post("/", vec![b'x'; max + 1]), chunked(max + 1), chunked(20 << 20)] {
        let mut client = spillgate.connect();
        client.send(request);
        expect_refused(&spillgate, &mut client, 413, "body_too_large");
    }
    assert_eq!(echo.seen().len(), 2);
}

#[test]
fn a_pool_that_takes_no_bodies() {
    let (echo, spillgate) = Echo::behind(|config| config.pool("body_size_max = \"0B\""));
    assert_eq!(spillgate.ask(get("/")).status(), 200);
    let mut client = spillgate.connect();
    client.send(post("/", "x"));
    expect_refused(&spillgate, &mut client, 413, "body_too_large");
    assert_eq!(echo.seen().len(), 1);
}

#[test]
fn a_large_upload_that_is_refused_gets_its_reply_and_no_reset() {
    let (echo, spillgate) = Echo::behind(|config| config.pool("body_size_max = \"1MiB\""));
    let mut client = spillgate.connect();
    // The whole upload is pushed before the reply is read, and a hidden request behind it.
    client.send(post("/upload", vec![b'x'; 32 << 20]));
    client.send(get("/hidden"));
    expect_refused(&spillgate, &mut client, 413, "body_too_large");
    assert!(echo.seen().is_empty());
}

#[test]
fn a_large_upload_that_is_shed_gets_its_reply_and_no_reset() {
    let echo = Echo::holding();
    let spillgate = Spillgate::start(Config::of(&[echo.address()]).pool("queue_len_max = 0"));
    spillgate.wait_up(1);
    let mut first = spillgate.connect();
    first.send(get("/first"));
    echo.wait_inside(1);
    let mut client = spillgate.connect();
    client.send(post("/upload", vec![b'x'; 32 << 20]));
    client.send(get("/hidden"));
    let response = client.receive_response();
    assert_eq!((response.status(), response.get("connection")), (503, Some("close")));
    assert!(response.text().contains("queue_full"));
    client.expect_end();
    echo.let_all_go();
    assert_eq!(first.receive_response().status(), 200);
    assert_eq!(echo.targets(), ["/first"]);
}

#[test]
fn a_fixed_reply_to_an_upload_says_that_it_is_the_last() {
    let ping = "[[route]]\npath_exact = \"/ping\"\nreply = { status = 200, body = \"PONG\\n\" }";
    let (echo, spillgate) = Echo::behind(|config| config.section(ping));
    let mut client = spillgate.connect();
    assert_eq!(client.ask(get("/ping")).text(), "PONG\n");
    let response = client.ask("HEAD /ping HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((response.status(), response.get("content-length")), (200, Some("5")));
    let response = client.ask(post("/ping", vec![b'x'; 4 << 20]));
    assert_eq!((response.text().as_str(), response.get("connection")), ("PONG\n", Some("close")));
    client.expect_end();
    assert!(echo.seen().is_empty());
}

#[test]
fn a_path_that_leads_nowhere() {
    let route = "[[route]]\npath = \"/api\"\npool = \"app\"";
    let (echo, spillgate) = Echo::behind(|config| config.section(route));
    assert_eq!(spillgate.ask(get("/api/x")).status(), 200);
    let mut client = spillgate.connect();
    for _ in 0..2 {
        let response = client.ask(get("/apix"));
        assert_eq!((response.status(), response.get("connection")), (404, None));
    }
    client.send(post("/apix", vec![b'x'; 4 << 20]));
    expect_refused(&spillgate, &mut client, 404, "no_route");
    assert_eq!(echo.targets(), ["/api/x"]);
}

#[test]
fn a_head_that_takes_too_long() {
    let (echo, spillgate) = Echo::behind(|config| config.listener("head_time_max = \"300ms\""));
    let mut client = spillgate.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    expect_refused(&spillgate, &mut client, 408, "head_timeout");

    // One that sends a byte now and then gets no more time for it.
    let mut client = spillgate.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    while client.is_quiet_for(Duration::from_millis(50)) {
        client.send("x");
    }
    assert_eq!(client.receive_response().status(), 408);

    // The same for a second head on a kept connection.
    let mut client = spillgate.connect();
    assert_eq!(client.ask(get("/")).status(), 200);
    client.send("GET / HTTP/1.1\r\n");
    assert_eq!(client.receive_response().status(), 408);
    assert_eq!(echo.seen().len(), 1);
}

#[test]
fn a_client_that_says_nothing() {
    let (_echo, spillgate) = Echo::behind(|config| config.listener("head_time_max = \"100ms\""));
    let mut client = spillgate.connect();
    client.expect_end();
    expect_closed(&spillgate, "idle");
}

#[test]
fn a_kept_connection_that_is_idle() {
    let (_echo, spillgate) = Echo::behind(|config| config.listener("idle_time_max = \"100ms\""));
    let mut client = spillgate.connect();
    assert_eq!(client.ask(get("/")).status(), 200);
    client.expect_end();
    expect_closed(&spillgate, "idle");
}

/// A connection was closed for this reason.
#[track_caller]
fn expect_closed(spillgate: &Spillgate, reason: &str) {
    crate::harness::until("a closed connection in the books", || {
        let labels = [("reason", reason)];
        let closed = spillgate.metrics().sum("spillgate_connections_closed_total", &labels);
        (closed > 0).then_some(())
    });
}

/// A rate of 64 bytes a second, judged each second.
fn slow_bodies(config: Config) -> Config {
    config.listener("body_rate_min = \"64B/s\"\nbody_rate_grace = \"1s\"")
}

#[test]
fn a_body_that_comes_too_slowly() {
    let (echo, spillgate) = Echo::behind(slow_bodies);
    let mut client = spillgate.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx");
    let mut trickle = spillgate.connect();
    trickle.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    while trickle.is_quiet_for(Duration::from_millis(100)) {
        trickle.send("1\r\nx\r\n");
    }
    expect_refused(&spillgate, &mut client, 408, "body_too_slow");
    assert_eq!(trickle.receive_response().status(), 408);
    assert!(echo.seen().is_empty());
}

#[test]
fn a_slow_device_within_the_rate_is_served() {
    let (echo, spillgate) = Echo::behind(slow_bodies);
    let mut client = spillgate.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    for _ in 0..5 {
        assert!(client.is_quiet_for(Duration::from_millis(500)), "it was cut");
        assert!(echo.seen().is_empty());
        client.send([b'x'; 200]);
    }
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(echo.seen()[0].body.len(), 1000);
}

#[test]
fn a_reader_that_is_too_slow_is_cut_off() {
    let (echo, spillgate) = Echo::behind(|config| {
        config.listener("send_rate_min = \"64KiB/s\"\nsend_rate_grace = \"1s\"")
    });
    let mut client = spillgate.connect();
    client.send(get("/bytes/30000000"));
    let record = spillgate.record("/bytes/30000000");
    assert_eq!((&record["end"], &record["reason"]), (&"abandoned".into(), &"deliver".into()));
    let head = client.receive_head();
    assert_eq!(head.get("content-length"), Some("30000000"));
    // Its worker was free long before.
    assert_eq!(spillgate.ask(get("/")).status(), 200);
    assert_eq!(echo.seen().len(), 2);
}

#[test]
fn a_reader_that_is_slow_within_the_rate_gets_everything() {
    let (_echo, spillgate) = Echo::behind(|config| {
        config.listener("send_rate_min = \"1KiB/s\"\nsend_rate_grace = \"1s\"")
    });
    let mut client = spillgate.connect();
    client.send(get("/bytes/9000000"));
    client.receive_head();
    let mut received = Vec::new();
    let mut other = spillgate.connect();
    // Far less than the kernel holds for it, so that it takes nothing more from us meanwhile.
    for _ in 0..10 {
        received.extend(client.receive(100_000));
        assert!(other.is_quiet_for(Duration::from_millis(250)));
    }
    received.extend(client.receive(8_000_000));
    assert!(received == Echo::bytes(9_000_000));
}

#[test]
fn more_connections_than_allowed_wait_until_others_close() {
    let (echo, spillgate) = Echo::behind(|config| config.listener("connections_max = 2"));
    crate::harness::until("the harness' own connection has closed", || {
        let open = spillgate.metrics().sum("spillgate_connections_open", &[]);
        (open == 0).then_some(())
    });
    let mut served: Vec<Link> = (0..2).map(|_| spillgate.connect()).collect();
    for client in &mut served {
        assert_eq!(client.ask(get("/served")).status(), 200);
    }
    let mut waiting = spillgate.connect();
    waiting.send(get("/waiting"));
    assert_eq!(served[0].ask(get("/served")).status(), 200);
    waiting.expect_silence();
    assert!(!echo.targets().contains(&"/waiting".to_owned()));
    served.pop().expect("two were opened").close();
    assert_eq!(waiting.receive_response().status(), 200);
}

#[test]
fn accepting_pauses_when_descriptors_run_short() {
    // All but 256 are for clients, and some of those are kept for connections to workers.
    // One shard: the kernel hands its connections over in the order in which they came.
    let (echo, spillgate) = Echo::behind(|config| config.top("shards = 1").descriptors(300));
    let mut clients: Vec<Link> = (0..60).map(|_| spillgate.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(get(&format!("/{number}")));
    }
    crate::harness::until("a pause of accepting", || {
        let open = spillgate.metrics().sum("spillgate_connections_open", &[]);
        ((30..60).contains(&open) && echo.seen().len() as u64 == open).then_some(())
    });
    // Each connection that closes makes room for one that waits.
    for mut client in clients {
        assert_eq!(client.receive_response().status(), 200);
        client.close();
    }
    assert_eq!(echo.seen().len(), 60);
}

#[test]
fn memory_for_bodies_that_is_used_up() {
    let (echo, spillgate) = Echo::behind(|config| {
        let memory = "buffer_memory_max = \"1MiB\"\nbody_memory_max = \"256KiB\"";
        let memory = config.top(memory).top("body_wait_max = \"100ms\"");
        memory.section("[spill]\nenabled = false")
    });
    let shed = |response: Message| {
        assert_eq!(response.status(), 503);
        assert!(response.text().contains("byte_budget"), "{}", response.text());
    };
    shed(spillgate.ask(post("/", vec![b'x'; 2 << 20])));
    shed(spillgate.ask(chunked(2 << 20)));
    assert!(echo.seen().is_empty());
    // What fits is served, and so is an answer that does not.
    assert_eq!(spillgate.ask(post("/", vec![b'x'; 100_000])).status(), 200);
    assert!(spillgate.ask(get("/bytes/5000000")).body == Echo::bytes(5_000_000));
}

/// A reply or another pool is not walked around by another spelling of its path.
#[test]
fn paths_that_workers_may_read_as_another_route() {
    let deny = "[[route]]\npath = \"/deny\"\nreply = { status = 403 }\n\
                [[route]]\npath = \"/\"\npool = \"app\"";
    let (echo, spillgate) = Echo::behind(|config| config.section(deny));
    for path in ["/deny", "/%64eny", "//deny", "/x/../deny", "/deny/.", "/deny/x?/../y"] {
        assert_eq!(spillgate.ask(get(path)).status(), 403, "{path}");
    }
    for path in ["/deny%2Fx", "/deny;x", "//a/deny", "/deny/../x", "/..%5cdeny", "/deny%00"] {
        let mut client = spillgate.connect();
        client.send(get(path));
        expect_refused(&spillgate, &mut client, 400, "path_ambiguous");
    }
    assert!(echo.seen().is_empty());
    for path in ["/%61//b;c", "/x%2fy?/deny/../%64eny"] {
        assert_eq!(spillgate.ask(get(path)).status(), 200, "{path}");
        assert_eq!(echo.seen().pop().map(|seen| seen.head.target().to_owned()), Some(path.into()));
    }
}
