//! Whether the program of a worker is on this machine.
//!
//! Looked for as the system will when it starts a worker: a name without a slash in the folders of
//! `PATH`, a path from the working directory of the worker.

use std::env;
use std::path::Path;

use rustix::fs::{Access, access};

/// What is wrong with `program` for a worker whose working directory is `directory` (none: ours);
/// none: it can be started.
pub(in super::super) fn missing(program: &str, directory: Option<&Path>) -> Option<String> {
    if program.contains('/') {
        let path = directory.unwrap_or(Path::new("")).join(program);
        return match () {
            () if !path.exists() => Some(format!("there is no {}", path.display())),
            () if !is_program(&path) => Some(format!("{} is not a program", path.display())),
            () => None,
        };
    }
    let folders = env::var_os("PATH")?;
    let found = env::split_paths(&folders).any(|folder| is_program(&folder.join(program)));
    (!found).then(|| format!("no program {program:?} is in the folders of PATH"))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_system_finds_them() {
        for (program, directory, missing_one) in [
            ("sh", None, None),
            ("/bin/sh", None, None),
            ("./sh", Some("/bin"), None),
            ("./sh", Some("/"), Some("there is no /./sh")),
            ("/etc/passwd", None, Some("/etc/passwd is not a program")),
            ("/etc", None, Some("/etc is not a program")),
            ("shh!", None, Some("no program \"shh!\" is in the folders of PATH")),
        ] {
            let found = missing(program, directory.map(Path::new));
            assert_eq!(found.as_deref(), missing_one, "{program}");
        }
    }
}
