//! Numbers as text, eight digits at a time.
//!
//! Digits are made in the bytes of one register, without a table, a loop or a branch, and appended
//! as a whole: what a small number does not need is cut off again, which costs less than copying a
//! length that the compiler does not know. Absent: signs, fractions, reading numbers.

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The last eight decimal digits of `value`, which is below 100,000,000, zeros in front.
///
/// After Paul Khuong, "How to print integers really fast" (2017): the number is split in halves,
/// quarters and eighths, with the divisions of all parts done by one multiplication.
#[inline]
pub fn eight(value: u32) -> [u8; 8] {
    (eight_values(value) | ZEROS).to_le_bytes()
}

/// The values of the digits, the first in the lowest byte.
#[inline]
fn eight_values(value: u32) -> u64 {
    debug_assert!(value < 100_000_000, "more than eight digits");
    let halves = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | (halves - hundreds * 100) << 16;
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (quarters - tens * 10) << 8
}

/// Append `value` in decimal digits, as few as it needs.
#[inline]
pub fn number(out: &mut Vec<u8>, value: u64) {
    match u32::try_from(value) {
        Ok(small) if small < 100_000_000 => few(out, small),
        _ => many(out, value),
    }
}

#[inline]
fn few(out: &mut Vec<u8>, value: u32) {
    let values = eight_values(value);
    // The last digit stays, also where all are zero.
    let spare = (values | 1 << 56).trailing_zeros() / 8;
    let len = out.len() + 8 - spare as usize;
    out.extend_from_slice(&((values | ZEROS) >> (spare * 8)).to_le_bytes());
    out.truncate(len);
}

#[cold]
fn many(out: &mut Vec<u8>, value: u64) {
    number(out, value / 100_000_000);
    out.extend_from_slice(&eight((value % 100_000_000) as u32));
}

/// The eight lower-case hex digits of `value`.
#[inline]
pub fn hex(value: u32) -> [u8; 8] {
    let mut digits = u64::from(value >> 16) | u64::from(value & 0xffff) << 32;
    digits = (digits >> 8 & 0x0000_00ff_0000_00ff) | (digits & 0x0000_00ff_0000_00ff) << 16;
    digits = (digits >> 4 & 0x000f_000f_000f_000f) | (digits & 0x000f_000f_000f_000f) << 8;
    // One where the digit is a letter: those are the values that six more carry out of their half.
    let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (digits + ZEROS + letters * u64::from(b'a' - b'9' - 1)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(value: u64) {
        let mut out = b"x".to_vec();
        number(&mut out, value);
        assert_eq!(out[1..], *value.to_string().as_bytes());
        let half = value as u32;
        assert_eq!(hex(half), *format!("{half:08x}").as_bytes());
    }

    #[test]
    fn the_ends_of_each_length() {
        for power in 0..20 {
            let first = 10u64.pow(power);
            for value in [first - 1, first, first + 1] {
                check(value);
            }
        }
        check(u64::MAX);
        assert_eq!(eight(1_203), *b"00001203");
    }

    proptest! {
        #[test]
        fn any_number_is_written_as_it_is_displayed(value: u64, shift in 0u32..64) {
            check(value >> shift);
        }
    }
}
