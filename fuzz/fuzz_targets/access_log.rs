//! Feeds `spillgate_fuzz::texts::access_log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::texts::access_log(input));
