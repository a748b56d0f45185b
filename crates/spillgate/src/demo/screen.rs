//! The live table: drawn in place on a terminal, as a line now and then elsewhere.
//!
//! Standard output may go away (`| head`); that ends the drawing, not the demo.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::plan::PHASES;
use super::tally::Count;
use crate::admin::status::{DoingStatus, PoolStatus, WorkerStatus};

/// Columns that every terminal has.
const WIDTH: usize = 79;
/// Pictures for each plain line.
const PLAIN_EVERY: u32 = 2;

/// Everything that is drawn.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    /// The phase.
    pub(super) index: usize,
    /// Since the beginning.
    pub(super) passed: Duration,
    /// All phases together.
    pub(super) whole: Duration,
    /// The pages of the last moments.
    pub(super) recent: Count,
    /// How long those moments are.
    pub(super) recent_span: Duration,
    /// Failed requests so far.
    pub(super) failed: u64,
    /// Uploads that are not complete.
    pub(super) uploading: u32,
    /// What Spillgate says; none: it did not answer.
    pub(super) pool: Option<&'a PoolStatus>,
    /// What happened last.
    pub(super) note: &'a str,
}

/// Standard output.
#[derive(Debug)]
pub(super) struct Screen {
    in_place: bool,
    /// Lines of the table that stands there.
    drawn: usize,
    pictures: u32,
}

impl Screen {
    /// Looks whether standard output is a terminal.
    pub(super) fn new() -> Screen {
        Screen { in_place: io::stdout().is_terminal(), drawn: 0, pictures: 0 }
    }

    /// Writes one line, in as many as it needs to fit.
    pub(super) fn say(&mut self, line: &str) {
        self.drawn = 0;
        for part in wrapped(line) {
            write(&format!("{part}\n"));
        }
    }

    /// Draws the table in place of the one before, or writes its line.
    pub(super) fn draw(&mut self, picture: &Picture<'_>) {
        self.pictures += 1;
        if !self.in_place {
            if self.pictures.is_multiple_of(PLAIN_EVERY) {
                write(&(line(picture) + "\n"));
            }
            return;
        }
        let mut text = String::new();
        if self.drawn > 0 {
            let _ = write!(text, "\x1b[{}A", self.drawn);
        }
        let lines = table(picture);
        for line in &lines {
            let cut: String = line.chars().take(WIDTH).collect();
            let _ = writeln!(text, "\x1b[2K{cut}");
        }
        // The table before may have been longer.
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        write(&text);
    }
}

