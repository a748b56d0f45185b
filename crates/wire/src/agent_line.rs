//! The line in which an agent beside a worker says how much the worker can take, and in which a
//! worker says so itself when it refuses: HAProxy's agent-check.
//!
//! Source: HAProxy Configuration Manual 2.6, `agent-check`, and what its parser does where the
//! manual is silent: the last word of a category wins, unknown words are passed over, a line
//! without an end says nothing. Ours differs: `failed` is taken as well as `fail` (the manual says
//! the one, the parser takes the other), a number must be digits up to its end, and a line has at
//! most [`LINE_SIZE_MAX`] bytes.
//!
//! Absent: what the words do to a worker. That is for the pool to decide.

use std::fmt;

/// The longest line that is read, with its end. Plain choice: ten times what all words together
/// take, with room for a description.
pub const LINE_SIZE_MAX: usize = 1024;

/// Percent above which a weight is cut: 100 times the weight at start, as HAProxy has it, for more
/// is beyond the largest weight anyhow.
const PERCENT_MAX: u32 = 25_600;
/// The largest absolute weight (HAProxy's range is 0 to 256).
const WEIGHT_MAX: u32 = 256;

/// What a line says. What it does not mention stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentLine<'a> {
    /// Whether the worker wants new exchanges.
    pub admin: Option<Admin>,
    /// Its share, against the other workers.
    pub weight: Option<Weight>,
    /// `maxconn:N`, the most exchanges that it wants at once; 0: as many as it is configured for.
    pub slots: Option<u32>,
    /// Whether it works.
    pub health: Option<Health>,
    /// Why; only beside a word of health, and never empty. Any bytes but line ends.
    pub description: Option<&'a [u8]>,
    /// The first word that is unknown, or whose number is not one.
    pub unknown: Option<&'a [u8]>,
}

/// Whether a worker wants new exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// It does.
    Ready,
    /// It ends what it has.
    Drain,
    /// It is being worked on: neither exchanges nor probes.
    Maint,
}

/// The share of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// In percent of the weight it is configured with. Range 0 to 25,600.
    Percent(u32),
    /// A weight of its own. Range 0 to 256.
    Absolute(u32),
}

/// Whether a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Up,
    /// It does not.
    Down,
    /// It does not, and that was not meant.
    Failed,
    /// It was stopped on purpose.
    Stopped,
}

/// A line that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no end of line within {LINE_SIZE_MAX} bytes")
    }
}

impl std::error::Error for LineTooLong {}

/// Read the line at the start of what an agent sent, up to the first CR or LF. `None`: its end is
/// yet to come; where it never comes, nothing was said.
///
/// # Errors
///
/// No end within [`LINE_SIZE_MAX`] bytes.
pub fn parse(input: &[u8]) -> Result<Option<AgentLine<'_>>, LineTooLong> {
    let window = &input[..input.len().min(LINE_SIZE_MAX)];
    match window.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        Some(end) => Ok(Some(words(&window[..end]))),
        None if window.len() == LINE_SIZE_MAX => Err(LineTooLong),
        None => Ok(None),
    }
}

/// Read the words of a line without its end. Never fails: what cannot be read is unknown.
pub fn words(line: &[u8]) -> AgentLine<'_> {
    let mut read = AgentLine::default();
    let sharp = line.iter().position(|byte| *byte == b'#');
    let (words, description) = match sharp {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &b""[..]),
    };
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
    for word in words.split(is_between).filter(|word| !word.is_empty()) {
        read.take(word);
    }
    let description = description.trim_ascii();
    read.description = Some(description).filter(|text| !text.is_empty() && read.health.is_some());
    read
}

impl<'a> AgentLine<'a> {
    fn take(&mut self, word: &'a [u8]) {
        let lower = word.to_ascii_lowercase();
        match lower.as_slice() {
            b"up" => self.health = Some(Health::Up),
            b"down" => self.health = Some(Health::Down),
            b"fail" | b"failed" => self.health = Some(Health::Failed),
            b"stopped" => self.health = Some(Health::Stopped),
            b"ready" => self.admin = Some(Admin::Ready),
            b"drain" => self.admin = Some(Admin::Drain),
            b"maint" => self.admin = Some(Admin::Maint),
            word_lower => {
                let weight = weight(word_lower);
                let slots = word_lower.strip_prefix(b"maxconn:").and_then(number);
                if weight.is_none() && slots.is_none() {
                    self.unknown = self.unknown.or(Some(word));
                }
                self.weight = weight.or(self.weight);
                self.slots = slots.or(self.slots);
            }
        }
    }
}

