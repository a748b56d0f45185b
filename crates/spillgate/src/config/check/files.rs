//! What the file system of this machine says about the paths of the file.
//!
//! Only warnings: a configuration may be checked on another machine than it is for, and a folder
//! may be made before the start. Nothing is created or opened here.

use std::path::{Path, PathBuf};

use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::spill::free_in;

use super::super::problem::{Problem, Span};
use super::super::raw::{Raw, Section};
use super::super::value::{At, Value};
use super::{given, program};

/// `f_type` of tmpfs and ramfs in `statfs(2)`.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

pub(super) fn check(raw: &Raw, problems: &mut Vec<Problem>) {
    spill_folders(raw, problems);
    if let Some(log) = &raw.access_log
        && let Some((path, span)) = given(log, "path", Value::as_path)
        && !matches!(path.to_str(), Some("stdout" | "off"))
    {
        parent_exists(path, span, "the access log", problems);
    }
    for listener in &raw.listeners {
        if let Some((Endpoint::Unix(path), span)) = given(listener, "address", Value::as_endpoint) {
            parent_exists(path, span, "the socket of the listener", problems);
        }
    }
    if let Some(admin) = &raw.admin {
        if let Some((path, span)) = given(admin, "control", Value::as_path) {
            parent_exists(path, span, "the command socket", problems);
        }
        if let Some((Endpoint::Unix(path), span)) = given(admin, "address", Value::as_endpoint) {
            parent_exists(path, span, "the socket of the admin page", problems);
        }
    }
    for pool in &raw.pools {
        program_exists(pool, problems);
        if let Some((path, span)) = given(pool, "trace_path", Value::as_path) {
            parent_exists(path, span, "the trace", problems);
        }
        for (key, what) in [("socket_dir", "sockets"), ("directory", "a working directory")] {
            if let Some((path, span)) = given(pool, key, Value::as_path) {
                // A missing `socket_dir` is made at the start; a relative one is an error already.
                if key == "directory" || (path.is_absolute() && path.exists()) {
                    folder_exists(path, span, what, problems);
                }
            }
        }
    }
}

fn spill_folders(raw: &Raw, problems: &mut Vec<Problem>) {
    let Some(spill) = &raw.spill else { return };
    let Some(At { value: Value::Folders(folders), .. }) = spill.given("folders") else { return };
    for At { value: folder, span } in folders {
        if folder_exists(folder, span, "spilled bodies", problems) && in_memory(folder) {
            problems.push(
                Problem::warning(format!("{} is in memory", folder.display()))
                    .at(span, "a folder on tmpfs")
                    .note("what spills there still takes memory, beyond `buffer_memory_max`")
                    .mend("name a folder on a disk, such as \"/var/lib/spillgate\""),
            );
        }
    }
    let Some((size_max, span)) = given(spill, "size_max", Value::as_size) else { return };
    let folders: Vec<_> = folders.iter().map(|folder| folder.value.clone()).collect();
    if free_in(&folders).is_ok_and(|free| free < size_max) {
        problems.push(
            Problem::warning("`size_max` is more than is free in the folders")
                .at(span, "the disk is full before")
                .note("bodies that find it full are turned away")
                .mend("make room there, or set less"),
        );
    }
}

fn program_exists(pool: &Section, problems: &mut Vec<Problem>) {
    let Some(At { value: Value::Command(command), span }) = pool.given("command") else { return };
    // With a search path of its own, or a folder that is missing, nothing can be said.
    let environment = pool.value("environment");
    if let Some(Value::Environment(pairs)) = environment
        && pairs.iter().any(|(name, _)| name == "PATH")
    {
        return;
    }
    let directory = pool.value("directory");
    let directory = directory.as_ref().and_then(Value::as_path).filter(|folder| folder.is_dir());
    if directory.is_none() && pool.has("directory") {
        return;
    }
    if let Some(missing) = program::missing(&command[0], directory.map(PathBuf::as_path)) {
        problems.push(
            Problem::warning(missing)
                .at(span, "the workers could not be started")
                .mend("install it, or give its path"),
        );
    }
}

fn in_memory(folder: &PathBuf) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| IN_MEMORY.contains(&found.f_type))
}

fn parent_exists(path: &Path, span: &Span, what: &str, problems: &mut Vec<Problem>) {
    if path.is_dir() {
        problems.push(
            Problem::warning(format!("{} is a folder", path.display()))
                .at(span, format!("{what} needs a file"))
                .mend("add the name of a file"),
        );
        return;
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        folder_exists(parent, span, what, problems);
    }
}

/// Whether `folder` is a folder on this machine; warns if not.
fn folder_exists(folder: &Path, span: &Span, what: &str, problems: &mut Vec<Problem>) -> bool {
    if folder.is_dir() {
        return true;
    }
    let shown = folder.display();
    let problem = match folder.exists() {
        true => Problem::warning(format!("{shown} is not a folder"))
            .at(span, format!("{what} cannot be there"))
            .mend("name a folder"),
        false => Problem::warning(format!("the folder {shown} does not exist"))
            .at(span, format!("{what} cannot be there"))
            .mend(format!("make it before the start: mkdir -p {shown}")),
    };
    problems.push(problem);
    false
}
