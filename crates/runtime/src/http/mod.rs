//! HTTP connections, below the service seam.
//!
//! `server` drives a client's connection and hands requests to a [`service::Service`]; `client` is
//! one connection to a worker. Nothing here knows a pool, a route or a gate.

pub mod ask;
pub mod client;
mod inbound;
pub mod lend;
mod request_body;
mod respond;
pub mod server;
pub mod service;
pub mod settings;
