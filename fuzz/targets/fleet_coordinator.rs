//! Fuzzes what malicious members send to a coordinator.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_fleet::fuzz::coordinator(data));
