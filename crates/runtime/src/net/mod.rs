//! Sockets.

pub mod admin;
pub mod control_socket;
pub mod listen;
pub mod stream;
