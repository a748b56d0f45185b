//! HTTP/1.0 and HTTP/1.1 messages (RFC 9110, RFC 9112).
//!
//! One shape serves both directions: a head is *indexed* (a reused list of offsets and a few facts
//! about the message) and then looked at together with its bytes.
//!
//! - [`RequestHead`] keeps a copy of the bytes, since a request outlives the buffer it was read
//!   into: it waits in a queue and may be sent more than once.
//! - [`ResponseIndex`] keeps offsets only; [`ResponseIndex::head`] joins it with the bytes for as
//!   long as the caller holds them, so that a response is forwarded from the buffer it lies in.
//!
//! Both lend the same [`FieldRef`]s, and [`BodyDecoder`] takes the [`Framing`] of either.
//! Once their lists have grown to the size of the traffic, parsing allocates nothing.
//!
//! Heads in the plainest form are walked here; of all others the tokens are found by httparse, and
//! what it lets pass and a second reader could read differently is refused here. Absent: connection
//! state, time limits, and what to do about errors.

mod body;
pub mod encode;
mod error;
mod field;
mod index;
mod name;
mod plain;
mod request;
mod response;
mod scan;
mod target;
mod trailers;

pub use body::{BodyDecoder, Decoded, EXTENSIONS_SIZE_MAX};
pub use error::{BodyError, HeadError, RequestError, ResponseError};
pub use field::{Field, FieldIter, FieldRef, Span, name_matches};
pub use index::NOMINATED_MAX;
pub use name::Name;
pub use request::{RequestHead, TARGET_SIZE_MAX};
pub use response::{ResponseHead, ResponseIndex};
pub use scan::EMPTY_LINES_MAX;
pub use target::TargetForm;
pub use trailers::{TRAILERS_MAX, TRAILERS_SIZE_MAX};

/// How large a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of a head, with its last empty line. Values above 65,535 mean 65,535: offsets
    /// take two bytes.
    pub size_max: usize,
    /// Most fields of a head. Values above 1,024 mean 1,024.
    pub fields_max: u16,
}

impl HeadLimits {
    /// The largest head that can be indexed at all.
    pub const SIZE_MAX: usize = u16::MAX as usize;
    /// The most fields that can be indexed at all.
    pub const FIELDS_MAX: u16 = 1024;
}

/// The version in a start line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
}

/// The method of a request. The raw token stays in the head, so unknown methods pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `PATCH`
    Patch,
    /// `CONNECT`
    Connect,
    /// Any other token. Neither safe nor idempotent, for all we know.
    Other,
}

impl Method {
    /// The method that `token` names. Upper and lower case differ (RFC 9110 section 9.1).
    pub fn of(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// Does it only read? RFC 9110 section 9.2.1.
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }

    /// May it be sent again without asking? RFC 9110 section 9.2.2.
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body: the message ends with its head.
    None,
    /// So many bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Up to the end of the connection. Responses only.
    UntilClose,
}
