//! Recorded access logs: when requests came, and what is known of each.
//!
//! Three formats, told by each line: our own and others' JSON lines, and the common and combined
//! log formats of Apache and nginx. A log is a file of somebody else: what is not understood is
//! counted and left out, and a log with nothing that is understood is an error that says why.
//!
//! Absent: a calendar library; the two notations of a moment are simple enough.

use std::fmt;

use serde::Deserialize;
use spillgate_core::time::Duration;

/// A log in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Its requests, by when they came.
    pub requests: Vec<Request>,
    /// Lines that were not understood.
    pub unread: usize,
    /// The number of the first of them, from 1.
    pub unread_first: Option<usize>,
}

/// A request of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// When it came, from the first request on.
    pub at: Duration,
    /// How long a worker had it; none: the log does not say.
    pub service: Option<Duration>,
    /// The worker that had it; none: the log does not say.
    pub worker: Option<u32>,
    /// It was answered by a worker.
    pub answered: bool,
    /// How long it was on the way until a worker had it; zero where the log does not say.
    pub waited: Duration,
}

/// Why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// The first line that was not understood, from 1; none: there is no line.
    pub line: Option<usize>,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            None => write!(f, "there is no line"),
            Some(line) => write!(
                f,
                "no line is in the common, combined or JSON format; the first that is not is \
                 line {line}"
            ),
        }
    }
}

impl std::error::Error for LogError {}

impl Recorded {
    /// Read a log.
    ///
    /// # Errors
    ///
    /// When no line is understood.
    pub fn read(bytes: &[u8]) -> Result<Recorded, LogError> {
        read(bytes)
    }
}

/// Read a log.
///
/// Where moments are whole seconds, the requests of one second are spread evenly over it, in their
/// order: a log that says no more must not look like a crowd each second.
///
/// # Errors
///
/// When no line is understood.
pub(crate) fn read(bytes: &[u8]) -> Result<Recorded, LogError> {
    let mut lines = Vec::new();
    let mut recorded = Recorded::default();
    for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let parsed = if text.starts_with('{') { json(text) } else { common(text) };
        match parsed {
            Some(line) => lines.push(line),
            None => {
                recorded.unread += 1;
                recorded.unread_first.get_or_insert(number);
            }
        }
    }
    if lines.is_empty() {
        return Err(LogError { line: recorded.unread_first });
    }
    lines.sort_by_key(|line: &Line| line.at);
    spread(&mut lines);
    let first = lines.iter().map(|line| line.at).min().unwrap_or_default();
    recorded.requests = lines
        .iter()
        .map(|line| Request {
            at: Duration::from_nanos(u64::try_from(line.at - first).unwrap_or(u64::MAX)),
            service: line.service,
            worker: line.worker,
            answered: line.answered,
            waited: line.waited,
        })
        .collect();
    recorded.requests.sort_by_key(|request| request.at);
    Ok(recorded)
}

/// A line that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Nanoseconds since 1970.
    at: i128,
    /// The moment is a whole second because the log says no more.
    coarse: bool,
    service: Option<Duration>,
    worker: Option<u32>,
    answered: bool,
    waited: Duration,
}

const SECOND: i128 = 1_000_000_000;

/// Seconds from 1970 to the year 10000, in which no log of today ends.
const MOMENT_MAX: f64 = 253_402_300_800.0;

fn spread(lines: &mut [Line]) {
    for second in lines.chunk_by_mut(|one, other| one.at == other.at) {
        if second[0].coarse {
            let count = second.len() as i128;
            for (line, place) in second.iter_mut().zip(0i128..) {
                line.at += SECOND * place / count;
            }
        }
    }
}

