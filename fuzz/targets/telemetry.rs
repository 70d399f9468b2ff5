//! Fuzzes the answers of a server that a load reads, and files of the kernel.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fathom_load::fuzz::telemetry(data);
    fathom_service::fuzz::kernel_files(data);
});
