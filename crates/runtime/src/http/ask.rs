//! One question to a worker from the control side: the probe of a health check.
//!
//! Unlike an exchange it always uses a connection of its own, on whichever thread it runs, and
//! reads no further than it must to know that the worker answers.

use std::future::poll_fn;
use std::io;

use spillgate_wire::http1::{BodyDecoder, HeadLimits, Method, ResponseIndex};

use super::settings::Endpoint;
use crate::net::stream::Stream;

/// Largest head of an answer.
const HEAD_MAX: usize = 32 * 1024;
/// Most bytes of its body that are read.
const BODY_MAX: usize = 64 * 1024;

/// A connection on which nothing was asked yet.
#[derive(Debug)]
pub struct Opened(Stream);

/// Connect to a worker.
///
/// Errors: the connection is not accepted. The time limit is the caller's.
pub async fn open(endpoint: &Endpoint) -> io::Result<Opened> {
    Stream::connect(endpoint).await.map(Opened)
}

/// Send a request without body and read the answer to its end; returns the status. `path` none asks
/// `OPTIONS *`, which every server can answer and which does nothing. `endpoint` is where `opened`
/// leads.
///
/// Errors: the connection ended before the answer, or the answer breaks the rules of HTTP. The time
/// limit is the caller's.
pub async fn ask(opened: Opened, endpoint: &Endpoint, path: Option<&str>) -> io::Result<u16> {
    exchange(&opened.0, endpoint, path).await
}

async fn exchange(stream: &Stream, endpoint: &Endpoint, path: Option<&str>) -> io::Result<u16> {
    let line = path.map_or("OPTIONS *".to_owned(), |path| format!("GET {path}"));
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nUser-Agent: spillgate-probe\r\nConnection: close\r\n\r\n",
        host(endpoint)
    );
    let mut sent = 0;
    while sent < request.len() {
        sent += poll_fn(|cx| stream.poll_write(cx, &request.as_bytes()[sent..])).await?;
    }
    receive(stream, if path.is_some() { Method::Get } else { Method::Options }).await
}

/// Read one answer and say its status. It ends where its framing says so: some workers keep the
/// connection although they were asked not to.
async fn receive(stream: &Stream, method: Method) -> io::Result<u16> {
    let limits = HeadLimits { size_max: HEAD_MAX, fields_max: HeadLimits::FIELDS_MAX };
    let mut answer = Vec::new();
    let mut index = ResponseIndex::new();
    let (status, framing, head_len) = loop {
        if read_more(stream, &mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(len) = index.parse(&answer, &limits).map_err(|error| bad(error.reason()))? {
            let head = index.head(&answer);
            break (head.status(), head.framing(method), len);
        }
    };
    answer.drain(..head_len);
    let mut body = BodyDecoder::new(framing);
    let mut body_len = 0;
    loop {
        let decoded = body.decode(&answer).map_err(|error| bad(error.reason()))?;
        answer.drain(..decoded.consumed);
        body_len += decoded.consumed;
        if decoded.done || body_len >= BODY_MAX {
            return Ok(status);
        }
        // One that ends too early has answered all the same.
        if decoded.consumed == 0 && read_more(stream, &mut answer).await? == 0 {
            return Ok(status);
        }
    }
}

async fn read_more(stream: &Stream, answer: &mut Vec<u8>) -> io::Result<usize> {
    let mut bytes = [0; 4096];
    let count = poll_fn(|cx| stream.poll_read(cx, &mut bytes)).await?;
    answer.extend_from_slice(&bytes[..count]);
    Ok(count)
}

fn bad(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn host(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Unix(_) => "localhost".to_owned(),
    }
}
