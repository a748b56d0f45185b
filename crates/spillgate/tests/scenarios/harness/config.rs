//! The text of a configuration, put together from the few lines that a scenario cares about.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// The socket of the admin page, in the folder of its Spillgate.
pub(super) const PAGE: &str = "admin.sock";
/// The socket of `spillgate ctl`, in the same folder.
pub(super) const CONTROL: &str = "control.sock";

/// A configuration with one listener `main` and one pool `app`; everything else is default until
/// said otherwise.
#[derive(Default)]
pub(crate) struct Config {
    top: String,
    listener: String,
    pool: String,
    sections: String,
    endpoints: Vec<String>,
    pub(super) descriptors: Option<u32>,
}

impl Config {
    /// A pool without workers yet, or one that gets a `command` by [`Config::pool`].
    pub(crate) fn new() -> Config {
        Config::default()
    }

    /// A pool whose workers are at these addresses.
    pub(crate) fn of(workers: &[SocketAddr]) -> Config {
        workers.iter().fold(Config::new(), |config, worker| config.endpoint(worker.to_string()))
    }

    /// One more worker: `host:port` or `unix:/path`.
    pub(crate) fn endpoint(mut self, endpoint: impl Into<String>) -> Config {
        self.endpoints.push(endpoint.into());
        self
    }

    /// Let Spillgate open so many descriptors only.
    pub(crate) fn descriptors(mut self, count: u32) -> Config {
        self.descriptors = Some(count);
        self
    }

    /// A line at the top of the file.
    pub(crate) fn top(mut self, line: &str) -> Config {
        push_line(&mut self.top, line);
        self
    }

    /// A line of `[listener.main]`. With its own `address`, [`super::Spillgate::connect`] cannot
    /// be used.
    pub(crate) fn listener(mut self, line: &str) -> Config {
        push_line(&mut self.listener, line);
        self
    }

    /// A line of `[pool.app]`.
    pub(crate) fn pool(mut self, line: &str) -> Config {
        push_line(&mut self.pool, line);
        self
    }

    /// Whole sections, with their headings.
    pub(crate) fn section(mut self, text: &str) -> Config {
        push_line(&mut self.sections, text);
        self
    }

    /// The file, for a listener at `address`. Access records go to standard output, where the
    /// harness reads them; the admin page and the command socket are in `folder`, unless the
    /// sections say otherwise.
    pub(super) fn text(&self, address: SocketAddr, folder: &Path) -> String {
        let Config { top, listener, pool, sections, endpoints, .. } = self;
        let mut text = format!("{top}\n[listener.main]\n{listener}");
        if !listener.contains("address") {
            writeln!(text, "address = \"{address}\"").expect("strings take everything");
        }
        write!(text, "\n[pool.app]\n{pool}").expect("strings take everything");
        if !endpoints.is_empty() {
            writeln!(text, "endpoints = {endpoints:?}").expect("strings take everything");
        }
        if !sections.contains("[admin]") {
            let (page, control) = (folder.join(PAGE), folder.join(CONTROL));
            write!(text, "\n[admin]\naddress = \"unix:{}\"\n", page.display())
                .and_then(|()| writeln!(text, "control = \"{}\"", control.display()))
                .expect("strings take everything");
        }
        text + "\n" + sections
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
