//! What one record of the table says about a key, and how that is put into words.
//!
//! The words for types, ranges and defaults come from here alone, so the manual and the error
//! texts cannot differ from what the checker does.

use std::time::Duration;

use spillgate_core::units::{ByteSize, Ratio};

use super::unit::{duration_text, ratio_text};

/// Everything about one key of the file.
#[derive(Debug)]
pub(crate) struct Key {
    /// The table of the file that it stands in.
    pub(crate) place: Place,
    /// Its name there.
    pub(crate) name: &'static str,
    /// Type, unit and range.
    pub(crate) kind: Kind,
    /// What holds when it is left out.
    pub(crate) preset: Preset,
    /// Whether a reload applies a change; if not, it takes a restart of Spillgate.
    #[cfg_attr(not(test), expect(dead_code, reason = "the manual alone tells it"))]
    pub(crate) live: bool,
    /// One line: what it is.
    pub(crate) line: &'static str,
    /// One paragraph: what to know before changing it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the manual alone tells it"))]
    pub(crate) text: &'static str,
    /// The version that brought it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the manual alone tells it"))]
    pub(crate) since: &'static str,
}

impl Key {
    /// Line, range and default in one sentence: the note under an error about this key.
    pub(crate) fn note(&self) -> String {
        let mut note = format!("{}: {}", self.line, self.kind);
        match self.preset {
            Preset::Required(_) => {}
            Preset::Off(meaning) => note += &format!("; left out: {meaning}"),
            Preset::Is(value) => note += &format!("; default {value}"),
            Preset::Derived(rule) => note += &format!("; default: {rule}"),
        }
        note
    }
}

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The top of the file, before any header.
    Top,
    /// `[spill]`
    Spill,
    /// `[listener.NAME]`
    Listener,
    /// `[pool.NAME]`
    Pool,
    /// `[[route]]`
    Route,
    /// The inline table of `reply`.
    Reply,
    /// `[access_log]`
    AccessLog,
    /// `[admin]`
    Admin,
}

impl Place {
    /// All of them, in the order of the manual.
    pub(crate) const ALL: [Place; 8] = [
        Place::Top,
        Place::Listener,
        Place::Pool,
        Place::Route,
        Place::Reply,
        Place::Spill,
        Place::AccessLog,
        Place::Admin,
    ];

    /// As the file writes it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Place::Top => "the top level of the file",
            Place::Spill => "[spill]",
            Place::Listener => "[listener.NAME]",
            Place::Pool => "[pool.NAME]",
            Place::Route => "[[route]]",
            Place::Reply => "reply = { … }",
            Place::AccessLog => "[access_log]",
            Place::Admin => "[admin]",
        }
    }
}

/// Type, unit and range of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A duration with its unit.
    Duration {
        /// Least.
        min: Duration,
        /// Most.
        max: Duration,
    },
    /// A duration, or `"off"`.
    DurationOrOff {
        /// Least.
        min: Duration,
        /// Most.
        max: Duration,
    },
    /// A size with its unit.
    Size {
        /// Least.
        min: ByteSize,
        /// Most.
        max: ByteSize,
    },
    /// Bytes a second.
    Rate {
        /// Least.
        min: ByteSize,
        /// Most.
        max: ByteSize,
    },
    /// A share in percent.
    Share {
        /// Least.
        min: Ratio,
        /// Most.
        max: Ratio,
    },
    /// A whole number.
    Count {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// Where a listener listens.
    Address,
    /// Where the admin page listens, or `"off"`.
    AddressOrOff,
    /// A file or folder.
    Path,
    /// The file of a Unix socket.
    SocketFile,
    /// Where access records go.
    Log,
    /// The host of a request.
    Host,
    /// The path of a request.
    UrlPath,
    /// The name of a pool.
    PoolName,
    /// The value of a `Content-Type` header.
    ContentType,
    /// Any text.
    Text,
    /// Where workers listen, each with its weight where it has one.
    Workers,
    /// Where something listens, one for each worker.
    Endpoints,
    /// Address ranges, and whether Unix sockets.
    TrustedFrom,
    /// Folders.
    Folders,
    /// A program and its arguments.
    Command,
    /// Environment variables.
    Environment,
    /// The name of a header field.
    FieldName,
    /// Classes by method.
    Classes,
    /// Classes by caller.
    Callers,
    /// A reply of our own.
    Reply,
}