/// The keys that are looked at: our own, and the usual ones of nginx and Caddy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Json {
    #[serde(alias = "time_iso8601", alias = "@timestamp", alias = "timestamp", alias = "ts")]
    time: Moment,
    status: Status,
    worker: Option<u32>,
    end: Option<String>,
    /// Moments of our own stages, in milliseconds since the beginning of the request.
    admit_ms: Option<f64>,
    collect_ms: Option<f64>,
    total_ms: Option<f64>,
    /// Seconds, of nginx (a number, or text) and Caddy.
    #[serde(alias = "upstream_response_time", alias = "duration")]
    request_time: Seconds,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Moment {
    Text(String),
    Number(f64),
    #[default]
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Status {
    Number(u16),
    Text(String),
    #[default]
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
    #[default]
    None,
}

fn json(text: &str) -> Option<Line> {
    let json: Json = serde_json::from_str(text).ok()?;
    let written = match json.time {
        Moment::Text(text) => iso(&text)?,
        Moment::Number(seconds) if (0.0..MOMENT_MAX).contains(&seconds) => (seconds * 1e9) as i128,
        Moment::Number(_) | Moment::None => return None,
    };
    let status = match json.status {
        Status::Number(status) => status,
        Status::Text(text) => text.parse().ok()?,
        Status::None => 0,
    };
    let seconds = match json.request_time {
        Seconds::Number(seconds) => Some(seconds),
        Seconds::Text(text) => text.split([',', ' ']).next().and_then(|first| first.parse().ok()),
        Seconds::None => None,
    };
    let millis = |millis: f64| Duration::try_from_secs_f64(millis / 1000.0).ok();
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // Ours, and nginx's and Caddy's, are written when the exchange has ended.
    let total = json.total_ms.and_then(millis).or(seconds);
    let ours = json.admit_ms.and_then(millis).zip(json.collect_ms.and_then(millis));
    let waited = ours.map_or(Duration::ZERO, |(admit, _)| admit);
    let service = match ours {
        Some((admit, collect)) => Some(collect.saturating_sub(admit)),
        None if json.end.is_some() => None,
        None => seconds,
    };
    let answered = json.end.map_or((200..500).contains(&status), |end| end == "success");
    let at = written - total.map_or(0, |total| total.as_nanos() as i128);
    let coarse = written % SECOND == 0 && total.is_none();
    Some(Line { at, coarse, service, worker: json.worker, answered, waited })
}

/// `HOST IDENT USER [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326` and what follows; a
/// last field that is a number with a point is taken for seconds, as nginx's `$request_time`.
fn common(text: &str) -> Option<Line> {
    let (_, rest) = text.split_once('[')?;
    let (moment, rest) = rest.split_once(']')?;
    let at = calendar(moment)?;
    let (_, rest) = rest.split_once('"')?;
    let mut escaped = false;
    let end = rest.find(|letter| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    })?;
    let rest = rest[end + 1..].trim_start();
    let status: u16 = rest.split(' ').next()?.parse().ok()?;
    let last = rest.rsplit(' ').next().filter(|last| last.contains('.'));
    let seconds = last.and_then(|last| last.parse::<f64>().ok());
    let service = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let answered = (200..500).contains(&status);
    let waited = Duration::ZERO;
    Some(Line { at, coarse: true, service, worker: None, answered, waited })
}

/// `2026-11-30T08:45:57.123Z`, or with an offset.
fn iso(text: &str) -> Option<i128> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let mut date = date.split('-');
    let (year, month) = (date.next()?.parse().ok()?, date.next()?.parse().ok()?);
    let day = date.next()?.parse().ok()?;
    let (clock, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, "Z"),
    };
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, "0"));
    let nanos = format!("{:0<9}", fraction.get(..9.min(fraction.len()))?);
    let moment = days(year, month, day)? * 86_400 + i128::from(seconds(clock)?);
    let nanos: u32 = nanos.parse().ok()?;
    Some((moment - i128::from(minutes(offset)? * 60)) * SECOND + i128::from(nanos))
}

/// `10/Oct/2000:13:55:36 -0700`.
fn calendar(text: &str) -> Option<i128> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, rest) = text.split_once(':')?;
    let mut date = date.split('/');
    let day = date.next()?.parse().ok()?;
    let name = date.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u32 + 1;
    let year = date.next()?.parse().ok()?;
    let (clock, offset) = rest.split_once(' ').unwrap_or((rest, "+0000"));
    let moment = days(year, month, day)? * 86_400 + i128::from(seconds(clock)?);
    Some((moment - i128::from(minutes(offset)? * 60)) * SECOND)
}

