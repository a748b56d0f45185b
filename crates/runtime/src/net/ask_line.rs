//! One question to an agent: connect, say a fixed text, read one line.
//!
//! The agent speaks first or after our text and need not close; whatever it says behind its line is
//! not read. Absent: what the line means, and the time limit, which is the caller's.

use std::future::poll_fn;
use std::io;

use super::stream::Stream;
use crate::http::settings::Endpoint;

/// Send `text` (which may be empty) and read up to the first CR or LF, to the end of what is sent,
/// or to `size_max` bytes, whichever comes first. Returns what was read; a few bytes behind the end
/// of the line may be among it.
///
/// # Errors
///
/// No connection, or one that breaks before the line is there.
pub async fn ask_line(endpoint: &Endpoint, text: &[u8], size_max: usize) -> io::Result<Vec<u8>> {
    let stream = Stream::connect(endpoint).await?;
    let mut sent = 0;
    while sent < text.len() {
        sent += poll_fn(|cx| stream.poll_write(cx, &text[sent..])).await?;
    }
    let mut line = Vec::new();
    let mut bytes = [0; 512];
    while line.len() < size_max && !line.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        let count = poll_fn(|cx| stream.poll_read(cx, &mut bytes)).await?;
        if count == 0 {
            break;
        }
        line.extend_from_slice(&bytes[..count]);
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::drive::Control;

    /// Ask an agent that reads `question`, then sends `pieces` and keeps the connection until we
    /// close it, unless `closes`.
    fn ask(question: &'static [u8], pieces: &'static [&'static [u8]], closes: bool) -> Vec<u8> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let endpoint = Endpoint::Tcp(listener.local_addr().expect("it is bound"));
        let agent = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("we connect");
            let mut read = vec![0; question.len()];
            stream.read_exact(&mut read).expect("the question comes");
            assert_eq!(read, question);
            for piece in pieces {
                stream.write_all(piece).expect("we read");
            }
            if !closes {
                // Ends when we close.
                let _ = stream.read(&mut [0]);
            }
        });
        let control = Control::start().expect("the control runtime starts");
        let line = control.block_on(ask_line(&endpoint, question, 16)).expect("it answers");
        agent.join().expect("the agent saw what it should");
        line
    }

    #[test]
    fn a_line_is_read_to_its_end() {
        assert_eq!(ask(b"app\n", &[b"7", b"5%\r\n"], false), b"75%\r\n");
        assert_eq!(ask(b"", &[b"up\n"], false), b"up\n");
    }

    #[test]
    fn a_line_without_an_end_is_what_there_is() {
        assert_eq!(ask(b"", &[b"75%"], true), b"75%");
        assert_eq!(ask(b"", &[], true), b"");
        assert_eq!(ask(b"", &[b"0123456789abcdef"], false), b"0123456789abcdef");
    }
}
