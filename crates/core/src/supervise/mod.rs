//! The supervisor machine of one pool.

mod settings;

pub use settings::Settings;
