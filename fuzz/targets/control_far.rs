//! Fuzzes what a malicious near end sends to a far end.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_far::fuzz::far(data));
