//! Fuzzes heads of responses.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_http::fuzz::response(data));
