//! Feeds `spillgate_fuzz::texts::trace`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::texts::trace(input));
