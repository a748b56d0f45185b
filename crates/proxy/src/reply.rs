//! The replies that we make ourselves: the one table from an end to a status.
//!
//! Each carries `Proxy-Status` (RFC 9209) with the exact reason, and `Retry-After` where waiting
//! could help, and `Spillgate-Retry: no` where another try would not. No other file knows a status
//! code of ours.

use std::future::poll_fn;

use spillgate_core::time::Duration;
use spillgate_runtime::http::service::{Length, RefusalKind, Responder, SendFailure};
use spillgate_runtime::metrics::LabelSet;
use spillgate_wire::attempt;
use spillgate_wire::digits;
use spillgate_wire::http1::{HeadError, RequestError, encode};

use crate::error::{ExchangeError, Kind};
use crate::metrics::label::{FailReason, RefuseReason, ShedReason, Stage};
use crate::settings::ReplySettings;

/// What is replied to one kind of end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    status: u16,
    /// The error type of RFC 9209 section 2.3.
    token: &'static str,
    /// For a person.
    words: &'static str,
}

const fn row(status: u16, token: &'static str, words: &'static str) -> Row {
    Row { status, token, words }
}

fn shed_row(reason: ShedReason) -> Row {
    match reason {
        ShedReason::QueueFull => {
            row(503, "connection_limit_reached", "queue_len_max exchanges wait already")
        }
        ShedReason::QueueTimeout => {
            row(503, "connection_limit_reached", "waited for queue_wait_max without a free slot")
        }
        ShedReason::DeadlineUnmeetable => {
            row(503, "connection_limit_reached", "could not be answered in time")
        }
        ShedReason::Overload => {
            row(503, "connection_limit_reached", "more comes than the workers can do")
        }
        ShedReason::Displaced => {
            row(503, "connection_limit_reached", "a more important exchange took its place")
        }
        ShedReason::NoWorker => row(503, "destination_unavailable", "no worker can serve now"),
        ShedReason::StartHoldExpired => {
            row(503, "destination_unavailable", "no worker became ready within start_hold_max")
        }
        ShedReason::ByteBudget => row(
            503,
            "proxy_internal_response",
            "waited for buffer memory longer than body_wait_max",
        ),
        ShedReason::SpillFull => row(
            503,
            "proxy_internal_response",
            "the body is too large for memory, and the spill folders are full",
        ),
        ShedReason::Draining => row(503, "proxy_internal_response", "stopping"),
    }
}

fn fail_row(reason: FailReason) -> Row {
    match reason {
        FailReason::WorkerFailed => row(502, "connection_terminated", "the worker broke off"),
        FailReason::WorkerTimeout => {
            row(504, "http_response_timeout", "the worker did not answer in time")
        }
        FailReason::RetryBudget => row(
            502,
            "connection_terminated",
            "the worker broke off, and the retry budget is used up",
        ),
        FailReason::BadResponse => {
            row(502, "http_protocol_error", "the worker's answer breaks a rule of http")
        }
        FailReason::ResponseHeadTooLarge => row(
            502,
            "http_response_header_section_size",
            "the head of the worker's answer is longer than head_size_max",
        ),
        FailReason::ResponseBroken => {
            row(502, "http_response_incomplete", "the worker broke its answer off")
        }
        FailReason::Spill => row(500, "proxy_internal_error", "the spill folder failed"),
        FailReason::Internal => row(500, "proxy_internal_error", "a fault of our own"),
    }
}

fn refuse_row(reason: RefuseReason, words: &'static str) -> Row {
    let (status, token) = match reason {
        RefuseReason::BadHead | RefuseReason::BadChunk | RefuseReason::PathAmbiguous => {
            (400, "http_request_error")
        }
        RefuseReason::HeadTooLarge | RefuseReason::HeadFieldsTooMany => (431, "http_request_error"),
        RefuseReason::HeadTimeout | RefuseReason::BodyTooSlow => (408, "http_request_error"),
        RefuseReason::BodyTooLarge => (413, "http_request_error"),
        RefuseReason::NoRoute => (404, "destination_not_found"),
        RefuseReason::Connect => (501, "http_request_denied"),
        RefuseReason::Version => (505, "http_request_error"),
        RefuseReason::Expectation => (417, "http_request_error"),
    };
    row(status, token, words)
}

/// The end of something that never became a request.
pub(crate) fn refusal(kind: &RefusalKind) -> ExchangeError {
    let (reason, words) = match kind {
        RefusalKind::Slow => (RefuseReason::HeadTimeout, "the head took longer than head_time_max"),
        RefusalKind::Bad(error) => (refuse_reason(error), error.reason()),
    };
    ExchangeError::refused(Stage::Route, reason, words)
}

