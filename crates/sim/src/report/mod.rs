//! How what came of a scenario is shown: a table for the terminal, a page for a browser.
//!
//! Both are functions of the summaries, to the byte. Absent: judgement.

mod chart;
mod page;
mod table;

pub use page::page;
pub use table::table;

use spillgate_core::gate::Reason;
use spillgate_core::time::Duration;

/// A reason as the metrics, the log and the traces write it, with underlines.
fn reason(reason: Reason) -> String {
    let mut words = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// A duration with three digits that count: `0.42 ms`, `12.3 ms`, `2.02 s`.
pub(crate) fn time(time: Duration) -> String {
    let millis = time.as_nanos() as f64 / 1e6;
    match millis {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{millis:.2} ms"),
        ..100.0 => format!("{millis:.1} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        ..10_000.0 => format!("{:.2} s", millis / 1e3),
        ..100_000.0 => format!("{:.1} s", millis / 1e3),
        _ => format!("{:.0} s", millis / 1e3),
    }
}

/// A count with a space before each three digits.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut spaced = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            spaced.push(' ');
        }
        spaced.push(digit);
    }
    spaced
}

/// A share in percent, with one digit behind the point; a line without any.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!(count(57_629), "57 629");
        assert_eq!(count(1_000_000), "1 000 000");
        assert_eq!(count(7), "7");
        assert_eq!(percent(54_683, 57_629), "94.9 %");
        assert_eq!(percent(0, 0), "–");
        assert_eq!(time(Duration::from_micros(420)), "0.42 ms");
        assert_eq!(time(Duration::from_millis(2020)), "2.02 s");
        assert_eq!(time(Duration::from_secs(4000)), "4000 s");
        assert_eq!(reason(Reason::QueueFull), "queue_full");
    }
}
