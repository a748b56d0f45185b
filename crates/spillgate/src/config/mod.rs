//! The configuration file: the only place that knows its format.
//!
//! A file passes four steps, each in its own module: `toml` reads the grammar, `raw` and `value`
//! check each value against its record in `table`, `check` looks at what the keys say together, and
//! `build` fills in the defaults. All problems of all steps are told at once; `problem` draws them.
//! Nothing here opens a socket, starts a process or changes a file.

mod build;
mod check;
mod key;
mod many;
mod problem;
mod raw;
mod syntax;
mod table;
mod text;
mod unit;
mod value;

#[cfg(test)]
mod docs;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use spillgate_core::units::ByteSize;
use spillgate_proxy::settings::Settings;
use spillgate_runtime::http::settings::Endpoint;

use self::key::Place;
use self::problem::Problem;
use self::raw::{Raw, Section};
use self::value::Value;
use crate::cli::{AdminAddress, RunArgs};

pub(crate) use self::problem::Problems;
pub(crate) use self::text::{Role, endpoint, socket_file};

/// Largest file that is read, in bytes.
const FILE_SIZE_MAX: u64 = 1 << 20;

/// Everything that a file says, with defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What the serving side is told.
    pub(crate) proxy: Settings,
    /// What the admin page is told; none: there is no page and no command socket.
    pub(crate) admin: Option<AdminSettings>,
}

/// What the admin side is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminSettings {
    /// Where page, status and metrics are served. None: nowhere.
    pub(crate) address: Option<Endpoint>,
    /// Unix socket for commands. Default [`control_path_default`].
    pub(crate) control: PathBuf,
}

/// A file after checking.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The configuration; none when the file has an error.
    pub(crate) config: Option<Config>,
    /// Errors, warnings and hints.
    pub(crate) problems: Problems,
}

impl Outcome {
    fn unreadable(name: &str, problem: Problem) -> Self {
        Outcome { config: None, problems: Problems::new(name, "", vec![problem]) }
    }
}

/// Reads and checks the file at `path`.
pub(crate) fn load(path: &Path) -> Outcome {
    let name = path.display().to_string();
    match read_file(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => check_text(&name, &text),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let problem = Problem::error("the file is not UTF-8")
                    .at(&(valid..valid + 1), "this byte belongs to no character")
                    .mend("save the file as UTF-8");
                Outcome { config: None, problems: Problems::new(&name, &text, vec![problem]) }
            }
        },
        Err(problem) => Outcome::unreadable(&name, problem),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    use std::io::Read;

    use rustix::fs::{Mode, OFlags};

    let unreadable = |error: std::io::Error| {
        Problem::error(format!("the file cannot be read: {error}"))
            .mend("give the path of a configuration file: --config FILE")
    };
    // A FIFO without a writer would hold up the opening for ever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(std::io::Error::from);
    let file = std::fs::File::from(file.map_err(unreadable)?);
    let kind = file.metadata().map_err(unreadable)?.file_type();
    if !kind.is_file() {
        let found = if kind.is_dir() { "a folder" } else { "no ordinary file" };
        return Err(Problem::error(format!("the file cannot be read: it is {found}"))
            .mend("give the path of a configuration file: --config FILE"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_SIZE_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_SIZE_MAX {
        return Err(Problem::error(format!(
            "the file is larger than {}",
            ByteSize::from_bytes(FILE_SIZE_MAX)
        )));
    }
    Ok(bytes)
}

/// Checks `text`, the content of the file `name`. Looks whether folders are there; opens nothing.
pub(crate) fn check_text(name: &str, text: &str) -> Outcome {
    let mut problems = Vec::new();
    let cores = cores();
    let raw = syntax::parse(text, &mut problems);
    if let Some(raw) = &raw {
        check::check(raw, cores, &mut problems);
    }
    let problems = Problems::new(name, text, problems);
    let config = raw.filter(|_| !problems.fatal()).map(|raw| build::build(&raw, cores));
    Outcome { config, problems }
}

/// The configuration of `spillgate run`: one pool `app` of workers that we start, all requests to
/// it, and the admin page at its default address unless `args` say otherwise. Without a number of
/// workers: one for each of `cores`.
///
/// Errors: the program is not on this machine. In a file that is a warning, since the program may
/// come later; who types a command waits for it.
pub(crate) fn for_command(args: RunArgs, cores: u32) -> anyhow::Result<Config> {
    let RunArgs { workers, listen, admin, control, worker: command } = args;
    if let Some(missing) = check::program::missing(&command[0], None) {
        anyhow::bail!("cannot start workers: {missing}");
    }
    let listen = listen.unwrap_or(Endpoint::Tcp(([127, 0, 0, 1], 8080).into()));
    let workers = u64::from(workers.unwrap_or(cores).max(1));
    let mut page = Section::empty(Place::Admin, "");
    match admin {
        Some(AdminAddress::At(address)) => page = page.with("address", Value::Endpoint(address)),
        Some(AdminAddress::Off) => page = page.with("address", Value::Off),
        None => {}
    }
    if let Some(path) = control {
        page = page.with("control", Value::Path(path));
    }
    let listener = Section::empty(Place::Listener, "main").with("address", Value::Endpoint(listen));
    let pool = Section::empty(Place::Pool, "app")
        .with("command", Value::Command(command))
        .with("workers", Value::Count(workers));
    let raw = Raw {
        top: Section::empty(Place::Top, ""),
        spill: None,
        listeners: vec![listener],
        pools: vec![pool],
        routes: Vec::new(),
        access_log: None,
        admin: Some(page),
        lost: false,
    };
    Ok(build::build(&raw, cores))
}

/// Cores that this process may use; the default of `workers`.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// Where the command socket is by default: `/run/spillgate.sock` for root, else
/// `/tmp/spillgate-UID.sock`.
pub(crate) fn control_path_default() -> PathBuf {
    let user = rustix::process::getuid();
    match user.is_root() {
        true => PathBuf::from("/run/spillgate.sock"),
        false => PathBuf::from(format!("/tmp/spillgate-{}.sock", user.as_raw())),
    }
}
