//! What the process tells people while it runs: access records and the program's own log.
//!
//! Access records are formatted by the shard that owns the exchange, into a buffer of that shard,
//! and written by one thread ([`AccessLog`]). Program messages are rare and written where they
//! arise ([`info`], [`warn`], [`error`]). Neither ever waits for a slow disk or reader: what cannot
//! be taken is thrown away and counted; a [`Recording`], which is worth nothing with a hole, ends.
//!
//! Absent: the fields of a record (the proxy knows them), log levels to choose, rotation (an
//! outside program renames the file and sends SIGUSR1).

pub mod access_log;
pub mod json;
pub mod program;
pub mod recording;
pub mod timestamp;

pub use access_log::{AccessLog, Destination, LineBuffer, LogView, LogWatch};
pub use program::{error, info, warn};
pub use recording::{Recording, RecordingEnd};
pub use timestamp::Timestamps;
