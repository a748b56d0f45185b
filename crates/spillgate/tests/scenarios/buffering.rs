//! A worker meets a whole request from a fast peer, and is free once it has answered, however slow
//! the client.

use tempfile::TempDir;

use crate::harness::{Config, Echo, Link, Spillgate, Worker, get, ok, post, until};

#[test]
fn a_worker_sees_the_first_byte_after_the_clients_last() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let heads = ["Content-Length: 9", "Transfer-Encoding: chunked"];
    let pieces = [["abc", "def", "ghi"], ["3\r\nabc\r\n", "6\r\ndefghi", "\r\n0\r\n\r\n"]];
    for (head, pieces) in heads.iter().zip(pieces) {
        let mut client = spillgate.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{head}\r\n\r\n"));
        for piece in pieces {
            // That another exchange passes meanwhile shows that the piece before was taken in.
            let mut other = spillgate.connect();
            other.send(get("/other"));
            let mut link = worker.accept();
            assert_eq!(link.receive_request().head.target(), "/other");
            link.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            assert_eq!(other.receive_response().status(), 204);
            client.send(piece);
        }
        let mut link = worker.accept();
        let request = link.receive_request();
        assert_eq!((request.head.target(), request.text().as_str()), ("/", "abcdefghi"));
        link.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.receive_response().status(), 204);
    }
}

#[test]
fn slow_uploads_take_no_slot() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let uploads: Vec<Link> = (0..50)
        .map(|_| {
            let mut client = spillgate.connect();
            client.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
            client.send(vec![b'x'; 299_999]);
            client
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(spillgate.ask(get("/quick")).status(), 200);
    }
    assert_eq!(echo.targets(), ["/quick"; 10]);
    for mut client in uploads {
        client.send("x");
        assert_eq!(client.receive_response().status(), 200);
    }
    assert_eq!(echo.most_inside(), 1);
    assert!(echo.seen()[10..].iter().all(|seen| seen.body.len() == 300_000));
}

#[test]
fn an_answer_frees_its_slot_although_the_client_reads_nothing() {
    for length in [4 << 20, 24 << 20] {
        let (echo, spillgate) =
            Echo::behind(|config| config.top("shards = 1").listener("send_buffer_max = \"64KiB\""));
        let mut slow = spillgate.connect();
        let target = format!("/bytes/{length}");
        slow.send(get(&target));
        slow.receive_head();
        assert_eq!(spillgate.ask(get("/quick")).status(), 200);
        assert_eq!(echo.targets(), [target.as_str(), "/quick"]);
        let is_over = spillgate.records().iter().any(|record| record["target"] == target.as_str());
        assert!(!is_over, "the slow one was still being answered");
        assert!(slow.receive(length) == Echo::bytes(length));
        assert_eq!(spillgate.record(&target)["end"], "success");
    }
}

#[test]
fn large_bodies_spill_and_arrive_whole_both_ways() {
    let folder = TempDir::new().expect("a folder can be made");
    let spill = format!("[spill]\nfolders = [{:?}]", folder.path());
    let (echo, spillgate) = Echo::behind(|config| {
        let small = config.top("body_memory_max = \"16KiB\"\nbuffer_memory_max = \"1MiB\"");
        small.section(&spill).listener("send_buffer_max = \"64KiB\"")
    });
    let body = Echo::bytes(3_000_000);
    assert_eq!(spillgate.ask(post("/known", &body)).status(), 200);
    let mut request =
        b"PUT /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(70_000) {
        request.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend([chunk, b"\r\n"].concat());
    }
    request.extend(b"0\r\n\r\n");
    assert_eq!(spillgate.ask(request).status(), 200);
    for seen in echo.seen() {
        assert!(seen.body == body, "{}", seen.head.target());
    }

    let mut slow = spillgate.connect();
    slow.send(get("/bytes/9000000"));
    slow.receive_head();
    assert_eq!(spillgate.ask(get("/quick")).status(), 200);
    assert!(slow.receive(9_000_000) == Echo::bytes(9_000_000));

    let metrics = spillgate.metrics();
    assert!(metrics.sum("spillgate_spilled_bodies_total", &[]) >= 3);
    assert!(metrics.sum("spillgate_spilled_bytes_total", &[]) > 10_000_000);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder is there").count(), 0);
}

