//! Where the demo takes place: a folder of its own, two ports, and the configuration.
//!
//! The configuration goes through the same checks as any file, and is kept in the folder to be
//! copied. The folder stays when the demo ends; what is in it is what an operator would look at.

use std::fs::{DirBuilder, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use spillgate_runtime::http::settings::Endpoint;

use super::plan::{ANSWER_WITHIN, HEAVY_COST, PAGE_COST, WORKERS};

/// Name of the configuration within the folder.
pub(super) const CONFIG_NAME: &str = "spillgate.toml";
/// Name of the pool.
pub(super) const POOL: &str = "app";
/// Where clients connect, if that is free.
const LISTEN_PORT: u16 = 8080;
/// Where the admin page is, if that is free.
const ADMIN_PORT: u16 = 8999;
/// Waiting exchanges: about as many as the workers can answer within the promised time.
const QUEUE_LEN_MAX: u32 = 40;

/// The place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: PathBuf,
    program: PathBuf,
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Place {
    /// Makes the folder and chooses the ports: the well-known ones, or any (`free_ports`).
    ///
    /// Errors: the folder cannot be made, or there is no free port.
    pub(super) fn prepare(free_ports: bool) -> anyhow::Result<Place> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let folder = std::env::temp_dir().join(format!("spillgate-demo-{}", std::process::id()));
        // Fails where it exists: somebody else may have put it there.
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let wanted = |port| if free_ports { 0 } else { port };
        let listen = free_or_other(wanted(LISTEN_PORT))?;
        let admin = free_or_other(wanted(ADMIN_PORT))?;
        Ok(Place { folder, program, listen, admin })
    }

    /// The configuration; also written to the folder.
    ///
    /// Errors: a path is not UTF-8, or the file cannot be written.
    pub(super) fn config(&self) -> anyhow::Result<String> {
        let Place { listen, admin, .. } = self;
        let (program, log, control) =
            (quoted(&self.program)?, quoted(&self.access_log())?, quoted(&self.control())?);
        let within = ANSWER_WITHIN.as_secs();
        let text = format!(
            "\
[listener.main]
address = \"{listen}\"

[pool.{POOL}]
command = [{program}, \"demo-worker\"]  # yours: [\"node\", \"server.js\"]
workers = {WORKERS}
slots = 1                  # each answers one request at a time
queue_len_max = {QUEUE_LEN_MAX}         # one more is told at once that it cannot be served
answer_within = \"{within}s\"       # and so is whoever could not be answered by then

[access_log]
path = {log}

[admin]
address = \"{admin}\"
control = {control}
"
        );
        let file = self.folder.join(CONFIG_NAME);
        std::fs::write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(text)
    }

    /// What is said before it begins.
    pub(super) fn introduction(&self, config: &str) -> Vec<String> {
        let Place { folder, listen, admin, .. } = self;
        let mut lines = vec![format!(
            "{WORKERS} workers, each one request at a time: {} ms a page, {} ms a heavy one.",
            PAGE_COST.as_millis(),
            HEAVY_COST.as_millis()
        )];
        lines.push("In front of them Spillgate, with this configuration:".to_owned());
        lines.push(String::new());
        lines.extend(config.lines().map(|line| format!("    {line}").trim_end().to_owned()));
        lines.push(String::new());
        for (wanted, got) in [(LISTEN_PORT, listen), (ADMIN_PORT, admin)] {
            if wanted != got.port() {
                lines.push(format!("Port {} in place of {wanted}.", got.port()));
            }
        }
        lines.push(format!("Try it:    curl -i http://{listen}/page/1"));
        lines.push(format!("Watch it:  http://{admin}/"));
        lines.push(format!("Files:     {}", folder.display()));
        lines.push("Ctrl-C ends it early.".to_owned());
        lines.push(String::new());
        lines
    }

    /// Where clients connect.
    pub(super) fn listener(&self) -> Endpoint {
        Endpoint::Tcp(self.listen)
    }

    /// Where the admin page is.
    pub(super) fn page(&self) -> Endpoint {
        Endpoint::Tcp(self.admin)
    }

    /// This program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command socket.
    pub(super) fn control(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    fn program_log(&self) -> PathBuf {
        self.folder.join("program.log")
    }

    /// Sends standard error to a file, so that log lines do not run through the table.
    ///
    /// Errors: the file cannot be made, or the system has no descriptor left.
    pub(super) fn divert_log(&self) -> anyhow::Result<Diverted> {
        let path = self.program_log();
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let before = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3)
            .context("cannot keep standard error")?;
        rustix::stdio::dup2_stderr(file).context("cannot divert standard error")?;
        Ok(Diverted { before })
    }
}

/// Standard error goes to a file until this is dropped.
#[derive(Debug)]
pub(super) struct Diverted {
    before: OwnedFd,
}

impl Drop for Diverted {
    fn drop(&mut self) {
        // Fails only without the descriptor that we hold.
        let _ = rustix::stdio::dup2_stderr(&self.before);
    }
}

/// This port of the loopback address, or another one that is free.
fn free_or_other(port: u16) -> anyhow::Result<SocketAddr> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = bind(port).or_else(|_| bind(0)).context("there is no free port")?;
    listener.local_addr().context("there is no free port")
}

/// A path as TOML writes it.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(toml::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn the_configuration_is_valid_whatever_the_paths_are() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        for program in ["/usr/bin/spillgate", "/a \"b\"/c\\d/spillgate"] {
            let place = Place {
                folder: folder.path().to_owned(),
                program: program.into(),
                listen: ([127, 0, 0, 1], 8080).into(),
                admin: ([127, 0, 0, 1], 8999).into(),
            };
            let text = place.config().expect("it can be written");
            let outcome = config::check_text(CONFIG_NAME, &text);
            assert!(outcome.config.is_some(), "{text}\n{:?}", outcome.problems);
        }
    }
}
