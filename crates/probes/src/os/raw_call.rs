//! System calls without the C library, and timed loops of them in assembly that the compiler cannot
//! change.
//!
//! The instruction is inlined in the loop. One loop makes it in a function, as programs do through
//! their C library. That costs more: the kernel's own calls and mitigations overwrite the return
//! stack buffer, so the return after a system call is mispredicted.
//!
//! Each loop compares every result with the expected one, branch-free (three register instructions
//! beside hundreds), and returns the number of matches: a call that fails is fast and must not
//! count.

use std::arch::asm;

/// One system call with up to four arguments; a negative result is an errno.
///
/// # Safety
/// The arguments must be what the call expects: pointers to live memory of the right size.
#[inline(always)]
pub(crate) unsafe fn system_call(number: i64, arguments: [usize; 4]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11 (aarch64: x0) and memory that the caller vouches
    // for.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") number => result,
            in("rdi") arguments[0], in("rsi") arguments[1],
            in("rdx") arguments[2], in("r10") arguments[3],
            out("rcx") _, out("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", in("x8") number, inlateout("x0") arguments[0] => result,
            in("x1") arguments[1], in("x2") arguments[2], in("x3") arguments[3],
            options(nostack));
    }
    result
}

/// One system call with six arguments; a negative result is an errno.
///
/// # Safety
/// The arguments must be what the call expects: pointers to live memory of the right size.
#[inline(always)]
pub(super) unsafe fn system_call_of_six(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11 (aarch64: x0) and memory that the caller vouches
    // for.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") number => result,
            in("rdi") arguments[0], in("rsi") arguments[1],
            in("rdx") arguments[2], in("r10") arguments[3],
            in("r8") arguments[4], in("r9") arguments[5],
            out("rcx") _, out("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", in("x8") number, inlateout("x0") arguments[0] => result,
            in("x1") arguments[1], in("x2") arguments[2], in("x3") arguments[3],
            in("x4") arguments[4], in("x5") arguments[5], options(nostack));
    }
    result
}

/// A system call that can be made any number of times, and what it returns each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawCall {
    number: i64,
    arguments: [usize; 4],
    expected: isize,
    /// The result is a descriptor that is closed again; `expected` is then the result of close.
    and_close: bool,
    /// The instruction is in a function that the loop calls.
    in_procedure: bool,
}

impl RawCall {
    /// A call that returns `expected` each time.
    ///
    /// # Safety
    /// As for [`system_call`], for as long as the value is used; the call must be repeatable.
    pub(crate) unsafe fn new(number: i64, arguments: [usize; 4], expected: isize) -> Self {
        Self { number, arguments, expected, and_close: false, in_procedure: false }
    }

    /// A call that opens a descriptor, and close of that descriptor.
    ///
    /// # Safety
    /// As for [`RawCall::new`].
    pub(super) unsafe fn and_close(number: i64, arguments: [usize; 4]) -> Self {
        Self { number, arguments, expected: 0, and_close: true, in_procedure: false }
    }

    /// The same call with the instruction in a function.
    pub(super) fn in_procedure(self) -> Self {
        Self { in_procedure: true, ..self }
    }

    /// Makes the call once and returns the errno if it failed.
    pub(super) fn errno(&self) -> Option<i32> {
        // SAFETY: the constructor's caller vouched for the arguments.
        let result = unsafe { system_call(self.number, self.arguments) };
        if self.and_close && result >= 0 {
            // SAFETY: the descriptor was just opened and is used nowhere else.
            unsafe { system_call(libc::SYS_close, [result as usize, 0, 0, 0]) };
        }
        (result < 0).then(|| -result as i32)
    }

    /// Makes the call `iterations` times and returns how many results were as expected.
    pub(crate) fn repeat(&self, iterations: u64) -> u64 {
        match (iterations, self.and_close, self.in_procedure) {
            (0, ..) => 0,
            (_, false, true) => self.repeat_called(iterations),
            (_, false, false) => self.repeat_inline(iterations),
            (_, true, _) => self.repeat_pair(iterations),
        }
    }

