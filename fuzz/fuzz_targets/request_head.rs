//! Feeds `spillgate_fuzz::bytes::request_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::bytes::request_head(input));
