//! HTTP connections, below the service seam.
//!
//! `server` drives a client's connection and hands requests to a [`service::Service`]; `client` is
//! one connection to a worker. Nothing here knows a pool, a route or a gate.

pub mod service;
pub mod end;
pub mod server;
pub mod resting;
mod request_body;
mod respond;
pub mod client;
pub mod ask;
mod inbound;
pub mod lend;
pub mod settings;
