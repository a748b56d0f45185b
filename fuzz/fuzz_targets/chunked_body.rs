//! Feeds `spillgate_fuzz::chunked_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::chunked_body(input));
