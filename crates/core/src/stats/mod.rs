//! Small statistics over what happened recently.
//!
//! All of them forget: a gate must follow a worker that grew slower, and must not remember a bad
//! minute for an hour. All are integer arithmetic, so two machines reckon alike.
//!
//! Absent: anything that needs a random source, and anything that grows without a bound.

pub mod octave;
pub mod quantile;
pub mod rate;
pub mod window;
