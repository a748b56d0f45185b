//! Docs.
