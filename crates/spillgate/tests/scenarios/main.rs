//! Scenarios: the real binary between clients and workers that a test plays over raw sockets.
//!
//! Each module is one kind of behaviour; `harness` is what they are written with. Every test has a
//! Spillgate of its own, so they run side by side.

mod accounting;
mod admin;
mod agents;
mod balance;
mod basic;
mod buffering;
mod classes;
mod failure;
mod forwarding;
mod gate;
mod harness;
mod hedges;
mod limits;
mod malformed;
mod mutations;
mod old_clients;
mod proxy_protocol;
mod regress;
mod relay;
mod responses;
mod retries;
mod shutdown;
mod slow_readers;
mod sockets;
mod start;
mod streams;
mod supervise;
mod tiers;
mod traces;
mod waiting_clients;