fn write(text: &str) {
    let mut out = io::stdout().lock();
    // Nobody reads any more: the demo ends by itself.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `line` in parts that fit, broken between words; what is indented stays as it is.
fn wrapped(line: &str) -> Vec<String> {
    if line.starts_with(' ') {
        return vec![line.to_owned()];
    }
    let mut parts = vec![String::new()];
    for word in line.split(' ') {
        let part = parts.last_mut().expect("there is always a part");
        if part.chars().count() + 1 + word.chars().count() <= WIDTH {
            part.push_str(if part.is_empty() { "" } else { " " });
            part.push_str(word);
        } else {
            parts.push(format!("  {word}"));
        }
    }
    parts
}

fn table(picture: &Picture<'_>) -> Vec<String> {
    let Picture { index, recent, pool, .. } = picture;
    let phase = &PHASES[*index];
    let (passed, whole) = (picture.passed.as_secs(), picture.whole.as_secs());
    let head = format!("phase {} of {}: {}", index + 1, PHASES.len(), phase.name);
    let clock = format!("{passed} s of {whole} s");
    let late = recent.answered - recent.in_time;
    let (queue_len, queue_len_max) =
        pool.map_or((0, 0), |pool| (pool.queue_len, pool.queue_len_max));
    let mut lines = vec![
        format!("{head:<60}{clock:>19}"),
        format!("  {}", phase.about),
        String::new(),
        format!(
            "  offered {:<7} in time {:<7} late {:<7} shed {:<7} failed {}",
            picture.rate(recent.offered),
            picture.rate(recent.in_time),
            picture.rate(late),
            picture.rate(recent.shed_sum()),
            picture.failed
        ),
        format!("  shed: {}", picture.reasons()),
        format!(
            "  answers: p50 {:<9} p99 {:<9} queue: {queue_len} of {queue_len_max}",
            millis(recent.quantile(50)),
            millis(recent.quantile(99))
        ),
        format!("  uploads on their way: {}", picture.uploading),
        String::new(),
    ];
    lines.extend(pool.iter().flat_map(|pool| &pool.workers).map(worker));
    lines.push(String::new());
    lines.push(format!("  {}", picture.note));
    lines
}

fn worker(worker: &WorkerStatus) -> String {
    let pid = worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let doing = worker.doing.first().map_or_else(|| "free".to_owned(), doing);
    format!("  worker {}  {:<12} pid {pid:<8} {doing}", worker.id, worker.state)
}

fn doing(doing: &DoingStatus) -> String {
    // A path may hold anything; a terminal is not to obey it.
    let path: String = doing.path.chars().filter(|c| !c.is_control()).take(30).collect();
    format!("{} {path} for {:.0} ms", doing.method, doing.for_ms)
}

/// The table in one line.
fn line(picture: &Picture<'_>) -> String {
    let recent = &picture.recent;
    let queue = picture.pool.map_or(0, |pool| pool.queue_len);
    let workers = picture.pool.map_or(&[][..], |pool| &pool.workers);
    let up = workers.iter().filter(|worker| worker.state == "up").count();
    let mut line = format!(
        "{:>5.1} s  {:<10} offered {}, in time {}, shed {} ({}), failed {}; p50 {}, p99 {}; \
         queue {queue}, workers up {up}",
        picture.passed.as_secs_f64(),
        PHASES[picture.index].name,
        picture.rate(recent.offered),
        picture.rate(recent.in_time),
        picture.rate(recent.shed_sum()),
        picture.reasons(),
        picture.failed,
        millis(recent.quantile(50)),
        millis(recent.quantile(99)),
    );
    if picture.uploading > 0 {
        let _ = write!(line, ", uploads on their way {}", picture.uploading);
    }
    if !picture.note.is_empty() {
        let _ = write!(line, "; {}", picture.note);
    }
    line
}

impl Picture<'_> {
    /// So many in the last moments, by the second.
    fn rate(&self, count: u64) -> String {
        format!("{:.0}/s", count as f64 / self.recent_span.as_secs_f64().max(0.001))
    }

    fn reasons(&self) -> String {
        let shed = &self.recent.shed;
        let reasons: Vec<String> =
            shed.iter().map(|(reason, count)| format!("{reason} {}", self.rate(*count))).collect();
        if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") }
    }
}

/// A time for people.
pub(super) fn millis(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{} ms", time.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture<'static> {
        Picture {
            index: 1,
            passed: Duration::from_millis(9500),
            whole: Duration::from_secs(60),
            recent: Count {
                offered: 349,
                shed: [("queue_full".into(), 230)].into(),
                ..Count::default()
            },
            recent_span: Duration::from_secs(2),
            failed: 0,
            uploading: 0,
            pool: None,
            note: "",
        }
    }

    #[test]
    fn the_table_fits_every_terminal() {
        let lines = table(&picture());
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:#?}");
        assert!(lines[3].contains("offered 174/s"), "{}", lines[3]);
        assert!(lines[4].contains("queue_full 115/s"), "{}", lines[4]);
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrapped("a b"), ["a b"]);
        assert_eq!(wrapped(""), [""]);
        let parts = wrapped(&"word ".repeat(40));
        assert!(parts.len() > 2 && parts.iter().all(|part| part.chars().count() <= WIDTH));
    }

    #[test]
    fn a_line_says_what_the_table_says() {
        let line = line(&picture());
        assert!(line.starts_with("  9.5 s  rush "), "{line}");
        assert!(line.contains("failed 0; p50 -, p99 -"), "{line}");
    }

    #[test]
    fn a_path_cannot_write_to_the_terminal() {
        let shown = doing(&DoingStatus {
            id: 1,
            method: "GET".to_owned(),
            path: "/\x1b[2J".to_owned(),
            stage: "collect".to_owned(),
            for_ms: 3.4,
        });
        assert_eq!(shown, "GET /[2J for 3 ms");
    }
}
