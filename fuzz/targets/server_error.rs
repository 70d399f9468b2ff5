//! Fuzzes errors of a database server.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_store::fuzz::server_error(data));