fn weight(word: &[u8]) -> Option<Weight> {
    let (named, value) = match word.strip_prefix(b"weight:") {
        Some(value) => (true, value),
        None => (false, word),
    };
    match value.strip_suffix(b"%") {
        Some(percent) => Some(Weight::Percent(number(percent)?.min(PERCENT_MAX))),
        None if named => number(value).filter(|weight| *weight <= WEIGHT_MAX).map(Weight::Absolute),
        None => None,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> AgentLine<'static> {
        AgentLine::default()
    }

    #[track_caller]
    fn check(input: &str, expected: AgentLine<'_>) {
        assert_eq!(parse(input.as_bytes()), Ok(Some(expected)), "{input:?}");
    }

    #[test]
    fn each_word_alone() {
        let health = |health| AgentLine { health: Some(health), ..line() };
        let admin = |admin| AgentLine { admin: Some(admin), ..line() };
        let weight = |weight| AgentLine { weight: Some(weight), ..line() };
        for (word, expected) in [
            ("up", health(Health::Up)),
            ("UP", health(Health::Up)),
            ("down", health(Health::Down)),
            ("fail", health(Health::Failed)),
            ("failed", health(Health::Failed)),
            ("Stopped", health(Health::Stopped)),
            ("ready", admin(Admin::Ready)),
            ("drain", admin(Admin::Drain)),
            ("maint", admin(Admin::Maint)),
            ("75%", weight(Weight::Percent(75))),
            ("0%", weight(Weight::Percent(0))),
            ("150%", weight(Weight::Percent(150))),
            ("4000000000%", weight(Weight::Percent(25_600))),
            ("weight:75%", weight(Weight::Percent(75))),
            ("WEIGHT:256", weight(Weight::Absolute(256))),
            ("maxconn:30", AgentLine { slots: Some(30), ..line() }),
            ("maxconn:0", AgentLine { slots: Some(0), ..line() }),
        ] {
            for end in ["\n", "\r", "\r\n", "\nmaint\n"] {
                check(&format!("{word}{end}"), expected);
            }
        }
    }

    #[test]
    fn words_come_in_any_order_and_the_last_of_a_kind_wins() {
        let full = AgentLine {
            admin: Some(Admin::Ready),
            weight: Some(Weight::Percent(50)),
            slots: Some(30),
            health: Some(Health::Up),
            ..line()
        };
        check("up,maxconn:30\t50% ready\r\n", full);
        check("ready 50%,,maxconn:30 \t, up\n", full);
        check("maint down 10% maxconn:1 ready weight:50% maxconn:30 up\n", full);
        check("up down\n", AgentLine { health: Some(Health::Down), ..line() });
        check("\n", line());
        check(" , \t\r\n", line());
    }

    #[test]
    fn a_description_goes_with_a_word_of_health() {
        let down = AgentLine { health: Some(Health::Down), ..line() };
        let why = AgentLine { description: Some(b"db lost"), ..down };
        check("down#db lost\n", why);
        check("down # \tdb lost \r\n", why);
        check("down #\n", down);
        check("drain # two, 50% up\n", AgentLine { admin: Some(Admin::Drain), ..line() });
    }

    #[test]
    fn unknown_words_are_told_and_the_others_hold() {
        let half = AgentLine { weight: Some(Weight::Percent(50)), ..line() };
        check("bogus 50%\n", AgentLine { unknown: Some(b"bogus"), ..half });
        check("50% Bogus other\n", AgentLine { unknown: Some(b"Bogus"), ..half });
        for word in [
            "-1%",
            "+5%",
            "5%5",
            "%",
            "5",
            "weight:",
            "weight:257",
            "weight:x",
            "maxconn:",
            "up%",
            "maxconn:-1",
            "maxconn:99999999999",
            "maxconn:3%",
            "\u{fc}p",
        ] {
            check(&format!("{word}\n"), AgentLine { unknown: Some(word.as_bytes()), ..line() });
        }
    }

    #[test]
    fn a_line_without_an_end_says_nothing() {
        assert_eq!(parse(b"75%"), Ok(None));
        assert_eq!(parse(b""), Ok(None));
        let long = [b'a'; LINE_SIZE_MAX + 5];
        assert_eq!(parse(&long[..LINE_SIZE_MAX - 1]), Ok(None));
        assert_eq!(parse(&long), Err(LineTooLong));
    }
}
