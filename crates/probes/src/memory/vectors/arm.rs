//! Kernels for aarch64: NEON, which every core has. They have the shape of those for x86-64.

use std::arch::asm;

use super::{Kernels, Vectors};

pub(super) static ALL: [Vectors; 1] = [Vectors {
    bytes: 16,
    name: "NEON",
    kernels: Kernels { read, read_prefetched, write, write_nt, copy, triad },
}];

pub(super) fn is_usable(bytes: usize) -> bool {
    bytes == 16
}

/// A read. `$prefetch`: the two cache lines of an iteration, into L2, 1 KiB ahead.
macro_rules! read {
    ($name:ident, [$($prefetch:literal)*]) => {
        /// # Safety
        /// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one
        /// pass.
        unsafe fn $name(start: *const u8, bytes: usize, passes: u64, sums: *mut u64) {
            // SAFETY: reads memory that the caller guarantees, and writes eight vectors to `sums`.
            unsafe {
                asm!(
                    "movi v0.2d, #0", "movi v1.2d, #0", "movi v2.2d, #0", "movi v3.2d, #0",
                    "movi v4.2d, #0", "movi v5.2d, #0", "movi v6.2d, #0", "movi v7.2d, #0",
                    "3:",
                    "mov {at}, {start}",
                    "2:",
                    $($prefetch,)*
                    "ldp q16, q17, [{at}]", "ldp q18, q19, [{at}, #32]",
                    "ldp q20, q21, [{at}, #64]", "ldp q22, q23, [{at}, #96]",
                    "add v0.2d, v0.2d, v16.2d", "add v1.2d, v1.2d, v17.2d",
                    "add v2.2d, v2.2d, v18.2d", "add v3.2d, v3.2d, v19.2d",
                    "add v4.2d, v4.2d, v20.2d", "add v5.2d, v5.2d, v21.2d",
                    "add v6.2d, v6.2d, v22.2d", "add v7.2d, v7.2d, v23.2d",
                    "add {at}, {at}, #128",
                    "cmp {at}, {end}",
                    "b.lo 2b",
                    "subs {passes}, {passes}, #1",
                    "b.ne 3b",
                    "stp q0, q1, [{sums}]", "stp q2, q3, [{sums}, #32]",
                    "stp q4, q5, [{sums}, #64]", "stp q6, q7, [{sums}, #96]",
                    at = out(reg) _, start = in(reg) start, end = in(reg) start.add(bytes),
                    passes = inout(reg) passes => _, sums = in(reg) sums,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                    out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                    out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                    out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    options(nostack),
                );
            }
        }
    };
}

read!(read, []);
read!(read_prefetched, ["prfm pldl2keep, [{at}, #1024]" "prfm pldl2keep, [{at}, #1088]"]);

/// A write of one word with a pair store. `$after` follows each pass: the barrier completes
/// non-temporal stores, so that their cost is inside the timed batch.
macro_rules! write {
    ($name:ident, $store:literal, $after:literal) => {
        /// # Safety
        /// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one
        /// pass.
        unsafe fn $name(start: *mut u8, bytes: usize, passes: u64, words: *const u64) -> u64 {
            let mut processed = 0_u64;
            // SAFETY: writes memory that the caller guarantees, and reads one vector at `words`.
            unsafe {
                asm!(
                    "ldr q0, [{words}]",
                    "3:",
                    "mov {at}, {start}",
                    "2:",
                    concat!($store, " q0, q0, [{at}]"),
                    concat!($store, " q0, q0, [{at}, #32]"),
                    concat!($store, " q0, q0, [{at}, #64]"),
                    concat!($store, " q0, q0, [{at}, #96]"),
                    "add {at}, {at}, #128",
                    "cmp {at}, {end}",
                    "b.lo 2b",
                    $after,
                    "add {processed}, {processed}, {at}",
                    "sub {processed}, {processed}, {start}",
                    "subs {passes}, {passes}, #1",
                    "b.ne 3b",
                    at = out(reg) _, start = in(reg) start, end = in(reg) start.add(bytes),
                    passes = inout(reg) passes => _, words = in(reg) words,
                    processed = inout(reg) processed,
                    out("v0") _,
                    options(nostack),
                );
            }
            processed
        }
    };
}

