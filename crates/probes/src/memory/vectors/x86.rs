//! Kernels for x86-64: AVX-512, AVX2 and SSE2.
//!
//! Each loop iteration has eight vectors. The passes are counted inside the assembly: for arrays as
//! small as half of L1, returning after each pass would show in the result. `vzeroupper` ends the
//! AVX kernels, because SSE code after dirty upper halves is slow.

use std::arch::asm;

use super::{Kernels, Vectors};

/// The widest first.
pub(super) static ALL: [Vectors; 3] = [
    Vectors { bytes: 64, name: "AVX-512", kernels: zmm::KERNELS },
    Vectors { bytes: 32, name: "AVX2", kernels: ymm::KERNELS },
    Vectors { bytes: 16, name: "SSE2", kernels: xmm::KERNELS },
];

/// Whether the core has these vectors and the operating system saves them on a context switch.
pub(super) fn is_usable(bytes: usize) -> bool {
    match bytes {
        64 => is_x86_feature_detected!("avx512f"),
        32 => is_x86_feature_detected!("avx2"),
        _ => true,
    }
}

/// A VEX instruction whose destination is its first source.
macro_rules! vex {
    ($op:literal, $register:expr, $operand:expr) => {
        concat!("v", $op, " ", $register, ", ", $register, ", ", $operand)
    };
}

/// The same in the two-operand SSE form.
macro_rules! sse {
    ($op:literal, $register:expr, $operand:expr) => {
        concat!($op, " ", $register, ", ", $operand)
    };
}

/// The address of a vector of the loop iteration.
macro_rules! at {
    ($pointer:literal, $bytes:literal, $index:literal) => {
        concat!("[{", $pointer, "} + ", $bytes, "*", $index, "]")
    };
}

