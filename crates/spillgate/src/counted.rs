//! A number with its noun, for people: "1 arrival", "2 arrivals". Absent: nouns with odd plurals.

/// `count` and `noun`, which takes an `s` unless there is one.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
