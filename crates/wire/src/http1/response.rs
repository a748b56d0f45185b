//! The head of a response: offsets in a reused index, looked at together with the caller's bytes.
//!
//! A response is forwarded from the buffer that it was read into, so nothing is copied. The index
//! may be kept for as long as the bytes are; joining it with other bytes than those it was made
//! from is a mistake of the caller, which the accessors answer with a panic at worst.
//!
//! Absent: what to do with a 1xx or a 101, and whether the connection can be used again (that also
//! depends on how the body ended).

use super::field::{FieldIter, list, trim};
use super::index::{self, Facts, TOKENS, TOKENS_MAX, token_room};
use super::scan::Scan;
use super::{
    Field, Framing, HeadError, HeadLimits, Method, Name, ResponseError, Span, Version, plain,
};

/// The size of `HTTP/1.1 200`.
const STATUS_END: usize = 12;

/// A reusable index of a response head.
#[derive(Debug)]
pub struct ResponseIndex {
    fields: Vec<Field>,
    status: u16,
    version: Version,
    reason: Span,
    facts: Facts,
    scan: Scan,
}

impl Default for ResponseIndex {
    fn default() -> ResponseIndex {
        ResponseIndex::new()
    }
}

impl ResponseIndex {
    /// An index of nothing. Allocates at the first whole head.
    pub fn new() -> ResponseIndex {
        ResponseIndex {
            fields: Vec::new(),
            status: 0,
            version: Version::Http11,
            reason: Span::EMPTY,
            facts: Facts::default(),
            scan: Scan::default(),
        }
    }

    /// Forget the response, keep the memory.
    pub fn clear(&mut self) {
        self.forget();
        self.scan = Scan::default();
    }

    fn forget(&mut self) {
        self.fields.clear();
        self.status = 0;
        self.version = Version::Http11;
        self.reason = Span::EMPTY;
        self.facts = Facts::default();
    }