fn refuse_reason(error: &RequestError) -> RefuseReason {
    match error {
        RequestError::Head(HeadError::TooLarge) | RequestError::TargetTooLong => {
            RefuseReason::HeadTooLarge
        }
        RequestError::Head(HeadError::TooManyFields) => RefuseReason::HeadFieldsTooMany,
        RequestError::Version | RequestError::Http2Preface => RefuseReason::Version,
        RequestError::Expectation => RefuseReason::Expectation,
        _ => RefuseReason::BadHead,
    }
}

/// Reply to an exchange that ended without an answer; returns the status, 0 when nobody is there to
/// be told.
pub(crate) async fn reply_error(
    error: &ExchangeError,
    responder: &mut dyn Responder,
) -> Result<u16, SendFailure> {
    let (row, details, retry_after) = match &error.kind {
        Kind::Shed(reason, retry_after) => (shed_row(*reason), reason.name(), *retry_after),
        Kind::Refused(reason, words) => (refuse_row(*reason, words), reason.name(), None),
        Kind::Failed(reason) => (fail_row(*reason), reason.name(), None),
        Kind::Abandoned => {
            responder.abort();
            return Ok(0);
        }
    };
    let is_unsound = match error.kind {
        Kind::Refused(RefuseReason::NoRoute, _) => false,
        Kind::Refused(..) => true,
        _ => error.stage == Stage::Intake,
    };
    if is_unsound {
        // What follows on the connection cannot be trusted, or is a body that nobody will read.
        responder.close_after();
    }
    let mut body = Vec::with_capacity(96);
    digits::number(&mut body, u64::from(row.status));
    for piece in [" ", details, ": ", row.words, "\n"] {
        body.extend_from_slice(piece.as_bytes());
    }
    let reason = encode::reason_phrase(row.status);
    responder.begin(row.status, reason.as_bytes(), Length::Known(body.len() as u64));
    responder.field(b"Content-Type", b"text/plain; charset=utf-8");
    let status = format!("spillgate; error={}; details=\"{details}\"", row.token);
    responder.field(b"Proxy-Status", status.as_bytes());
    if let Some(after) = retry_after {
        responder.field(b"Retry-After", whole_seconds(after).to_string().as_bytes());
    }
    if is_final(&error.kind) {
        responder.field(attempt::RETRY, attempt::NO);
    }
    send(&body, responder).await?;
    Ok(row.status)
}

/// Would another try not help now, wherever a proxy in front of us made it?
///
/// Not where load is too much: it would only add to it. Nor where we have tried, or it must not be
/// tried, or would go as badly elsewhere. It may help where it is we who cannot do it now. After a
/// refusal nobody tries again anyhow.
fn is_final(kind: &Kind) -> bool {
    match kind {
        Kind::Shed(reason, _) => match reason {
            ShedReason::QueueFull
            | ShedReason::QueueTimeout
            | ShedReason::DeadlineUnmeetable
            | ShedReason::Overload
            | ShedReason::Displaced
            | ShedReason::ByteBudget
            | ShedReason::SpillFull => true,
            ShedReason::NoWorker | ShedReason::StartHoldExpired | ShedReason::Draining => false,
        },
        Kind::Failed(reason) => match reason {
            FailReason::WorkerFailed
            | FailReason::WorkerTimeout
            | FailReason::RetryBudget
            | FailReason::BadResponse
            | FailReason::ResponseHeadTooLarge
            | FailReason::ResponseBroken => true,
            FailReason::Spill | FailReason::Internal => false,
        },
        Kind::Refused(..) | Kind::Abandoned => false,
    }
}

/// Reply what the file says.
pub(crate) async fn reply_fixed(
    reply: &ReplySettings,
    responder: &mut dyn Responder,
) -> Result<u16, SendFailure> {
    let body = reply.body.as_bytes();
    let reason = encode::reason_phrase(reply.status);
    responder.begin(reply.status, reason.as_bytes(), Length::Known(body.len() as u64));
    responder.field(b"Content-Type", reply.content_type.as_bytes());
    send(body, responder).await?;
    Ok(reply.status)
}

async fn send(body: &[u8], responder: &mut dyn Responder) -> Result<(), SendFailure> {
    let mut sent = 0;
    while sent < body.len() {
        sent += poll_fn(|cx| responder.poll_send(cx, &body[sent..], true)).await?;
    }
    poll_fn(|cx| responder.poll_finish(cx)).await
}

/// At least one second: an immediate retry never helps.
fn whole_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0 || after.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_told_in_whole_seconds_and_never_zero() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_500, 60)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }

    #[test]
    fn every_reason_has_a_status_of_its_kind() {
        for reason in ShedReason::ALL {
            assert_eq!(shed_row(*reason).status, 503);
        }
        for reason in RefuseReason::ALL {
            let row = refuse_row(*reason, "");
            assert!(row.status < 500 || matches!(row.status, 501 | 505), "{reason:?}");
        }
        for reason in FailReason::ALL {
            assert!(fail_row(*reason).status >= 500);
        }
    }
}
