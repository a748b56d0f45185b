//! Feeds `spillgate_fuzz::proxy_protocol`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::proxy_protocol(input));
