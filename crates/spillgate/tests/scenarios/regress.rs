//! Faults that were found by attack and mended, each with the shortest way to it.
//!
//! Where a limit has to pass first, something else that it ends, or a client that listens for so
//! long, is the clock.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, prlimit};
use tempfile::TempDir;

use crate::harness::{Config, Echo, Program, Spillgate, Worker, get, ok, post, until};

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

/// The engine wakes nobody for the reset of a connection whose end it has told already.
#[test]
fn a_listener_that_half_closes_and_then_leaves_gives_its_slot_back() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(get("/events"));
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    client.receive_head();
    client.receive_chunk();
    client.half_close();
    link.send("data: 2\n\n");
    client.receive_chunk();
    client.reset();
    link.expect_end();
    assert_eq!(spillgate.record("/events")["end"], "abandoned");
}

/// The same in the queue, and for a client that has sent more than is read ahead.
#[test]
fn a_waiting_client_that_is_served_half_closed_leaves_by_a_reset() {
    let serve = |config: Config| config.listener("half_close = \"serve\"");
    let (worker, spillgate) = Worker::behind(serve);
    let mut first = spillgate.connect();
    first.send(get("/first"));
    let mut link = worker.accept();
    link.receive_request();
    let mut half_closed = spillgate.connect();
    half_closed.send(get("/half-closed"));
    spillgate.wait_queue(1);
    half_closed.half_close();
    let mut eager = spillgate.connect();
    eager.send(get("/eager").repeat(2000));
    spillgate.wait_queue(2);
    half_closed.reset();
    eager.reset();
    spillgate.wait_queue(0);
    link.send(ok("first"));
    assert_eq!(first.receive_response().text(), "first");
}

/// Each byte that the client took gave the worker its time anew.
#[test]
fn a_worker_that_stands_still_is_noticed_while_its_client_reads() {
    let (worker, spillgate) = Worker::behind(|config| {
        config.pool("progress_time_max = \"1s\"").listener("send_buffer_max = \"4KiB\"")
    });
    let mut client = spillgate.connect();
    client.receive_buffer(4096);
    client.send(get("/stands-still"));
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n");
    link.send(vec![b'x'; 4_000_000]);
    client.receive_head();
    // The client reads on, and has far from everything when the worker's time is up.
    until("the worker is noticed", || {
        client.receive(1000);
        (spillgate.pool()["workers"][0]["state"] == "out: stuck").then_some(())
    });
}

/// A worker that may not send on, because its client does not read, has its time anew when it may.
#[test]
fn a_worker_that_its_client_holds_up_is_not_blamed() {
    let folder = TempDir::new().expect("a folder can be made");
    let path = folder.path().join("worker.sock");
    let listener = UnixListener::bind(&path).expect("the path is free");
    let config = Config::new()
        .endpoint(format!("unix:{}", path.display()))
        .pool("progress_time_max = \"1s\"\nresponse_size_max = \"64KiB\"")
        .listener("head_time_max = \"3s\"");
    let spillgate = Spillgate::start(config);
    let mut client = spillgate.connect();
    client.send(get("/held-up"));
    let mut worker = asked(&listener);
    let body_len = 20_000_000;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_len}\r\n\r\n");
    worker.write_all(head.as_bytes()).expect("it is read");
    worker.set_nonblocking(true).expect("it can be");
    let mut clock = spillgate.connect();
    clock.send("GET / HTTP/1.1\r\n");
    let mut sent = 0;
    // The client reads nothing until another one's time is up, and the worker's was long before.
    while clock.is_quiet_for(Duration::from_millis(20)) {
        sent += fill(&mut worker);
    }
    client.receive_head();
    client.receive(sent);
    worker.set_nonblocking(false).expect("it can be");
    let rest = vec![b'x'; body_len - sent];
    let sending = std::thread::spawn(move || worker.write_all(&rest));
    client.receive(body_len - sent);
    sending.join().expect("it ends").expect("all is read");
    assert_eq!(spillgate.record("/held-up")["end"], "success");
}

/// The connection on which a request came, and not a probe.
fn asked(listener: &UnixListener) -> UnixStream {
    loop {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        if stream.read(&mut [0; 4096]).expect("it can be read") > 0 {
            return stream;
        }
    }
}

/// Send what is taken now; how much that was.
fn fill(worker: &mut UnixStream) -> usize {
    let mut sent = 0;
    loop {
        match worker.write(&[b'x'; 16 * 1024]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return sent,
            Err(error) => panic!("it takes no more: {error}"),
        }
    }
}

