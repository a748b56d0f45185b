//! What the fuzz targets check, by the crate whose parsers they are.
//!
//! Each file is also included by a plain test of that crate, which runs it over the committed
//! corpus, so that a mistake shows without a nightly toolchain. The target of the configuration
//! file is whole in its own file, since the binary that owns that format is no library.

pub mod bytes;
pub mod texts;
