//! Fuzzes files of limits.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_analysis::fuzz::limits(data));
