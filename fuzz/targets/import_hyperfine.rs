//! Fuzzes results of hyperfine.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_import::fuzz::hyperfine(data));
