//! Fuzzes files of other benchmark tools.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_import::fuzz::file(data));