    /// Index a head at the start of `input`: the same contract as
    /// [`RequestHead::parse`](super::RequestHead::parse), without a copy. No empty lines are
    /// skipped: bytes between responses mean that the connection is out of step.
    ///
    /// # Errors
    /// The first rule found broken. The index is cleared; the connection cannot be read on.
    pub fn parse(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, ResponseError> {
        let parsed = self.try_parse(input, limits);
        match parsed {
            Ok(Some(_)) => self.scan = Scan::default(),
            Ok(None) => {}
            Err(_) => self.clear(),
        }
        parsed
    }

    fn try_parse(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, ResponseError> {
        let size_max = limits.size_max.min(HeadLimits::SIZE_MAX);
        let head = &input[..input.len().min(size_max)];
        if head.first().is_some_and(|byte| *byte != b'H') {
            return Err(ResponseError::StatusLine);
        }
        if self.scan.is_fresh() {
            if let Some(len) = self.index_plain(head, limits.fields_max) {
                return Ok(Some(len));
            }
            self.forget();
            if let Ok(Some(len)) = self.index(head, limits.fields_max) {
                return Ok(Some(len));
            }
        }
        if !self.scan.find(head, size_max)? {
            return Ok(None);
        }
        match self.index(head, limits.fields_max)? {
            Some(len) => Ok(Some(len)),
            None => Err(HeadError::LineEnd { at: 0 }.into()),
        }
    }

    /// Index a head in its plainest form; none: the others decide.
    #[inline]
    fn index_plain(&mut self, head: &[u8], fields_max: u16) -> Option<usize> {
        let [hundreds, tens, ones, b' ', rest @ ..] = head.strip_prefix(b"HTTP/1.1 ")? else {
            return None;
        };
        let is_number = [hundreds, tens, ones].iter().all(|digit| digit.is_ascii_digit());
        if !is_number || *hundreds == b'0' {
            return None;
        }
        let digits = [hundreds, tens, ones].map(|digit| u16::from(digit - b'0'));
        let reason_len = rest.iter().take_while(|byte| matches!(byte, b' '..=b'~')).count();
        if !rest[reason_len..].starts_with(b"\r\n") {
            return None;
        }
        self.status = digits[0] * 100 + digits[1] * 10 + digits[2];
        self.version = Version::Http11;
        self.reason = Span::new(STATUS_END + 1, STATUS_END + 1 + reason_len);
        self.fields.clear();
        self.facts = Facts::default();
        let fields_max = usize::from(fields_max.min(HeadLimits::FIELDS_MAX));
        let start = self.reason.end() + 2;
        plain::walk(head, start, fields_max, &mut self.fields, &mut self.facts)
    }

    #[inline]
    fn index(&mut self, head: &[u8], fields_max: u16) -> Result<Option<usize>, ResponseError> {
        let fields_max = usize::from(fields_max.min(HeadLimits::FIELDS_MAX));
        let mut room = token_room::<TOKENS>();
        let room = &mut room[..fields_max.min(TOKENS)];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        match config.parse_response_with_uninit_headers(&mut response, head, room) {
            Ok(httparse::Status::Complete(_)) => self.accept(head, &response).map(Some),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(httparse::Error::TooManyHeaders) if fields_max > TOKENS => {
                self.index_many(head, fields_max)
            }
            Err(error) => Err(token_error(error)),
        }
    }

    /// The same with more room, apart so that the usual head does not pay for the stack.
    #[cold]
    #[inline(never)]
    fn index_many(
        &mut self,
        head: &[u8],
        fields_max: usize,
    ) -> Result<Option<usize>, ResponseError> {
        let mut room = token_room::<TOKENS_MAX>();
        let room = &mut room[..fields_max];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        match config.parse_response_with_uninit_headers(&mut response, head, room) {
            Ok(httparse::Status::Complete(_)) => self.accept(head, &response).map(Some),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(error) => Err(token_error(error)),
        }
    }

    /// Check and index what the token parser found. Returns the size of the head.
    fn accept(
        &mut self,
        head: &[u8],
        response: &httparse::Response<'_, '_>,
    ) -> Result<usize, ResponseError> {
        let whole = "the token parser fills the status line of a whole head";
        self.status = response.code.expect(whole);
        self.version = match response.version.expect(whole) {
            0 => Version::Http10,
            _ => Version::Http11,
        };
        if self.status < 100 {
            return Err(ResponseError::StatusLine);
        }
        self.reason = reason(head)?;
        let fields_start = index::line_end(head, self.reason.end())?;
        self.fields.clear();
        self.facts = Facts::default();
        let fields = &mut self.fields;
        let end = index::walk(head, fields_start, response.headers, fields, &mut self.facts)?;
        if self.facts.chunked && self.version == Version::Http10 {
            return Err(HeadError::CodingInOldVersion.into());
        }
        Ok(end)
    }

    /// The head, with the bytes it was parsed from (more may follow them).
    ///
    /// # Panics
    /// The accessors panic with bytes shorter than that head.
    #[inline]
    pub fn head<'a>(&'a self, bytes: &'a [u8]) -> ResponseHead<'a> {
        ResponseHead { bytes, index: self }
    }
}

/// Where the reason phrase lies. The token parser has checked its bytes, but does not tell where
/// one with bytes above ASCII lies.
fn reason(head: &[u8]) -> Result<Span, HeadError> {
    let start = match head.get(STATUS_END) {
        Some(b' ') => STATUS_END + 1,
        _ => STATUS_END,
    };
    let len = head[start..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let end = start + len.ok_or(HeadError::LineEnd { at: start })?;
    Ok(Span::new(start, end))
}

/// A response head: an index and the bytes it is about. Copy it freely.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    bytes: &'a [u8],
    index: &'a ResponseIndex,
}

impl<'a> ResponseHead<'a> {
    /// The status, 100 to 999.
    pub fn status(self) -> u16 {
        self.index.status
    }

    /// The reason phrase; may be empty, and may hold bytes above ASCII.
    pub fn reason(self) -> &'a [u8] {
        self.index.reason.of(self.bytes)
    }

    /// The version of the status line.
    pub fn version(self) -> Version {
        self.index.version
    }

    /// How the end of the body is found, in the answer to a request with `method` (RFC 9112
    /// section 6.3).
    pub fn framing(self, method: Method) -> Framing {
        let status = self.index.status;
        let is_tunnel = method == Method::Connect && (200..300).contains(&status);
        if method == Method::Head || is_tunnel || matches!(status, 100..=199 | 204 | 304) {
            return Framing::None;
        }
        match (self.index.facts.chunked, self.index.facts.length) {
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::UntilClose,
        }
    }

    /// The value of `Content-Length`, whether or not a body follows.
    pub fn content_length(self) -> Option<u64> {
        self.index.facts.length
    }

    /// Does the worker keep the connection open after this response, as far as its head says? A
    /// body that ends with the connection is not looked at here.
    pub fn keep_alive(self) -> bool {
        self.index.facts.keeps_alive(self.index.version)
    }

    /// For how many seconds the worker keeps an idle connection: `Keep-Alive: timeout=N`.
    pub fn keep_alive_timeout(self) -> Option<u32> {
        let value = self.index.facts.keep_alive_field?.of(self.bytes);
        list(value).find_map(|parameter| {
            let equals = parameter.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (&parameter[..equals], &parameter[equals + 1..]);
            if !trim(name).eq_ignore_ascii_case(b"timeout") {
                return None;
            }
            index::decimal(trim(value)).and_then(|seconds| u32::try_from(seconds).ok())
        })
    }

    /// The protocol that the worker changes to: `Upgrade`, where `Connection` names it.
    pub fn upgrade(self) -> Option<&'a [u8]> {
        let facts = &self.index.facts;
        facts.upgrade.filter(|_| facts.upgrade_option).map(|span| span.of(self.bytes))
    }

    /// Is it a stream of events (`Content-Type: text/event-stream`), to be passed on as it comes?
    pub fn is_event_stream(self) -> bool {
        const TYPE: &[u8] = b"text/event-stream";
        let Some(span) = self.index.facts.content_type else {
            return false;
        };
        let value = span.of(self.bytes);
        let media_type = value.split(|byte| *byte == b';').next().unwrap_or(value);
        trim(media_type).eq_ignore_ascii_case(TYPE)
    }

    /// Does the worker ask not to buffer (`X-Accel-Buffering: no`)?
    pub fn accel_buffering_off(self) -> bool {
        let span = self.index.facts.accel_buffering;
        span.is_some_and(|span| span.of(self.bytes).eq_ignore_ascii_case(b"no"))
    }

    /// The fields in the order in which they came.
    pub fn fields(self) -> FieldIter<'a> {
        FieldIter::new(self.bytes, &self.index.fields)
    }

    /// The value of the first field of that known name.
    pub fn get(self, name: Name) -> Option<&'a [u8]> {
        self.fields().first(name)
    }

    /// The value of the first field of that name, known or not, in any mix of cases.
    pub fn find(self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields().first_other(name)
    }
}

/// Which rule of ours the token parser found broken.
#[cold]
fn token_error(error: httparse::Error) -> ResponseError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields.into(),
        httparse::Error::HeaderName => HeadError::FieldName.into(),
        httparse::Error::HeaderValue => HeadError::FieldValue.into(),
        httparse::Error::NewLine => HeadError::LineEnd { at: 0 }.into(),
        httparse::Error::Version => ResponseError::Version,
        httparse::Error::Token | httparse::Error::Status => ResponseError::StatusLine,
    }
}
