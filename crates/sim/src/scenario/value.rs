//! The values of a scenario file: numbers with their ranges, times and rates with their units.
//!
//! Each checks itself while it is read, so that a mistake is told with its place.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use spillgate_core::gate::Class;
use spillgate_core::time::Duration;

/// Longest time that can be written: ten days.
const TIME_MAX: Duration = Duration::from_secs(10 * 86_400);
/// Most arrivals a second: more than any one machine takes.
const RATE_MAX: f64 = 1e6;

/// A whole number within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count<const MIN: u32, const MAX: u32>(pub(crate) u32);

impl<const MIN: u32, const MAX: u32> Default for Count<MIN, MAX> {
    fn default() -> Self {
        Count(MIN)
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        match u32::try_from(number) {
            Ok(count) if (MIN..=MAX).contains(&count) => Ok(Count(count)),
            _ => Err(de::Error::custom(format!("{number} is not between {MIN} and {MAX}"))),
        }
    }
}

/// A class, by name or by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassName(pub(crate) Class);

impl<'de> Deserialize<'de> for ClassName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ClassName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a class: critical, normal, degraded, bulk, or 0 to 3")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<ClassName, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<ClassName, E> {
                let class = Class::from_word(word.as_bytes());
                let none = || E::custom(format!("'{word}' is not a class: 0 to 3, or its name"));
                class.map(ClassName).ok_or_else(none)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// So many a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate(pub(crate) f64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Rate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number from 0 to {RATE_MAX}")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Rate, E> {
                self.visit_f64(number as f64)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Rate, E> {
                match (0.0..=RATE_MAX).contains(&number) {
                    true => Ok(Rate(number)),
                    false => Err(E::custom(format!("{number} is not between 0 and {RATE_MAX}"))),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Read a duration as scenarios write it: `250ms`, `2s`.
///
/// # Errors
///
/// A message for the user, when it is none, is zero, or is longer than ten days.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = Time::parse(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("'{text}' is not a time such as 250ms"))
}

/// A duration with its unit: `"250ms"`, `"2s"`, `"24h"`. At most ten days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl Time {
    /// Read a duration with its unit; none: it is not one.
    pub(crate) fn parse(text: &str) -> Option<Duration> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let nanos = match &text[digits.len()..] {
            "ns" => 1,
            "us" => 1000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000u64,
            _ => return None,
        };
        let number = digits.parse::<u64>().ok()?;
        let time = Duration::from_nanos(number.checked_mul(nanos)?);
        (time <= TIME_MAX).then_some(time)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom(format!("'{text}' is not a time such as \"250ms\""));
        Time::parse(&text).map(Time).ok_or_else(wrong)
    }
}

pub(super) fn one() -> Count<1, 64> {
    Count(1)
}

pub(super) fn unit() -> Rate {
    Rate(1.0)
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn second() -> Time {
    Time(Duration::from_secs(1))
}

pub(super) fn clients() -> String {
    "clients".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_a_limit() {
        let check = |text, expected: Option<u64>| {
            assert_eq!(Time::parse(text), expected.map(Duration::from_micros), "{text}");
        };
        check("250ms", Some(250_000));
        check("10us", Some(10));
        check("2h", Some(7_200_000_000));
        check("240h", Some(864_000_000_000));
        check("241h", None);
        check("99999999999999999999s", None);
        check("5", None);
        check("ms", None);
        check("-5ms", None);
        check("5 ms", None);
    }
}
