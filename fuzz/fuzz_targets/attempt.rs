//! Feeds `spillgate_fuzz::bytes::attempt`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::bytes::attempt(input));
