//! What scenarios are written with: the real binary, workers and clients under the test's thumb.
//!
//! A scenario reads like a dialogue: a [`Spillgate`] is started in front of [`Worker`]s, the test
//! plays client and worker over [`Link`]s with the verbs `send`, `receive`, `expect_end`,
//! `half_close` and `reset`. Where the worker's words do not matter, an [`Echo`] answers by itself
//! and remembers what it saw.
//!
//! Waits are for events (bytes, a record, an exit) with a generous bound; nothing waits for time to
//! pass. Ports come from the OS, children die with their owner. Plain threads and blocking sockets,
//! so that a scenario can be stepped through; the engine of the product is absent on purpose.

mod agent;
mod config;
mod crowd;
mod echo;
mod exposition;
mod lines;
mod link;
mod listening;
mod message;
mod page;
mod port;
mod program;
mod spillgate;
mod wait;
mod worker;

pub(crate) use agent::Agent;
pub(crate) use config::Config;
pub(crate) use crowd::{Answer, Crowd, expect_all_ok, mixed};
pub(crate) use echo::Echo;
pub(crate) use exposition::Metrics;
pub(crate) use link::Link;
pub(crate) use message::{Head, Message, get, ok, post};
pub(crate) use page::{ctl_command, workers};
pub(crate) use port::HeldPort;
pub(crate) use program::Program;
pub(crate) use spillgate::Spillgate;
pub(crate) use wait::until;
pub(crate) use worker::Worker;
