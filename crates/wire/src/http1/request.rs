//! The head of a request: parsed strictly, kept with a copy of its bytes, reused for the next one.
//!
//! The copy is what lets a request wait in a queue and be sent twice while the buffer it was read
//! into serves other connections. It is one `memcpy` of some hundred bytes into memory that is warm
//! from the request before.
//!
//! Invariant: after `parse` said that a head is whole, all offsets lie inside the copy; after an
//! error or `clear`, there are no fields, and every accessor gives an empty or neutral answer.

use super::field::FieldIter;
use super::index::{self, Facts, TOKENS, TOKENS_MAX, token_room};
use super::scan::{Scan, empty_lines};
use super::target::{self, Target, TargetForm};
use super::{
    Field, Framing, HeadError, HeadLimits, Method, Name, RequestError, Span, Version, plain,
};

/// The longest target. Twice the 8,000 bytes that RFC 9112 section 3 asks for; a head with a longer
/// one is refused although it is within its own limit.
pub const TARGET_SIZE_MAX: usize = 16 * 1024;

/// Bytes in which the space after a plain method must come: the longest known one and a space.
const METHOD_PLAIN_MAX: usize = 8;

/// A reusable request head.
#[derive(Debug)]
pub struct RequestHead {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    line: Line,
    facts: Facts,
    scan: Scan,
}

/// The request line.
#[derive(Clone, Copy, Debug)]
struct Line {
    method: Method,
    method_span: Span,
    target_span: Span,
    target: Target,
    version: Version,
}

impl Line {
    const NONE: Line = Line {
        method: Method::Other,
        method_span: Span::EMPTY,
        target_span: Span::EMPTY,
        target: Target {
            form: TargetForm::Origin,
            path: Span::EMPTY,
            query: None,
            authority: None,
        },
        version: Version::Http11,
    };
}

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead::new()
    }
}

impl RequestHead {
    /// A head that holds nothing. Allocates at the first whole head.
    pub fn new() -> RequestHead {
        RequestHead {
            bytes: Vec::new(),
            fields: Vec::new(),
            line: Line::NONE,
            facts: Facts::default(),
            scan: Scan::default(),
        }
    }

