//! vfork and execve without a C library between them: a process is made that borrows the memory
//! of this one until it has become another program.
//!
//! A procedure that calls vfork cannot be written in Rust: it would return twice, on one stack.
//! Here the child's few instructions stand in one block of assembly that touches no stack, so that
//! it needs none of its own.

use std::arch::asm;
use std::ffi::CStr;
use std::io;

use super::child::Child;
use super::program::Strings;

/// Starts a program in a child of its own. The caller sleeps until the child has become the
/// program, or could not.
#[inline]
pub(super) fn vfork_exec(
    path: &CStr,
    arguments: &Strings,
    environment: &Strings,
) -> io::Result<Child> {
    let mut failure = 0;
    // SAFETY: the path is a string and the other two are lists of strings with a null at the end,
    // which live until the call returns.
    let made = unsafe { bare(path, arguments, environment, &mut failure) };
    let child = Child::of(made)?;
    if failure == 0 {
        return Ok(child);
    }
    // It ends on its own; reaped by the drop.
    drop(child);
    Err(io::Error::from_raw_os_error(-failure as i32))
}

/// Makes the child, which writes to `failure` what execve returned, if it did.
///
/// # Safety
/// The lists must end with a null, as those of [`Strings`] do.
#[inline(always)]
unsafe fn bare(
    path: &CStr,
    arguments: &Strings,
    environment: &Strings,
    failure: &mut isize,
) -> isize {
    let made: isize;
    // SAFETY: the child runs on this stack and in this memory while the caller sleeps, but uses no
    // stack, and of the memory only `failure`; it has registers of its own. The kernel changes rax,
    // rcx and r11, on aarch64 x0.
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
            failure = in(reg) failure,
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            status = const STATUS,
            inlateout("rax") libc::SYS_clone => made,
            in("rdi") FLAGS, in("rsi") 0_usize, in("rdx") 0_usize, in("r10") 0_usize,
            in("r8") 0_usize,
            out("rcx") _, out("r11") _, options(nostack));
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
            failure = in(reg) failure,
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            status = const STATUS,
            in("x8") libc::SYS_clone,
            inlateout("x0") FLAGS => made,
            in("x1") 0_usize, in("x2") 0_usize, in("x3") 0_usize,
            in("x4") 0_usize, options(nostack));
    }
    made
}

/// What vfork is made of.
const FLAGS: usize = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as usize;
/// What the child leaves with where it could not become the program.
const STATUS: i32 = 127;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn a_program_that_is_not_there_is_an_error_and_leaves_no_child() {
        let _alone = smoke::alone();
        let none = Strings::new(&[]);
        let start = |path| vfork_exec(path, &Strings::new(&[c"x"]), &none).unwrap_err();
        assert_eq!(start(c"/no/such/program").raw_os_error(), Some(libc::ENOENT));
        assert_eq!(start(c"/").raw_os_error(), Some(libc::EACCES));
        assert!(smoke::has_no_children());
    }

    #[test]
    fn what_is_started_is_the_caller_s_child_and_gets_arguments_and_environment() {
        let _alone = smoke::alone();
        let shell = Strings::new(&[c"sh", c"-c", c"exit $(($STATUS + $0))", c"2"]);
        let environment = Strings::new(&[c"STATUS=3"]);
        let child = vfork_exec(c"/bin/sh", &shell, &environment).unwrap();
        assert_eq!(child.wait_for(5), Ok(()));
    }
}
