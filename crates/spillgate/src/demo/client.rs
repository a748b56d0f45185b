//! One client: a connection, a request, an answer.
//!
//! Speaks with the same HTTP/1 code as Spillgate does with its workers. Absent: keeping connections
//! (each request of the crowd is another client), and judging answers (`tally`).

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use spillgate_runtime::clock;
use spillgate_runtime::http::client::{WorkerConnection, WorkerFailure};
use spillgate_runtime::http::settings::Endpoint;
use spillgate_wire::http1::{HeadLimits, Method};

/// Largest head of an answer, in bytes.
const HEAD_SIZE_MAX: usize = 32 * 1024;

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// Its status.
    pub(super) status: u16,
    /// The reason of `Proxy-Status`: it was Spillgate that replied.
    pub(super) reason: Option<String>,
    /// Its body.
    pub(super) body: Vec<u8>,
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// No connection.
    Connect,
    /// The connection ended before the answer was whole.
    Broken,
    /// It took longer than the client has patience.
    Late,
    /// What came was no HTTP.
    Bad,
}

impl Lost {
    /// In one word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Lost::Connect => "no_connection",
            Lost::Broken => "broken_off",
            Lost::Late => "no_answer",
            Lost::Bad => "bad_answer",
        }
    }
}

impl From<WorkerFailure> for Lost {
    fn from(failure: WorkerFailure) -> Lost {
        match failure {
            WorkerFailure::Refused(_)
            | WorkerFailure::ConnectTimeout
            | WorkerFailure::Ourselves(_) => Lost::Connect,
            WorkerFailure::Lost => Lost::Broken,
            WorkerFailure::Bad(_) => Lost::Bad,
            WorkerFailure::Timeout => Lost::Late,
        }
    }
}

/// Sends a whole request and reads its answer, which must have come within `patience`.
pub(super) async fn ask(to: &Endpoint, request: &[u8], patience: Duration) -> Result<Answer, Lost> {
    let mut client = Client::connect(to, patience).await?;
    client.send(request).await?;
    client.answer().await
}

/// A client with its connection.
pub(super) struct Client {
    connection: WorkerConnection,
}

impl Client {
    /// Connects; everything together must be over within `patience`.
    pub(super) async fn connect(to: &Endpoint, patience: Duration) -> Result<Client, Lost> {
        let end = clock::now() + patience;
        let connection = WorkerConnection::connect(to, patience).await?;
        connection.deadline().set(end);
        Ok(Client { connection })
    }

    /// Sends bytes of the request.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        let mut sent = 0;
        while sent < bytes.len() {
            let count = poll_fn(|cx| self.connection.poll_send(cx, &bytes[sent..], b"")).await;
            sent += count.map_err(|_| Lost::Broken)?;
        }
        Ok(())
    }

    /// Has the other side said something already?
    pub(super) async fn is_answered(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.connection.poll_spoke(cx).is_ready())).await
    }

    /// Reads the answer to its end.
    pub(super) async fn answer(&mut self) -> Result<Answer, Lost> {
        let limits = HeadLimits { size_max: HEAD_SIZE_MAX, fields_max: HeadLimits::FIELDS_MAX };
        let connection = &mut self.connection;
        let (status, reason) = loop {
            let head = poll_fn(|cx| connection.poll_head(cx, Method::Get, &limits)).await?;
            let head = head.get();
            if head.status() >= 200 {
                break (head.status(), head.find(b"proxy-status").and_then(reason));
            }
        };
        let mut body = Vec::new();
        loop {
            let count = poll_fn(|cx| {
                connection.poll_chunk(cx).map_ok(|chunk| {
                    body.extend_from_slice(chunk);
                    chunk.len()
                })
            })
            .await?;
            if count == 0 {
                return Ok(Answer { status, reason, body });
            }
            connection.consume(count);
        }
    }
}

/// What stands in `details="…"` of a `Proxy-Status` field.
fn reason(field: &[u8]) -> Option<String> {
    let field = std::str::from_utf8(field).ok()?;
    let (_, rest) = field.split_once("details=\"")?;
    let (reason, _) = rest.split_once('"')?;
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_read_from_the_field() {
        let check = |field: &str, wanted: Option<&str>| {
            assert_eq!(reason(field.as_bytes()).as_deref(), wanted, "{field}");
        };
        let whole = "spillgate; error=connection_limit_reached; details=\"queue_full\"";
        check(whole, Some("queue_full"));
        check("spillgate; error=http_request_error", None);
        check("spillgate; details=\"open", None);
    }
}
