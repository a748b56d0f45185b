//! The one generator of random numbers: small, seeded, passed in.
//!
//! SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). Not for
//! secrets. The same seed gives the same numbers on every machine.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that is a function of `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number, over the whole range.
    pub fn next_u64(&mut self) -> u64 {
        let next = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        next
    }

    /// A number from 0 to `bound - 1`; 0 when `bound` is 0. Lemire's multiply-shift, no rejection:
    /// the bias is below 2⁻³² for bounds below 2³².
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number in which each bit hangs on all bits of `number`: the first of the generator with that
/// seed.
pub const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn bounded_numbers_stay_below_the_bound() {
        let mut rng = Rng::new(7);
        assert!((0..10_000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
    }
}
