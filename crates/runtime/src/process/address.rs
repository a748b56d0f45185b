//! Addresses on which a process can be told to listen.
//!
//! Absent: which address a process gets; that is the supervisor's shell's to choose. Nothing is
//! ever removed but a socket on which nobody listens.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// How many ports are looked at before the search for a free one is given up.
const TRIES_MAX: u32 = 64;

/// A TCP port of 127.0.0.1 on which nobody listens and that is not in `avoid` (ports given to
/// processes that may not listen yet).
///
/// Somebody may take it before the process does; then the process is not ready, and the next one
/// gets another.
///
/// Errors: no port is free, or the system gives no socket.
pub fn free_port(avoid: &[u16]) -> io::Result<u16> {
    for _ in 0..TRIES_MAX {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if !avoid.contains(&port) {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no free port was found"))
}

/// Remove the socket that a process before left at `path`, which would keep the next from
/// listening there.
///
/// Errors: somebody listens there, or what is there is not a socket; nothing is removed then.
pub(super) fn clear_stale_socket(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        let text = format!("{} exists and is not a socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    if is_listened_on(path)? {
        let text = format!("somebody listens on {}", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
    }
    std::fs::remove_file(path)
}

/// Does a connection to the socket at `path` find a listener, be it one whose queue is full?
fn is_listened_on(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(rustix::io::Errno::AGAIN) => true,
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_free_port_is_not_one_that_is_given_away() {
        let first = free_port(&[]).expect("a port is free");
        let second = free_port(&[first]).expect("another is free");
        assert_ne!(first, second);
    }

    #[test]
    fn only_a_socket_without_a_listener_is_removed() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("worker.sock");
        clear_stale_socket(&path).expect("nothing is there");

        let listener = UnixListener::bind(&path).expect("it can be bound");
        let error = clear_stale_socket(&path).expect_err("it is in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);

        // Shut down, too: a process that another test is just forking may hold a copy of it.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).expect("it listens");
        drop(listener);
        clear_stale_socket(&path).expect("it is stale");
        assert!(!path.exists());

        std::fs::write(&path, "text").expect("it can be written");
        clear_stale_socket(&path).expect_err("a file of somebody's is left alone");
        assert!(path.exists());
    }
}