/// A probe waited for the end of its connection, which some workers keep whatever they are asked.
#[test]
fn a_probe_is_answered_when_the_answer_is_whole() {
    for answer in ["Content-Length: 2\r\n\r\nno", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let (worker, spillgate) = Worker::behind(|config| {
            config.pool("exchange_time_max = \"100ms\"").pool("probe_time_max = \"1h\"")
        });
        let mut stuck = spillgate.connect();
        stuck.send(get("/stuck"));
        let mut link = worker.accept();
        link.receive_request();
        assert_eq!(stuck.receive_response().status(), 504);
        let mut probe = worker.accept();
        assert_eq!(probe.receive_request().head.line, "OPTIONS * HTTP/1.1");
        probe.send(format!("HTTP/1.1 405 No\r\n{answer}"));
        spillgate.wait_up(1);
    }
}

/// Answers once, with its process id, and listens no more.
const ANSWERS_ONCE: &str = r#"
import os, socket, time
listening = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    connection, _ = listening.accept()
    if connection.recv(10000):
        break
body = str(os.getpid())
head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
connection.sendall((head + body).encode())
listening.close()
connection.close()
time.sleep(1000)
"#;

/// Nobody replaced a worker of ours that ran, sent heartbeats even, and took no connections.
#[test]
fn a_worker_that_lives_and_listens_no_more_is_replaced() {
    let [python, isolated, _] = Program::new().command();
    let config = Config::new()
        .pool(&format!("command = {:?}", [python, isolated, "-c", ANSWERS_ONCE]))
        .pool("workers = 1\nready_time_max = \"2s\"\nqueue_wait_max = \"20s\"");
    let spillgate = Spillgate::start(config);
    let first = spillgate.ask(get("/"));
    let second = spillgate.ask(get("/"));
    assert_eq!((first.status(), second.status()), (200, 200), "{}", second.text());
    assert_ne!(first.text(), second.text());
}

/// The slot of a stream was free before its worker could notice that nobody listened any more.
#[test]
fn a_stream_that_is_given_up_keeps_its_slot_until_its_worker_ends() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(get("/events"));
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    client.receive_head();
    client.receive_chunk();
    let mut next = spillgate.connect();
    next.send(get("/next"));
    spillgate.wait_queue(1);
    client.reset();
    link.expect_end();
    worker.expect_nobody();
    link.close();
    let mut link = worker.accept();
    assert_eq!(link.receive_request().head.target(), "/next");
    link.send(ok("next"));
    assert_eq!(next.receive_response().text(), "next");
}

/// A request that was here as a whole waited for the byte budget while it had a slot, and was shed
/// although its worker had done what it asked.
#[test]
fn a_slot_does_not_wait_for_the_byte_budget() {
    let (worker, spillgate) = Worker::behind(|config| {
        let memory = "shards = 1\nbuffer_memory_max = \"1MiB\"\nbody_memory_max = \"64KiB\"";
        config.top(memory).section("[spill]\nenabled = false")
    });
    // Uploads that never end hold all that request bodies may have.
    let mut uploads: Vec<_> = (0..11).map(|_| spillgate.connect()).collect();
    for upload in &mut uploads {
        upload.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 65000\r\n\r\nx");
    }
    let held = || spillgate.metrics().sum("spillgate_buffer_memory_bytes", &[]);
    until("the budget is used up", || (held() >= 700_000).then_some(()));

    let body = vec![b'x'; 30_000];
    let mut first = spillgate.connect();
    first.send(post("/first", &body));
    let mut link = worker.accept();
    assert_eq!(link.receive_request().body.len(), body.len());
    let mut second = spillgate.connect();
    second.send(post("/second", &body));
    spillgate.wait_queue(1);
    link.send(ok("first"));
    assert_eq!(link.receive_request().body.len(), body.len());
    link.send(ok("second"));
    assert_eq!(first.receive_response().text(), "first");
    assert_eq!(second.receive_response().text(), "second");
}

/// Every hint was kept until the answer came, however many there were.
#[test]
fn hints_without_end_end_the_exchange() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(get("/hints"));
    let mut link = worker.accept();
    link.receive_request();
    let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\n\r\n", "x".repeat(1000));
    for _ in 0..2000 {
        if !link.try_send(hint.as_bytes()) {
            break;
        }
    }
    while client.receive_head().status() == 103 {}
    assert_eq!(spillgate.record("/hints")["reason"], "bad_response");
}

