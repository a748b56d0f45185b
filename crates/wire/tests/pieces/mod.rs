//! Feeds an input in pieces, under the default limits.

use spillgate_wire::http1::{HeadLimits, RequestError, RequestHead};

/// The limits that are in force by default.
pub(crate) const LIMITS: HeadLimits = HeadLimits { size_max: 32 * 1024, fields_max: 128 };

/// Feed `text` to a request head in steps of several sizes, and hand each final verdict on.
pub(crate) fn request_in_pieces(text: &[u8], check: impl Fn(Result<Option<usize>, RequestError>)) {
    for step in [1, 2, 3, 7, 16] {
        let mut head = RequestHead::new();
        let mut len = 0;
        let verdict = loop {
            len = (len + step).min(text.len());
            match head.parse(&text[..len], &LIMITS) {
                Ok(None) if len < text.len() => {}
                verdict => break verdict,
            }
        };
        check(verdict);
    }
}
