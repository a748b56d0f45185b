//! Feeds `spillgate_fuzz::bytes::chunked_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::bytes::chunked_body(input));
