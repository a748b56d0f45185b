//! The file of a Unix socket on which we listen, taken away at the end.
//!
//! Only if it is still ours: a successor may have put its own in its place, which has another
//! inode.
//! Absent: what listens there.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file of a Unix socket. Dropping it takes the file away if it is still the same one.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl SocketFile {
    /// The file at `path`, which was just made.
    ///
    /// # Errors
    /// It is not there.
    pub fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), file: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            // Where it fails, whoever comes next takes a left-over file away.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_its_own_file_goes_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).expect("it listens");
        drop(SocketFile::of(&path).expect("it is there"));
        assert!(!path.exists());

        let _listener = UnixListener::bind(&path).expect("it listens");
        let file = SocketFile::of(&path).expect("it is there");
        std::fs::rename(&path, folder.path().join("old")).expect("renamed");
        let _successor = UnixListener::bind(&path).expect("it listens");
        drop(file);
        assert!(path.exists(), "the successor's file stays");
        assert!(SocketFile::of(&folder.path().join("none")).is_err());
    }
}
