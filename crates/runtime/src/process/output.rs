//! What workers write: their lines go out through our own standard output and error, each with the
//! name of its worker before it.
//!
//! A worker must never wait for whoever reads our output. Its pipes are read on; lines go through a
//! bounded queue to one thread for each of the two outputs; what does not fit is thrown away and
//! counted, and the count is said in the output itself once it flows again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Longest piece that is written at once, prefix and line end included: a pipe takes that many
/// bytes whole or not at all (`PIPE_BUF`), so lines of several writers do not mix.
const PIECE_LEN_MAX: usize = 4096;
/// Longest prefix; a longer pool name is cut.
const PREFIX_LEN_MAX: usize = 128;
/// Pieces that may wait for each output.
const PIECES_MAX: usize = 1024;
/// Places of a queue that are kept for those who wait until it is written.
const FLUSHES_MAX: usize = 8;
/// Bytes that are read from a worker at once.
const READ_LEN: usize = 16 * 1024;

/// Which of a worker's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The way out for the lines of all workers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkerOutput {
    out: Queue,
    err: Queue,
}

impl WorkerOutput {
    /// Lines go to our own standard output and standard error.
    ///
    /// Errors: a thread cannot be started.
    pub fn to_standard() -> io::Result<WorkerOutput> {
        WorkerOutput::to(Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// Lines go to these writers, each used by a thread of its own.
    ///
    /// Errors: a thread cannot be started.
    pub fn to(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> io::Result<WorkerOutput> {
        Ok(WorkerOutput {
            out: Queue::start("workers-stdout", out)?,
            err: Queue::start("workers-stderr", err)?,
        })
    }

    /// Lines thrown away so far.
    pub fn lines_dropped(&self) -> u64 {
        self.out.dropped.load(Relaxed) + self.err.dropped.load(Relaxed)
    }

    /// Wait until what was said so far is written, for at most `time_max` for each output. Blocks.
    /// False: some of it is still waiting.
    pub fn flush(&self, time_max: Duration) -> bool {
        self.out.flush(time_max) & self.err.flush(time_max)
    }

    fn put(&self, stream: Stream, piece: Vec<u8>) {
        match stream {
            Stream::Out => self.out.put(piece),
            Stream::Err => self.err.put(piece),
        }
    }
}

#[derive(Clone, Debug)]
struct Queue {
    messages: SyncSender<Message>,
    /// Pieces on their way.
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Piece(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Queue {
    fn start(thread: &str, writer: Box<dyn Write + Send>) -> io::Result<Queue> {
        let (messages, received) = sync_channel(PIECES_MAX + FLUSHES_MAX);
        let (waiting, dropped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let queue = Queue { messages, waiting: waiting.clone(), dropped: dropped.clone() };
        let mut writing = Writing { received, writer, waiting, dropped, told: 0 };
        std::thread::Builder::new().name(thread.to_string()).spawn(move || writing.run())?;
        Ok(queue)
    }

    fn put(&self, piece: Vec<u8>) {
        let has_room = self.waiting.fetch_add(1, Relaxed) < PIECES_MAX;
        if !has_room || self.messages.try_send(Message::Piece(piece)).is_err() {
            self.waiting.fetch_sub(1, Relaxed);
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    fn flush(&self, time_max: Duration) -> bool {
        let (written, wait) = sync_channel(1);
        match self.messages.try_send(Message::Flush(written)) {
            Ok(()) => wait.recv_timeout(time_max).is_ok(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

/// The thread at the end of a queue.
struct Writing {
    received: Receiver<Message>,
    writer: Box<dyn Write + Send>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    /// How many of the dropped were told of.
    told: u64,
}

impl Writing {
    fn run(&mut self) {
        while let Ok(message) = self.received.recv() {
            match message {
                Message::Piece(piece) => {
                    self.write(&piece);
                    self.waiting.fetch_sub(1, Relaxed);
                }
                // Whoever asked may have stopped waiting.
                Message::Flush(written) => drop(written.send(())),
            }
            let dropped = self.dropped.load(Relaxed);
            if dropped > self.told {
                let count = dropped - self.told;
                self.told = dropped;
                self.write(format!("[spillgate] {count} lines of workers left out\n").as_bytes());
            }
        }
    }

    /// An output that takes nothing any more loses its lines; the workers are not to suffer.
    fn write(&mut self, piece: &[u8]) {
        let written = self.writer.write_all(piece).and_then(|()| self.writer.flush());
        if written.is_err() {
            self.dropped.fetch_add(1, Relaxed);
            self.told += 1;
        }
    }
}

/// Pass on everything that comes out of `pipe` until it is closed by all who hold its other end.
pub(super) async fn relay(
    mut pipe: pipe::Receiver,
    stream: Stream,
    prefix: String,
    output: WorkerOutput,
) {
    let mut lines = Lines::new(&prefix);
    let mut read = vec![0; READ_LEN];
    loop {
        match pipe.read(&mut read).await {
            Ok(0) | Err(_) => break,
            Ok(len) => lines.feed(&read[..len], |piece| output.put(stream, piece)),
        }
    }
    lines.finish(|piece| output.put(stream, piece));
}

/// Cuts bytes into lines, and lines that are too long into pieces.
#[derive(Debug)]
struct Lines {
    prefix_len: usize,
    /// The prefix, and as much of a line as is there.
    piece: Vec<u8>,
}

impl Lines {
    fn new(prefix: &str) -> Lines {
        let end = prefix.floor_char_boundary(PREFIX_LEN_MAX);
        let piece = prefix.as_bytes()[..end].to_vec();
        Lines { prefix_len: piece.len(), piece }
    }

    fn feed(&mut self, mut bytes: &[u8], mut emit: impl FnMut(Vec<u8>)) {
        while !bytes.is_empty() {
            // One byte is kept for the line end.
            let room = PIECE_LEN_MAX - 1 - self.piece.len();
            let line_len = bytes.iter().take(room).position(|byte| *byte == b'\n');
            let taken = line_len.unwrap_or(room.min(bytes.len()));
            self.piece.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken + usize::from(line_len.is_some())..];
            if line_len.is_some() || self.piece.len() == PIECE_LEN_MAX - 1 {
                emit(self.take());
            }
        }
    }

    /// What is left is a line too.
    fn finish(mut self, mut emit: impl FnMut(Vec<u8>)) {
        if self.piece.len() > self.prefix_len {
            emit(self.take());
        }
    }

    fn take(&mut self) -> Vec<u8> {
        let rest = self.piece[..self.prefix_len].to_vec();
        let mut piece = std::mem::replace(&mut self.piece, rest);
        piece.push(b'\n');
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parts: &[&str], wanted: &[&str]) {
        let mut lines = Lines::new("[a/0] ");
        let mut pieces = Vec::new();
        for part in parts {
            lines.feed(part.as_bytes(), |piece| pieces.push(piece));
        }
        lines.finish(|piece| pieces.push(piece));
        let pieces: Vec<_> =
            pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        assert_eq!(pieces, wanted);
    }

    #[test]
    fn lines_are_whole_whatever_the_reads_were() {
        check(&["one\ntwo\n"], &["[a/0] one\n", "[a/0] two\n"]);
        check(&["o", "ne", "\n", "\n", "two"], &["[a/0] one\n", "[a/0] \n", "[a/0] two\n"]);
        check(&["one\n"], &["[a/0] one\n"]);
        check(&[], &[]);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let long = "x".repeat(PIECE_LEN_MAX);
        let first = PIECE_LEN_MAX - 1 - "[a/0] ".len();
        let pieces = [format!("[a/0] {}\n", &long[..first]), format!("[a/0] {}\n", &long[first..])];
        assert_eq!(pieces[0].len(), PIECE_LEN_MAX);
        check(&[&long, "\n"], &[&pieces[0], &pieces[1]]);
    }

    #[test]
    fn a_prefix_is_cut_where_a_character_ends() {
        let lines = Lines::new(&"\u{e9}".repeat(PREFIX_LEN_MAX));
        assert_eq!(lines.prefix_len, PREFIX_LEN_MAX);
        assert!(Lines::new(&"\u{20ac}".repeat(PREFIX_LEN_MAX)).prefix_len < PREFIX_LEN_MAX);
    }

    /// A reader that takes the first byte only when it is told to.
    struct Stuck {
        go: Receiver<()>,
        written: SyncSender<Vec<u8>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The test's end of it may be gone: then it goes on.
            let _ = self.go.recv();
            let _ = self.written.try_send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_reader_costs_lines_that_are_counted_and_nobody_waits() {
        let (go, wait) = sync_channel(1);
        let (written, pieces) = sync_channel(2 * PIECES_MAX);
        let stuck = Stuck { go: wait, written };
        let output =
            WorkerOutput::to(Box::new(stuck), Box::new(io::sink())).expect("threads start");
        for _ in 0..2 * PIECES_MAX {
            output.put(Stream::Out, b"line\n".to_vec());
        }
        let dropped = output.lines_dropped();
        assert!(dropped >= PIECES_MAX as u64, "{dropped}");
        drop(go);
        assert!(output.flush(Duration::from_secs(10)));
        let text = pieces.try_iter().flatten().collect::<Vec<u8>>();
        let text = String::from_utf8(text).expect("it is text");
        assert!(text.contains(&format!("[spillgate] {dropped} lines of workers left out\n")));
    }
}
