//! Fuzzes bodies in chunks.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_http::fuzz::chunks(data));
