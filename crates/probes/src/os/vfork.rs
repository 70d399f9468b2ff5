//! vfork and execve without the C library: the child shares this process's memory until execve.
//!
//! vfork cannot be called from Rust, because it returns twice on one stack. Here the child's few
//! instructions are in one assembly block that does not touch the stack.

use std::arch::asm;
use std::ffi::CStr;
use std::io;

use super::child::Child;
use super::program::CStrings;

/// Starts a program in a child process. The caller sleeps until execve has succeeded or failed.
#[inline]
pub(super) fn vfork_exec(
    path: &CStr,
    arguments: &CStrings,
    environment: &CStrings,
) -> io::Result<Child> {
    // What execve returned, if it did.
    let mut failure = 0_isize;
    let pid: isize;
    // SAFETY: the path is a C string and both lists end with null; all outlive the block. The child
    // runs in this memory while the caller sleeps, but has its own registers, uses no stack and
    // writes only to `failure`. The kernel changes rax, rcx and r11 (aarch64: x0).
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, {path}",
            "mov rsi, {arguments}",
            "mov rdx, {environment}",
            "mov eax, {execve}",
            "syscall",
            "mov qword ptr [{failure}], rax",
            "mov edi, {status}",
            "mov eax, {exit_group}",
            "syscall",
            "2:",
            path = in(reg) path.as_ptr(),
            arguments = in(reg) arguments.as_ptr(),
            environment = in(reg) environment.as_ptr(),
            failure = in(reg) &raw mut failure,
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            status = const EXEC_FAILED,
            inlateout("rax") libc::SYS_clone => pid,
            in("rdi") FLAGS, in("rsi") 0_usize, in("rdx") 0_usize, in("r10") 0_usize,
            in("r8") 0_usize, out("rcx") _, out("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x0, {path}",
            "mov x1, {arguments}",
            "mov x2, {environment}",
            "mov x8, #{execve}",
            "svc #0",
            "str x0, [{failure}]",
            "mov x0, #{status}",
            "mov x8, #{exit_group}",
            "svc #0",
            "2:",
            path = in(reg) path.as_ptr(),
            arguments = in(reg) arguments.as_ptr(),
            environment = in(reg) environment.as_ptr(),
            failure = in(reg) &raw mut failure,
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            status = const EXEC_FAILED,
            in("x8") libc::SYS_clone,
            inlateout("x0") FLAGS => pid,
            in("x1") 0_usize, in("x2") 0_usize, in("x3") 0_usize, in("x4") 0_usize,
            options(nostack));
    }
    let child = Child::from_result(pid)?;
    match failure {
        0 => Ok(child),
        // The child exits by itself; dropping it reaps it.
        errno => Err(io::Error::from_raw_os_error(-errno as i32)),
    }
}

/// The clone flags of vfork(2).
const FLAGS: usize = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as usize;
/// The child's exit status if execve fails.
const EXEC_FAILED: i32 = 127;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn failed_exec_returns_errno_and_leaves_no_child() {
        let none = CStrings::new(&[]);
        let start = |path| vfork_exec(path, &CStrings::new(&[c"x"]), &none).unwrap_err();
        assert_eq!(start(c"/no/such/program").raw_os_error(), Some(libc::ENOENT));
        assert_eq!(start(c"/").raw_os_error(), Some(libc::EACCES));
        assert!(smoke::has_no_children());
    }

    #[test]
    fn child_gets_arguments_and_environment() {
        let shell = CStrings::new(&[c"sh", c"-c", c"exit $(($STATUS + $0))", c"2"]);
        let environment = CStrings::new(&[c"STATUS=3"]);
        let child = vfork_exec(c"/bin/sh", &shell, &environment).unwrap();
        assert_eq!(child.wait_for(5), Ok(()));
    }
}
