//! Times as octaves: how often one doubles to reach them.
//!
//! A worker that is slowed down takes so many *times* as long for whatever it does, so what its
//! times have in common is a difference of octaves. Their mean (the geometric mean of the times) is
//! moved by a slowdown as a whole, and hardly by one exchange in twenty that takes twenty times as
//! long, which alone doubles an ordinary mean.
//!
//! Integers in parts of an octave, so two machines reckon alike. Absent: floating point.

use std::ops::{Add, Sub};

use crate::time::Duration;

/// Bits behind the point.
const BITS: u32 = 16;
/// `2^x ≈ 1 + x - BEND x (1 - x)`, and the same with the sign turned for the logarithm: so that
/// the middle is right. Off by 1 % at most. In parts of [`Octaves::ONE`].
const BEND: i64 = (0.343_146 * 65_536.0) as i64;

/// A number of octaves, or a difference of two. From -32768 to 32767.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Octaves(i32);

impl Octaves {
    /// Twice.
    pub const ONE: Octaves = Octaves(1 << BITS);

    /// `parts` 65,536ths of an octave.
    pub const fn from_parts(parts: i32) -> Self {
        Octaves(parts)
    }

    /// 65,536ths of an octave.
    pub const fn parts(self) -> i32 {
        self.0
    }

    /// The octaves of `time`, from a nanosecond.
    pub fn of(time: Duration) -> Self {
        Octaves::of_count(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The octaves of `count`; those of zero are those of one.
    pub fn of_count(count: u64) -> Self {
        let count = count.max(1);
        let whole = count.ilog2();
        let fraction = (i128::from(count) << BITS >> whole) as i64 - i64::from(Self::ONE.0);
        let bent = fraction + bend(fraction);
        Octaves(((whole << BITS) as i64 + bent) as i32)
    }

    /// `count` divided by as much as these octaves say, to the nearest. They must be from none
    /// to one.
    pub fn divide(self, count: u32) -> u32 {
        let left = i64::from((Self::ONE - self).0);
        let twice = i64::from(Self::ONE.0) + left - bend(left);
        ((i64::from(count) * twice + i64::from(Self::ONE.0)) >> (BITS + 1)) as u32
    }
}

/// What bends a straight line over one octave; `fraction` is from zero to one.
fn bend(fraction: i64) -> i64 {
    let product = (fraction * (i64::from(Octaves::ONE.0) - fraction)) >> BITS;
    (product * BEND) >> BITS
}

impl Add for Octaves {
    type Output = Octaves;
    fn add(self, rhs: Octaves) -> Octaves {
        Octaves(self.0.saturating_add(rhs.0))
    }
}

impl Sub for Octaves {
    type Output = Octaves;
    fn sub(self, rhs: Octaves) -> Octaves {
        Octaves(self.0.saturating_sub(rhs.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octaves_are_logarithms_within_a_hundredth() {
        for count in [1u64, 2, 3, 5, 7, 12, 1000, 1_234_567, 50_000_000, u64::MAX] {
            let octaves = f64::from(Octaves::of_count(count).parts()) / 65_536.0;
            assert!((octaves - (count as f64).log2()).abs() < 0.01, "{count}: {octaves}");
        }
        assert_eq!(Octaves::of_count(0), Octaves::default());
        let times = [20, 80].map(|millis| Octaves::of(Duration::from_millis(millis)));
        assert_eq!(times[1] - times[0], Octaves::ONE + Octaves::ONE);
    }

    #[test]
    fn a_count_is_divided() {
        for (parts, count, expected) in [
            (0, 16, 16),
            (65_536, 16, 8),
            (32_768, 1000, 707),
            (21_098, 5, 4),
            (38_336, 6, 4),
            (65_536, 1, 1),
        ] {
            let divided = Octaves::from_parts(parts).divide(count);
            assert!(divided.abs_diff(expected) <= count / 100, "{parts} {count}: {divided}");
        }
    }
}