    /// Forget the request, keep the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.forget();
        self.scan = Scan::default();
    }

    fn forget(&mut self) {
        self.fields.clear();
        self.line = Line::NONE;
        self.facts = Facts::default();
    }

    /// Read a head from the start of `input`.
    ///
    /// `Some(n)`: the head is whole and took `n` bytes, with the empty lines before it. `None`: it
    /// is not whole yet; call again with the same bytes and more after them. Each byte is looked at
    /// a bounded number of times, however small the pieces are. The verdict does not depend on how
    /// the input is cut.
    ///
    /// # Errors
    /// The first rule found broken. The head is cleared; the connection cannot be read on.
    pub fn parse(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, RequestError> {
        let parsed = self.try_parse(input, limits);
        if parsed.is_err() {
            self.clear();
        }
        parsed
    }

    fn try_parse(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, RequestError> {
        let skipped = match input.first() {
            Some(b'\r' | b'\n') => empty_lines(input)?,
            _ => 0,
        };
        let head = &input[skipped..];
        let size_max = limits.size_max.min(HeadLimits::SIZE_MAX).saturating_sub(skipped);
        let head = &head[..head.len().min(size_max)];
        if self.scan.is_fresh() {
            if let Some(len) = self.index_plain(head, limits.fields_max) {
                return Ok(Some(self.keep(head, len, skipped)));
            }
            self.forget();
            if let Ok(Some(len)) = self.index(head, limits.fields_max) {
                return Ok(Some(self.keep(head, len, skipped)));
            }
        }
        match head.first() {
            None | Some(b'\r') if head.len() < size_max => return Ok(None),
            None | Some(b'\r') => return Err(HeadError::TooLarge.into()),
            Some(byte) if !super::field::is_tchar(*byte) => return Err(RequestError::Method),
            _ => {}
        }
        if !self.scan.find(head, size_max)? {
            return Ok(None);
        }
        match self.index(head, limits.fields_max)? {
            Some(len) => Ok(Some(self.keep(head, len, skipped))),
            None => Err(HeadError::LineEnd { at: 0 }.into()),
        }
    }

    /// Copy the head and forget how its end was found.
    #[inline]
    fn keep(&mut self, head: &[u8], len: usize, skipped: usize) -> usize {
        self.bytes.clear();
        self.bytes.extend_from_slice(&head[..len]);
        self.scan = Scan::default();
        skipped + len
    }

    /// Index a head in its plainest form; none: the others decide.
    #[inline]
    fn index_plain(&mut self, head: &[u8], fields_max: u16) -> Option<usize> {
        let method_len = head.iter().take(METHOD_PLAIN_MAX).position(|byte| *byte == b' ')?;
        let method = Method::of(&head[..method_len]);
        if matches!(method, Method::Other | Method::Connect) {
            return None;
        }
        let target_start = method_len + 1;
        let target_end = target_start + plain::target_len(&head[target_start..]);
        let fields_start = target_end + " HTTP/1.1\r\n".len();
        if head.get(target_end..fields_start)? != b" HTTP/1.1\r\n" {
            return None;
        }
        let method_span = Span::new(0, method_len);
        let target_span = Span::new(target_start, target_end);
        let target = self.start(head, method_span, target_span, Version::Http11);
        target.ok()?;
        let fields_max = usize::from(fields_max.min(HeadLimits::FIELDS_MAX));
        let end = plain::walk(head, fields_start, fields_max, &mut self.fields, &mut self.facts)?;
        self.check(head).ok()?;
        Some(end)
    }

    #[inline]
    fn index(&mut self, head: &[u8], fields_max: u16) -> Result<Option<usize>, RequestError> {
        let fields_max = usize::from(fields_max.min(HeadLimits::FIELDS_MAX));
        let mut room = token_room::<TOKENS>();
        let mut request = httparse::Request::new(&mut []);
        let room = &mut room[..fields_max.min(TOKENS)];
        match request.parse_with_uninit_headers(head, room) {
            Ok(httparse::Status::Complete(_)) => self.accept(head, &request).map(Some),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(httparse::Error::TooManyHeaders) if fields_max > TOKENS => {
                self.index_many(head, fields_max)
            }
            Err(error) => Err(token_error(error, head)),
        }
    }

    /// The same with more room, apart so that the usual head does not pay for the stack.
    #[cold]
    #[inline(never)]
    fn index_many(
        &mut self,
        head: &[u8],
        fields_max: usize,
    ) -> Result<Option<usize>, RequestError> {
        let mut room = token_room::<TOKENS_MAX>();
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(head, &mut room[..fields_max]) {
            Ok(httparse::Status::Complete(_)) => self.accept(head, &request).map(Some),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(error) => Err(token_error(error, head)),
        }
    }

    /// Check and index what the token parser found. Returns the size of the head.
    fn accept(
        &mut self,
        head: &[u8],
        request: &httparse::Request<'_, '_>,
    ) -> Result<usize, RequestError> {
        let whole = "the token parser fills the request line of a whole head";
        let method_span = Span::new(0, request.method.expect(whole).len());
        let target_start = method_span.end() + 1;
        let target_span = Span::new(target_start, target_start + request.path.expect(whole).len());
        let version = match request.version.expect(whole) {
            0 => Version::Http10,
            _ => Version::Http11,
        };
        let line_len = target_span.end() + " HTTP/1.1".len();
        let fields_start = index::line_end(head, line_len)?;
        self.start(head, method_span, target_span, version)?;
        let fields = &mut self.fields;
        let end = index::walk(head, fields_start, request.headers, fields, &mut self.facts)?;
        self.check(head)?;
        Ok(end)
    }

    /// Take the request line, and forget all fields.
    #[inline]
    fn start(
        &mut self,
        head: &[u8],
        method_span: Span,
        target_span: Span,
        version: Version,
    ) -> Result<(), RequestError> {
        let method = Method::of(method_span.of(head));
        if target_span.end() - target_span.start() > TARGET_SIZE_MAX {
            return Err(RequestError::TargetTooLong);
        }
        let target = target::parse(head, target_span, method)?;
        self.line = Line { method, method_span, target_span, target, version };
        self.fields.clear();
        self.facts = Facts::default();
        Ok(())
    }

    /// The rules that need the whole head.
    fn check(&self, head: &[u8]) -> Result<(), RequestError> {
        let Facts { host, host_repeated, chunked, length, expect_other, .. } = self.facts;
        if host_repeated {
            return Err(RequestError::HostRepeated);
        }
        match host {
            Some(host) if !host.is_empty() && !target::is_authority(host.of(head)) => {
                return Err(RequestError::HostInvalid);
            }
            None if self.line.version == Version::Http11 => return Err(RequestError::HostMissing),
            _ => {}
        }
        if chunked && self.line.version == Version::Http10 {
            return Err(HeadError::CodingInOldVersion.into());
        }
        if expect_other {
            return Err(RequestError::Expectation);
        }
        let has_body = chunked || length.is_some_and(|length| length > 0);
        if has_body && self.line.method == Method::Trace {
            return Err(RequestError::TraceBody);
        }
        Ok(())
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.line.method
    }

    /// The method as written.
    pub fn method_bytes(&self) -> &[u8] {
        self.line.method_span.of(&self.bytes)
    }

    /// The target as written.
    pub fn target(&self) -> &[u8] {
        self.line.target_span.of(&self.bytes)
    }

    /// Which form the target has.
    pub fn target_form(&self) -> TargetForm {
        self.line.target.form
    }

    /// The path, without the query. `/` where an absolute target has none (`*` with `OPTIONS`, as
    /// RFC 9112 section 3.2.4 says); `*` for the asterisk form; empty for `CONNECT`.
    pub fn path(&self) -> &[u8] {
        let path = self.line.target.path.of(&self.bytes);
        if self.line.target.form != TargetForm::Absolute || !path.is_empty() {
            return path;
        }
        match (self.line.method, self.line.target.query) {
            (Method::Options, None) => b"*",
            _ => b"/",
        }
    }

    /// What follows the first `?` of the target; `Some` and empty where nothing does.
    pub fn query(&self) -> Option<&[u8]> {
        self.line.target.query.map(|query| query.of(&self.bytes))
    }

    /// The version of the request line.
    pub fn version(&self) -> Version {
        self.line.version
    }

    /// The authority in force, with its port if it has one: of the target where that has one, else
    /// of `Host`. Valid, or empty (a client that sends an empty `Host`, or HTTP/1.0 without one).
    /// The request must go on with this as its `Host`.
    pub fn host(&self) -> &[u8] {
        let span = self.line.target.authority.or(self.facts.host);
        span.map_or(b"", |span| span.of(&self.bytes))
    }

    /// How the end of the body is found. `None` and `Length(0)` differ only in that the client said
    /// so; never `UntilClose`.
    pub fn framing(&self) -> Framing {
        match (self.facts.chunked, self.facts.length) {
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::None,
        }
    }

    /// The value of `Content-Length`.
    pub fn content_length(&self) -> Option<u64> {
        self.facts.length
    }

    /// Does the client want to use its connection again?
    pub fn keep_alive(&self) -> bool {
        self.facts.keeps_alive(self.line.version)
    }

    /// Does the client wait for `100 Continue` before it sends the body? Never true of HTTP/1.0
    /// (RFC 9110 section 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.facts.expect.is_some() && self.line.version == Version::Http11
    }

    /// The protocols that the client asks to change to: the value of `Upgrade`, where `Connection`
    /// names it. Not for HTTP/1.0, and not for `h2c`, which RFC 9113 took back and which would let
    /// a client speak past us.
    pub fn upgrade(&self) -> Option<&[u8]> {
        if !self.facts.upgrade_option || self.line.version == Version::Http10 {
            return None;
        }
        let value = self.facts.upgrade?.of(&self.bytes);
        let mut protocols = super::field::list(value).peekable();
        protocols.peek()?;
        protocols.all(|protocol| !protocol.eq_ignore_ascii_case(b"h2c")).then_some(value)
    }

    /// The fields in the order in which they came.
    pub fn fields(&self) -> FieldIter<'_> {
        FieldIter::new(&self.bytes, &self.fields)
    }

    /// The value of the first field of that known name.
    pub fn get(&self, name: Name) -> Option<&[u8]> {
        self.fields().first(name)
    }

    /// The value of the first field of that name, known or not, in any mix of cases.
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields().first_other(name)
    }

    /// The bytes of the head as they came, without empty lines before it. For logs and tests; what
    /// goes to a worker is written anew from the parts.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Which rule of ours the token parser found broken.
#[cold]
fn token_error(error: httparse::Error, head: &[u8]) -> RequestError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields.into(),
        httparse::Error::HeaderName => HeadError::FieldName.into(),
        httparse::Error::HeaderValue => HeadError::FieldValue.into(),
        httparse::Error::NewLine => HeadError::LineEnd { at: 0 }.into(),
        httparse::Error::Version if head.starts_with(b"PRI * HTTP/2.0\r\n") => {
            RequestError::Http2Preface
        }
        httparse::Error::Version => match space_in_target(head) {
            Some(at) => RequestError::Target { at },
            None => RequestError::Version,
        },
        httparse::Error::Token | httparse::Error::Status => {
            let method = head.iter().position(|byte| !super::field::is_tchar(*byte));
            match method {
                Some(len) if len > 0 && head[len] == b' ' => RequestError::Target { at: len + 1 },
                _ => RequestError::Method,
            }
        }
    }
}

/// Where a third space of the request line shows that the second one was part of the target.
fn space_in_target(head: &[u8]) -> Option<usize> {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    let mut spaces = (0..line.len()).filter(|at| line[*at] == b' ').skip(1);
    let second = spaces.next()?;
    spaces.next().map(|_| second)
}
