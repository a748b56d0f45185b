//! Fields after the last chunk.
//!
//! Collected line by line into one bounded buffer, since they may come in pieces; checked like the
//! fields of a head, though without httparse: they are rare and short. A trailer that decides the
//! framing or the destination is an attack and refused. Others that a recipient may act on only in
//! a head (RFC 9110 section 6.5.1) are dropped, so that nobody merges them into one.

use super::field::{self, FieldIter};
use super::{BodyError, Field, Name, Span};

/// Most trailers of one body. Plain choice: gRPC and digests need a handful.
pub const TRAILERS_MAX: usize = 64;
/// Most bytes of all trailers of one body, with their line ends. Plain choice.
pub const TRAILERS_SIZE_MAX: usize = 8 * 1024;

/// The trailers of one body, as far as they came.
#[derive(Debug, Default)]
pub(super) struct Trailers {
    /// Whole lines that were kept, then the line that is being read.
    bytes: Vec<u8>,
    /// Where the line that is being read starts.
    line_start: usize,
    /// Bytes of lines that were dropped.
    dropped: usize,
    /// Lines so far, dropped ones too.
    lines: usize,
    fields: Vec<Field>,
}

impl Trailers {
    /// Read on; returns how many bytes were taken and whether the empty line has come.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<(usize, bool), BodyError> {
        for (index, byte) in input.iter().enumerate() {
            if self.bytes.len() + self.dropped >= TRAILERS_SIZE_MAX {
                return Err(BodyError::TrailersTooLarge);
            }
            let after_cr = self.bytes[self.line_start..].ends_with(b"\r");
            match (after_cr, byte) {
                (true, b'\n') => {}
                (true, _) | (false, b'\n') => return Err(BodyError::Trailer),
                (false, _) => {
                    self.bytes.push(*byte);
                    continue;
                }
            }
            self.bytes.pop();
            if self.bytes.len() == self.line_start {
                return Ok((index + 1, true));
            }
            self.end_line()?;
        }
        Ok((input.len(), false))
    }

    /// Check the line that has ended, without its CR LF, and keep or drop it.
    fn end_line(&mut self) -> Result<(), BodyError> {
        self.lines += 1;
        if self.lines > TRAILERS_MAX {
            return Err(BodyError::TrailersTooLarge);
        }
        let (start, end) = (self.line_start, self.bytes.len());
        let line = &self.bytes[start..end];
        let colon = line.iter().position(|byte| *byte == b':').ok_or(BodyError::Trailer)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !field::is_token(name) || !value.iter().all(|byte| field::is_value_byte(*byte)) {
            return Err(BodyError::Trailer);
        }
        let id = Name::of(name);
        if is_forbidden(name) {
            return Err(BodyError::TrailerForbidden);
        }
        if is_for_heads(name) {
            self.dropped += end - start + 2;
            self.bytes.truncate(start);
            return Ok(());
        }
        let value = field::trim(value);
        let value_start = end - value_offset_from_end(&line[colon + 1..]);
        let name = Span::new(start, start + colon);
        let value = Span::new(value_start, value_start + value.len());
        self.fields.push(Field { name, value, id, hop: false, plain: false });
        self.bytes.extend_from_slice(b"\r\n");
        self.line_start = self.bytes.len();
        Ok(())
    }

    /// The trailers that were kept.
    pub(super) fn fields(&self) -> FieldIter<'_> {
        FieldIter::new(&self.bytes, &self.fields)
    }
}

/// The length of `value` without the white space before it.
fn value_offset_from_end(value: &[u8]) -> usize {
    let blank = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    value.len() - blank
}

/// Would it change how the message is read or where it goes, if somebody merged it into a head?
fn is_forbidden(name: &[u8]) -> bool {
    let framing: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"host"];
    framing.iter().any(|known| super::name_matches(name, known))
}

/// Is it a field that means something in a head only? All those that have a rule of ours, and those
/// that RFC 9110 section 6.5.1 names by kind.
fn is_for_heads(name: &[u8]) -> bool {
    const ALSO: [&[u8]; 12] = [
        b"authorization",
        b"content-encoding",
        b"content-range",
        b"set-cookie",
        b"range",
        b"if-match",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
        b"age",
        b"expires",
        b"location",
    ];
    let (id, _) = super::name::look_up(name);
    id != Name::Other || ALSO.iter().any(|known| super::name_matches(name, known))
}