#[test]
fn many_spilled_bodies_at_once_do_not_mix() {
    let folder = TempDir::new().expect("a folder can be made");
    let spill = format!("[spill]\nfolders = [{:?}]", folder.path());
    let (echo, spillgate) = Echo::behind(|config| {
        config.top("body_memory_max = \"16KiB\"").section(&spill).pool("slots = 4")
    });
    let mut clients: Vec<Link> = (0..12).map(|_| spillgate.connect()).collect();
    let body = |number: usize| vec![b'a' + number as u8; 400_000 + number];
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(post(&format!("/{number}"), body(number)));
    }
    for client in &mut clients {
        assert_eq!(client.receive_response().status(), 200);
    }
    for seen in echo.seen() {
        let number: usize = seen.head.target()[1..].parse().expect("a number");
        assert!(seen.body == body(number), "{number}");
    }
}

#[test]
fn a_body_that_waits_in_the_queue_is_kept() {
    let echo = Echo::holding();
    let spillgate = Spillgate::start(Config::of(&[echo.address()]));
    let mut first = spillgate.connect();
    first.send(get("/first"));
    echo.wait_inside(1);
    let sizes = [1, 1000, 20_000, 70_000, 300_000];
    let mut waiting: Vec<Link> = sizes
        .iter()
        .map(|size| {
            let mut client = spillgate.connect();
            client.send(post(&format!("/{size}"), Echo::bytes(*size)));
            client
        })
        .collect();
    spillgate.wait_queue(sizes.len());
    echo.let_all_go();
    for client in &mut waiting {
        assert_eq!(client.receive_response().status(), 200);
    }
    for seen in &echo.seen()[1..] {
        let size: usize = seen.head.target()[1..].parse().expect("a number");
        assert!(seen.body == Echo::bytes(size), "{size}");
    }
}

#[test]
fn an_answer_larger_than_what_is_held_back_begins_to_go_out() {
    let hold = |config: Config| config.pool("respond_hold_wait = \"1m\"");
    for framing in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
        let (worker, spillgate) = Worker::behind(hold);
        let mut client = spillgate.connect();
        client.send(get("/"));
        let mut link = worker.accept();
        link.receive_request();
        link.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        if framing.contains("chunked") {
            link.send("f4240\r\n");
        }
        let body = Echo::bytes(1_000_000);
        link.send(&body[..100_000]);
        // The worker says no more until the client has seen the beginning.
        let head = client.receive_head();
        assert_eq!(head.status(), 200);
        link.send(&body[100_000..]);
        if framing.contains("chunked") {
            link.send("\r\n0\r\n\r\n");
            let mut received = Vec::new();
            loop {
                let chunk = client.receive_chunk();
                if chunk.is_empty() {
                    break;
                }
                received.extend(chunk);
            }
            assert!(received == body);
        } else {
            assert!(client.receive(body.len()) == body);
        }
    }
}

