//! Fuzzes lists of hosts.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_analysis::fuzz::hosts(data));
