//! The admission machine of one pool.

mod message;
mod permit;
mod settings;
mod view;

pub use message::*;
pub use permit::Permit;
pub use settings::Settings;
pub use view::{Quantiles, View, WorkerView};
