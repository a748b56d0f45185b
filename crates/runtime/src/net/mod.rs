//! Sockets.
//!
//! Clients and workers on the shards' engines (`listen`, `stream`), the admin page and the commands
//! on the control engine (`admin`, `control_socket`). Absent: what is said over any of them.

pub mod admin;
pub mod ask_line;
pub mod control_socket;
pub mod listen;
pub mod pipe;
mod places;
pub mod socket_file;
pub mod stream;
