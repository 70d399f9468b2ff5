//! os.syscall.fresh: the first system call of a new process.

use std::arch::asm;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

use super::child::{Child, bare_fork, creation_fault, exit_now};
use super::raw_call::system_call;
use super::shared::{Shareable, SharedPage};
use crate::prelude::*;

metric!(SyscallFresh, ABOUT);

static ABOUT: About = About {
    id: "os.syscall.fresh",
    title: "first system call of a process",
    timed: "one getppid by the inlined instruction, as the first action of a newly forked process \
            (the classic protocol), between two timestamps read in that process",
    not_timed: "the fork itself; returning the timestamps through shared memory; the child's exit",
    model: "a bound: ≥ os.syscall{call=getppid}, the same call with a cold TLB and colder caches. \
            No public source says how much colder",
    source: "the same instructions as os.syscall{call=getppid}, plus misses; protocol: a 2016 \
             study that times getpid in fresh processes",
    pitfalls: &[
        "the C library's fork makes system calls in the child before it returns: the child is \
         created by an inlined clone",
        "the first write to a new process's stack causes a copy-on-write fault: between the \
         timestamps the child stores nothing, and keeps them in registers",
        "a new process maps its program text by page faults: timestamps and call are in one page, \
         which is mapped before the first timestamp is read",
        "a single call between two timestamps includes the cost of reading them, which is not \
         subtracted: cpu.clock.read is the floor",
        "the kernel's code for the call is not quite cold: the parent used it shortly before",
    ],
    needs: &["os.syscall"],
    published: "11.9 µs ± 11 % (2016, i5-5257U, getpid)",
    ..super::TURNS
};

/// About 20 processes of 300 µs.
const COST_NS: f64 = 6e6;

impl Probe for SyscallFresh {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        vec![ProbeCase { params: Params::none(), cost_ns: COST_NS }]
    }

    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        at_least_getppid(1.0, "the same instructions, with cache and TLB misses", known)
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let result = SharedPage::<ChildResult>::zeroed()?;
        sampler.run(vec![single(0, 1, |clock| first_call_ns(clock, &result))]);
        Ok(())
    }
}

/// Forks and returns the duration of the child's first call.
fn first_call_ns(clock: &Clock, result: &ChildResult) -> Result<f64> {
    result.parent.store(0, Ordering::Relaxed);
    // SAFETY: the child reads the clock, makes one system call, writes shared memory and exits: no
    // lock, no heap, no panic, and no C library function but `_exit`.
    let forked = unsafe { bare_fork() };
    if forked == 0 {
        stay_in_one_page();
        let start = clock.start();
        // SAFETY: takes no argument.
        let parent = unsafe { system_call(libc::SYS_getppid, [0; 4]) };
        let stop = clock.stop();
        // After both stamps: the first store to the shared page may fault. Relaxed: the parent
        // reads after wait.
        result.start.store(start, Ordering::Relaxed);
        result.stop.store(stop, Ordering::Relaxed);
        result.parent.store(parent, Ordering::Relaxed);
        exit_now(0);
    }
    Child::from_result(forked).map_err(|error| creation_fault("clone", &error))?.wait_for(0)?;
    let parent = result.parent.load(Ordering::Relaxed);
    if parent != std::process::id() as isize {
        return Err(SamplerFault::WrongWork(format!("the child's getppid returned {parent}")));
    }
    Ok(clock.ns(result.start.load(Ordering::Relaxed), result.stop.load(Ordering::Relaxed)))
}

/// Aligns the following instructions to 256 bytes. Fork copies no page tables of program text, so
/// the child faults in each page of text it executes: the timestamps and the call between them,
/// about 80 bytes, must not cross a page boundary.
#[inline(always)]
fn stay_in_one_page() {
    // SAFETY: padding only.
    unsafe { asm!(".p2align 8", options(nomem, nostack, preserves_flags)) }
}

/// Written by the child, read by the parent after reaping it.
struct ChildResult {
    start: AtomicU64,
    stop: AtomicU64,
    parent: AtomicIsize,
}

// SAFETY: atomics.
unsafe impl Shareable for ChildResult {}
