//! Spill folders: where the bytes of bodies go that are too large, or too many, for memory.

use std::path::PathBuf;

use spillgate_core::units::ByteSize;

/// Where bodies spill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The folders; segment files are made there and unlinked at once. At least one.
    pub folders: Vec<PathBuf>,
    /// Most bytes that all folders together may hold. Default 4 GiB.
    pub size_max: ByteSize,
    /// Threads that read and write spill files. Default 2; range 1 to 64.
    pub threads: u16,
}