/// A read. `$line`: the cache lines to prefetch into L2, at a tuned distance of 1 KiB.
macro_rules! read {
    ($name:ident, $form:ident, $v:literal, $register:literal, $bytes:literal, $end:literal,
     [$($index:literal)*], [$($line:literal)*]) => {
        /// # Safety
        /// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one
        /// pass.
        pub(super) unsafe fn $name(start: *const u8, bytes: usize, passes: u64, sums: *mut u64) {
            // SAFETY: reads memory that the caller guarantees, and writes eight vectors to `sums`.
            unsafe {
                asm!(
                    $($form!("xorps", concat!("xmm", $index), concat!("xmm", $index)),)*
                    "3:",
                    "mov {at}, {start}",
                    "2:",
                    $(concat!("prefetcht1 [{at} + 1024 + 64*", $line, "]"),)*
                    $($form!("paddq", concat!($register, $index), at!("at", $bytes, $index)),)*
                    concat!("add {at}, 8*", $bytes),
                    "cmp {at}, {end}",
                    "jb 2b",
                    "dec {passes}",
                    "jnz 3b",
                    $(concat!($v, "movups ", at!("sums", $bytes, $index), ", ",
                              $register, $index),)*
                    $end,
                    at = out(reg) _, start = in(reg) start, end = in(reg) start.add(bytes),
                    passes = inout(reg) passes => _, sums = in(reg) sums,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// A write of one word with `$store`. `$after` follows each pass: `sfence` drains the
/// write-combining buffers of non-temporal stores, so that their cost is inside the timed batch.
macro_rules! write {
    ($name:ident, $v:literal, $store:literal, $register:literal, $bytes:literal, $end:literal,
     $after:literal, [$($index:literal)*]) => {
        /// # Safety
        /// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one
        /// pass.
        pub(super) unsafe fn $name(
            start: *mut u8,
            bytes: usize,
            passes: u64,
            words: *const u64,
        ) -> u64 {
            let mut processed = 0_u64;
            // SAFETY: writes memory that the caller guarantees, and reads one vector at `words`.
            unsafe {
                asm!(
                    concat!($v, "movups ", $register, "0, [{words}]"),
                    "3:",
                    "mov {at}, {start}",
                    "2:",
                    $(concat!($v, $store, " ", at!("at", $bytes, $index), ", ", $register, "0"),)*
                    concat!("add {at}, 8*", $bytes),
                    "cmp {at}, {end}",
                    "jb 2b",
                    $after,
                    "add {processed}, {at}",
                    "sub {processed}, {start}",
                    "dec {passes}",
                    "jnz 3b",
                    $end,
                    at = out(reg) _, start = in(reg) start, end = in(reg) start.add(bytes),
                    passes = inout(reg) passes => _, words = in(reg) words,
                    processed = inout(reg) processed,
                    out("xmm0") _,
                    options(nostack),
                );
            }
            processed
        }
    };
}

/// Copy and triad: the loads of an iteration come before its stores.
macro_rules! moves {
    ($form:ident, $v:literal, $register:literal, $bytes:literal, $end:literal,
     [$($index:literal)*]) => {
        /// # Safety
        /// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one
        /// pass.
        pub(super) unsafe fn copy(
            target: *mut u8,
            source: *const u8,
            bytes: usize,
            passes: u64,
        ) -> u64 {
            let mut processed = 0_u64;
            // SAFETY: reads and writes memory that the caller guarantees.
            unsafe {
                asm!(
                    "3:",
                    // One index for all arrays: one addition per iteration.
                    "xor {at:e}, {at:e}",
                    "2:",
                    // Aligned moves: the callers assert the alignment of every array.
                    $(concat!($v, "movaps ", $register, $index, ", [{source} + {at} + ",
                              $bytes, "*", $index, "]"),)*
                    $(concat!($v, "movaps [{target} + {at} + ", $bytes, "*", $index, "], ",
                              $register, $index),)*
                    concat!("add {at}, 8*", $bytes),
                    "cmp {at}, {bytes}",
                    "jb 2b",
                    "add {processed}, {at}",
                    "dec {passes}",
                    "jnz 3b",
                    $end,
                    at = out(reg) _, source = in(reg) source, target = in(reg) target,
                    bytes = in(reg) bytes, passes = inout(reg) passes => _,
                    processed = inout(reg) processed,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    options(nostack),
                );
            }
            processed
        }

        /// # Safety
        /// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one
        /// pass.
        pub(super) unsafe fn triad(
            [a, b, c]: [*mut u8; 3],
            bytes: usize,
            passes: u64,
            scale: *const u64,
        ) -> u64 {
            let mut processed = 0_u64;
            // SAFETY: reads and writes memory that the caller guarantees, and one vector at
            // `scale`.
            unsafe {
                asm!(
                    concat!($v, "movups ", $register, "8, [{scale}]"),
                    "3:",
                    "xor {at:e}, {at:e}",
                    "2:",
                    $(
                        concat!($v, "movapd ", $register, $index, ", [{c} + {at} + ",
                                $bytes, "*", $index, "]"),
                        // Not FMA, which SSE2 lacks: all widths execute the same operations.
                        $form!("mulpd", concat!($register, $index), concat!($register, "8")),
                        $form!("addpd", concat!($register, $index),
                               concat!("[{b} + {at} + ", $bytes, "*", $index, "]")),
                    )*
                    $(concat!($v, "movapd [{a} + {at} + ", $bytes, "*", $index, "], ",
                              $register, $index),)*
                    concat!("add {at}, 8*", $bytes),
                    "cmp {at}, {bytes}",
                    "jb 2b",
                    "add {processed}, {at}",
                    "dec {passes}",
                    "jnz 3b",
                    $end,
                    at = out(reg) _, a = in(reg) a, b = in(reg) b, c = in(reg) c,
                    bytes = in(reg) bytes, passes = inout(reg) passes => _, scale = in(reg) scale,
                    processed = inout(reg) processed,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,
                    options(nostack),
                );
            }
            processed
        }
    };
}

/// All kernels of one width. `$lines`: the cache lines of a loop iteration.
macro_rules! kernels {
    ($module:ident, $form:ident, $v:literal, $register:literal, $bytes:literal, $end:literal,
     $lines:tt) => {
        mod $module {
            use super::{Kernels, asm};

            pub(super) const KERNELS: Kernels =
                Kernels { read, read_prefetched, write, write_nt, copy, triad };

            read!(read, $form, $v, $register, $bytes, $end, [0 1 2 3 4 5 6 7], []);
            read!(read_prefetched, $form, $v, $register, $bytes, $end, [0 1 2 3 4 5 6 7], $lines);
            write!(write, $v, "movaps", $register, $bytes, $end, "", [0 1 2 3 4 5 6 7]);
            write!(write_nt, $v, "movntps", $register, $bytes, $end, "sfence", [0 1 2 3 4 5 6 7]);
            moves!($form, $v, $register, $bytes, $end, [0 1 2 3 4 5 6 7]);
        }
    };
}

kernels!(zmm, vex, "v", "zmm", 64, "vzeroupper", [0 1 2 3 4 5 6 7]);
kernels!(ymm, vex, "v", "ymm", 32, "vzeroupper", [0 1 2 3]);
kernels!(xmm, sse, "", "xmm", 16, "", [0 1]);
