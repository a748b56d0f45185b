//! The stage that takes in the whole request body, before any worker hears of the request.
//!
//! A small body that came with its head stays in the scratch it was read into and is sent from
//! there; everything else goes to a buffer that is paid from the byte budget.

use std::future::poll_fn;
use std::task::{Poll, ready};

use spillgate_core::gate::Class;
use spillgate_runtime::buffer::{Buffer, BufferError};
use spillgate_runtime::http::service::{BodyFailure, BodySource};
use spillgate_runtime::scratch::{Parked, Scratch};

use crate::error::{ExchangeError, Kind};
use crate::metrics::label::{FailReason, RefuseReason, ShedReason, Stage};
use crate::pool::Pool;
use crate::shard::Shard;

/// A request body that is whole.
pub(crate) enum Received {
    /// There is none.
    Empty,
    /// It lies where it was read; must not be held over a wait.
    Lent(Scratch),
    /// It is kept.
    Stored(Box<Buffer>),
    /// It is kept beside the byte budget, which is used up, while a worker has it. There are never
    /// more of these than slots.
    Aside(Parked),
}

impl Received {
    /// Its length.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Received::Empty => 0,
            Received::Lent(scratch) => scratch.len() as u64,
            Received::Stored(buffer) => buffer.len(),
            Received::Aside(parked) => parked.bytes().len() as u64,
        }
    }

    /// Make it fit to be held over a wait for its worker, which is not to wait for the budget.
    pub(crate) fn set_aside(&mut self, shard: &Shard) {
        let Received::Lent(scratch) = self else { return };
        let mut buffer = Buffer::request(&shard.storage, Some(scratch.len() as u64));
        // It fails only with the spill folder, which is then not to be used.
        let done = buffer.try_append(scratch.bytes()).unwrap_or(0);
        *self = if done == scratch.len() {
            buffer.finish();
            Received::Stored(Box::new(buffer))
        } else {
            Received::Aside(std::mem::replace(scratch, Scratch::lend()).park())
        };
    }

    /// Make it fit to be held over a wait in the queue.
    pub(crate) async fn park(&mut self, shard: &Shard) -> Result<(), BufferError> {
        let Received::Lent(scratch) = self else { return Ok(()) };
        let mut buffer = Buffer::request(&shard.storage, Some(scratch.len() as u64));
        // Usually there is room, and the bytes are copied without waiting.
        let done = buffer.try_append(scratch.bytes())?;
        if done < scratch.len() {
            buffer.append_all(&scratch.bytes()[done..]).await?;
        }
        buffer.finish();
        *self = Received::Stored(Box::new(buffer));
        Ok(())
    }
}

/// Take in the body of a request to `pool`.
pub(crate) async fn intake(
    shard: &Shard,
    pool: &Pool,
    class: Class,
    body: &mut dyn BodySource,
) -> Result<Received, ExchangeError> {
    let length = body.length();
    if length == Some(0) {
        return Ok(Received::Empty);
    }
    let size_max = pool.settings.body_size_max.as_bytes();
    if length.is_some_and(|length| length > size_max) {
        return Err(too_large());
    }
    if let Some(whole) = body.take_whole() {
        return Ok(Received::Lent(whole));
    }
    if let Some((reason, retry_after)) = pool.shut(class) {
        // There is no place in the queue: better said before megabytes have crossed the network.
        let early = ExchangeError::turned_away(reason, retry_after);
        return Err(ExchangeError { stage: Stage::Intake, ..early });
    }
    let mut buffer = Buffer::request(&shard.storage, length);
    poll_fn(|cx| {
        loop {
            // Copied first, since the chunk cannot be borrowed over the park below.
            let chunk = match ready!(body.poll_chunk(cx)) {
                Ok(chunk) => chunk,
                Err(failure) => return Poll::Ready(Err(broken(failure))),
            };
            if chunk.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if buffer.len() + chunk.len() as u64 > size_max {
                return Poll::Ready(Err(too_large()));
            }
            match buffer.poll_append(cx, chunk) {
                Poll::Ready(Ok(count)) => body.consume(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(lost(error))),
                Poll::Pending => {
                    body.park();
                    // The client may leave while its body waits for the budget.
                    ready!(body.poll_left(cx));
                    return Poll::Ready(Err(ExchangeError::abandoned(Stage::Intake)));
                }
            }
        }
    })
    .await?;
    buffer.finish();
    Ok(Received::Stored(Box::new(buffer)))
}

fn too_large() -> ExchangeError {
    let words = "the body is longer than body_size_max";
    ExchangeError::refused(Stage::Intake, RefuseReason::BodyTooLarge, words)
}

fn broken(failure: BodyFailure) -> ExchangeError {
    match failure {
        BodyFailure::Left => ExchangeError::abandoned(Stage::Intake),
        BodyFailure::Slow => {
            let words = "the body came slower than body_rate_min";
            ExchangeError::refused(Stage::Intake, RefuseReason::BodyTooSlow, words)
        }
        BodyFailure::Bad(error) => {
            ExchangeError::refused(Stage::Intake, RefuseReason::BadChunk, error.reason())
        }
    }
}

/// What a failing buffer means for its exchange.
pub(crate) fn lost(error: BufferError) -> ExchangeError {
    let kind = match error {
        BufferError::Budget => Kind::Shed(ShedReason::ByteBudget, None),
        BufferError::SpillFull => Kind::Shed(ShedReason::SpillFull, None),
        BufferError::SpillIo(_) => Kind::Failed(FailReason::Spill),
    };
    ExchangeError { stage: Stage::Intake, kind }
}
