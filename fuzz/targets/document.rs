//! Fuzzes documents whose checksums are right.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(document) = fathom_record::fuzz::document(data) {
        fathom_analysis::fuzz::document(&document);
    }
});
