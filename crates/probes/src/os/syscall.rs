//! os.syscall: system calls made by hand, in a loop.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Params, Prediction, Remedy};
use rustix::fs::{Mode, OFlags};

use super::raw_call::{RawCall, system_call};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.syscall.
pub struct Syscall;

static ABOUT: About = About {
    id: "os.syscall",
    title: "system call",
    timed: "one system call by the bare instruction: entry into the kernel, the call's own work on \
            cached data, and return; for open_close the pair of both calls; for getppid_called \
            also the procedure around the instruction",
    not_timed: "what a C library does around it, but for getppid_called; the vDSO, which never \
                enters the kernel; waiting: no call here blocks",
    model: "a bound: entry and exit save and restore every register, change stacks and pass the \
            mitigations in force, so ≥ 10 × cpu.call{args=0}; a call that looks up a descriptor or \
            a path ≥ os.syscall{call=getppid}; open and close are two entries, ≥ 2 × getppid. \
            There is no value: no public source gives entry and exit for each CPU and mitigation",
    source: "bound: Linux arch/x86/entry/entry_64.S and arch/arm64/kernel/entry.S; the calls are \
             those of lmbench's lat_syscall (McVoy & Staelin, USENIX 1996)",
    pitfalls: &[
        "C libraries have cached getpid: getppid is called, by the bare instruction",
        "on many cores the first return after a system call is dear, by a misprediction and by \
         what the kernel does against attacks on returns: getppid_called pays for that, as every \
         program that calls by its C library does, and as perf bench syscall does; the bare \
         instruction does not",
        "calls of other kinds leave the predictors in states that can slow thousands of later \
         calls: each call is measured in processes that loop over it alone, and a program \
         that mixes its calls pays more",
        "a call that fails is fast: the result of each call is compared inside the loop, and a \
         batch with one wrong result is no sample",
        "a seccomp filter, as containers and service managers install, runs on every call and \
         belongs to the number; one that forbids a call makes it unavailable",
        "in a loop everything is cached and every branch predicted: os.syscall.fresh is the other \
         end",
        "in a container /dev/null may be a mount of its own, which stat and open_close then cross",
    ],
    parameters: &[Parameter {
        name: "call",
        values: "getppid, getppid_called, invalid, read1, write1, stat, fstat, open_close",
        meaning: "getppid: nothing but entry and exit; getppid_called: the same in a procedure \
                  that is called, once the predictors have settled; invalid: a number that no \
                  call has; read1: 1 byte of /dev/zero; write1: 1 byte to /dev/null; stat: of the \
                  path /dev/null; fstat: of /dev/null held open; open_close: openat and close of \
                  /dev/null",
    }],
    needs: &["cpu.call"],
    ..About::BASE
};

/// The calls, those that others are held against first.
const CALLS: [&str; 8] =
    ["getppid", "getppid_called", "invalid", "read1", "write1", "stat", "fstat", "open_close"];
/// Above every call's number on every architecture, and below the bit that marks x32 calls.
const NO_SUCH_CALL: i64 = 0xffff;
/// Some 100 ms.
const SETTLING_CALLS: u64 = 600_000;
const NULL: &CStr = c"/dev/null";
const ZERO: &CStr = c"/dev/zero";

impl Probe for Syscall {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// Other system calls leave the core's predictors in a state that can slow thousands of later
    /// calls: every call has processes of its own.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        let cost_ns = |call| if call == "getppid_called" { 1.2e8 } else { 1e7 };
        let case = |call| Case { params: Params::one("call", call), cost_ns: cost_ns(call) };
        CALLS.map(case).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let (factor, source) = match case.params.text("call") {
            Some("getppid" | "getppid_called" | "invalid") => {
                let source = "entry and exit save and restore every register and change stacks: \
                              Linux arch/x86/entry/entry_64.S, arch/arm64/kernel/entry.S";
                let order = Order { factor: 10.0, metric: "cpu.call", source };
                return order.claim(&Params::one("args", 0), known);
            }
            Some("open_close") => (2.0, "two system calls, each of which does more than getppid"),
            _ => (1.0, "the same entry and exit, and more work between them than getppid's"),
        };
        let order = Order { factor, metric: ABOUT.id, source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let targets = Targets::open();
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            match targets.call(case.params.text("call").unwrap_or_default()) {
                Ok(call) => {
                    works.push(Work::batched(index, move |iterations| call.repeat(iterations)));
                }
                Err(fault) => sampler.fault(index, fault),
            }
        }
        sampler.run(works);
        Ok(())
    }
}

/// What the calls work on. Calls hold addresses in it, and must not outlive it.
struct Targets {
    zero: Result<OwnedFd, Fault>,
    null: Result<OwnedFd, Fault>,
    byte: Box<UnsafeCell<u8>>,
    stat: Box<UnsafeCell<MaybeUninit<libc::stat>>>,
}

