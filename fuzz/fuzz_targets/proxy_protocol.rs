//! Feeds `spillgate_fuzz::bytes::proxy_protocol`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::bytes::proxy_protocol(input));
