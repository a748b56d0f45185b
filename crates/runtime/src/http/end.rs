//! How client connections end: a closed set, each member with its counter.
//!
//! The driver says which, whoever serves connections counts it. Absent: how an exchange ends, which
//! is another matter: a connection may end well after one that failed.

use crate::metrics::LabelSet;

/// Why a client connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed it between two exchanges.
    Client,
    /// The client left during an exchange.
    Abandoned,
    /// The last answer said that it is the last.
    Answered,
    /// It was idle for `idle_time_max`.
    Idle,
    /// A head took longer than `head_time_max`.
    HeadTimeout,
    /// A body came slower than `body_rate_min`.
    BodyRate,
    /// The client read slower than `send_rate_min`.
    SendRate,
    /// It sent something that HTTP does not allow.
    BadInput,
    /// Its PROXY protocol header was wrong, or not from `trusted_from`.
    ProxyHeader,
    /// The answer could not be finished, and closing tells the client so.
    Broken,
    /// Its tunnel ended.
    Tunnel,
    /// Spillgate is stopping.
    Draining,
}

impl LabelSet for CloseReason {
    const ALL: &'static [Self] = &[
        CloseReason::Client,
        CloseReason::Abandoned,
        CloseReason::Answered,
        CloseReason::Idle,
        CloseReason::HeadTimeout,
        CloseReason::BodyRate,
        CloseReason::SendRate,
        CloseReason::BadInput,
        CloseReason::ProxyHeader,
        CloseReason::Broken,
        CloseReason::Tunnel,
        CloseReason::Draining,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            CloseReason::Client => "client",
            CloseReason::Abandoned => "abandoned",
            CloseReason::Answered => "answered",
            CloseReason::Idle => "idle",
            CloseReason::HeadTimeout => "head_timeout",
            CloseReason::BodyRate => "body_rate",
            CloseReason::SendRate => "send_rate",
            CloseReason::BadInput => "bad_input",
            CloseReason::ProxyHeader => "proxy_header",
            CloseReason::Broken => "broken",
            CloseReason::Tunnel => "tunnel",
            CloseReason::Draining => "draining",
        }
    }
}
