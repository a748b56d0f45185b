//! Numbers that carry their unit, so that two of them cannot be swapped.
//!
//! Construction checks, so a value that exists is valid. Absent: durations (`time.rs`), and the
//! ways in which a configuration file writes any of these.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A count of bytes. Shown with a binary unit (`64KiB`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// No bytes.
    pub const ZERO: ByteSize = ByteSize(0);

    /// `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// `kib` times 1,024 bytes.
    pub const fn from_kib(kib: u64) -> Self {
        ByteSize(kib * 1024)
    }

    /// `mib` times 1,048,576 bytes.
    pub const fn from_mib(mib: u64) -> Self {
        ByteSize(mib * 1024 * 1024)
    }

    /// The number of bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; saturates on 32-bit machines.
    pub const fn as_len(self) -> usize {
        if self.0 > usize::MAX as u64 { usize::MAX } else { self.0 as usize }
    }

    /// `self - rhs`, or zero.
    pub const fn saturating_sub(self, rhs: ByteSize) -> ByteSize {
        ByteSize(self.0.saturating_sub(rhs.0))
    }
}

impl Add for ByteSize {
    type Output = ByteSize;
    fn add(self, rhs: ByteSize) -> ByteSize {
        ByteSize(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for ByteSize {
    fn add_assign(&mut self, rhs: ByteSize) {
        *self = *self + rhs;
    }
}

impl Sub for ByteSize {
    type Output = ByteSize;
    /// Panics in debug builds when `rhs` is larger: a ledger that goes below zero is a bug.
    fn sub(self, rhs: ByteSize) -> ByteSize {
        ByteSize(self.0 - rhs.0)
    }
}

impl SubAssign for ByteSize {
    fn sub_assign(&mut self, rhs: ByteSize) {
        *self = *self - rhs;
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (size, unit) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// How many exchanges a worker may hold at once. At least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slots(u32);

impl Slots {
    /// One exchange at a time.
    pub const ONE: Slots = Slots(1);

    /// `count` slots; none when `count` is zero.
    pub const fn new(count: u32) -> Option<Slots> {
        if count == 0 { None } else { Some(Slots(count)) }
    }

    /// The number of slots.
    pub const fn count(self) -> u32 {
        self.0
    }
}

/// How much a worker gets beside the others. From 1 to 256, HAProxy's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// As much as everybody else.
    pub const ONE: Weight = Weight(1);
    /// The greatest.
    pub const MAX: Weight = Weight(256);

    /// A weight of `count`; none where it is out of range.
    pub const fn new(count: u32) -> Option<Weight> {
        if count == 0 || count > Weight::MAX.0 { None } else { Some(Weight(count)) }
    }

    /// The number.
    pub const fn count(self) -> u32 {
        self.0
    }

    /// `absolute` in percent of this weight, rounded up, so that what is not nothing stays so.
    pub const fn percent_of(self, absolute: u32) -> u32 {
        absolute.saturating_mul(100).div_ceil(self.0)
    }
}

/// A share between 0 and 1, in parts per million so that comparisons are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

impl Ratio {
    /// `ppm` parts per million; values above one million are one.
    pub const fn from_ppm(ppm: u32) -> Self {
        Ratio(if ppm > 1_000_000 { 1_000_000 } else { ppm })
    }

    /// `percent` hundredths; values above 100 are one.
    pub const fn from_percent(percent: u32) -> Self {
        Ratio::from_ppm(percent.saturating_mul(10_000))
    }

    /// Parts per million.
    pub const fn as_ppm(self) -> u32 {
        self.0
    }

    /// This share of `count`, rounded down.
    pub const fn of(self, count: u64) -> u64 {
        (count as u128 * self.0 as u128 / 1_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_exact_unit() {
        for (bytes, shown) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (1536, "1536B"),
            (65536, "64KiB"),
            (1 << 20, "1MiB"),
        ] {
            assert_eq!(ByteSize::from_bytes(bytes).to_string(), shown);
        }
    }

    #[test]
    fn a_share_is_rounded_down() {
        assert_eq!(Ratio::from_percent(20).of(9), 1);
        assert_eq!(Ratio::from_percent(20).of(10), 2);
        assert_eq!(Ratio::from_percent(300).of(7), 7);
    }
}