impl Targets {
    fn open() -> Self {
        Self {
            zero: open(ZERO, OFlags::RDONLY),
            null: open(NULL, OFlags::WRONLY),
            byte: Box::new(UnsafeCell::new(0)),
            stat: Box::new(UnsafeCell::new(MaybeUninit::uninit())),
        }
    }

    /// A call by its name, tried once.
    fn call(&self, name: &str) -> Result<RawCall, Fault> {
        let at = libc::AT_FDCWD as usize;
        let path = NULL.as_ptr() as usize;
        let (byte, stat) = (self.byte.get() as usize, self.stat.get() as usize);
        let descriptor = |file: &Result<OwnedFd, Fault>| match file {
            Ok(file) => Ok(file.as_raw_fd() as usize),
            Err(fault) => Err(fault.clone()),
        };
        let no_such_call = -(libc::ENOSYS as isize);
        let (number, arguments, expected) = match name {
            "getppid" | "getppid_called" => {
                // SAFETY: takes no argument.
                let parent = unsafe { system_call(libc::SYS_getppid, [0; 4]) };
                (libc::SYS_getppid, [0; 4], parent)
            }
            "invalid" => (NO_SUCH_CALL, [0; 4], no_such_call),
            "read1" => (libc::SYS_read, [descriptor(&self.zero)?, byte, 1, 0], 1),
            "write1" => (libc::SYS_write, [descriptor(&self.null)?, byte, 1, 0], 1),
            "stat" => (libc::SYS_newfstatat, [at, path, stat, 0], 0),
            "fstat" => (libc::SYS_fstat, [descriptor(&self.null)?, stat, 0, 0], 0),
            "open_close" => {
                let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
                // SAFETY: the path is a constant; what is opened is closed.
                let pair = unsafe { RawCall::and_close(libc::SYS_openat, [at, path, flags, 0]) };
                return tried(name, pair, pair.repeat(1), None);
            }
            _ => return Err(Fault::Failed(format!("no system call is known as {name}"))),
        };
        // SAFETY: the buffers are as large as the calls fill, and are not read by this program;
        // the visit that uses the call keeps `self` until its last repetition.
        let call = unsafe { RawCall::new(number, arguments, expected) };
        let wanted = (name == "invalid").then_some(libc::ENOSYS);
        let call = if name == "getppid_called" { settled(call.in_procedure()) } else { call };
        tried(name, call, call.repeat(1), wanted)
    }
}

/// The call when its mispredicted return costs what it costs in a long loop: on some cores other
/// code leaves the predictors in states that take tens of milliseconds to wear off.
fn settled(call: RawCall) -> RawCall {
    call.repeat(SETTLING_CALLS);
    call
}

/// The call, if its trial returned what it should: else whether it is forbidden here or broken.
pub(super) fn tried(
    name: &str,
    call: RawCall,
    matched: u64,
    wanted: Option<i32>,
) -> Result<RawCall, Fault> {
    if matched == 1 {
        return Ok(call);
    }
    let errno = call.errno();
    match errno {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ENOENT) if errno != wanted => {
            let error = std::io::Error::from_raw_os_error(errno.unwrap_or_default());
            Err(Fault::unavailable(format!("{name}: {error}"), Remedy::LeaveSandbox))
        }
        _ => Err(Fault::WrongWork(format!("{name}: the trial returned errno {errno:?}"))),
    }
}

fn open(path: &CStr, flags: OFlags) -> Result<OwnedFd, Fault> {
    // A container may have no such device: a fact of this machine, whatever the error.
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
        Fault::Unavailable(format!("open {}: {error}", path.to_string_lossy()), None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn every_call_gives_positive_times_or_a_reason() {
        let taken = smoke::run(&Syscall);
        assert_eq!(taken.len(), CALLS.len());
        let took = |call| {
            taken
                .iter()
                .any(|(case, sample)| case.params.text("call") == Some(call) && sample.is_ok())
        };
        assert!(took("getppid"), "no sandbox forbids getppid");
    }

    #[test]
    fn a_device_that_is_missing_makes_its_call_unavailable_and_no_other() {
        let mut targets = Targets::open();
        targets.zero = open(c"/dev/no-such-device", OFlags::RDONLY);
        let missing = targets.call("read1").err();
        assert!(matches!(missing, Some(Fault::Unavailable(text, _)) if text.contains("no-such")));
        assert!(targets.call("getppid").is_ok());
    }

    #[test]
    fn a_call_that_a_filter_forbids_is_unavailable_and_one_that_misbehaves_wrong_work() {
        // SAFETY: a kernel has no call of this number, and looks at no argument.
        let call = unsafe { RawCall::new(NO_SUCH_CALL, [0; 4], 0) };
        assert!(matches!(tried("read1", call, 0, None), Err(Fault::Unavailable(..))));
        // SAFETY: takes no argument.
        let call = unsafe { RawCall::new(libc::SYS_getppid, [0; 4], -1) };
        assert!(matches!(tried("getppid", call, 0, None), Err(Fault::WrongWork(_))));
    }
}
