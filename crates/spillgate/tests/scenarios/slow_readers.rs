//! Clients that read slowly: what the kernel holds for them is bounded, counted and given back.

use std::fs;
use std::net::SocketAddr;

use tempfile::TempDir;

use crate::harness::{Echo, Link, Spillgate, get, until};

/// Far more than the kernel takes for one client by its own tuning (up to 4 MiB).
const LENGTH: usize = 8 << 20;

/// The mark, and one segment of the largest kind that is queued before the mark is looked at, twice
/// over for the kernel's bookkeeping.
const HELD_MAX: u64 = 2 * (32 + 64) * 1024;

/// Bytes that the kernel holds for `client`, by its own word.
fn queued(spillgate: &Spillgate, client: SocketAddr) -> u64 {
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel tells its sockets");
    let ours = format!(":{:04X}", spillgate.address().port());
    let theirs = format!(":{:04X}", client.port());
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words[1].ends_with(&ours) && words[2].ends_with(&theirs))
        .and_then(|words| u64::from_str_radix(words[4].split(':').next()?, 16).ok())
        .expect("the connection is there")
}

fn counted(spillgate: &Spillgate) -> u64 {
    spillgate.metrics().sum("spillgate_client_socket_bytes", &[])
}

#[test]
fn the_kernel_holds_little_for_a_slow_reader_and_it_is_counted() {
    let (echo, spillgate) = Echo::behind(|config| config.top("shards = 1"));
    let mut slow = spillgate.connect();
    slow.receive_buffer(16 * 1024);
    slow.send(get(&format!("/bytes/{LENGTH}")));
    slow.receive_head();
    assert_eq!(spillgate.ask(get("/quick")).status(), 200);
    assert_eq!(echo.most_inside(), 1, "the slow one holds no slot");
    let held = until("something is counted", || Some(counted(&spillgate)).filter(|held| *held > 0));
    let queued = queued(&spillgate, slow.address());
    assert!((1..=HELD_MAX).contains(&queued), "the kernel holds {queued}");
    assert!((queued..=HELD_MAX).contains(&held), "{held} counted of {queued}");
    let status = spillgate.status();
    assert!(status["budget"]["sockets"].as_u64() > Some(0), "{status}");

    assert!(slow.receive(LENGTH) == Echo::bytes(LENGTH));
    until("all is given back", || (counted(&spillgate) == 0).then_some(()));
    // Its connection is as good as new.
    assert_eq!(slow.ask(get("/again")).status(), 200);
}

#[test]
fn what_a_slow_reader_held_is_given_back_when_it_leaves() {
    let (_echo, spillgate) = Echo::behind(|config| config.top("shards = 1"));
    let mut slow = spillgate.connect();
    slow.send(get(&format!("/bytes/{LENGTH}")));
    slow.receive_head();
    until("something is counted", || (counted(&spillgate) > 0).then_some(()));
    slow.reset();
    until("all is given back", || (counted(&spillgate) == 0).then_some(()));
}

#[test]
fn a_unix_socket_holds_as_little() {
    let folder = TempDir::new().expect("a folder can be made");
    let socket = folder.path().join("listener.sock");
    let section = format!("[listener.unix]\naddress = \"unix:{}\"", socket.display());
    let (_echo, spillgate) = Echo::behind(|config| config.top("shards = 1").section(&section));
    let mut slow = Link::connect_unix(&socket).expect("somebody listens");
    slow.send(get(&format!("/bytes/{LENGTH}")));
    slow.receive_head();
    let waiting = until("the kernel takes no more", || {
        let (waiting, held) = (slow.waiting(), counted(&spillgate));
        assert!(held <= HELD_MAX, "{held} counted");
        (waiting > 0 && held >= waiting).then_some(waiting)
    });
    assert!(waiting <= 32 * 1024, "{waiting} wait for the client");
    assert!(slow.receive(LENGTH) == Echo::bytes(LENGTH));
    until("all is given back", || (counted(&spillgate) == 0).then_some(()));
}
