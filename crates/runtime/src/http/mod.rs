//! HTTP connections, below the service seam.
pub mod settings;