/// After a pause of our own, longer than a heartbeat may be late, every worker was found dead.
#[test]
fn workers_whose_hearts_beat_outlive_a_pause_of_spillgate() {
    let program = Program::new();
    let config = program
        .config(2)
        .pool("environment = { HEART = \"beats\" }")
        .pool("heartbeat_time_max = \"1s\"");
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(2);
    let before = spillgate.pids();
    let mut client = spillgate.connect();
    stop(&spillgate);
    assert!(client.is_quiet_for(Duration::from_millis(2500)));
    spillgate.signal(Signal::CONT);
    assert!(client.is_quiet_for(Duration::from_millis(1500)));
    assert_eq!(spillgate.pids(), before);
}

/// After a pause of our own, limits were enforced before what had come meanwhile was read.
#[test]
fn nobody_is_late_for_a_pause_of_spillgate() {
    let (worker, spillgate) = Worker::behind(|config| {
        let config = config.top("shards = 1").pool("exchange_time_max = \"1s\"");
        config.listener("head_time_max = \"1s\"")
    });
    let (mut asking, mut slow) = (spillgate.connect(), spillgate.connect());
    asking.send(get("/asking"));
    let mut link = worker.accept();
    link.receive_request();
    slow.send("GET /slow HTT");
    stop(&spillgate);
    link.send(ok("answer"));
    slow.send("P/1.1\r\nHost: a\r\n\r\n");
    assert!(asking.is_quiet_for(Duration::from_millis(1500)));
    spillgate.signal(Signal::CONT);
    assert_eq!(asking.receive_response().text(), "answer");
    assert_eq!(link.receive_request().head.target(), "/slow");
    link.send(ok("in time"));
    assert_eq!(slow.receive_response().text(), "in time");
}

/// Let it stand still, all its threads.
fn stop(spillgate: &Spillgate) {
    spillgate.signal(Signal::STOP);
    let threads = format!("/proc/{}/task", spillgate.pid().as_raw_nonzero());
    let stands = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
        stat.is_ok_and(|stat| stat.contains(") T "))
    };
    until("every thread stands still", || {
        std::fs::read_dir(&threads).expect("it lives").all(stands).then_some(())
    });
}

/// A 503 that is thrown away has ended for us when its head is there, and not for its worker.
#[test]
fn a_thrown_away_answer_that_is_not_whole_keeps_its_slot() {
    for refusal in ["Spillgate-Refusal: full\r\n", ""] {
        let (worker, echo) = (Worker::start(), Echo::start());
        let config = Config::of(&[worker.address(), echo.address()]).pool("balance = \"first\"");
        let spillgate = Spillgate::start(config);
        spillgate.wait_up(2);
        let mut client = spillgate.connect();
        client.send(get("/first"));
        let (mut link, _) = worker.accept_exchange();
        link.send(format!("HTTP/1.1 503 Busy\r\n{refusal}Content-Length: 9\r\n\r\nhalf"));
        assert_eq!(client.receive_response().status(), 200, "another worker has answered");
        // Nothing is sent to it but the question whether it is there again.
        for _ in 0..10 {
            assert_eq!(spillgate.ask(get("/next")).status(), 200);
        }
        let mut question = worker.accept();
        assert_eq!(question.receive_request().head.line, "OPTIONS * HTTP/1.1", "{refusal}");
        question.send("HTTP/1.1 204 Yes\r\n\r\n");
        spillgate.wait_pool("a free slot", |pool| pool["workers"][0]["in_flight"] == 0);
        assert_eq!(echo.seen().len(), 11);
    }
}

/// A write beyond the system's limit of a file's size ended the process by a signal.
#[test]
fn a_limit_of_file_sizes_is_a_full_disk() {
    let folder = TempDir::new().expect("a folder can be made");
    let spill = format!("[spill]\nfolders = [{:?}]", folder.path());
    let (echo, spillgate) =
        Echo::behind(|config| config.top("body_memory_max = \"16KiB\"").section(&spill));
    let limit = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    prlimit(Some(spillgate.pid()), Resource::Fsize, limit).expect("a child can be limited");
    let answer = spillgate.ask(post("/large", Echo::bytes(8 << 20)));
    assert_eq!(answer.status(), 503);
    assert!(answer.text().contains("spill_full"), "{}", answer.text());
    assert_eq!(spillgate.ask(post("/small", Echo::bytes(100_000))).status(), 200);
    assert_eq!(echo.targets(), ["/small"]);
}
