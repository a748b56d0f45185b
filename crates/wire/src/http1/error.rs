//! What can be wrong with a message: one variant per rule, with the offset where it is known.
//!
//! Errors are plain values that cost nothing to make. `reason` says in words what was wrong, for
//! the log and the reply; it never quotes the input. After any of these the connection cannot be
//! read on. Absent: status codes, which are the business of whoever replies.

use std::fmt;

/// A rule of heads, of either direction, that was broken. `at` counts bytes from the start of the
/// head, after any empty lines that were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// More bytes than `size_max`.
    TooLarge,
    /// More fields than `fields_max`.
    TooManyFields,
    /// More empty lines before a request than are skipped.
    EmptyLines,
    /// A line that does not end with CR LF, or a CR, LF or NUL inside one.
    LineEnd {
        /// Where the line should have ended; zero where that is not known.
        at: usize,
    },
    /// A field name that is no token, is empty, has white space after it, or a folded line.
    FieldName,
    /// A control byte in a field value.
    FieldValue,
    /// A field that decides the framing, with `_` for `-` in its name.
    FieldAmbiguous {
        /// Where the name starts.
        at: usize,
    },
    /// A `Content-Length` that is no number of bytes: empty, signed, a list, too large.
    LengthInvalid {
        /// Where the value starts.
        at: usize,
    },
    /// More than one `Content-Length`, equal or not.
    LengthRepeated {
        /// Where the second value starts.
        at: usize,
    },
    /// `Content-Length` and `Transfer-Encoding` in one head.
    LengthAndCoding,
    /// More than one `Transfer-Encoding`.
    CodingRepeated {
        /// Where the second value starts.
        at: usize,
    },
    /// A `Transfer-Encoding` that ends with `chunked` and has another coding before it.
    CodingUnknown {
        /// Where the value starts.
        at: usize,
    },
    /// A `Transfer-Encoding` whose last coding is not `chunked`, or that cannot be read.
    CodingInvalid {
        /// Where the value starts.
        at: usize,
    },
    /// `Transfer-Encoding` in an HTTP/1.0 message.
    CodingInOldVersion,
    /// A `Connection` field that is no list of tokens, or names too many fields.
    ConnectionInvalid {
        /// Where the value starts.
        at: usize,
    },
    /// A `Connection` field that names `Host` or `Content-Length`.
    ConnectionNamesFraming {
        /// Where the value starts.
        at: usize,
    },
}

impl HeadError {
    /// What was wrong: lower case, no final stop.
    pub fn reason(&self) -> &'static str {
        match self {
            HeadError::TooLarge => "head too large",
            HeadError::TooManyFields => "too many fields in the head",
            HeadError::EmptyLines => "too many empty lines before the head",
            HeadError::LineEnd { .. } => "line of the head does not end with cr lf",
            HeadError::FieldName => "invalid field name",
            HeadError::FieldValue => "control byte in a field value",
            HeadError::FieldAmbiguous { .. } => "framing field name with an underscore",
            HeadError::LengthInvalid { .. } => "invalid content-length",
            HeadError::LengthRepeated { .. } => "more than one content-length",
            HeadError::LengthAndCoding => "both content-length and transfer-encoding",
            HeadError::CodingRepeated { .. } => "more than one transfer-encoding",
            HeadError::CodingUnknown { .. } => "unknown transfer coding",
            HeadError::CodingInvalid { .. } => "invalid transfer-encoding",
            HeadError::CodingInOldVersion => "transfer-encoding in http/1.0",
            HeadError::ConnectionInvalid { .. } => "invalid connection field",
            HeadError::ConnectionNamesFraming { .. } => {
                "connection field names host or content-length"
            }
        }
    }
}

