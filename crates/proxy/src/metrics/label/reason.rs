//! Why an exchange ended without the answer of a worker: three closed sets.
//!
//! Each member has a counter, a value in the access record, and a row in the table of replies
//! (`reply.rs`), which the compiler keeps complete. For an abandoned exchange the stage says why.

use spillgate_runtime::metrics::LabelSet;

/// Why an exchange was turned away because of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// `queue_len_max` exchanges waited already.
    QueueFull,
    /// It waited for `queue_wait_max`.
    QueueTimeout,
    /// It could not be answered any more within `answer_within`, or by the client's own deadline.
    DeadlineUnmeetable,
    /// More came than the workers could do, and others were more important.
    Overload,
    /// It gave its place in a full queue to one that is more important.
    Displaced,
    /// The pool had no worker that could serve.
    NoWorker,
    /// No worker became ready within `start_hold_max`.
    StartHoldExpired,
    /// Its body waited for buffer bytes for `body_wait_max`.
    ByteBudget,
    /// Its body is too large for memory, and the spill folders are full.
    SpillFull,
    /// Spillgate is stopping.
    Draining,
}

impl LabelSet for ShedReason {
    const ALL: &'static [Self] = &[
        ShedReason::QueueFull,
        ShedReason::QueueTimeout,
        ShedReason::DeadlineUnmeetable,
        ShedReason::Overload,
        ShedReason::Displaced,
        ShedReason::NoWorker,
        ShedReason::StartHoldExpired,
        ShedReason::ByteBudget,
        ShedReason::SpillFull,
        ShedReason::Draining,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            ShedReason::QueueFull => "queue_full",
            ShedReason::QueueTimeout => "queue_timeout",
            ShedReason::DeadlineUnmeetable => "deadline_unmeetable",
            ShedReason::Overload => "overload",
            ShedReason::Displaced => "displaced",
            ShedReason::NoWorker => "no_worker",
            ShedReason::StartHoldExpired => "start_hold_expired",
            ShedReason::ByteBudget => "byte_budget",
            ShedReason::SpillFull => "spill_full",
            ShedReason::Draining => "draining",
        }
    }
}

/// Why an exchange was turned away by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseReason {
    /// Its head breaks a rule of HTTP, or could be read in two ways.
    BadHead,
    /// Its head is longer than `head_size_max`.
    HeadTooLarge,
    /// Its head has more fields than `head_fields_max`.
    HeadFieldsTooMany,
    /// Its head took longer than `head_time_max`.
    HeadTimeout,
    /// Its chunked body breaks a rule of HTTP.
    BadChunk,
    /// Its body is longer than `body_size_max`.
    BodyTooLarge,
    /// Its body came slower than `body_rate_min`.
    BodyTooSlow,
    /// No route matches its host and path.
    NoRoute,
    /// Its path can be read in several ways, and they lead to different places.
    PathAmbiguous,
    /// It is a CONNECT: we are no forward proxy.
    Connect,
    /// Its protocol version is none of ours.
    Version,
    /// It expects something that we do not know.
    Expectation,
}

impl LabelSet for RefuseReason {
    const ALL: &'static [Self] = &[
        RefuseReason::BadHead,
        RefuseReason::HeadTooLarge,
        RefuseReason::HeadFieldsTooMany,
        RefuseReason::HeadTimeout,
        RefuseReason::BadChunk,
        RefuseReason::BodyTooLarge,
        RefuseReason::BodyTooSlow,
        RefuseReason::NoRoute,
        RefuseReason::PathAmbiguous,
        RefuseReason::Connect,
        RefuseReason::Version,
        RefuseReason::Expectation,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            RefuseReason::BadHead => "bad_head",
            RefuseReason::HeadTooLarge => "head_too_large",
            RefuseReason::HeadFieldsTooMany => "head_fields_too_many",
            RefuseReason::HeadTimeout => "head_timeout",
            RefuseReason::BadChunk => "bad_chunk",
            RefuseReason::BodyTooLarge => "body_too_large",
            RefuseReason::BodyTooSlow => "body_too_slow",
            RefuseReason::NoRoute => "no_route",
            RefuseReason::PathAmbiguous => "path_ambiguous",
            RefuseReason::Connect => "connect",
            RefuseReason::Version => "version",
            RefuseReason::Expectation => "expectation",
        }
    }
}

/// Why an exchange that was tried did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// Two workers died of it, its tries are used up, or it must not be tried again.
    WorkerFailed,
    /// The worker did not answer within `exchange_time_max` or `progress_time_max`.
    WorkerTimeout,
    /// It could be tried again, but the retry budget is used up.
    RetryBudget,
    /// The worker's answer breaks a rule of HTTP.
    BadResponse,
    /// The head of the worker's answer is longer than `head_size_max`.
    ResponseHeadTooLarge,
    /// The worker broke off an answer of which the client had seen a part.
    ResponseBroken,
    /// A spilled body could not be read back or written.
    Spill,
    /// A fault of our own.
    Internal,
}

impl LabelSet for FailReason {
    const ALL: &'static [Self] = &[
        FailReason::WorkerFailed,
        FailReason::WorkerTimeout,
        FailReason::RetryBudget,
        FailReason::BadResponse,
        FailReason::ResponseHeadTooLarge,
        FailReason::ResponseBroken,
        FailReason::Spill,
        FailReason::Internal,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            FailReason::WorkerFailed => "worker_failed",
            FailReason::WorkerTimeout => "worker_timeout",
            FailReason::RetryBudget => "retry_budget",
            FailReason::BadResponse => "bad_response",
            FailReason::ResponseHeadTooLarge => "response_head_too_large",
            FailReason::ResponseBroken => "response_broken",
            FailReason::Spill => "spill",
            FailReason::Internal => "internal",
        }
    }
}
