//! The path of one request.

pub mod metrics;
pub mod settings;
