//! Heads in their plainest form, walked once.
//!
//! Nearly every head looks alike: a common target, `Name: value` with one space, ASCII, CR LF. Such
//! a head is walked here in one pass that finds tokens, checks bytes and indexes fields together,
//! at about half the cost of the token parser and the walk after it. Whatever is unusual in any way
//! (not whole, white space elsewhere, a byte above ASCII, a rule broken) is *not plain*, and is
//! left to the others, who alone say what is wrong with it.
//!
//! Invariant: a head that is plain is indexed just as the others index it (a property test compares
//! them). So this file may refuse whatever it likes, and must never take anything that they refuse.

use super::field::{self, Field, Span};
use super::index::Facts;
use super::name::{self, Name, Spelling};

/// The bytes that may stand in a plain target: those that nobody ever reads in two ways.
const TARGET: u8 = 1;
/// The bytes that may stand in a field name.
const NAME: u8 = 2;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let text = byte as u8;
        let is_special = matches!(
            text,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'/'
                | b'?'
                | b'&'
                | b'='
                | b'%'
                | b'+'
                | b':'
                | b','
                | b';'
        );
        classes[byte] |= if text.is_ascii_alphanumeric() || is_special { TARGET } else { 0 };
        classes[byte] |= if field::is_tchar(text) { NAME } else { 0 };
        byte += 1;
    }
    classes
};

/// The length of the plain target at the start of `text`.
#[inline]
pub(super) fn target_len(text: &[u8]) -> usize {
    len_of(text, TARGET)
}

#[inline]
fn len_of(text: &[u8], class: u8) -> usize {
    text.iter().take_while(|byte| CLASSES[usize::from(**byte)] & class != 0).count()
}

/// Index the field lines of `head`, which start at `start`; returns the offset after the last empty
/// line. None: the head is not plain, or has more than `fields_max` fields; then `fields` and
/// `facts` are to be cleared.
#[inline]
pub(super) fn walk(
    head: &[u8],
    start: usize,
    fields_max: usize,
    fields: &mut Vec<Field>,
    facts: &mut Facts,
) -> Option<usize> {
    let mut at = start;
    loop {
        let line = &head[at..];
        if line.starts_with(b"\r\n") {
            break;
        }
        let name_len = len_of(line, NAME);
        let value = line.get(name_len..)?.strip_prefix(b": ")?;
        let value_len = text_len(value);
        let (value, rest) = value.split_at(value_len);
        // Of white space there is nothing but spaces in it.
        let is_padded = value.first() == Some(&b' ') || value.last() == Some(&b' ');
        if name_len == 0 || is_padded || !rest.starts_with(b"\r\n") || fields.len() == fields_max {
            return None;
        }
        let (id, Spelling::Exact) = name::look_up(&line[..name_len]) else { return None };
        let name = Span::new(at, at + name_len);
        let value = Span::new(name.end() + 2, name.end() + 2 + value_len);
        if id != Name::Other {
            facts.note(head, id, value).ok()?;
        }
        fields.push(Field { name, value, id, hop: id.is_hop_by_hop(), plain: true });
        at = value.end() + 2;
    }
    facts.are_plain().then_some(at + 2)
}

/// How many bytes from the start are visible ASCII or spaces. Eight bytes at a time, by the borrow
/// trick for "has a byte less than n" of Sean Eron Anderson's "Bit Twiddling Hacks": the lowest hit
/// is always true.
#[inline]
fn text_len(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let other = word ^ (ONES * 0x7f);
        let delete = other.wrapping_sub(ONES) & !other;
        let hits = (control | delete | word) & HIGH;
        if hits != 0 {
            return index * 8 + (hits.trailing_zeros() / 8) as usize;
        }
    }
    let is_text = |byte: &&u8| matches!(**byte, b' '..=b'~');
    words.len() * 8 + rest.iter().take_while(is_text).count()
}
