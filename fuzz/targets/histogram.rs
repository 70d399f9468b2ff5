//! Fuzzes histograms of imported documents.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_record::fuzz::histogram(data));