/// A rule of requests that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// A rule of heads.
    Head(HeadError),
    /// A method that is no token, or a first byte that cannot start a request.
    Method,
    /// A byte that has no place in a target: white space, control, `#`, above ASCII, or `\` in the
    /// path.
    Target {
        /// Where it stands, or where the target starts.
        at: usize,
    },
    /// A target longer than [`TARGET_SIZE_MAX`](super::TARGET_SIZE_MAX).
    TargetTooLong,
    /// A form of target that the method does not allow.
    TargetForm,
    /// An invalid authority in the target: user info, bad host, bad port.
    TargetAuthority,
    /// An absolute target of another scheme than `http` and `https`.
    TargetScheme,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version,
    /// The connection preface of HTTP/2.
    Http2Preface,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// A `Host` that is no host with an optional port.
    HostInvalid,
    /// An `Expect` other than `100-continue`.
    Expectation,
    /// `TRACE` with a body.
    TraceBody,
}

impl RequestError {
    /// What was wrong: lower case, no final stop.
    pub fn reason(&self) -> &'static str {
        match self {
            RequestError::Head(error) => error.reason(),
            RequestError::Method => "invalid method",
            RequestError::Target { .. } => "invalid byte in the target",
            RequestError::TargetTooLong => "target too long",
            RequestError::TargetForm => "target does not fit the method",
            RequestError::TargetAuthority => "invalid authority in the target",
            RequestError::TargetScheme => "unknown scheme in the target",
            RequestError::Version => "unknown http version",
            RequestError::Http2Preface => "http/2 preface on an http/1 connection",
            RequestError::HostMissing => "host missing",
            RequestError::HostRepeated => "more than one host",
            RequestError::HostInvalid => "invalid host",
            RequestError::Expectation => "unknown expectation",
            RequestError::TraceBody => "trace with a body",
        }
    }
}

impl From<HeadError> for RequestError {
    fn from(error: HeadError) -> RequestError {
        RequestError::Head(error)
    }
}

/// A rule of responses that was broken. All mean 502 for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// A rule of heads.
    Head(HeadError),
    /// A status line that cannot be read, or a status below 100.
    StatusLine,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version,
}

impl ResponseError {
    /// What was wrong: lower case, no final stop.
    pub fn reason(&self) -> &'static str {
        match self {
            ResponseError::Head(error) => error.reason(),
            ResponseError::StatusLine => "invalid status line",
            ResponseError::Version => "unknown http version",
        }
    }
}

impl From<HeadError> for ResponseError {
    fn from(error: HeadError) -> ResponseError {
        ResponseError::Head(error)
    }
}

/// A rule of bodies that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// A chunk size that is empty, longer than 16 digits, or has another byte than hex digits.
    ChunkSize,
    /// A control byte in a chunk extension, or a line that does not end with CR LF.
    ChunkExtension,
    /// More bytes of chunk extensions than [`EXTENSIONS_SIZE_MAX`](super::EXTENSIONS_SIZE_MAX).
    ExtensionsTooLarge,
    /// No CR LF after the data of a chunk.
    ChunkEnd,
    /// A line of the trailers that is no field.
    Trailer,
    /// A trailer that decides the framing or the destination.
    TrailerForbidden,
    /// More trailers than [`TRAILERS_MAX`](super::TRAILERS_MAX) or
    /// [`TRAILERS_SIZE_MAX`](super::TRAILERS_SIZE_MAX).
    TrailersTooLarge,
    /// The connection ended before the body did.
    Truncated,
}

impl BodyError {
    /// What was wrong: lower case, no final stop.
    pub fn reason(&self) -> &'static str {
        match self {
            BodyError::ChunkSize => "invalid chunk size",
            BodyError::ChunkExtension => "invalid chunk extension",
            BodyError::ExtensionsTooLarge => "chunk extensions too large",
            BodyError::ChunkEnd => "chunk data does not end with cr lf",
            BodyError::Trailer => "invalid trailer",
            BodyError::TrailerForbidden => "forbidden trailer",
            BodyError::TrailersTooLarge => "trailers too large",
            BodyError::Truncated => "connection ended inside the body",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HeadError {}
impl std::error::Error for RequestError {}
impl std::error::Error for ResponseError {}
impl std::error::Error for BodyError {}
