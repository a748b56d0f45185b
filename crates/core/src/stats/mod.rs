//! Small statistics over recent samples.
