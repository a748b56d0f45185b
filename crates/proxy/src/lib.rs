//! The path of one request.

pub mod settings;
