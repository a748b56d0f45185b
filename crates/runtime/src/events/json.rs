//! Pieces of JSON appended to a byte buffer: what an access record is made of.
//!
//! No value tree and no allocation; who calls puts braces, keys and commas around the pieces.
//! Invariant: any bytes, also hostile ones, become one valid JSON string without control
//! characters in it, so a record is always one line and harmless to a terminal.

use std::time::Duration;

use spillgate_wire::digits;
pub use spillgate_wire::digits::number;

/// Appends `text` in quotes.
///
/// Quotes, backslashes and control characters (C0, DEL, C1) are escaped. A byte that is not part of
/// valid UTF-8 becomes `\u00XX` with its value, so it can still be told which byte it was.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let clean = clean_len(text);
    out.extend_from_slice(&text[..clean]);
    if clean < text.len() {
        escape(out, &text[clean..]);
    }
    out.push(b'"');
}

/// `text` as a JSON string, for what is written again and again.
pub fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(&mut out, text.as_bytes());
    out
}

/// Appends `duration` in milliseconds with three decimals: `12.345`.
#[inline]
pub fn millis(out: &mut Vec<u8>, duration: Duration) {
    match duration.as_secs() {
        0..100 => few_millis(out, (duration.as_nanos() as u64 / 1000) as u32),
        _ => many_millis(out, duration),
    }
}

/// The usual case, `micros` being below 100,000,000: all digits are made at once, and those in
/// front that say nothing are left out.
#[inline]
fn few_millis(out: &mut Vec<u8>, micros: u32) {
    let digits = u64::from_be_bytes(digits::eight(micros));
    // The fourth from the end is always written.
    let spare = (((digits & 0x0f0f_0f0f_0f0f_0f0f) | 1 << 24).leading_zeros() / 8).min(4);
    let whole = (digits & !0xff_ffff) << (spare * 8);
    let fraction = (digits as u32 & 0xff_ffff) | u32::from(b'.') << 24;
    let len = out.len() + 5 - spare as usize;
    out.extend_from_slice(&whole.to_be_bytes());
    out.truncate(len);
    out.extend_from_slice(&fraction.to_be_bytes());
}

#[cold]
fn many_millis(out: &mut Vec<u8>, duration: Duration) {
    let seconds = duration.as_secs().saturating_mul(1000);
    let micros = duration.subsec_micros();
    number(out, seconds.saturating_add(u64::from(micros / 1000)));
    let [.., hundreds, tens, ones] = digits::eight(micros % 1000);
    out.extend_from_slice(&[b'.', hundreds, tens, ones]);
}

/// How many bytes from the start are plain ASCII that needs no escape.
#[inline]
fn clean_len(text: &[u8]) -> usize {
    match is_clean(text) {
        true => text.len(),
        false => text.iter().take_while(|byte| is_clean_byte(**byte)).count(),
    }
}

/// Is it nothing but plain ASCII that needs no escape? Eight bytes at a time; what is left over at
/// the end is looked at together with bytes before it.
#[inline]
fn is_clean(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let ends_clean = match text.last_chunk::<8>() {
        Some(last) => is_clean_word(last),
        None => rest.iter().all(|byte| is_clean_byte(*byte)),
    };
    ends_clean && words.iter().all(is_clean_word)
}

#[inline]
fn is_clean_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// By the borrow trick for "has a byte less than n" and "has this byte" of Sean Eron Anderson's
/// "Bit Twiddling Hacks": a false hit comes only beside a true one.
#[inline]
fn is_clean_word(word: &[u8; 8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    const LOW_LIMIT: u64 = u64::from_ne_bytes([0x20; 8]);
    const QUOTE: u64 = u64::from_ne_bytes([b'"'; 8]);
    const BACKSLASH: u64 = u64::from_ne_bytes([b'\\'; 8]);
    const DELETE: u64 = u64::from_ne_bytes([0x7f; 8]);
    let word = u64::from_ne_bytes(*word);
    // Of the bytes above ASCII nothing is asked, since they are no clean ones anyway.
    let zero_byte = |word: u64| word.wrapping_sub(ONES);
    let low = word.wrapping_sub(LOW_LIMIT);
    let special = zero_byte(word ^ QUOTE) | zero_byte(word ^ BACKSLASH);
    (low | special | zero_byte(word ^ DELETE) | word) & HIGH == 0
}

fn escape(out: &mut Vec<u8>, text: &[u8]) {
    for piece in text.utf8_chunks() {
        for character in piece.valid().chars() {
            escape_char(out, character);
        }
        for byte in piece.invalid() {
            escape_code(out, *byte);
        }
    }
}

fn escape_char(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\0'..=' ' | '\x7f'..='\u{9f}' if character != ' ' => escape_code(out, character as u8),
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn escape_code(out: &mut Vec<u8>, code: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digits = [HEX[usize::from(code >> 4)], HEX[usize::from(code & 15)]];
    out.extend_from_slice(b"\\u00");
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &[u8]) -> String {
        let mut out = Vec::new();
        string(&mut out, text);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn strings_are_escaped() {
        let cases: [(&[u8], &str); 9] = [
            (b"", r#""""#),
            (b"/render?a=1&b=two", r#""/render?a=1&b=two""#),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"line\r\n\ttab", r#""line\r\n\ttab""#),
            (b"\x00\x1b[31m\x7f", r#""\u0000\u001b[31m\u007f""#),
            ("grün \u{1f980}".as_bytes(), "\"grün \u{1f980}\""),
            ("\u{9b}31m".as_bytes(), r#""\u009b31m""#),
            (b"bad \xff\xc3 end", r#""bad \u00ff\u00c3 end""#),
            (b"eight888\"nine", r#""eight888\"nine""#),
        ];
        for (text, json) in cases {
            assert_eq!(shown(text), json);
        }
    }

    #[test]
    fn numbers_are_written_whole() {
        for value in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            number(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), value.to_string());
        }
        for (nanos, text) in [
            (0, "0.000"),
            (999, "0.000"),
            (1_234_567_890, "1234.567"),
            (10_999_999, "10.999"),
            (99_999_999_999, "99999.999"),
            (100_000_000_000, "100000.000"),
        ] {
            let mut out = Vec::new();
            millis(&mut out, Duration::from_nanos(nanos));
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    #[test]
    fn each_byte_is_judged_alike_at_each_place() {
        for byte in 0..=255 {
            let clean = matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
            for place in 0..17 {
                let mut text = [b'a'; 17];
                text[place] = byte;
                for len in 0..=text.len() {
                    let expected = if clean { len } else { place.min(len) };
                    assert_eq!(clean_len(&text[..len]), expected, "{byte:#x} at {place} of {len}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_become_one_line(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            let json = shown(&text);
            prop_assert!(!json.chars().any(char::is_control));
            let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let unescaped = inner.expect("it is quoted").replace("\\\\", "").replace("\\\"", "");
            prop_assert!(!unescaped.contains('"'));
        }
    }
}
