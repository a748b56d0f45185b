//! Bytes, and nothing else.
