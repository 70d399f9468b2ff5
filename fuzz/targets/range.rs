//! Fuzzes ranges and preconditions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_service::fuzz::range(data));