fn seconds(clock: &str) -> Option<u32> {
    let mut parts = clock.split(':').map(str::parse::<u32>);
    let mut part = |limit| parts.next()?.ok().filter(|value| *value < limit);
    let (hours, minutes, seconds) = (part(24)?, part(60)?, part(61)?);
    Some(hours * 3600 + minutes * 60 + seconds)
}

/// Minutes that a clock is ahead.
fn minutes(offset: &str) -> Option<i32> {
    let (sign, digits) = match offset.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, offset.trim_start_matches('+')),
    };
    if digits.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let number: i32 = digits.get(..4)?.parse().ok()?;
    Some(sign * (number / 100 * 60 + number % 100))
}

/// Days from 1970-01-01 to this one (Howard Hinnant, "chrono-compatible low-level date algorithms",
/// `days_from_civil`; ours is checked for its range).
fn days(year: i32, month: u32, day: u32) -> Option<i128> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let of_era = year - era * 400;
    let of_year = (153 * ((month as i32 + 9) % 12) + 2) / 5 + day as i32 - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(i128::from(era * 146_097 + of_era - 719_468))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let check = |text: &str, expected: i128| assert_eq!(iso(text), Some(expected), "{text}");
        check("1970-01-01T00:00:00Z", 0);
        check("2000-02-29T12:00:00.5Z", 951_825_600_500_000_000);
        check("2026-11-30T10:45:57.123456789+02:00", 1_796_028_357_123_456_789);
        assert_eq!(calendar("10/Oct/2000:13:55:36 -0700"), Some(971_211_336 * SECOND));
        assert_eq!(iso("2026-13-01T00:00:00Z"), None);
        assert_eq!(iso("yesterday"), None);
        assert_eq!(calendar("10/Okt/2000:13:55:36 -0700"), None);
    }

    fn one(text: &str) -> Line {
        let line = if text.starts_with('{') { json(text) } else { common(text) };
        line.unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn three_formats_are_read() {
        let millis = |millis| Some(Duration::from_millis(millis));
        let line = one("::1 - ann [10/Oct/2000:13:55:36 -0700] \"GET /a\\\" HTTP/1.0\" 200 2326");
        assert_eq!((line.at, line.service, line.answered), (971_211_336 * SECOND, None, true));
        let line =
            one("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 503 2 \"-\" \"x\" \
                        0.250");
        assert_eq!((line.service, line.answered), (millis(250), false));
        let line = one("{\"time\":\"2000-10-10T20:55:36.500Z\",\"status\":200,\"worker\":3,\
                        \"end\":\"success\",\"admit_ms\":100.5,\"collect_ms\":350.5,\
                        \"total_ms\":500}");
        assert_eq!((line.at, line.service), (971_211_336 * SECOND, millis(250)));
        assert_eq!((line.worker, line.answered), (Some(3), true));
        let line = one("{\"ts\":971211336.5,\"status\":\"404\",\"request_time\":\"0.500\"}");
        assert_eq!((line.at, line.service), (971_211_336 * SECOND, millis(500)));
        assert!(!one("{\"time\":\"2000-10-10T20:55:36Z\",\"end\":\"shed\"}").answered);
    }

    #[test]
    fn requests_of_one_second_are_spread_over_it() {
        let line = "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2\n";
        let recorded = read(line.repeat(4).as_bytes()).expect("four lines");
        let at: Vec<_> = recorded.requests.iter().map(|request| request.at.as_millis()).collect();
        assert_eq!(at, [0, 250, 500, 750]);
    }

    #[test]
    fn what_is_not_understood_is_counted() {
        let line = "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2\n";
        let recorded = read(format!("{line}\n#\n{{}}\n{line}").as_bytes()).expect("two lines");
        assert_eq!((recorded.requests.len(), recorded.unread), (2, 2));
        assert_eq!(recorded.unread_first, Some(3));
        assert_eq!(read(b""), Err(LogError { line: None }));
        assert_eq!(read(b"\n\xff\xfe\n"), Err(LogError { line: Some(2) }));
    }
}
