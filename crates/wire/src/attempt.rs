//! What proxies in a row tell each other, so that one of them alone repeats a request:
//! `Spillgate-Attempt` on a request, `Spillgate-Retry` on an answer.
//!
//! `Spillgate-Attempt: 2` says that this is the second time that a worker may begin this request,
//! counted over all proxies; without it, it is the first. `Spillgate-Retry: no` says that another
//! try would not help now, wherever it is made.
//! Envoy has the first as `x-envoy-attempt-count`, which it sends with every request where it sends
//! it at all; Finagle has the second as `finagle-http-nonretryable-nack`, and Google's servers as
//! "overloaded; don't retry" (Site Reliability Engineering, 2016, chapter 21).
//!
//! Absent: who is believed, and what follows from it.

/// The field that counts the tries of a request.
pub const ATTEMPT: &[u8] = b"Spillgate-Attempt";

/// The field of an answer that says whether to try again.
pub const RETRY: &[u8] = b"Spillgate-Retry";

/// [`RETRY`] where another try would not help.
pub const NO: &[u8] = b"no";

/// Which try a value of [`ATTEMPT`] names. Range 1 to 255: a greater number is 255, since what
/// counts is that it is not the first. `None` for anything but decimal digits, and for zero.
pub fn number(value: &[u8]) -> Option<u8> {
    if value.is_empty() {
        return None;
    }
    let number = value.iter().try_fold(0u8, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        Some(number.saturating_mul(10).saturating_add(digit))
    });
    number.filter(|number| *number > 0)
}

/// Does a value of [`RETRY`] say that another try would not help? Anything but `no`, in any mix of
/// cases, says nothing.
pub fn is_final(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(NO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_digits_is_a_try() {
        for (value, expected) in [
            ("1", Some(1)),
            ("2", Some(2)),
            ("007", Some(7)),
            ("255", Some(255)),
            ("256", Some(255)),
            ("99999999999999999999999", Some(255)),
            ("0", None),
            ("000", None),
            ("", None),
            ("+2", None),
            ("2.", None),
            ("2, 3", None),
            ("two", None),
            ("\u{662}", None),
        ] {
            assert_eq!(number(value.as_bytes()), expected, "{value:?}");
        }
    }

    #[test]
    fn no_alone_is_final() {
        for (value, expected) in
            [("no", true), ("No", true), ("NO", true), ("", false), ("none", false), ("yes", false)]
        {
            assert_eq!(is_final(value.as_bytes()), expected, "{value:?}");
        }
    }
}
