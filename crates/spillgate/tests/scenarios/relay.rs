//! Large answers in relay, whose bytes go from socket to socket through a pipe: whatever breaks off
//! on either side, nobody gets a byte too few, one too many, or one of somebody else's.

use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Config, Echo, Link, Spillgate, Worker, get, ok, until};

/// Far more than all sockets on the way hold.
const LENGTH: usize = 12_000_000;

/// An answer that is in relay because it is so long, and whose worker is read to its end.
const LONG: &str = "";
/// One that is in relay because its worker wants it so.
const ASKED: &str = "X-Accel-Buffering: no\r\n";

/// Long answers are relayed; little is in the kernel for a slow client.
fn relaying(config: Config) -> Config {
    let small = config.pool("response_size_max = \"64KiB\"").top("shards = 1");
    small.listener("send_buffer_max = \"16KiB\"")
}

fn head(field: &str, length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\n{field}Content-Length: {length}\r\n\r\n")
}

/// A client that asked for `target`, and the worker that is to answer.
fn asked(change: impl FnOnce(Config) -> Config, target: &str) -> (Worker, Spillgate, Link, Link) {
    let (worker, spillgate) = Worker::behind(|config| change(relaying(config)));
    let mut client = spillgate.connect();
    client.receive_buffer(64 * 1024);
    client.send(get(target));
    let mut link = worker.accept();
    link.receive_request();
    (worker, spillgate, client, link)
}

/// Send as a worker does while the test plays the client.
fn sending(mut link: Link, bytes: impl AsRef<[u8]> + Send + 'static) -> JoinHandle<Link> {
    std::thread::spawn(move || {
        link.send(bytes);
        link
    })
}

fn spliced(spillgate: &Spillgate) -> u64 {
    spillgate.metrics().sum("spillgate_spliced_bytes_total", &[])
}

/// Wait until the client's socket takes no more, and the worker's has more: then bytes lie in a
/// pipe between the two.
fn wait_held_up(spillgate: &Spillgate) {
    let held = || spillgate.metrics().sum("spillgate_client_socket_bytes", &[]);
    until("the client does not keep up", || {
        let looks = [held(), held(), held()];
        (looks[0] > 0 && looks == [looks[0]; 3]).then_some(())
    });
}

/// Ends of pipes that Spillgate has open.
fn pipe_ends(spillgate: &Spillgate) -> usize {
    let folder = format!("/proc/{}/fd", spillgate.pid().as_raw_nonzero());
    let links = std::fs::read_dir(folder).expect("it runs").flatten();
    let named = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    named.filter(|name| name.to_string_lossy().starts_with("pipe:")).count()
}

#[test]
fn bytes_arrive_whole_and_the_connections_go_on() {
    for (field, reason) in [(LONG, "response_size"), (ASKED, "asked")] {
        let (worker, spillgate) = Worker::behind(relaying);
        let mut client = spillgate.connect();
        let lengths = [LENGTH, 300_001, 150_001, 3_000_000];
        // All are asked at once.
        for length in lengths {
            client.send(get(&format!("/{length}")));
        }
        let mut link = worker.accept();
        for length in lengths {
            assert_eq!(link.receive_request().head.target(), format!("/{length}"));
            let body = Echo::bytes(length);
            let sent = sending(link, [head(field, length).into_bytes(), body.clone()].concat());
            assert_eq!(client.receive_head().get("content-length"), Some(&*length.to_string()));
            assert!(client.receive(length) == body, "{length}");
            link = sent.join().expect("all is read");
            let record = spillgate.record(&format!("/{length}"));
            assert_eq!((&record["end"], &record["relay"]), (&"success".into(), &reason.into()));
            assert_eq!(record["response_bytes"], length);
        }
        let sum = lengths.iter().sum::<usize>() as u64;
        let all = spillgate.metrics().sum("spillgate_response_body_bytes_total", &[]);
        assert_eq!(all, sum);
        assert!((sum * 8 / 10..=sum).contains(&spliced(&spillgate)), "{}", spliced(&spillgate));
        client.send(get("/last"));
        link.receive_request();
        link.send(ok("last"));
        assert_eq!(client.receive_response().text(), "last");
        worker.expect_nobody();
    }
}

#[test]
fn unix_sockets_are_spliced_as_well() {
    let folder = TempDir::new().expect("a folder can be made");
    let socket = folder.path().join("inner.sock");
    let section = format!("[listener.unix]\naddress = \"unix:{}\"", socket.display());
    let (_echo, inner) = Echo::behind(|config| relaying(config).section(&section));
    let outer =
        Spillgate::start(relaying(Config::new().endpoint(format!("unix:{}", socket.display()))));
    assert!(outer.ask(get("/bytes/5000000")).body == Echo::bytes(5_000_000));
    for spillgate in [&inner, &outer] {
        until("most of it is spliced", || (spliced(spillgate) > 4_000_000).then_some(()));
    }
}

