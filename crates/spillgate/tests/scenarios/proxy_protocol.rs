//! Who a connection comes from, told by a load balancer in front of us, and believed from a trusted
//! one only.

use crate::harness::{Echo, Spillgate, get};

fn behind(trusted: bool) -> (Echo, Spillgate) {
    let from = if trusted { "127.0.0.1" } else { "192.0.2.0/24" };
    let trust = format!("trusted_from = [{from:?}]");
    Echo::behind(|config| config.top(&trust).listener("proxy_protocol = true"))
}

/// A version 2 header with this command, family and block.
fn version_2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).expect("a short block").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, block].concat()
}

#[test]
fn a_trusted_balancer_tells_the_client() {
    let (echo, spillgate) = behind(true);
    let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80];
    let mut v6 = [0u8; 36];
    (v6[0], v6[1], v6[2], v6[3], v6[15]) = (0x20, 0x01, 0x0d, 0xb8, 1);
    let with_extension = [&v4[..], &[0x04, 0, 3, 1, 2, 3]].concat();
    let cases: [(Vec<u8>, &str); 7] = [
        (b"PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\r\n".to_vec(), "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::1 ::1 4660 80\r\n".to_vec(), "2001:db8::1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (version_2(0x21, 0x11, &v4), "192.0.2.1"),
        (version_2(0x21, 0x21, &v6), "2001:db8::1"),
        (version_2(0x21, 0x11, &with_extension), "192.0.2.1"),
        (version_2(0x20, 0x00, b""), "127.0.0.1"),
    ];
    for (index, (header, client)) in cases.into_iter().enumerate() {
        let target = format!("/{index}");
        let response = spillgate.ask([&header[..], get(&target).as_bytes()].concat());
        assert_eq!(response.status(), 200, "{client}");
        assert_eq!(echo.seen()[index].get("x-forwarded-for"), Some(client));
        assert_eq!(spillgate.record(&target)["client"], client);
    }
}

#[test]
fn the_header_may_come_in_pieces() {
    let (echo, spillgate) = behind(true);
    let mut client = spillgate.connect();
    for piece in ["PROXY TCP4 192.0.2.1 ", "10.0.0.1 1 2\r", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"]
    {
        client.send(piece);
    }
    assert_eq!(client.receive_response().status(), 200);
    assert_eq!(echo.seen()[0].get("x-forwarded-for"), Some("192.0.2.1"));
}

#[test]
fn without_a_sound_header_the_connection_ends() {
    let (echo, spillgate) = behind(true);
    let broken: [Vec<u8>; 6] = [
        Vec::new(),
        b"PROXY TCP4 192.0.2.1 10.0.0.1 1\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.01 10.0.0.1 1 2\r\n".to_vec(),
        [b"PROXY UNKNOWN ", &[b'x'; 200][..]].concat(),
        version_2(0x31, 0x11, &[0; 12]),
        version_2(0x21, 0x11, &[0; 4]),
    ];
    for header in broken {
        let mut client = spillgate.connect();
        client.send([&header[..], get("/").as_bytes()].concat());
        client.expect_gone();
    }
    assert!(echo.seen().is_empty());
}

#[test]
fn a_stranger_is_not_believed_and_not_served() {
    let (echo, spillgate) = behind(false);
    let mut client = spillgate.connect();
    client.send(format!("PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n{}", get("/")));
    client.expect_gone();
    assert!(echo.seen().is_empty());
}

#[test]
fn where_no_header_is_asked_for_it_is_a_broken_request() {
    let (echo, spillgate) = Echo::behind(|config| config.top("trusted_from = [\"127.0.0.1\"]"));
    let mut client = spillgate.connect();
    client.send(format!("PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n{}", get("/")));
    assert_eq!(client.receive_response().status(), 400);
    client.expect_end();
    assert!(echo.seen().is_empty());
}
