//! The field lines of a head, walked once: each is indexed, and what it says about the framing and
//! the connection is noted on the way. Requests and responses share this.
//!
//! httparse has found the tokens. It tolerates bare line feeds and white space at the end of a
//! line, so the walk checks that each line ends with CR LF exactly where it should, which together
//! with the token rules leaves no second way to cut the head into lines.
//!
//! Invariant: after a walk without error at most one of length and coding is set, each from exactly
//! one field.

use std::mem::MaybeUninit;

use super::field::{is_token, list};
use super::name::{self, Spelling};
use super::{Field, HeadError, HeadLimits, Name, Span};

/// How many fields all `Connection` fields of a head may name, besides those that are hop-by-hop
/// anyway. Plain choice: real clients name one or two; the bound keeps the marking linear.
pub const NOMINATED_MAX: usize = 16;

/// Room for the tokens of a head on the stack: enough for the default of `fields_max`.
pub(super) const TOKENS: usize = 128;
/// Room for the tokens of the heads with most fields.
pub(super) const TOKENS_MAX: usize = HeadLimits::FIELDS_MAX as usize;

/// Uninitialised room for the tokens of `N` fields.
#[inline]
pub(super) fn token_room<'a, const N: usize>() -> [MaybeUninit<httparse::Header<'a>>; N] {
    [const { MaybeUninit::uninit() }; N]
}

/// What the fields of a head say about its message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// `Content-Length`.
    pub(super) length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub(super) chunked: bool,
    /// `Connection: close`.
    pub(super) close: bool,
    /// `Connection: keep-alive`.
    pub(super) keep_alive: bool,
    /// `Connection: upgrade`.
    pub(super) upgrade_option: bool,
    /// The value of the first `Upgrade`.
    pub(super) upgrade: Option<Span>,
    /// The value of the first `Host`.
    pub(super) host: Option<Span>,
    /// There is more than one `Host`.
    pub(super) host_repeated: bool,
    /// The value of the last `Expect`.
    pub(super) expect: Option<Span>,
    /// There is an `Expect` that is not `100-continue`.
    pub(super) expect_other: bool,
    /// The value of the last `Content-Type`.
    pub(super) content_type: Option<Span>,
    /// The value of the last `X-Accel-Buffering`.
    pub(super) accel_buffering: Option<Span>,
    /// The value of the last `Keep-Alive`.
    pub(super) keep_alive_field: Option<Span>,
    /// How many other fields `Connection` names.
    nominated: usize,
}

impl Facts {
    /// Does the connection stay open after this message, as far as its head says?
    #[inline]
    pub(super) fn keeps_alive(&self, version: super::Version) -> bool {
        match version {
            super::Version::Http11 => !self.close,
            super::Version::Http10 => self.keep_alive && !self.close,
        }
    }
}

