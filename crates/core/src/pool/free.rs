//! A set of places among the workers, as bits: a thousand busy workers cost sixteen words.

/// Places of workers that can be given an exchange.
#[derive(Debug, Default)]
pub(super) struct FreeSet {
    words: Vec<u64>,
    len: u32,
}

impl FreeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, index: usize, member: bool) {
        if self.contains(index) == member {
            return;
        }
        self.words[index / 64] ^= 1 << (index % 64);
        self.len = if member { self.len + 1 } else { self.len - 1 };
    }

    /// Empty the set; make room for places below `count`.
    pub(super) fn clear(&mut self, count: usize) {
        self.words.clear();
        self.words.resize(count.div_ceil(64), 0);
        self.len = 0;
    }

    /// The first member at or after `from`, before `end`.
    pub(super) fn next(&self, from: usize, end: usize) -> Option<usize> {
        if from >= end {
            return None;
        }
        let mut word = from / 64;
        let mut bits = self.words[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            if word * 64 >= end {
                return None;
            }
            bits = self.words[word];
        }
        let index = word * 64 + bits.trailing_zeros() as usize;
        (index < end).then_some(index)
    }

    /// The members at or after `from`, before `end`, in order.
    pub(super) fn range(&self, from: usize, end: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.next(from, end), move |index| self.next(index + 1, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_and_found_in_order() {
        let mut set = FreeSet::default();
        set.clear(200);
        let members = [0, 1, 63, 64, 127, 128, 199];
        members.iter().for_each(|index| set.set(*index, true));
        set.set(64, true);
        set.set(5, false);
        assert_eq!(set.range(0, 200).collect::<Vec<_>>(), members);
        assert_eq!(set.range(1, 128).collect::<Vec<_>>(), members[1..5]);
        assert_eq!((set.len, set.next(65, 127), set.next(65, 128)), (7, None, Some(127)));
    }
}
