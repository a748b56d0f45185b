//! One question to a worker from the control side: the probe of a health check.
//!
//! Unlike an exchange it always uses a connection of its own, on whichever thread it runs, and
//! reads no further than it must to know that the worker answers.

use std::future::poll_fn;
use std::io;

use spillgate_wire::http1::{HeadLimits, ResponseIndex};

use super::settings::Endpoint;
use crate::net::stream::Stream;

/// Most bytes of an answer that are read.
const ANSWER_MAX: usize = 64 * 1024;

/// Ask for a connection, and close it.
///
/// Errors: it is not accepted. The time limit is the caller's.
pub async fn connect(endpoint: &Endpoint) -> io::Result<()> {
    Stream::connect(endpoint).await.map(drop)
}

/// Send a request without body and read the answer to its end; returns the status. `path` none asks
/// `OPTIONS *`, which every server can answer and which does nothing.
///
/// Errors: no connection, no answer, or one that breaks the rules. The time limit is the caller's.
pub async fn ask(endpoint: &Endpoint, path: Option<&str>) -> io::Result<u16> {
    let stream = Stream::connect(endpoint).await?;
    let line = path.map_or("OPTIONS *".to_owned(), |path| format!("GET {path}"));
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nUser-Agent: spillgate-probe\r\nConnection: close\r\n\r\n",
        host(endpoint)
    );
    let mut sent = 0;
    while sent < request.len() {
        sent += poll_fn(|cx| stream.poll_write(cx, &request.as_bytes()[sent..])).await?;
    }
    let limits = HeadLimits { size_max: 32 * 1024, fields_max: HeadLimits::FIELDS_MAX };
    let mut answer = vec![0; 4096];
    let mut len = 0;
    let mut status = None;
    let mut index = ResponseIndex::new();
    loop {
        if len == answer.len() {
            if status.is_some() && len >= ANSWER_MAX {
                break;
            }
            answer.resize(len * 2, 0);
        }
        let count = poll_fn(|cx| stream.poll_read(cx, &mut answer[len..])).await?;
        if count == 0 {
            break;
        }
        len += count;
        if status.is_none() {
            let parsed = index
                .parse(&answer[..len], &limits)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.reason()))?;
            status = parsed.map(|_| index.head(&answer[..len]).status());
        }
    }
    status.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn host(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Unix(_) => "localhost".to_owned(),
    }
}
