//! Fuzzes what a malicious far end answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_far::fuzz::near(data));
