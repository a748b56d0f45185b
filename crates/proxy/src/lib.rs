//! The path of one request.
//!
//! Read [`exchange`](self) first: it shows all stages in order, and each stage is a file of the same
//! name. Around them: `shard` is what the exchanges of one thread share, `pool` what all threads
//! share, `serve` the accept loops, `probe` the control side's questions to workers.
//!
//! Absent on purpose: sockets and timers (they are `runtime`'s), decisions about who is served
//! (`core::gate`), the text format of the configuration, the supervisor, the admin page.

pub mod active;
mod admit;
mod collect;
mod deliver;
mod dispatch;
mod error;
mod exchange;
mod forward;
mod idle;
mod intake;
pub mod metrics;
pub mod pool;
pub mod probe;
mod record;
mod reply;
pub mod route;
pub mod serve;
pub mod settings;
pub mod shard;
mod tunnel;
mod waiters;