#[test]
fn an_answer_too_long_to_be_buffered_is_relayed() {
    let (_echo, spillgate) = Echo::behind(|config| config.pool("response_size_max = \"64KiB\""));
    assert!(spillgate.ask(get("/bytes/5000000")).body == Echo::bytes(5_000_000));
    assert_eq!(spillgate.record("/bytes/5000000")["relay"], "response_size");
    assert!(spillgate.ask(get("/bytes/65536")).body == Echo::bytes(65_536));
    assert!(spillgate.record("/bytes/65536")["relay"].is_null());

    let (worker, spillgate) = Worker::behind(|config| config.pool("response_size_max = \"64KiB\""));
    let mut client = spillgate.connect();
    client.send(get("/chunked"));
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut body = Vec::new();
    for number in 0..100u8 {
        link.send("2710\r\n");
        link.send([number; 10_000]);
        link.send("\r\n");
        body.extend([number; 10_000]);
    }
    link.send("0\r\nX-Sum: 1\r\n\r\n");
    let response = client.receive_response();
    assert!(response.body == body);
    assert_eq!(response.trailers.len(), 1);
    assert_eq!(spillgate.record("/chunked")["relay"], "response_size");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer_does_not_stop_the_worker() {
    let (worker, spillgate) = Worker::behind(|config| config.top("shards = 1"));
    let mut client = spillgate.connect();
    client.send(get("/left"));
    let mut link = worker.accept();
    link.receive_request();
    link.send("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n");
    link.send(vec![b'x'; 200_000]);
    client.receive_head();
    client.reset();
    let mut next = spillgate.connect();
    next.send(get("/next"));
    // The worker is still at it, and gets no second request meanwhile.
    link.send(vec![b'x'; 8_800_000]);
    assert_eq!(link.receive_request().head.target(), "/next");
    link.send(ok("next"));
    assert_eq!(next.receive_response().text(), "next");
    worker.expect_nobody();
    assert_eq!(spillgate.record("/left")["end"], "abandoned");
    let closed = ("spillgate_connections_closed_total", [("reason", "abandoned")]);
    until("the end of its connection is counted", || {
        (spillgate.metrics().sum(closed.0, &closed.1) == 1).then_some(())
    });
}

/// A POST whose body comes in chunks of unknown number.
fn chunked(target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut request = head.into_bytes();
    for chunk in body.chunks(10_000) {
        request.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend([chunk, b"\r\n"].concat());
    }
    request.extend(b"0\r\n\r\n");
    request
}

#[test]
fn with_memory_for_one_body_all_finish_in_turn() {
    let (echo, spillgate) = Echo::behind(|config| {
        let memory = "buffer_memory_max = \"1MiB\"\nbody_memory_max = \"512KiB\"";
        config.top(memory).section("[spill]\nenabled = false")
    });
    let body = Echo::bytes(500_000);
    let clients: Vec<Link> = (0..10).map(|_| spillgate.connect()).collect();
    // All send at once, known and unknown lengths mixed.
    let threads: Vec<_> = (0..)
        .zip(clients)
        .map(|(number, mut client)| {
            let request = match number % 2 {
                0 => post("/known", &body),
                _ => chunked("/unknown", &body),
            };
            std::thread::spawn(move || {
                client.send(request);
                client.receive_response().status()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("a client ends"), 200);
    }
    assert!(echo.seen().iter().all(|seen| seen.body == body));
    assert_eq!(echo.seen().len(), 10);
}

#[test]
fn a_full_spill_folder_sheds_requests_and_relays_answers() {
    let folder = TempDir::new().expect("a folder can be made");
    let spill = format!("[spill]\nfolders = [{:?}]\nsize_max = \"1MiB\"", folder.path());
    let (echo, spillgate) = Echo::behind(|config| {
        let small = config.top("body_memory_max = \"16KiB\"\nbody_wait_max = \"100ms\"");
        small.section(&spill).listener("send_buffer_max = \"64KiB\"")
    });
    for request in
        [post("/known", Echo::bytes(3 << 20)), chunked("/unknown", &Echo::bytes(3 << 20))]
    {
        let mut client = spillgate.connect();
        client.send(request);
        let response = client.receive_response();
        assert_eq!((response.status(), response.get("connection")), (503, Some("close")));
        assert!(response.text().contains("spill_full"), "{}", response.text());
        client.expect_end();
    }
    assert!(echo.seen().is_empty());
    assert!(spillgate.ask(get("/bytes/9000000")).body == Echo::bytes(9_000_000));
    assert_eq!(spillgate.ask(post("/after", Echo::bytes(500_000))).status(), 200);
}

#[test]
fn uploads_that_each_fit_a_small_spill_folder_do_not_shed_one_another() {
    let folder = TempDir::new().expect("a folder can be made");
    let spill = format!("[spill]\nfolders = [{:?}]\nsize_max = \"1MiB\"", folder.path());
    let (echo, spillgate) = Echo::behind(|config| {
        config.top("body_memory_max = \"16KiB\"\nbody_wait_max = \"1m\"").section(&spill)
    });
    let body = Echo::bytes(700_000);
    let parts = |request: Vec<u8>| (request[..400_000].to_vec(), request[400_000..].to_vec());

    // Of known length: the second waits until the first is gone.
    let mut known: Vec<Link> = (0..2).map(|_| spillgate.connect()).collect();
    let (begin, rest) = parts(post("/known", &body));
    known.iter_mut().for_each(|client| client.send(&begin));
    until("one of them waits", || {
        (spillgate.metrics().sum("spillgate_budget_waiting", &[]) == 1).then_some(())
    });
    known.iter_mut().for_each(|client| client.send(&rest));
    for client in &mut known {
        assert_eq!(client.receive_response().status(), 200);
    }

    // Of unknown length: they fill the folder between them, and then the younger gives way.
    let mut unknown: Vec<Link> = (0..2).map(|_| spillgate.connect()).collect();
    let (begin, rest) = parts(chunked("/unknown", &body));
    for (number, client) in (0..).zip(&mut unknown) {
        client.send(&begin);
        until("it is in the folder", || {
            let held = spillgate.metrics().sum("spillgate_spill_disk_bytes", &[]);
            (held >= (number + 1) * 512 * 1024).then_some(())
        });
    }
    unknown[0].send(&rest);
    unknown[1].try_send(&rest);
    assert_eq!(unknown[0].receive_response().status(), 200);
    let shed = unknown[1].receive_response();
    assert_eq!(shed.status(), 503, "{}", shed.text());
    assert!(shed.text().contains("spill_full"), "{}", shed.text());
    assert!(echo.seen().iter().all(|seen| seen.body == body));
    assert_eq!(echo.targets(), ["/known", "/known", "/unknown"]);
}
