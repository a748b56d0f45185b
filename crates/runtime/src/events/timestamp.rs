//! Times of day as RFC 3339 text, in UTC.
//!
//! Most records of a shard fall into the same second as the record before, so the text of that
//! second is kept and only the fraction is written anew. Absent: time zones and leap seconds.

use spillgate_wire::digits::eight;

use crate::clock::WallTime;

/// Length of `2026-11-30T02:49:23`.
const SECOND_LEN: usize = 19;
/// The last second of the year 9999; later ones are written as this one.
const SECOND_MAX: u64 = 253_402_300_799;

/// Writes times of day and keeps the text of the last second. One for each shard.
#[derive(Clone, Debug)]
pub struct Timestamps {
    second: u64,
    text: [u8; SECOND_LEN],
}

impl Timestamps {
    /// Nothing kept yet.
    pub fn new() -> Self {
        Timestamps { second: 0, text: second_text(0) }
    }

    /// Appends `time` with microseconds: `2026-11-30T02:49:23.012345Z`, always 27 bytes.
    pub fn write(&mut self, out: &mut Vec<u8>, time: WallTime) {
        if time.seconds != self.second {
            self.second = time.seconds;
            self.text = second_text(time.seconds);
        }
        let [.., a, b, c, d, e, f] = eight(time.nanos / 1000);
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&[b'.', a, b, c, d, e, f, b'Z']);
    }
}

impl Default for Timestamps {
    fn default() -> Self {
        Self::new()
    }
}

fn second_text(second: u64) -> [u8; SECOND_LEN] {
    let second = second.min(SECOND_MAX);
    let (days, in_day) = (second / 86_400, second % 86_400);
    let (year, month, day) = date_of(days);
    let mut text = *b"0000-00-00T00:00:00";
    text[0..4].copy_from_slice(&digits::<4>(year));
    text[5..7].copy_from_slice(&digits::<2>(month));
    text[8..10].copy_from_slice(&digits::<2>(day));
    text[11..13].copy_from_slice(&digits::<2>(in_day / 3600));
    text[14..16].copy_from_slice(&digits::<2>(in_day / 60 % 60));
    text[17..19].copy_from_slice(&digits::<2>(in_day % 60));
    text
}

/// Year, month and day of the day that many days after 1970-01-01.
///
/// After Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013): years are counted
/// from March, so that the leap day is the last of its year, within eras of 400 years. Ours knows
/// no days before 1970, so nothing is signed.
fn date_of(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_ERA: u64 = 719_468; // from 0000-03-01 to 1970-01-01
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_TO_ERA;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The last `N` decimal digits of `number`.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut text = [b'0'; N];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, nanos: u32, shown: &str) {
        let mut out = Vec::new();
        Timestamps::new().write(&mut out, WallTime { seconds, nanos });
        assert_eq!(String::from_utf8_lossy(&out), shown);
    }

    #[test]
    fn times_of_day_are_written_as_in_rfc_3339() {
        check(0, 0, "1970-01-01T00:00:00.000000Z");
        check(951_782_400, 999_999_999, "2000-02-29T00:00:00.999999Z");
        check(1_709_251_199, 1_000, "2024-02-29T23:59:59.000001Z");
        check(1_709_251_200, 0, "2024-03-01T00:00:00.000000Z");
        check(4_107_542_400, 0, "2100-03-01T00:00:00.000000Z");
        check(1_796_006_963, 12_345_678, "2026-11-30T02:49:23.012345Z");
        check(u64::MAX, 0, "9999-12-31T23:59:59.000000Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date_of(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn the_kept_second_is_renewed() {
        let mut stamps = Timestamps::new();
        let mut out = Vec::new();
        for seconds in [5, 5, 6, 5] {
            stamps.write(&mut out, WallTime { seconds, nanos: 0 });
        }
        let seconds: Vec<u8> = out.chunks(27).map(|stamp| stamp[18]).collect();
        assert_eq!(seconds, b"5565");
    }
}
