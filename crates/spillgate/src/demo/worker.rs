//! The demo's worker: the simplest that there can be, and with it the hardest to protect.
//!
//! One thread, one connection, one request at a time, blocking. Costs are waited for, not burnt, so
//! that four of them fit on a small machine. Absent: everything else of HTTP; what it reads comes
//! from Spillgate, which writes each request anew.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::plan::{HEAVY_COST, PAGE_COST};

/// Bytes of a page.
const PAGE_LEN: usize = 4096;
/// Longest request head, in bytes.
const HEAD_MAX: u64 = 64 * 1024;

/// Serves on `PORT` until it is stopped by a signal.
///
/// Errors: there is no `PORT`, or it cannot be listened on.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let port = std::env::var("PORT").context("PORT says where to listen, and is not set")?;
    let port: u16 = port.parse().context("PORT is no port")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("cannot listen")?;
    let id = std::env::var("SPILLGATE_WORKER_ID").unwrap_or_default();
    for stream in listener.incoming() {
        // A connection that breaks is the other side's affair: the next one is served.
        let _ = stream.and_then(|stream| serve(&stream, &id));
    }
    Ok(ExitCode::SUCCESS)
}

/// Serve one connection until it ends.
fn serve(stream: &TcpStream, id: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(request) = Request::read(&mut reader)? {
        io::copy(&mut reader.by_ref().take(request.body_len), &mut io::sink())?;
        work(request.cost());
        let mut page = format!("{} by worker {id}\n", request.path);
        page.extend(std::iter::repeat_n('.', PAGE_LEN.saturating_sub(page.len())));
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            page.len()
        );
        writer.write_all((head + &page).as_bytes())?;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a worker that is busy is what the demo is about")]
fn work(cost: Duration) {
    std::thread::sleep(cost);
}

/// What the worker wants to know of a request.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    path: String,
    body_len: u64,
}

impl Request {
    /// The next head; none at the end of the connection.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut head = reader.by_ref().take(HEAD_MAX);
        let mut line = String::new();
        head.read_line(&mut line)?;
        let Some(path) = line.split(' ').nth(1) else { return Ok(None) };
        let mut request = Request { path: path.to_owned(), body_len: 0 };
        loop {
            line.clear();
            if head.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let field = line.trim_end();
            if field.is_empty() {
                return Ok(Some(request));
            }
            let Some((name, value)) = field.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                request.body_len = value.trim().parse().map_err(io::Error::other)?;
            }
        }
    }

    fn cost(&self) -> Duration {
        if self.path.starts_with("/heavy/") { HEAVY_COST } else { PAGE_COST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_one_after_the_other() {
        let mut bytes = &b"GET /heavy/1 HTTP/1.1\r\nHost: a\r\n\r\n\
            POST /upload HTTP/1.1\r\ncontent-length: 12\r\n\r\n"[..];
        let first = Request::read(&mut bytes).expect("it is whole").expect("it is there");
        assert_eq!((first.cost(), first.body_len), (HEAVY_COST, 0));
        let second = Request::read(&mut bytes).expect("it is whole").expect("it is there");
        assert_eq!(second, Request { path: "/upload".to_owned(), body_len: 12 });
        assert_eq!(Request::read(&mut bytes).expect("the end is no error"), None);
        assert!(Request::read(&mut &b"GET / HTTP/1.1\r\nHost"[..]).is_err());
    }
}