/// Index the field lines of `head`, which start at `start`, and return the offset after the last
/// empty line.
pub(super) fn walk(
    head: &[u8],
    start: usize,
    tokens: &[httparse::Header<'_>],
    fields: &mut Vec<Field>,
    facts: &mut Facts,
) -> Result<usize, HeadError> {
    let mut at = start;
    for token in tokens {
        let name = Span::new(at, at + token.name.len());
        let value_start = skip_blank(head, name.end() + 1);
        let value = Span::new(value_start, value_start + token.value.len());
        at = line_end(head, skip_blank(head, value.end()))?;
        let plain = head[name.end()..value_start] == *b": " && at == value.end() + 2;
        let (id, spelling) = name::look_up(token.name.as_bytes());
        let id = match spelling {
            Spelling::Exact => id,
            Spelling::Underscore => meant(id, name)?,
        };
        facts.note(head, id, value)?;
        fields.push(Field { name, value, id, hop: id.is_hop_by_hop(), plain });
    }
    let end = line_end(head, at)?;
    if facts.chunked && facts.length.is_some() {
        return Err(HeadError::LengthAndCoding);
    }
    if facts.nominated > 0 {
        mark_nominated(head, fields);
    }
    Ok(end)
}

/// The offset after the CR LF at `at`.
#[inline]
pub(super) fn line_end(head: &[u8], at: usize) -> Result<usize, HeadError> {
    match head.get(at..at + 2) {
        Some(b"\r\n") => Ok(at + 2),
        _ => Err(HeadError::LineEnd { at }),
    }
}

/// The offset of the first byte at or after `at` that is neither space nor tab.
#[inline]
fn skip_blank(head: &[u8], mut at: usize) -> usize {
    while matches!(head.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// What a field is taken for whose name is `id` but for underscores: the real one where it tells
/// of the client or of other tries, nothing special otherwise.
fn meant(id: Name, name: Span) -> Result<Name, HeadError> {
    match id {
        Name::ContentLength | Name::TransferEncoding => {
            Err(HeadError::FieldAmbiguous { at: name.start() })
        }
        Name::XRequestId | Name::SpillgateAttempt => Ok(id),
        id if id.is_forwarding() => Ok(id),
        _ => Ok(Name::Other),
    }
}

impl Facts {
    /// Is there nothing in them that only the whole head can tell to be right?
    #[inline]
    pub(super) fn are_plain(&self) -> bool {
        self.nominated == 0 && !(self.chunked && self.length.is_some())
    }

    #[inline]
    pub(super) fn note(&mut self, head: &[u8], id: Name, value: Span) -> Result<(), HeadError> {
        match id {
            Name::Host => {
                self.host_repeated = self.host.is_some();
                self.host = self.host.or(Some(value));
            }
            Name::ContentLength => self.note_length(value.of(head), value.start())?,
            Name::TransferEncoding => self.note_coding(value.of(head), value.start())?,
            Name::Connection => self.note_connection(value.of(head), value.start())?,
            Name::Upgrade => self.upgrade = self.upgrade.or(Some(value)),
            Name::Expect => {
                self.expect = Some(value);
                self.expect_other |= !value.of(head).eq_ignore_ascii_case(b"100-continue");
            }
            Name::ContentType => self.content_type = Some(value),
            Name::XAccelBuffering => self.accel_buffering = Some(value),
            Name::KeepAlive => self.keep_alive_field = Some(value),
            _ => {}
        }
        Ok(())
    }

    fn note_length(&mut self, value: &[u8], at: usize) -> Result<(), HeadError> {
        if self.length.is_some() {
            return Err(HeadError::LengthRepeated { at });
        }
        self.length = Some(decimal(value).ok_or(HeadError::LengthInvalid { at })?);
        Ok(())
    }

    fn note_coding(&mut self, value: &[u8], at: usize) -> Result<(), HeadError> {
        if self.chunked {
            return Err(HeadError::CodingRepeated { at });
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(coding_error(value, at));
        }
        self.chunked = true;
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8], at: usize) -> Result<(), HeadError> {
        for option in list(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade_option = true;
            } else {
                self.note_nominated(option, at)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn note_nominated(&mut self, option: &[u8], at: usize) -> Result<(), HeadError> {
        if !is_token(option) {
            return Err(HeadError::ConnectionInvalid { at });
        }
        let id = Name::of(option);
        if matches!(id, Name::Host | Name::ContentLength) {
            return Err(HeadError::ConnectionNamesFraming { at });
        }
        if id.is_hop_by_hop() {
            return Ok(());
        }
        self.nominated += 1;
        if self.nominated > NOMINATED_MAX {
            return Err(HeadError::ConnectionInvalid { at });
        }
        Ok(())
    }
}

/// Why a `Transfer-Encoding` other than `chunked` is refused: 501 where it is a list of codings
/// that we could not undo but could delimit, else it is no valid framing at all.
fn coding_error(value: &[u8], at: usize) -> HeadError {
    let mut last: &[u8] = b"";
    for coding in list(value) {
        if last.eq_ignore_ascii_case(b"chunked") || !is_token(coding) {
            return HeadError::CodingInvalid { at };
        }
        last = coding;
    }
    match value.contains(&b',') && last.eq_ignore_ascii_case(b"chunked") {
        true => HeadError::CodingUnknown { at },
        false => HeadError::CodingInvalid { at },
    }
}

/// Mark each field that a `Connection` field names. At most [`NOMINATED_MAX`] names, each compared
/// with each field.
#[cold]
fn mark_nominated(head: &[u8], fields: &mut [Field]) {
    for index in 0..fields.len() {
        if fields[index].id != Name::Connection {
            continue;
        }
        let value = fields[index].value.of(head);
        let others = list(value).filter(|option| {
            !Name::of(option).is_hop_by_hop() && !option.eq_ignore_ascii_case(b"close")
        });
        for option in others {
            for field in fields.iter_mut() {
                field.hop |= field.name.of(head).eq_ignore_ascii_case(option);
            }
        }
    }
}

/// A number of one or more decimal digits and nothing else. `None` also where it does not fit.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
