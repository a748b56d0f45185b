//! Problems of a configuration file, and how they are drawn.
//!
//! A problem knows places by byte position and words; only the drawing knows lines and columns.
//! Whatever the file holds, drawing never panics: positions are clamped to the text, and control
//! characters of the file are shown, not sent to the terminal.

use std::fmt;
use std::io::IsTerminal;
use std::ops::Range;

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str,
};

/// Bytes of the file from one position to before another.
pub(super) type Span = Range<usize>;

/// Most problems that are drawn; the rest is counted. Drawing costs time with the size of the file.
const DRAWN_MAX: usize = 100;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Worth a thought; nothing is wrong.
    Hint,
    /// Probably not what was meant, or wrong on this machine; Spillgate starts all the same.
    Warning,
    /// Spillgate does not start.
    Error,
}

/// One problem of a file.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    severity: Severity,
    title: String,
    /// The first one is what the problem is about.
    labels: Vec<(Span, String)>,
    notes: Vec<String>,
    mends: Vec<String>,
}

impl Problem {
    /// An error at no particular place.
    pub(super) fn error(title: impl Into<String>) -> Self {
        Problem::new(Severity::Error, title.into())
    }

    /// A warning at no particular place.
    pub(super) fn warning(title: impl Into<String>) -> Self {
        Problem::new(Severity::Warning, title.into())
    }

    /// A hint at no particular place.
    pub(super) fn hint(title: impl Into<String>) -> Self {
        Problem::new(Severity::Hint, title.into())
    }

    fn new(severity: Severity, title: String) -> Self {
        Problem { severity, title, labels: Vec::new(), notes: Vec::new(), mends: Vec::new() }
    }

    /// Points at `span`; the first place is the one that counts.
    pub(super) fn at(mut self, span: &Span, label: impl Into<String>) -> Self {
        self.labels.push((span.clone(), label.into()));
        self
    }

    /// Adds what is worth knowing.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds what to do.
    pub(super) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mends.push(mend.into());
        self
    }

    /// Adds what to do, if that is known.
    pub(super) fn mend_if(mut self, mend: Option<String>) -> Self {
        self.mends.extend(mend);
        self
    }

    /// Where it is; nowhere sorts first.
    pub(super) fn start(&self) -> usize {
        self.labels.first().map_or(0, |(span, _)| span.start)
    }
}

/// All problems of one file.
#[derive(Clone, Debug)]
pub(crate) struct Problems {
    name: String,
    text: String,
    list: Vec<Problem>,
}

impl Problems {
    /// The problems of the file `name`, which holds `text`.
    pub(super) fn new(name: &str, text: &str, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(Problem::start);
        Problems { name: name.to_owned(), text: text.to_owned(), list }
    }

    /// Whether one of them keeps Spillgate from starting.
    pub(crate) fn fatal(&self) -> bool {
        self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Draws all of them on standard error; with colours when that is a terminal and `NO_COLOR` is
    /// not set.
    pub(crate) fn show(&self) {
        let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        eprint!("{}", self.draw(coloured));
    }

    /// Draws all of them, with colours for a terminal or without. Empty when there is none.
    pub(super) fn draw(&self, coloured: bool) -> String {
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for problem in self.list.iter().take(DRAWN_MAX) {
            out += &renderer.render(&self.report(problem));
            out += "\n\n";
        }
        if !self.list.is_empty() {
            out += &self.summary();
            out.push('\n');
        }
        out
    }

    fn report<'a>(&'a self, problem: &'a Problem) -> Vec<Group<'a>> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Hint => Level::INFO.with_name("hint"),
        };
        let mut group = Group::with_title(level.primary_title(problem.title.as_str()));
        if problem.labels.is_empty() {
            group = group.element(Origin::path(self.name.as_str()));
        } else {
            let window = self.window(problem);
            let marks = problem.labels.iter().enumerate();
            let marks = marks.map(|(n, label)| self.mark(n, label, window.start));
            let snippet = Snippet::source(&self.text[window.clone()])
                .line_start(self.text[..window.start].matches('\n').count() + 1)
                .path(self.name.as_str());
            group = group.element(snippet.annotations(marks));
        }
        let clean = |text: &String| normalize_untrusted_str(text);
        for note in &problem.notes {
            group = group.element(Level::NOTE.message(clean(note)));
        }
        for mend in &problem.mends {
            group = group.element(Level::HELP.message(clean(mend)));
        }
        vec![group]
    }

    /// The whole lines that `problem` points at, and all between: drawing costs time with each.
    fn window(&self, problem: &Problem) -> Span {
        let spans = problem.labels.iter().map(|(span, _)| self.clamp(span));
        let start = spans.clone().map(|span| span.start).min().unwrap_or(0);
        let end = spans.map(|span| span.end).max().unwrap_or(0);
        let from = self.text[..start].rfind('\n').map_or(0, |n| n + 1);
        let to = self.text[end..].find('\n').map_or(self.text.len(), |n| end + n + 1);
        from..to
    }

    fn mark<'a>(
        &self,
        n: usize,
        (span, label): &'a (Span, String),
        window_start: usize,
    ) -> Annotation<'a> {
        let kind = if n == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        let Span { start, end } = self.clamp(span);
        let mark = kind.span(start - window_start..end - window_start);
        if label.is_empty() { mark } else { mark.label(label.as_str()) }
    }

    /// `span` within the text, its ends at borders of characters.
    fn clamp(&self, span: &Span) -> Span {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end.max(span.start).min(self.text.len()));
        start..end.max(start)
    }

    fn summary(&self) -> String {
        let count = |severity, one: &str| {
            let n = self.list.iter().filter(|p| p.severity == severity).count();
            (n > 0).then(|| format!("{n} {one}{}", if n == 1 { "" } else { "s" }))
        };
        let counts: Vec<String> = [
            count(Severity::Error, "error"),
            count(Severity::Warning, "warning"),
            count(Severity::Hint, "hint"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let more = self.list.len().saturating_sub(DRAWN_MAX);
        let cut = if more > 0 { format!(" ({more} not shown)") } else { String::new() };
        format!("{}: {}{cut}", self.name, counts.join(", "))
    }
}

impl fmt::Display for Problems {
    /// All of them, without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.draw(false))
    }
}

/// A piece of the file for use in a sentence: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let mut out: String =
        text.chars().take(CHARS_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}
