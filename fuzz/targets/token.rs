//! Fuzzes token files and the Authorization field.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fathom_service::fuzz::token(data);
    fathom_far::fuzz::token(data);
});
