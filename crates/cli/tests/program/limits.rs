//! Limits imposed on the program between fork and exec.

use std::io::Result;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Runs the program after `impose`, which may only make system calls.
pub(crate) fn under(
    mut command: Command,
    impose: impl FnMut() -> Result<()> + Send + Sync + 'static,
) -> Output {
    // SAFETY: between fork and exec only system calls are made, and no heap is used.
    unsafe { command.pre_exec(impose) };
    command.output().expect("the program starts under a limit")
}

/// Limits a resource.
pub(crate) fn at_most(
    resource: Resource,
    most: u64,
) -> impl FnMut() -> Result<()> + Send + Sync + 'static {
    move || Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Restricts the process to its first allowed CPU.
pub(crate) fn one_cpu() -> Result<()> {
    let mut one = CpuSet::new();
    let all = sched_getaffinity(None)?;
    one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap_or(0));
    Ok(sched_setaffinity(None, &one)?)
}