#[test]
fn what_may_not_or_need_not_be_spliced_is_copied() {
    let (worker, spillgate) = Worker::behind(relaying);
    let mut client = spillgate.connect();
    client.send(get("/events"));
    let mut link = worker.accept();
    let body = vec![b'x'; 100_000];
    let event = "Content-Type: text/event-stream\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = [chunked.as_bytes(), b"186a0\r\n", &body, b"\r\n0\r\n\r\n"].concat();
    let plain = |field, body: &[u8]| [head(field, body.len()).as_bytes(), body].concat();
    for answer in [plain(event, &body), chunks, plain(ASKED, &body[..60_000])] {
        link.receive_request();
        let sent = sending(link, answer);
        assert!(body.starts_with(&client.receive_response().body));
        link = sent.join().expect("all is read");
        client.send(get("/next"));
    }
    link.receive_request();
    link.send(ok("last"));
    assert_eq!(client.receive_response().text(), "last");
    assert_eq!(spliced(&spillgate), 0);
}

#[test]
fn a_worker_that_dies_in_the_middle_breaks_its_answer() {
    for field in [LONG, ASKED] {
        for resets in [false, true] {
            let (worker, spillgate, mut client, link) = asked(|config| config, "/broken");
            let body = Echo::bytes(LENGTH);
            let sent = [head(field, LENGTH).into_bytes(), body[..6_000_000].to_vec()].concat();
            let sent = sending(link, sent);
            client.receive_head();
            wait_held_up(&spillgate);
            let mut received = client.receive(5_000_000);
            let link = sent.join().expect("all is read");
            if resets {
                link.reset();
            } else {
                link.close();
            }
            received.extend(client.receive_all());
            assert!(body.starts_with(&received), "resets: {resets}");
            assert!(resets || received.len() == 6_000_000, "{} arrived", received.len());
            let record = spillgate.record("/broken");
            assert_eq!((&record["end"], &record["blame"]), (&"failed".into(), &"worker".into()));
            assert_eq!(record["reason"], "response_broken");
            assert_eq!(record["response_bytes"], received.len());
            expect_clean(&worker, &spillgate);
        }
    }
}

