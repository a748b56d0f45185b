//! Feeds `spillgate_fuzz::response_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::response_head(input));
