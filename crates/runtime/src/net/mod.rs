//! Sockets.

pub mod listen;
pub mod stream;