write!(write, "stp", "");
write!(write_nt, "stnp", "dmb ishst");

/// # Safety
/// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one pass.
unsafe fn copy(target: *mut u8, source: *const u8, bytes: usize, passes: u64) -> u64 {
    let mut processed = 0_u64;
    // SAFETY: reads and writes memory that the caller guarantees.
    unsafe {
        asm!(
            "3:",
            "mov {from}, {source}",
            "mov {to}, {target}",
            "2:",
            "ldp q0, q1, [{from}]", "ldp q2, q3, [{from}, #32]",
            "ldp q4, q5, [{from}, #64]", "ldp q6, q7, [{from}, #96]",
            "stp q0, q1, [{to}]", "stp q2, q3, [{to}, #32]",
            "stp q4, q5, [{to}, #64]", "stp q6, q7, [{to}, #96]",
            "add {from}, {from}, #128",
            "add {to}, {to}, #128",
            "cmp {from}, {end}",
            "b.lo 2b",
            "add {processed}, {processed}, {to}",
            "sub {processed}, {processed}, {target}",
            "subs {passes}, {passes}, #1",
            "b.ne 3b",
            from = out(reg) _, to = out(reg) _, source = in(reg) source, target = in(reg) target,
            end = in(reg) source.add(bytes), passes = inout(reg) passes => _,
            processed = inout(reg) processed, out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            options(nostack),
        );
    }
    processed
}

/// # Safety
/// As for the method of [`Vectors`] that calls it; whole loop iterations, at least one pass.
unsafe fn triad([a, b, c]: [*mut u8; 3], bytes: usize, passes: u64, scale: *const u64) -> u64 {
    let mut processed = 0_u64;
    // SAFETY: reads and writes memory that the caller guarantees, and reads one vector at `scale`.
    unsafe {
        asm!(
            "ldr q24, [{scale}]",
            "3:",
            "mov {to}, {a}", "mov {left}, {b}", "mov {right}, {c}",
            "2:",
            "ldp q0, q1, [{right}]", "ldp q2, q3, [{right}, #32]",
            "ldp q4, q5, [{right}, #64]", "ldp q6, q7, [{right}, #96]",
            "ldp q16, q17, [{left}]", "ldp q18, q19, [{left}, #32]",
            "ldp q20, q21, [{left}, #64]", "ldp q22, q23, [{left}, #96]",
            "fmul v0.2d, v0.2d, v24.2d", "fmul v1.2d, v1.2d, v24.2d",
            "fmul v2.2d, v2.2d, v24.2d", "fmul v3.2d, v3.2d, v24.2d",
            "fmul v4.2d, v4.2d, v24.2d", "fmul v5.2d, v5.2d, v24.2d",
            "fmul v6.2d, v6.2d, v24.2d", "fmul v7.2d, v7.2d, v24.2d",
            "fadd v0.2d, v0.2d, v16.2d", "fadd v1.2d, v1.2d, v17.2d",
            "fadd v2.2d, v2.2d, v18.2d", "fadd v3.2d, v3.2d, v19.2d",
            "fadd v4.2d, v4.2d, v20.2d", "fadd v5.2d, v5.2d, v21.2d",
            "fadd v6.2d, v6.2d, v22.2d", "fadd v7.2d, v7.2d, v23.2d",
            "stp q0, q1, [{to}]", "stp q2, q3, [{to}, #32]",
            "stp q4, q5, [{to}, #64]", "stp q6, q7, [{to}, #96]",
            "add {to}, {to}, #128", "add {left}, {left}, #128", "add {right}, {right}, #128",
            "cmp {to}, {end}",
            "b.lo 2b",
            "add {processed}, {processed}, {to}",
            "sub {processed}, {processed}, {a}",
            "subs {passes}, {passes}, #1",
            "b.ne 3b",
            to = out(reg) _, left = out(reg) _, right = out(reg) _,
            a = in(reg) a, b = in(reg) b, c = in(reg) c, end = in(reg) a.add(bytes),
            passes = inout(reg) passes => _, scale = in(reg) scale,
            processed = inout(reg) processed, out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _,
            options(nostack),
        );
    }
    processed
}
