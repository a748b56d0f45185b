//! One field of a head: where its name and value lie, what it is, and whether it may pass on.
//!
//! Offsets take two bytes, since no head is larger than 64 KiB; a field is twelve bytes. Values are
//! lent without the white space around them. Absent: joining several fields of one name into one
//! value, and any reading of values that the framing of a message does not need.

use super::Name;

/// A run of bytes inside a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u16,
    len: u16,
}

impl Span {
    /// Nothing, at the start.
    pub(super) const EMPTY: Span = Span { start: 0, len: 0 };

    /// The bytes from `start` to `end` of a head, which is no larger than [`u16::MAX`].
    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && end <= usize::from(u16::MAX));
        Span { start: start as u16, len: (end - start) as u16 }
    }

    /// Where it starts, counted from the first byte of the head.
    pub fn start(self) -> usize {
        usize::from(self.start)
    }

    /// The offset after its last byte.
    pub fn end(self) -> usize {
        usize::from(self.start) + usize::from(self.len)
    }

    /// Does it hold nothing?
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Its bytes, out of the head that it was made for.
    ///
    /// # Panics
    /// With bytes that are shorter than that head.
    #[inline]
    pub fn of(self, head: &[u8]) -> &[u8] {
        &head[self.start()..self.end()]
    }
}

/// One field of an indexed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where its name lies.
    pub name: Span,
    /// Where its value lies, without white space around it.
    pub value: Span,
    /// Which field it is. A forwarding field written with `_` for `-` has the id of the real one.
    pub id: Name,
    /// It concerns this connection only, by its name or because a `Connection` field of the same
    /// head names it: it must not be forwarded.
    pub hop: bool,
    /// Its line is what [`encode::field`](super::encode::field) would write: one space before the
    /// value, none behind it.
    pub(super) plain: bool,
}

/// One field, with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// Which field it is, where a rule of ours asks for it.
    pub id: Name,
    /// Its name as written: one or more token characters.
    pub name: &'a [u8],
    /// Its value, without white space around it; may be empty. No control bytes but tabs.
    pub value: &'a [u8],
    /// It must not be forwarded: see [`Field::hop`].
    pub hop: bool,
}

/// The fields of a head in the order in which they came.
#[derive(Clone, Debug)]
pub struct FieldIter<'a> {
    bytes: &'a [u8],
    fields: std::slice::Iter<'a, Field>,
}

impl<'a> FieldIter<'a> {
    pub(super) fn new(bytes: &'a [u8], fields: &'a [Field]) -> FieldIter<'a> {
        FieldIter { bytes, fields: fields.iter() }
    }

    /// Append those that `keep` wants (it is given [`Field::id`], [`Field::hop`] and the name), as
    /// [`encode::field`](super::encode::field) writes each. Neighbours that came in just that form
    /// are copied together.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>, keep: impl Fn(Name, bool, &[u8]) -> bool) {
        let FieldIter { bytes, fields } = self;
        let mut run = 0..0;
        for field in fields.filter(|field| keep(field.id, field.hop, field.name.of(bytes))) {
            let line = field.name.start()..field.value.end() + 2;
            if field.plain && line.start == run.end {
                run.end = line.end;
                continue;
            }
            out.extend_from_slice(&bytes[run]);
            run = line;
            if !field.plain {
                super::encode::field(out, field.name.of(bytes), field.value.of(bytes));
                run.start = run.end;
            }
        }
        out.extend_from_slice(&bytes[run]);
    }

    /// The value of the first field of that name.
    pub(super) fn first(self, id: Name) -> Option<&'a [u8]> {
        let FieldIter { bytes, mut fields } = self;
        fields.find(|field| field.id == id).map(|field| field.value.of(bytes))
    }

    /// The value of the first field called `name`, in any mix of cases.
    pub(super) fn first_other(self, name: &[u8]) -> Option<&'a [u8]> {
        let FieldIter { bytes, mut fields } = self;
        fields
            .find(|field| field.name.of(bytes).eq_ignore_ascii_case(name))
            .map(|field| field.value.of(bytes))
    }
}

impl<'a> Iterator for FieldIter<'a> {
    type Item = FieldRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<FieldRef<'a>> {
        let field = self.fields.next()?;
        Some(FieldRef {
            id: field.id,
            name: field.name.of(self.bytes),
            value: field.value.of(self.bytes),
            hop: field.hop,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl DoubleEndedIterator for FieldIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let field = self.fields.next_back()?;
        Some(FieldRef {
            id: field.id,
            name: field.name.of(self.bytes),
            value: field.value.of(self.bytes),
            hop: field.hop,
        })
    }
}

impl ExactSizeIterator for FieldIter<'_> {}

/// Would some worker take `name` for `known`? Case does not count, nor does `_` for `-` (as CGI
/// reads names). The test for fields that must not come from just anybody.
pub fn name_matches(name: &[u8], known: &[u8]) -> bool {
    let same = |(a, b): (&u8, &u8)| {
        let a = if *a == b'_' { b'-' } else { a.to_ascii_lowercase() };
        let b = if *b == b'_' { b'-' } else { b.to_ascii_lowercase() };
        a == b
    };
    name.len() == known.len() && name.iter().zip(known).all(same)
}

/// Is `byte` a token character (RFC 9110 section 5.6.2)?
#[inline]
pub(super) const fn is_tchar(byte: u8) -> bool {
    matches!(byte,
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
        | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+'
        | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Is `text` a token: one or more token characters?
pub(super) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_tchar(*byte))
}

/// May `byte` stand in a field value: visible, space, tab, or above ASCII?
pub(super) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The members of a comma-separated list, trimmed, without empty ones.
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// `text` without spaces and tabs around it.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
