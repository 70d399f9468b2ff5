//! A seccomp filter that costs as much on each system call as mitigations do.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// The word for this command of the program.
pub(crate) const FILTERED: &str = "filtered";
/// Multiplications one after another, three cycles each: about 0.15 µs a call.
const STEPS: u32 = 200;

/// Runs a command under the filter, in the place of this process.
pub(crate) fn exec(command: &[&str]) -> Result<bool> {
    let [program, arguments @ ..] = command else { bail!("a command to run") };
    install()?;
    Err(Command::new(program).args(arguments).exec()).with_context(|| (*program).to_owned())
}

/// A filter that looks at an argument: of one that does not, the kernel remembers that it lets a
/// call pass, and runs it no more (`seccomp_cache_prepare`).
fn filter() -> Vec<libc::sock_filter> {
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let argument = std::mem::offset_of!(libc::seccomp_data, args) as u32;
    let mut all = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, argument)];
    let multiply = libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K;
    all.extend((0..STEPS).map(|at| step(multiply, 2 * at + 3)));
    all.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    all
}

#[expect(unsafe_code, reason = "no library function installs a filter")]
fn install() -> Result<()> {
    let mut filter = filter();
    let program =
        libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_mut_ptr() };
    let (mode, none) = (libc::c_ulong::from(libc::SECCOMP_MODE_FILTER), 0 as libc::c_ulong);
    // SAFETY: both read their arguments only, and `program` is of the instructions in `filter`.
    let outcome = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, none, none, none)
            | libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program)
    };
    ensure!(outcome == 0, "seccomp: {}", std::io::Error::last_os_error());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_looks_at_an_argument_of_each_call() {
        let all = filter();
        assert_eq!((all[0].code, all[0].k), (0x20, 16), "no jump is before it");
        assert_eq!(all.len(), STEPS as usize + 2);
        assert!(all.iter().all(|it| (it.jt, it.jf) == (0, 0)));
        assert_eq!(all.last().map(|it| it.k), Some(libc::SECCOMP_RET_ALLOW));
    }
}
