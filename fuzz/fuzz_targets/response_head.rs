//! Feeds `spillgate_fuzz::bytes::response_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::bytes::response_head(input));
