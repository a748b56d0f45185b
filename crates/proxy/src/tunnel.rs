//! After a worker has agreed to another protocol: bytes both ways until either side ends.
//!
//! The permit is held for as long as the tunnel lasts, and that is visible. What a tunnel carries
//! is nobody's business here.

use std::future::poll_fn;
use std::task::{Context, Poll};

use spillgate_runtime::http::client::WorkerConnection;
use spillgate_runtime::http::service::{BodySource, Length, Responder};

use crate::collect::Collected;
use crate::dispatch::is_for_client;
use crate::error::ExchangeError;
use crate::metrics::label::Stage;

/// Bytes that one tunnel moves before the others of its shard get their turn.
const TURN_MAX: usize = 512 * 1024;

/// Pass the worker's 101 on, then everything else.
pub(crate) async fn tunnel(
    collected: &mut Collected<'_>,
    body: &mut dyn BodySource,
    responder: &mut dyn Responder,
) -> Result<(), ExchangeError> {
    let answer = collected.head.get();
    responder.begin(answer.status(), answer.reason(), Length::Absent);
    responder.fields(answer.fields(), is_for_client);
    responder.switch(answer.upgrade().unwrap_or(b"websocket"));
    body.switch();
    let outcome = match collected.tunnel() {
        Some(connection) => {
            let mut ends = Ends { connection, body, responder, client_done: false };
            poll_fn(|cx| ends.poll(cx)).await
        }
        None => Ok(()),
    };
    collected.give_up().await;
    outcome
}

struct Ends<'t> {
    connection: &'t mut WorkerConnection,
    body: &'t mut dyn BodySource,
    responder: &'t mut dyn Responder,
    client_done: bool,
}

impl Ends<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        let mut turn = 0;
        loop {
            let mut moved = 0;
            match self.poll_to_client(cx) {
                Poll::Ready(Ok(0)) => return self.poll_end(cx),
                Poll::Ready(Ok(count)) => moved += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            if let Poll::Ready(count) = self.poll_to_worker(cx) {
                moved += count;
            }
            turn += moved;
            if moved == 0 {
                return Poll::Pending;
            }
            if turn > TURN_MAX {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        let end = self.responder.poll_finish(cx);
        end.map_err(|_| ExchangeError::abandoned(Stage::Deliver))
    }

    /// 0: the worker has ended.
    fn poll_to_client(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ExchangeError>> {
        // The head goes out before the worker says anything more.
        let chunk = match self.connection.poll_chunk(cx) {
            Poll::Ready(Ok(chunk)) => chunk,
            Poll::Ready(Err(_)) => return Poll::Ready(Ok(0)),
            Poll::Pending => {
                let gone = self.responder.poll_idle(cx);
                return gone.map(|_| Err(ExchangeError::abandoned(Stage::Deliver)));
            }
        };
        if chunk.is_empty() {
            return Poll::Ready(Ok(0));
        }
        match self.responder.poll_send(cx, chunk, false) {
            Poll::Ready(Ok(count)) => {
                self.connection.consume(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(ExchangeError::abandoned(Stage::Deliver))),
            Poll::Pending => {
                self.connection.park();
                Poll::Pending
            }
        }
    }

    /// How many bytes went to the worker.
    fn poll_to_worker(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.client_done {
            return Poll::Pending;
        }
        let chunk = match self.body.poll_chunk(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(chunk)) if !chunk.is_empty() => chunk,
            // The client says no more; the worker may.
            Poll::Ready(_) => {
                self.client_done = true;
                self.connection.shutdown_write();
                return Poll::Pending;
            }
        };
        match self.connection.poll_send(cx, b"", chunk) {
            Poll::Ready(Ok(count)) => {
                self.body.consume(count);
                Poll::Ready(count)
            }
            // Reading from the worker will tell.
            Poll::Ready(Err(_)) => {
                self.client_done = true;
                Poll::Pending
            }
            Poll::Pending => {
                self.body.park();
                Poll::Pending
            }
        }
    }
}
