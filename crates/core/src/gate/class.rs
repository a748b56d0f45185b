//! How important an exchange is, and for whom.
//!
//! Four classes, as in the load shedding of large services (Google's criticality, Netflix's
//! buckets; both have four), and within each 128 cohorts of users, as in WeChat's DAGOR (Zhou et
//! al., SoCC 2018). A user stays in a cohort for an hour, so that under shedding the same users are
//! served whole visits rather than everybody half of one; then the cohorts are drawn anew, so that
//! nobody is turned away for ever. Unlike there the number of classes is fixed, and who does not
//! say its class is `normal` and not the least.
//!
//! Absent: how a class is found in a request (the proxy's `claim.rs`), and what it is used for.

use crate::id::{Key, Kind, Tenant, User};
use crate::rng::Rng;
use crate::time::{Duration, Instant};

/// How important an exchange is. The least number is the most important.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// 0: what must work (a login, a payment, a probe of the site).
    Critical,
    /// 1: what a person waits for. The default.
    #[default]
    Normal,
    /// 2: what a page can do without (recommendations, previews).
    Degraded,
    /// 3: what nobody waits for (prefetch, crawlers, batches).
    Bulk,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All of them, the most important first.
    pub const ALL: [Class; Class::COUNT] =
        [Class::Critical, Class::Normal, Class::Degraded, Class::Bulk];

    /// Its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The class with this number.
    pub fn from_number(number: u8) -> Option<Class> {
        Class::ALL.get(usize::from(number)).copied()
    }

    /// Its name: lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Critical => "critical",
            Class::Normal => "normal",
            Class::Degraded => "degraded",
            Class::Bulk => "bulk",
        }
    }

    /// The class that `word` names, by name (in any case) or by number.
    pub fn from_word(word: &[u8]) -> Option<Class> {
        Class::ALL.into_iter().find(|class| match word {
            [digit @ b'0'..=b'9'] => digit - b'0' == class.number(),
            _ => word.eq_ignore_ascii_case(class.name().as_bytes()),
        })
    }
}

/// One of 128 groups of users that are shed together. The least number is shed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cohort(u8);

impl Cohort {
    /// How many there are.
    pub const COUNT: u16 = 128;

    /// How long a user stays in its cohort: DAGOR's hour.
    const TIME: Duration = Duration::from_secs(3600);

    /// The cohort of `user` at `now`.
    pub fn of(user: User, now: Instant) -> Cohort {
        let hour = now.as_nanos() / Cohort::TIME.as_nanos() as u64;
        let mixed = Rng::new(user.0 ^ hour.rotate_left(32)).below(u64::from(Cohort::COUNT));
        Cohort(mixed as u8)
    }
}

/// Class and cohort together, in the order in which exchanges are shed: the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u16);

impl Priority {
    /// How many there are.
    pub const COUNT: usize = Class::COUNT * Cohort::COUNT as usize;

    /// The priority of a cohort of a class.
    pub const fn new(class: Class, cohort: Cohort) -> Priority {
        Priority(class.number() as u16 * Cohort::COUNT + cohort.0 as u16)
    }

    /// Its number, below [`Priority::COUNT`].
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// What an exchange says of itself when it asks for a permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// How important it is.
    pub class: Class,
    /// Who asks, for its cohort.
    pub user: User,
    /// Among whom the pool is shared evenly. Those of one tenant share one share.
    pub tenant: Tenant,
    /// With which others it is alike in the work that it takes.
    pub kind: Kind,
    /// With which others it should go to the same worker, where `balance` goes by that.
    pub key: Key,
    /// The moment from which its answer is of no use to the client, if the client said so.
    pub deadline: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_or_numbered() {
        for (word, class) in [
            ("0", Some(Class::Critical)),
            ("3", Some(Class::Bulk)),
            ("4", None),
            ("01", None),
            ("", None),
            ("degraded", Some(Class::Degraded)),
            ("BULK", Some(Class::Bulk)),
            ("urgent", None),
        ] {
            assert_eq!(Class::from_word(word.as_bytes()), class, "{word}");
        }
        for class in Class::ALL {
            assert_eq!(Class::from_number(class.number()), Some(class));
            assert_eq!(Class::from_word(class.name().as_bytes()), Some(class));
        }
    }

    #[test]
    fn cohorts_are_even_stay_for_an_hour_and_then_change() {
        let hour = |hours: u64| Instant::from_millis(hours * 3_600_000);
        let mut sizes = [0u32; Cohort::COUNT as usize];
        let mut changed = 0;
        for user in (0..12_800).map(User) {
            let cohort = Cohort::of(user, hour(0));
            sizes[usize::from(cohort.0)] += 1;
            assert_eq!(Cohort::of(user, hour(1) - Duration::from_nanos(1)), cohort);
            changed += u32::from(Cohort::of(user, hour(1)) != cohort);
        }
        assert!(sizes.iter().all(|size| (50..160).contains(size)), "{sizes:?}");
        assert!(changed > 12_000, "{changed} of 12,800 change after an hour");
    }

    #[test]
    fn any_class_comes_before_the_next_whatever_the_cohorts() {
        for pair in Class::ALL.windows(2) {
            assert!(Priority::new(pair[0], Cohort(127)) < Priority::new(pair[1], Cohort(0)));
        }
        assert_eq!(Priority::new(Class::Bulk, Cohort(127)).number(), Priority::COUNT - 1);
    }
}
