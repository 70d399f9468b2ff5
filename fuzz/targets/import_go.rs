//! Fuzzes results of Go benchmarks.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_import::fuzz::go(data));
