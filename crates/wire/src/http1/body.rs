//! Finds the body in what follows a head, and its end. Copies nothing but trailers.
//!
//! ```text
//!            ┌───────────────────────────────────────────────┐
//!            v                                               │
//!          Size ──;──> Extension                             │
//!            │CR          │CR                                │
//!            └──> SizeLf <┘                                  │
//!                   │LF, size 0        │LF, size > 0         │
//!                   v                  v                     │
//!               AfterLast            Data ──> DataCr ──> DataLf
//!             CR│        │other
//!               v        v
//!            LastLf   Trailers
//!             LF│        │empty line
//!               └──> Done <── Length(0) <── Length(n)      UntilClose ──end of input──> Done
//! ```
//!
//! Chunk sizes are bare hex digits, lines end with CR LF, and data is followed by exactly that:
//! whoever reads a chunked body otherwise is refused rather than guessed at (RFC 9112 section 7.1).
//! Extensions are dropped within a bound, since nobody may rely on them (section 7.1.1).
//!
//! Absent: limits on the size and the pace of a body, which the caller counts.

use std::ops::Range;

use super::trailers::Trailers;
use super::{BodyError, FieldIter, Framing};

/// Most bytes of chunk extensions in one body, all together. Plain choice: no known client sends
/// any; without a bound they are a way to make us read for nothing.
pub const EXTENSIONS_SIZE_MAX: usize = 4 * 1024;

/// The most digits of a chunk size: those of the largest `u64`.
const SIZE_DIGITS_MAX: u8 = 16;

/// A run of body bytes, and how far the input was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// How many bytes of the input are dealt with; never less than `data.end`.
    pub consumed: usize,
    /// Where in the input body bytes lie; may be empty.
    pub data: Range<usize>,
    /// The body is complete. What follows `consumed` belongs to the next message.
    pub done: bool,
}

/// Reads one body.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
    extension_bytes: usize,
    trailers: Option<Box<Trailers>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    Length(u64),
    UntilClose,
    Size {
        value: u64,
        digits: u8,
    },
    Extension {
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    Data(u64),
    DataCr,
    DataLf,
    /// After the last chunk, no trailer yet.
    AfterLast,
    Trailers,
    LastLf,
}

impl BodyDecoder {
    /// A decoder for a body of that framing. Allocates only if trailers come.
    pub fn new(framing: Framing) -> BodyDecoder {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { value: 0, digits: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        BodyDecoder { state, extension_bytes: 0, trailers: None }
    }

    /// Read on. Each call gives at most one run of body bytes; call again with the rest of the
    /// input, and with more of it, until `done`. With an empty input nothing happens.
    ///
    /// # Errors
    /// The rule that was broken. Nothing can be read on this connection after it, and body bytes
    /// between the last call and the bad byte are lost with it.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, BodyError> {
        match self.state {
            State::Done => Ok(self.decoded(0, 0..0)),
            State::UntilClose => Ok(self.decoded(input.len(), 0..input.len())),
            State::Length(left) => {
                let len = clamp(left, input.len());
                self.state = match left - len as u64 {
                    0 => State::Done,
                    left => State::Length(left),
                };
                Ok(self.decoded(len, 0..len))
            }
            _ => self.decode_chunked(input),
        }
    }

    fn decode_chunked(&mut self, input: &[u8]) -> Result<Decoded, BodyError> {
        let mut at = 0;
        let mut data = 0..0;
        while at < input.len() && self.state != State::Done {
            match self.state {
                State::Data(_) if !data.is_empty() => break,
                State::Data(left) => {
                    let len = clamp(left, input.len() - at);
                    data = at..at + len;
                    at += len;
                    self.state = match left - len as u64 {
                        0 => State::DataCr,
                        left => State::Data(left),
                    };
                }
                State::AfterLast if input[at] != b'\r' => {
                    self.trailers = Some(Box::default());
                    self.state = State::Trailers;
                }
                State::Trailers => {
                    let trailers = self.trailers.get_or_insert_default();
                    let (consumed, done) = trailers.read(&input[at..])?;
                    at += consumed;
                    if done {
                        self.state = State::Done;
                    }
                }
                _ => {
                    self.step(input[at])?;
                    at += 1;
                }
            }
        }
        Ok(self.decoded(at, data))
    }

    /// One byte of a chunk's frame.
    fn step(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match (self.state, byte) {
            (State::Size { value, digits: 1.. }, b'\r') => State::SizeLf { size: value },
            (State::Size { value, digits: 1.. }, b';') => State::Extension { size: value },
            (State::Size { value, digits }, _) => match (byte as char).to_digit(16) {
                Some(digit) if digits < SIZE_DIGITS_MAX => {
                    State::Size { value: value << 4 | u64::from(digit), digits: digits + 1 }
                }
                _ => return Err(BodyError::ChunkSize),
            },
            (State::Extension { size }, b'\r') => State::SizeLf { size },
            (State::Extension { size }, _) => {
                if !super::field::is_value_byte(byte) {
                    return Err(BodyError::ChunkExtension);
                }
                self.extension_bytes += 1;
                if self.extension_bytes > EXTENSIONS_SIZE_MAX {
                    return Err(BodyError::ExtensionsTooLarge);
                }
                State::Extension { size }
            }
            (State::SizeLf { size: 0 }, b'\n') => State::AfterLast,
            (State::SizeLf { size }, b'\n') => State::Data(size),
            (State::SizeLf { .. }, _) => return Err(BodyError::ChunkSize),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { value: 0, digits: 0 },
            (State::DataCr | State::DataLf, _) => return Err(BodyError::ChunkEnd),
            (State::AfterLast, b'\r') => State::LastLf,
            (State::LastLf, b'\n') => State::Done,
            (State::LastLf, _) => return Err(BodyError::Trailer),
            (state, _) => state,
        };
        Ok(())
    }

    fn decoded(&self, consumed: usize, data: Range<usize>) -> Decoded {
        Decoded { consumed, data, done: self.is_done() }
    }

    /// Body bytes that are still to come with nothing between them, where their number is known.
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// `count` of [`BodyDecoder::left`] went another way and are not in the input.
    ///
    /// Panics when fewer were left.
    pub fn pass(&mut self, count: u64) {
        let left = self.left().unwrap_or(0).checked_sub(count);
        self.state = match left.expect("no more passes than is left") {
            0 => State::Done,
            left => State::Length(left),
        };
    }

    /// Is the body complete?
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The connection ended. Completes a body that ends so.
    ///
    /// # Errors
    /// [`BodyError::Truncated`] for any other that is not complete.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }

    /// The trailers of a complete chunked body, in the order in which they came, without those that
    /// have no place there (RFC 9110 section 6.5.1). Empty in every other case.
    pub fn trailers(&self) -> FieldIter<'_> {
        match &self.trailers {
            Some(trailers) if self.is_done() => trailers.fields(),
            _ => FieldIter::new(&[], &[]),
        }
    }
}

/// The smaller of the two.
fn clamp(left: u64, len: usize) -> usize {
    usize::try_from(left).map_or(len, |left| left.min(len))
}
