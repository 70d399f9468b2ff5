//! Machine code that takes a stop stamp, for programs without Rust code.
//!
//! A probe that times the start of a program has that program take the stamp in its first
//! instructions. The code is copied from the read-only data of this program.

use std::arch::global_asm;

use super::{Clock, ClockSource};

// The stamp is in rax. Other caller-saved registers may change; the stack pointer is restored.
// RDTSCP waits for earlier instructions, LFENCE holds back later ones.
#[cfg(target_arch = "x86_64")]
global_asm!(
    // Read-only data, because the code is copied and never executed here.
    ".pushsection .rodata.fathom_stop_code, \"a\", @progbits",
    ".hidden fathom_stop_tsc, fathom_stop_tsc_end",
    ".globl fathom_stop_tsc, fathom_stop_tsc_end",
    "fathom_stop_tsc:",
    "rdtscp",
    "lfence",
    // RDTSCP returns the high half in edx and the low half in eax.
    "shl rdx, 32",
    "or rax, rdx",
    "fathom_stop_tsc_end:",
    ".hidden fathom_stop_kernel, fathom_stop_kernel_end",
    ".globl fathom_stop_kernel, fathom_stop_kernel_end",
    "fathom_stop_kernel:",
    // The timespec is on the stack: copied code has no data section.
    "sub rsp, 16",
    "mov edi, {clock}",
    "mov rsi, rsp",
    // A system call, because the address of the vDSO in the new program is unknown.
    "mov eax, {clock_gettime_number}",
    "syscall",
    "imul rax, qword ptr [rsp], 1000000000",
    "add rax, qword ptr [rsp + 8]",
    "add rsp, 16",
    "fathom_stop_kernel_end:",
    ".popsection",
    clock = const libc::CLOCK_MONOTONIC_RAW,
    clock_gettime_number = const libc::SYS_clock_gettime,
);

// The same with the stamp in x0, and ISB on both sides of the read.
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .rodata.fathom_stop_code, \"a\", %progbits",
    // Instructions of aarch64 are aligned to four bytes, data is not.
    ".p2align 2",
    ".hidden fathom_stop_cntvct, fathom_stop_cntvct_end",
    ".globl fathom_stop_cntvct, fathom_stop_cntvct_end",
    "fathom_stop_cntvct:",
    "isb",
    "mrs x0, cntvct_el0",
    "isb",
    "fathom_stop_cntvct_end:",
    ".hidden fathom_stop_kernel, fathom_stop_kernel_end",
    ".globl fathom_stop_kernel, fathom_stop_kernel_end",
    "fathom_stop_kernel:",
    "sub sp, sp, #16",
    "mov x0, #{clock}",
    "mov x1, sp",
    "mov x8, #{clock_gettime_number}",
    "svc #0",
    "ldp x1, x2, [sp], #16",
    // 10⁹ = 0x3b9aca00 needs two moves of 16 bits.
    "movz x0, #0xca00",
    "movk x0, #0x3b9a, lsl #16",
    "madd x0, x1, x0, x2",
    "fathom_stop_kernel_end:",
    ".popsection",
    clock = const libc::CLOCK_MONOTONIC_RAW,
    clock_gettime_number = const libc::SYS_clock_gettime,
);

// SAFETY: the symbols of the assembly above, of which only the addresses are used.
unsafe extern "C" {
    #[cfg(target_arch = "x86_64")]
    static fathom_stop_tsc: u8;
    #[cfg(target_arch = "x86_64")]
    static fathom_stop_tsc_end: u8;
    #[cfg(target_arch = "aarch64")]
    static fathom_stop_cntvct: u8;
    #[cfg(target_arch = "aarch64")]
    static fathom_stop_cntvct_end: u8;
    static fathom_stop_kernel: u8;
    static fathom_stop_kernel_end: u8;
}

impl Clock {
    /// Machine code that takes a stop stamp of this clock and continues after its last byte with
    /// the stamp in the result register (rax, x0). It can be copied to any address divisible by
    /// four, changes only caller-saved registers, and restores the stack pointer. For the kernel's
    /// clock it makes one system call.
    pub fn stop_code(&self) -> &'static [u8] {
        let (first, end) = match self.specification.source {
            #[cfg(target_arch = "x86_64")]
            ClockSource::Tsc => (&raw const fathom_stop_tsc, &raw const fathom_stop_tsc_end),
            #[cfg(target_arch = "aarch64")]
            ClockSource::Cntvct => {
                (&raw const fathom_stop_cntvct, &raw const fathom_stop_cntvct_end)
            }
            _ => (&raw const fathom_stop_kernel, &raw const fathom_stop_kernel_end),
        };
        // SAFETY: both addresses are in one section, the end after the first, with constant bytes
        // in between.
        unsafe { std::slice::from_raw_parts(first, end.addr() - first.addr()) }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::*;
    use crate::clock::Specification;

    /// Runs the code as a function, by appending a return instruction.
    fn run(code: &[u8]) -> u64 {
        #[cfg(target_arch = "x86_64")]
        let ret = [0xc3];
        #[cfg(target_arch = "aarch64")]
        let ret = [0xc0, 0x03, 0x5f, 0xd6];
        let code = [code, &ret].concat();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of the size of the code, which is written before it is made
        // executable; the code is a C function without arguments.
        unsafe {
            let length = code.len();
            let place = mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE);
            let place = place.unwrap();
            place.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), length);
            mprotect(place, length, MprotectFlags::READ | MprotectFlags::EXEC).unwrap();
            let procedure: extern "C" fn() -> u64 = std::mem::transmute(place);
            let stamp = procedure();
            munmap(place, length).unwrap();
            stamp
        }
    }

    /// On one CPU: the counters of two may differ.
    #[test]
    fn stop_code_takes_stamps_of_its_clock() {
        crate::affinity::pin(crate::affinity::allowed()[0]).unwrap();
        let counter =
            if cfg!(target_arch = "x86_64") { ClockSource::Tsc } else { ClockSource::Cntvct };
        for source in [ClockSource::MonotonicRaw, counter] {
            let clock = Clock::from_specification(Specification::uncalibrated(source));
            let before = clock.start();
            let between = run(clock.stop_code());
            let after = clock.stop();
            assert!(
                before <= between && between <= after,
                "{source:?}: {before} {between} {after}"
            );
        }
    }
}
