//! Limits that a test puts on the program between fork and exec.

use std::io::Result;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The program under what `impose` does to its process, which makes system calls and nothing else.
pub(crate) fn under(
    mut command: Command,
    impose: impl FnMut() -> Result<()> + Send + Sync + 'static,
) -> Output {
    // SAFETY: between fork and exec only system calls are made, and no heap is used.
    unsafe { command.pre_exec(impose) };
    command.output().expect("the program starts under a limit")
}

/// No more of a resource than this.
pub(crate) fn at_most(
    resource: Resource,
    most: u64,
) -> impl FnMut() -> Result<()> + Send + Sync + 'static {
    move || Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// One CPU of those that this process may use.
pub(crate) fn one_cpu() -> Result<()> {
    let mut one = CpuSet::new();
    let all = sched_getaffinity(None)?;
    one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap_or(0));
    Ok(sched_setaffinity(None, &one)?)
}