impl Kind {
    /// Its type in one or two words.
    #[cfg_attr(not(test), expect(dead_code, reason = "the manual alone tells it"))]
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Kind::Duration { .. } | Kind::DurationOrOff { .. } => "duration",
            Kind::Size { .. } => "size",
            Kind::Rate { .. } => "bytes a second",
            Kind::Share { .. } => "share",
            Kind::Count { .. } => "whole number",
            Kind::Flag => "flag",
            Kind::Choice(_) => "word",
            Kind::Workers => "list of texts and tables",
            Kind::Endpoints | Kind::TrustedFrom | Kind::Folders | Kind::Command => "list of texts",
            Kind::Environment | Kind::Classes | Kind::Callers | Kind::Reply => "table",
            _ => "text",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Kind::Duration { min, max } => {
                write!(f, "{} to {}", duration_text(min), duration_text(max))
            }
            Kind::DurationOrOff { min, max } => {
                write!(f, "{} to {}, or \"off\"", duration_text(min), duration_text(max))
            }
            Kind::Size { min, max } => write!(f, "{min} to {max}"),
            Kind::Rate { min, max } => write!(f, "{min}/s to {max}/s"),
            Kind::Share { min, max } => write!(f, "{} to {}", ratio_text(min), ratio_text(max)),
            Kind::Count { min, max } => write!(f, "{min} to {max}"),
            Kind::Flag => f.write_str("true or false"),
            Kind::Choice(words) => write!(f, "{}", one_of(words.iter().copied(), '"')),
            Kind::Address => f.write_str("\"host:port\" or \"unix:/path\""),
            Kind::AddressOrOff => f.write_str("\"host:port\", \"unix:/path\" or \"off\""),
            Kind::Path => f.write_str("a path"),
            Kind::SocketFile => f.write_str("a path of at most 107 bytes"),
            Kind::Log => f.write_str("\"stdout\", \"off\" or the path of a file"),
            Kind::Host => f.write_str("a host name or address without port"),
            Kind::UrlPath => f.write_str("a path that begins with `/`"),
            Kind::PoolName => f.write_str("the name of a pool of this file"),
            Kind::ContentType => f.write_str("a media type"),
            Kind::Text => f.write_str("a text"),
            Kind::Workers => f.write_str(
                "a list of \"host:port\", \"unix:/path\" and \
                 { address = \"…\", weight = 1 to 256 }",
            ),
            Kind::Endpoints => f.write_str("a list of \"host:port\" and \"unix:/path\""),
            Kind::TrustedFrom => {
                f.write_str("a list of ranges such as \"10.0.0.0/8\" or \"::1/128\", and \"unix:\"")
            }
            Kind::Folders => f.write_str("a list of folders"),
            Kind::Command => f.write_str("a list: a program and its arguments"),
            Kind::Environment => f.write_str("a table of texts"),
            Kind::FieldName => f.write_str("the name of a header field"),
            Kind::Classes => f.write_str("a table of methods and classes"),
            Kind::Callers => f.write_str("a table of callers and classes"),
            Kind::Reply => f.write_str("a table with `status`, `body` and `content_type`"),
        }
    }
}

/// What holds when a key is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preset {
    /// It cannot be left out; this is an example, as the file would write it.
    Required(&'static str),
    /// Nothing; this is what that means.
    Off(&'static str),
    /// This value, as the file would write it.
    Is(&'static str),
    /// A value that depends on others: the rule in words.
    Derived(&'static str),
}

/// `` `a`, `b` or `c` ``, with the given quote.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>, quote: char) -> String {
    let mut list: Vec<String> =
        words.into_iter().map(|word| format!("{quote}{word}{quote}")).collect();
    match list.pop() {
        None => "none".into(),
        Some(last) if list.is_empty() => last,
        Some(last) => format!("{} or {last}", list.join(", ")),
    }
}
