//! Fuzzes what a malicious coordinator sends to a member.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fathom_fleet::fuzz::member(data));
