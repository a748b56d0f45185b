//! Effects: the async engine, sockets, HTTP connections, timers, processes, spill files.
//!
//! The engine (tokio) is named in this crate alone; everything above speaks of streams, timers and
//! tasks of ours.

pub mod clock;
pub mod shard;
pub mod drive;
pub mod net;
pub mod http;
pub mod scratch;
pub mod deadline;
pub mod buffer;
pub mod spill;
pub mod process;
pub mod shutdown;
pub mod descriptors;
pub mod metrics;
pub mod events;
mod sys;
