//! Feeds `spillgate_fuzz::bytes::agent_line`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spillgate_fuzz::bytes::agent_line(input));