/// The next answer is as it should be, whatever became of the pipe of the one before.
#[track_caller]
fn expect_clean(worker: &Worker, spillgate: &Spillgate) {
    let mut client = spillgate.connect();
    client.send(get("/after"));
    let (link, _) = worker.accept_exchange();
    let body: Vec<u8> = Echo::bytes(2_000_000).iter().map(|byte| byte ^ 0xff).collect();
    let sent = sending(link, [head(LONG, body.len()).into_bytes(), body.clone()].concat());
    assert!(client.receive_response().body == body);
    sent.join().expect("all is read");
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_nothing_behind() {
    let (worker, spillgate, client, mut link) = asked(|config| config, "/left");
    let sent = sending(link, [head(LONG, LENGTH).into_bytes(), Echo::bytes(LENGTH)].concat());
    wait_held_up(&spillgate);
    client.reset();
    // Its worker is read to its end, and asked again on the same connection.
    link = sent.join().expect("all is read");
    let record = spillgate.record("/left");
    assert_eq!((&record["end"], &record["reason"]), (&"abandoned".into(), &"deliver".into()));
    assert_eq!(record["response_bytes"], LENGTH);
    let mut next = spillgate.connect();
    next.send(get("/next"));
    link.receive_request();
    let body = vec![b'y'; 3_000_000];
    let sent = sending(link, [head(LONG, body.len()).into_bytes(), body.clone()].concat());
    assert!(next.receive_response().body == body);
    sent.join().expect("all is read");
    worker.expect_nobody();
    let held = || spillgate.metrics().sum("spillgate_client_socket_bytes", &[]);
    until("nothing is held for it", || (held() == 0).then_some(()));
}

#[test]
fn a_worker_hears_that_the_client_of_its_stream_has_left() {
    let (worker, spillgate, client, mut link) = asked(|config| config, "/left");
    let writer = std::thread::spawn(move || {
        link.send(head(ASKED, LENGTH));
        // As far as it gets.
        link.try_send(&Echo::bytes(LENGTH));
        link
    });
    wait_held_up(&spillgate);
    client.reset();
    let record = spillgate.record("/left");
    assert_eq!((&record["end"], &record["relay"]), (&"abandoned".into(), &"asked".into()));
    assert!(record["response_bytes"].as_u64() < Some(LENGTH as u64), "{record}");
    drop(writer.join().expect("it ends"));
    expect_clean(&worker, &spillgate);
}

#[test]
fn a_reader_that_is_too_slow_is_cut_off() {
    let slow = "send_rate_min = \"64KiB/s\"\nsend_rate_grace = \"1s\"";
    let (worker, spillgate, client, link) = asked(|config| config.listener(slow), "/slow");
    let sent = sending(link, [head(LONG, LENGTH).into_bytes(), Echo::bytes(LENGTH)].concat());
    wait_held_up(&spillgate);
    let record = spillgate.record("/slow");
    assert_eq!((&record["end"], &record["reason"]), (&"abandoned".into(), &"deliver".into()));
    // Its connection is kept for the next exchange, so it is closed for that to find another.
    sent.join().expect("all is read").close();
    drop(client);
    let closed = ("spillgate_connections_closed_total", [("reason", "send_rate")]);
    until("it is counted", || (spillgate.metrics().sum(closed.0, &closed.1) == 1).then_some(()));
    expect_clean(&worker, &spillgate);
}

#[test]
fn a_worker_that_stands_still_in_the_middle_is_noticed() {
    let time = "progress_time_max = \"1s\"";
    let (_worker, spillgate, mut client, mut link) = asked(|config| config.pool(time), "/still");
    let body = Echo::bytes(1_000_000);
    link.send(head(LONG, LENGTH));
    link.send(&body);
    client.receive_head();
    assert!(client.receive_all() == body);
    let record = spillgate.record("/still");
    assert_eq!((&record["end"], &record["reason"]), (&"failed".into(), &"worker_timeout".into()));
    assert_eq!(record["response_bytes"], body.len());
}

#[test]
fn a_worker_that_its_client_holds_up_is_not_blamed() {
    let time = "progress_time_max = \"1s\"";
    let (_worker, spillgate, mut client, link) = asked(|config| config.pool(time), "/held-up");
    let body = Echo::bytes(LENGTH);
    let sent = sending(link, [head(LONG, LENGTH).into_bytes(), body.clone()].concat());
    client.receive_head();
    wait_held_up(&spillgate);
    let mut other = spillgate.connect();
    assert!(other.is_quiet_for(Duration::from_millis(1500)));
    assert!(client.receive(LENGTH) == body);
    sent.join().expect("all is read");
    assert_eq!(spillgate.record("/held-up")["end"], "success");
}

#[test]
fn a_client_that_says_no_more_gets_everything() {
    let (_worker, spillgate, mut client, link) = asked(|config| config, "/half");
    let body = Echo::bytes(LENGTH);
    let sent = sending(link, [head(LONG, LENGTH).into_bytes(), body.clone()].concat());
    client.receive_head();
    client.half_close();
    wait_held_up(&spillgate);
    assert!(client.receive(LENGTH) == body);
    client.expect_end();
    sent.join().expect("all is read");
}

#[test]
fn a_stop_waits_for_what_is_on_its_way() {
    let (_worker, mut spillgate, mut client, link) = asked(|config| config, "/running");
    let body = Echo::bytes(LENGTH);
    let sent = sending(link, [head(LONG, LENGTH).into_bytes(), body.clone()].concat());
    client.receive_head();
    wait_held_up(&spillgate);
    spillgate.signal(Signal::TERM);
    until("the end of listening", || Link::connect(spillgate.address()).is_none().then_some(()));
    assert!(client.receive(LENGTH) == body);
    client.expect_end();
    sent.join().expect("all is read");
    assert_eq!(spillgate.ended().code(), Some(0));
}

/// 330 descriptors leave room for five pipes; whoever gets none is copied for.
#[test]
fn pipes_are_few_and_go_after_a_burst() {
    let (_echo, spillgate) =
        Echo::behind(|config| relaying(config).descriptors(330).pool("slots = 10"));
    let before = pipe_ends(&spillgate);
    let mut clients: Vec<Link> = (0..10)
        .map(|_| {
            let mut client = spillgate.connect();
            client.receive_buffer(64 * 1024);
            client.send(get("/bytes/3000000"));
            client.receive_head();
            client
        })
        .collect();
    until("every pipe is in use", || (pipe_ends(&spillgate) == before + 10).then_some(()));
    for client in &mut clients {
        assert!(client.receive(3_000_000) == Echo::bytes(3_000_000));
    }
    assert!(pipe_ends(&spillgate) <= before + 10);
    until("all are closed", || (pipe_ends(&spillgate) == before).then_some(()));
    assert!(spillgate.ask(get("/bytes/3000000")).body == Echo::bytes(3_000_000));
}

#[test]
fn greedy_downloads_leave_others_their_turn() {
    let (_echo, spillgate) = Echo::behind(|config| relaying(config).pool("slots = 20"));
    let downloads: Vec<JoinHandle<()>> = (0..8)
        .map(|_| {
            let mut client = spillgate.connect();
            client.send(get("/bytes/40000000"));
            client.receive_head();
            std::thread::spawn(move || {
                for _ in 0..40 {
                    client.receive(1_000_000);
                }
            })
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(spillgate.ask(get("/quick")).status(), 200);
    }
    let is_over = |record: &serde_json::Value| record["target"] != "/quick";
    let over = spillgate.records().iter().filter(|record| is_over(record)).count();
    assert!(over < 8, "the quick ones had to wait for all of the downloads");
    for download in downloads {
        download.join().expect("it gets everything");
    }
}