    fn repeat_called(&self, iterations: u64) -> u64 {
        let mut matched = 0_u64;
        // SAFETY: the kernel keeps all registers but rax, rcx and r11 (aarch64: x0); the
        // constructor's caller vouched for the arguments; the function returns to its caller.
        // Loop and function start on 16-byte boundaries, so that their placement does not depend
        // on the code before them.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "jmp 3f",
                ".p2align 4", "2:", "syscall", "ret",
                ".p2align 4", "3:",
                "mov rax, {number}",
                "call 2b",
                "sub rax, {expected}",
                "cmp rax, 1", // Sets the carry only if the difference is 0.
                "adc {matched}, 0",
                "dec {left}",
                "jnz 3b",
                number = in(reg) self.number,
                expected = in(reg) self.expected,
                matched = inout(reg) matched,
                left = inout(reg) iterations => _,
                in("rdi") self.arguments[0], in("rsi") self.arguments[1],
                in("rdx") self.arguments[2], in("r10") self.arguments[3],
                out("rax") _, out("rcx") _, out("r11") _);
            #[cfg(target_arch = "aarch64")]
            asm!(
                "b 3f",
                ".p2align 4", "2:", "svc 0", "ret",
                ".p2align 4", "3:",
                "mov x0, {first}",
                "bl 2b",
                "cmp x0, {expected}",
                "cinc {matched}, {matched}, eq",
                "subs {left}, {left}, #1",
                "b.ne 3b",
                first = in(reg) self.arguments[0],
                expected = in(reg) self.expected,
                matched = inout(reg) matched,
                left = inout(reg) iterations => _,
                in("x8") self.number, in("x1") self.arguments[1],
                in("x2") self.arguments[2], in("x3") self.arguments[3],
                out("x0") _, out("lr") _, options(nostack));
        }
        matched
    }

    fn repeat_inline(&self, iterations: u64) -> u64 {
        let mut matched = 0_u64;
        // SAFETY: as above.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                ".p2align 4", "3:",
                "mov rax, {number}",
                "syscall",
                "sub rax, {expected}",
                "cmp rax, 1",
                "adc {matched}, 0",
                "dec {left}",
                "jnz 3b",
                number = in(reg) self.number,
                expected = in(reg) self.expected,
                matched = inout(reg) matched,
                left = inout(reg) iterations => _,
                in("rdi") self.arguments[0], in("rsi") self.arguments[1],
                in("rdx") self.arguments[2], in("r10") self.arguments[3],
                out("rax") _, out("rcx") _, out("r11") _, options(nostack));
            #[cfg(target_arch = "aarch64")]
            asm!(
                ".p2align 4", "2:",
                "mov x0, {first}",
                "svc 0",
                "cmp x0, {expected}",
                "cinc {matched}, {matched}, eq",
                "subs {left}, {left}, #1",
                "b.ne 2b",
                first = in(reg) self.arguments[0],
                expected = in(reg) self.expected,
                matched = inout(reg) matched,
                left = inout(reg) iterations => _,
                in("x8") self.number, in("x1") self.arguments[1],
                in("x2") self.arguments[2], in("x3") self.arguments[3],
                out("x0") _, options(nostack));
        }
        matched
    }

    /// Compares only the result of close, which fails unless the descriptor was opened.
    fn repeat_pair(&self, iterations: u64) -> u64 {
        let mut matched = 0_u64;
        // SAFETY: as above; close gets the descriptor that was just opened.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                ".p2align 4", "3:",
                "mov rax, {number}",
                "mov rdi, {first}",
                "syscall",
                "mov rdi, rax",
                "mov eax, {close}",
                "syscall",
                "cmp rax, 1",
                "adc {matched}, 0",
                "dec {left}",
                "jnz 3b",
                number = in(reg) self.number,
                first = in(reg) self.arguments[0],
                close = const libc::SYS_close,
                matched = inout(reg) matched,
                left = inout(reg) iterations => _,
                in("rsi") self.arguments[1], in("rdx") self.arguments[2],
                in("r10") self.arguments[3],
                out("rdi") _, out("rax") _, out("rcx") _, out("r11") _, options(nostack));
            #[cfg(target_arch = "aarch64")]
            asm!(
                ".p2align 4", "3:",
                "mov x8, {number}",
                "mov x0, {first}",
                "svc 0",
                "mov x8, #{close}",
                "svc 0",
                "cmp x0, #0",
                "cinc {matched}, {matched}, eq",
                "subs {left}, {left}, #1",
                "b.ne 3b",
                number = in(reg) self.number,
                first = in(reg) self.arguments[0],
                close = const libc::SYS_close,
                matched = inout(reg) matched,
                left = inout(reg) iterations => _,
                in("x1") self.arguments[1], in("x2") self.arguments[2],
                in("x3") self.arguments[3],
                out("x0") _, out("x8") _, options(nostack));
        }
        matched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_results_count() {
        let parent = std::os::unix::process::parent_id() as isize;
        // SAFETY: getppid takes no argument.
        let right = unsafe { RawCall::new(libc::SYS_getppid, [0; 4], parent) };
        // SAFETY: as above.
        let wrong = unsafe { RawCall::new(libc::SYS_getppid, [0; 4], parent + 1) };
        assert_eq!((right.repeat(1), right.repeat(1000), right.repeat(0)), (1, 1000, 0));
        assert_eq!(wrong.repeat(1000), 0);
        assert_eq!(right.in_procedure().repeat(1000), 1000);
        assert_eq!(wrong.in_procedure().repeat(1000), 0);
        assert_eq!(right.errno(), None);
    }

    #[test]
    fn open_close_pair_counts_only_if_opened() {
        let open = |path: &'static std::ffi::CStr| {
            let at = libc::AT_FDCWD as usize;
            let arguments = [at, path.as_ptr() as usize, libc::O_CLOEXEC as usize, 0];
            // SAFETY: the path is static; the descriptor is closed.
            unsafe { RawCall::and_close(libc::SYS_openat, arguments) }
        };
        assert_eq!(open(c"/").repeat(100), 100);
        assert_eq!(open(c"/no/such/folder").repeat(100), 0);
        assert_eq!(open(c"/no/such/folder").errno(), Some(libc::ENOENT));
        assert_eq!(open(c"/").errno(), None);
    }
}
