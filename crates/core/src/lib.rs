//! Decisions, and nothing else.
//!
//! Every stateful thing in this crate is a machine with one face: `handle(input, now)`,
//! `poll_output()`, `poll_timeout()`, `handle_timeout(now)`, `view()`, `check_invariants()`.
//! A machine never blocks, never fails and never looks at the world: `now` is an argument.
//!
//! Absent on purpose: sockets, files, threads, locks, logging, metrics, environment reads, clock
//! reads, random sources, headers, URLs. That absence is what lets the simulator run the very same
//! code as the proxy.

pub mod time;
pub mod units;
pub mod id;
pub mod rng;
pub mod stats;
pub mod budget;
pub mod pool;
pub mod gate;
pub mod supervise;
