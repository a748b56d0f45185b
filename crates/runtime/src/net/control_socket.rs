//! Commands over a Unix socket: one line in, lines out, then the end.
//!
//! Only the user that the process runs as can connect: the mode is 600 before the socket listens at
//! all. Absent: what the lines mean (the binary knows) and the asking side, which needs no engine.
//!
//! Invariants: at most `CONNECTIONS_MAX` conversations run, a line is at most `LINE_MAX` long, and
//! nobody can hold a conversation open without sending its line or taking its answers. Where all
//! are taken, one that has not sent its line is closed for one that comes.

use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};
use spillgate_core::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::places::{Place, Places};
use super::socket_file::SocketFile;
use crate::events;

/// Conversations at once.
const CONNECTIONS_MAX: usize = 16;
/// Longest command line, in bytes.
const LINE_MAX: u64 = 64 * 1024;
/// Longest wait for the command line, and for the client to take a line of ours.
const STILL_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
const BACKLOG: i32 = 64;

/// The socket on which commands come. Its file goes away with it.
#[derive(Debug)]
pub struct ControlSocket {
    /// Taken away before the listener ends: until then no successor's file can have its inode.
    _file: SocketFile,
    listener: StdListener,
}

/// Where the answers of one command go. The conversation lasts for as long as this lives.
#[derive(Debug)]
pub struct Answers {
    write: OwnedWriteHalf,
    read: OwnedReadHalf,
    _place: OwnedSemaphorePermit,
}

impl ControlSocket {
    /// Listen on `path`. A socket file on which nobody listens is taken away first.
    ///
    /// Errors: somebody listens there (`AddrInUse`), the path is something else than a socket, or
    /// the folder does not let us.
    pub fn bind(path: &Path) -> io::Result<ControlSocket> {
        let listener = listen(path)?;
        Ok(ControlSocket { listener, _file: SocketFile::of(path)? })
    }

    /// Answer commands until the task is dropped: `answer` gets each command line, without its line
    /// feed, and where to send answers. For a task of the control runtime.
    ///
    /// Errors: the engine cannot watch the socket.
    pub async fn serve<H, F>(self, answer: H) -> io::Result<()>
    where
        H: Fn(String, Answers) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let mut places = Places::new(CONNECTIONS_MAX);
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    events::warn("control", format_args!("cannot accept a connection: {error}"));
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let place = places.take().await;
            let answer = answer.clone();
            tokio::spawn(async move {
                if let Some((line, answers)) = command(stream, place).await {
                    answer(line, answers).await;
                }
            });
        }
    }
}

impl Answers {
    /// Send one line; a line feed is added.
    ///
    /// Errors: the client has left, or takes nothing for ten seconds.
    pub async fn send(&mut self, line: &str) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        timeout(STILL_MAX, self.write.write_all(&bytes)).await?
    }

    /// Resolves when the client has left.
    pub async fn client_left(&mut self) {
        let mut ignored = [0; 64];
        while self.read.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
    }
}

/// The command line, if one comes whole, in time, and before somebody else wants the place.
async fn command(stream: UnixStream, mut place: Place) -> Option<(String, Answers)> {
    let (read, write) = stream.into_split();
    let mut reader = BufReader::new(read.take(LINE_MAX));
    let mut line = String::new();
    tokio::select! {
        biased;
        read = timeout(STILL_MAX, reader.read_line(&mut line)) => read.ok()?.ok()?,
        () = poll_fn(|cx| place.poll_wanted(cx)) => return None,
    };
    let line = line.strip_suffix('\n')?.to_owned();
    let read = reader.into_inner().into_inner();
    Some((line, Answers { write, read, _place: place.keep() }))
}

/// A listening Unix socket, mode 600, non-blocking.
///
/// Errors: as [`ControlSocket::bind`].
pub(super) fn listen(path: &Path) -> io::Result<StdListener> {
    remove_left_over(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    // Before `listen`: until then nobody can connect, whatever the mode was for a moment.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn remove_left_over(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(in_use("the path exists and is no socket"));
    }
    match StdStream::connect(path) {
        Ok(_) => Err(in_use("another process listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

fn in_use(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use super::*;
    use crate::drive::Control;

    /// Sends `line` and returns the answers.
    fn ask(path: &Path, line: &str) -> Vec<String> {
        let mut stream = StdStream::connect(path).expect("it listens");
        stream.write_all(line.as_bytes()).expect("sent");
        BufReader::new(stream).lines().map_while(Result::ok).collect()
    }

    async fn echo(line: String, mut answers: Answers) {
        for number in 1..=2 {
            let sent = answers.send(&format!("{number} {line}")).await;
            assert!(sent.is_ok(), "the client reads");
        }
    }

    #[test]
    fn one_line_in_lines_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let control = Control::start().expect("it starts");
        let socket = ControlSocket::bind(&path).expect("it listens");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let serving = control.spawn(socket.serve(echo));
        assert_eq!(ask(&path, "hello\n"), ["1 hello", "2 hello"]);
        assert_eq!(ask(&path, "again\nmore\n"), ["1 again", "2 again"]);
        let long = "x".repeat(LINE_MAX as usize + 1) + "\n";
        assert!(ask(&path, &long).is_empty(), "a line without an end is no command");
        serving.abort();
        assert!(control.block_on(serving).is_err());
        assert!(!path.exists(), "its file goes with it");
    }

    #[test]
    fn a_left_over_socket_is_replaced_and_a_living_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        drop(StdListener::bind(&path).expect("it listens"));
        let first = ControlSocket::bind(&path).expect("nobody listens there");
        let error = ControlSocket::bind(&path).expect_err("somebody listens there");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        std::fs::write(&path, "precious").expect("written");
        assert!(ControlSocket::bind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("it is text"), "precious");
    }

    #[test]
    fn the_file_of_a_successor_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let first = ControlSocket::bind(&path).expect("it listens");
        std::fs::remove_file(&path).expect("it is there");
        let _second = ControlSocket::bind(&path).expect("it listens");
        drop(first);
        assert!(path.exists());
    }
}
