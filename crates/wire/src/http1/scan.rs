//! Finds the end of a head that comes in pieces, looking at each byte once.
//!
//! A head is judged when it is whole, never before: so the verdict does not depend on how the
//! network cut it. The one exception is a first byte that cannot start a head, which is refused at
//! once (a TLS hello on a plain listener need not wait for the time limit).
//!
//! The first try is left to the token parser, which finds the end of a whole head by itself; only
//! when that fails is the end searched for here, from where the last search stopped.

use super::HeadError;

/// How many empty lines are skipped before a request (RFC 9112 section 2.2 asks for one at least).
/// Plain choice: some old clients send one after a POST body, none sends five.
pub const EMPTY_LINES_MAX: usize = 4;

/// What is known of a head that is not whole yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// So many bytes were searched and hold no end.
    seen: usize,
}

impl Scan {
    /// No byte of this head was looked at before, so a whole head is likely.
    #[inline]
    pub(super) fn is_fresh(self) -> bool {
        self.seen == 0
    }

    /// Does `head` hold its end within its first `size_max` bytes? It starts with the bytes of the
    /// call before, if there was one.
    ///
    /// # Errors
    /// [`HeadError::TooLarge`] when no end can come within `size_max` any more.
    pub(super) fn find(&mut self, head: &[u8], size_max: usize) -> Result<bool, HeadError> {
        let window = &head[..head.len().min(size_max)];
        if has_end(window, self.seen.saturating_sub(2)) {
            return Ok(true);
        }
        if window.len() == size_max {
            return Err(HeadError::TooLarge);
        }
        self.seen = window.len();
        Ok(false)
    }
}

/// Is there an empty line after a line end, at or after `from`? A line end may lack its CR here:
/// such a head has an end too, and is refused when it is read.
fn has_end(window: &[u8], from: usize) -> bool {
    let mut at = from;
    while let Some(offset) = window.get(at..).and_then(line_feed) {
        at += offset + 1;
        if matches!(&window[at..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            return true;
        }
    }
    false
}

/// The first line feed. Sixteen bytes at a time, a shape that the compiler turns into one compare.
fn line_feed(bytes: &[u8]) -> Option<usize> {
    let mut skipped = 0;
    for block in bytes.chunks_exact(16) {
        if block.iter().fold(false, |found, byte| found | (*byte == b'\n')) {
            break;
        }
        skipped += 16;
    }
    bytes[skipped..].iter().position(|byte| *byte == b'\n').map(|offset| skipped + offset)
}

/// How many bytes of empty lines stand before a request, and whether more may follow.
///
/// # Errors
/// [`HeadError::EmptyLines`] for more than [`EMPTY_LINES_MAX`], [`HeadError::LineEnd`] for a bare
/// CR or LF.
pub(super) fn empty_lines(input: &[u8]) -> Result<usize, HeadError> {
    let mut skipped = 0;
    loop {
        match &input[skipped..] {
            [b'\r', b'\n', ..] if skipped == 2 * EMPTY_LINES_MAX => {
                return Err(HeadError::EmptyLines);
            }
            [b'\r', b'\n', ..] => skipped += 2,
            [b'\r', _, ..] | [b'\n', ..] => return Err(HeadError::LineEnd { at: skipped }),
            _ => return Ok(skipped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_however_it_is_cut() {
        let text = b"GET / HTTP/1.1\r\nHost: a-rather-long-name.example\r\nA: b\r\n\r\nrest";
        let end = text.len() - 4;
        for step in 1..text.len() {
            let mut scan = Scan::default();
            let mut len = 0;
            let found = loop {
                len = (len + step).min(text.len());
                if scan.find(&text[..len], 1000).expect("small enough") {
                    break len;
                }
            };
            assert!(found >= end && found < end + step.max(1), "step {step}: {found}");
        }
    }

    #[test]
    fn a_head_of_the_largest_size_fits() {
        let text = b"GET / HTTP/1.0\r\n\r\n";
        assert_eq!(Scan::default().find(text, text.len()), Ok(true));
        let cut = Scan::default().find(text, text.len() - 1);
        assert_eq!(cut, Err(HeadError::TooLarge));
    }

    #[test]
    fn few_empty_lines_are_skipped() {
        assert_eq!(empty_lines(b"\r\n\r\nGET"), Ok(4));
        assert_eq!(empty_lines(b"\r\n\r"), Ok(2));
        assert_eq!(empty_lines(&b"\r\n".repeat(5)), Err(HeadError::EmptyLines));
        assert_eq!(empty_lines(b"\r\n\nGET"), Err(HeadError::LineEnd { at: 2 }));
        assert_eq!(empty_lines(b"\rG"), Err(HeadError::LineEnd { at: 0 }));
    }
}
