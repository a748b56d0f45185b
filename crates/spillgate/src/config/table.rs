//! One record for each key of the configuration file.
//!
//! The checker, the manual (`docs/config.md`) and the error texts all read these records; nothing
//! else states a range or a default. The order is that of the manual. No record knows how its value
//! is used: that is `build.rs`, and the settings it fills. The records are in files by place; here
//! is how they are found, and what they are written with.

mod listener;
mod other;
mod pool;
mod route;
mod top;

use std::time::Duration;

use spillgate_core::units::{ByteSize, Ratio};

use super::key::{Key, Place};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn kib(count: u64) -> ByteSize {
    ByteSize::from_kib(count)
}

const fn mib(count: u64) -> ByteSize {
    ByteSize::from_mib(count)
}

const fn gib(count: u64) -> ByteSize {
    ByteSize::from_mib(count << 10)
}

const fn tib(count: u64) -> ByteSize {
    ByteSize::from_mib(count << 20)
}

const fn percent(count: u32) -> Ratio {
    Ratio::from_percent(count)
}

const MINUTE: Duration = secs(60);
const HOUR: Duration = secs(3_600);
const DAY: Duration = secs(86_400);

/// Positions within a head are kept as 16-bit numbers.
const HEAD_MOST: ByteSize = ByteSize::from_bytes(65_535);

/// The record of `name` in `place`; none when there is no such key.
pub(crate) fn find(place: Place, name: &str) -> Option<&'static Key> {
    keys_of(place).find(|key| key.name == name)
}

/// All keys of `place`.
pub(crate) fn keys_of(place: Place) -> impl Iterator<Item = &'static Key> {
    keys().filter(move |key| key.place == place)
}

/// All keys.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    PARTS.into_iter().flatten()
}

/// In the order of the manual.
const PARTS: [&[Key]; 9] = [
    top::KEYS,
    listener::KEYS,
    pool::workers::KEYS,
    pool::gate::KEYS,
    pool::health::KEYS,
    pool::exchange::KEYS,
    pool::process::KEYS,
    route::KEYS,
    other::KEYS,
];
