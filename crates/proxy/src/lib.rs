//! The path of one request.
//!
//! Read `exchange.rs` first: it shows all stages in order, and each stage is a file of the
//! same name. Around them: `shard` is what the exchanges of one thread share, `pool` what all
//! threads share, `serve` the accept loops, `probe` the control side's questions to workers.
//!
//! Absent on purpose: sockets and timers (they are `runtime`'s), decisions about who is served
//! (`core::gate`), the text format of the configuration, the supervisor, the admin page.

mod exchange;
pub mod route;
pub mod path;
mod claim;
mod intake;
mod admit;
mod dispatch;
mod hedge;
mod forward;
mod collect;
mod deliver;
mod tunnel;
mod record;
mod reply;
mod error;

pub mod shard;
mod waiters;
mod idle;
pub mod active;
pub mod pool;
mod traced;
pub mod probe;
pub mod agent;
pub mod serve;
pub mod settings;
pub mod metrics;
