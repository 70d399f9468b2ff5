//! Fuzzes the head of a request.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_service::fuzz::head(data));
