//! Effects: the async engine, sockets, HTTP connections, timers, processes, spill files.
//!
//! The engine (tokio) is named in this crate alone; everything above speaks of streams, timers and
//! tasks of ours.

pub mod buffer;
pub mod clock;
pub mod drive;
pub mod events;
pub mod http;
pub mod metrics;
pub mod deadline;
pub mod net;
pub mod process;
pub mod scratch;
pub mod shard;
pub mod spill;
mod sys;
pub mod shutdown;
pub mod descriptors;
