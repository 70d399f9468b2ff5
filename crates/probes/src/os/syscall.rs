//! os.syscall: inlined system calls in a loop.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};

use super::raw_call::{RawCall, system_call};
use crate::prelude::*;

metric!(Syscall, ABOUT);

static ABOUT: About = About {
    id: "os.syscall",
    title: "system call",
    timed: "one system call by the inlined instruction: kernel entry, the call's work on cached \
            data, and return; for open_close both calls; for getppid_called also the function \
            around the instruction",
    not_timed: "the C library's wrapper (except getppid_called); the vDSO, which does not enter \
                the kernel; blocking: no call here blocks",
    model: "a bound: entry and exit save and restore every register, switch stacks and run the \
            active mitigations, so ≥ 10 × cpu.call{args=0}; a call that looks up a descriptor or \
            a path ≥ os.syscall{call=getppid}; open and close are two entries, ≥ 2 × getppid. \
            There is no value: no public source gives entry and exit for each CPU and mitigation",
    source: "bound: Linux arch/x86/entry/entry_64.S and arch/arm64/kernel/entry.S; the calls are \
             those of lmbench's lat_syscall (McVoy & Staelin, USENIX 1996)",
    pitfalls: &[
        "some C libraries have cached getpid: here getppid is called, by the inlined instruction",
        "on many cores the first return after a system call is expensive, because it is \
         mispredicted and because of the kernel's return mitigations: getppid_called includes it, \
         as do programs that call through the C library and perf bench syscall; the inlined \
         instruction does not",
        "other kinds of calls train the branch predictors in ways that can slow thousands of later \
         calls: each call is measured in processes that loop over it alone; a program that mixes \
         calls pays more",
        "a call that fails is fast: each result is compared inside the loop, and a batch with a \
         wrong result is no sample",
        "a seccomp filter, as installed by containers and service managers, runs on every call and \
         is part of the number; one that blocks a call makes it unavailable",
        "in a loop everything is cached and every branch predicted: os.syscall.fresh is the \
         opposite case",
        "in a container /dev/null may be a separate mount, which stat and open_close then cross",
    ],
    parameters: &[Parameter::new(
        "call",
        "getppid, getppid_called, invalid, read1, write1, stat, fstat, open_close",
        "getppid: little more than entry and exit; getppid_called: the same in a \
                  function, with trained predictors; invalid: a number without a system call; \
                  read1: 1 byte from /dev/zero; write1: 1 byte to /dev/null; stat: the path \
                  /dev/null; fstat: /dev/null held open; open_close: openat and close of \
                  /dev/null",
    )],
    needs: &["cpu.call"],
    // Other calls train the branch predictors in ways that can slow thousands of later calls.
    cases_share_visits: false,
    ..About::BASE
};

/// The predictions of later calls need the first.
const CALLS: [&str; 8] =
    ["getppid", "getppid_called", "invalid", "read1", "write1", "stat", "fstat", "open_close"];
/// Above every system call number of every architecture, and below the x32 bit.
const NO_SUCH_CALL: i64 = 0xffff;
/// About 100 ms of calls, after which the branch predictors are trained: on some cores other code
/// leaves them in states that last tens of milliseconds.
const TRAINING_CALLS: u64 = 600_000;
const NULL: &CStr = c"/dev/null";
const ZERO: &CStr = c"/dev/zero";

impl Probe for Syscall {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        let cost_ns = |call| if call == "getppid_called" { 1e8 } else { 6e6 };
        let case = |call| ProbeCase { params: Params::one("call", call), cost_ns: cost_ns(call) };
        CALLS.map(case).into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        match case.params.text("call") {
            Some("getppid" | "getppid_called" | "invalid") => {
                let source = "entry and exit save and restore every register and switch stacks: \
                              Linux arch/x86/entry/entry_64.S, arch/arm64/kernel/entry.S";
                let order = Order { factor: 10.0, metric: "cpu.call", source };
                order.claim(&Params::one("args", 0), known)
            }
            Some("open_close") => {
                let source = "two system calls, each of which does more than getppid";
                at_least_getppid(2.0, source, known)
            }
            _ => at_least_getppid(1.0, "the same entry and exit, and more work in between", known),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let targets = Targets::open();
        each(cases, sampler, |index, case, sampler| {
            let call = targets.call(case.params.text("call").unwrap_or_default())?;
            sampler
                .run(vec![SamplerWork::batched(index, move |iterations| call.repeat(iterations))]);
            Ok(())
        })
    }
}

/// Arguments of the calls, which hold pointers into it and must not outlive it.
struct Targets {
    zero: Result<OwnedFd>,
    null: Result<OwnedFd>,
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

    /// Returns the call of this name after making it once.
    fn call(&self, name: &str) -> Result<RawCall> {
        let at = libc::AT_FDCWD as usize;
        let path = NULL.as_ptr() as usize;
        let (byte, stat) = (self.byte.get() as usize, self.stat.get() as usize);
        let descriptor = |file: &Result<OwnedFd>| match file {
            Ok(file) => Ok(file.as_raw_fd() as usize),
            Err(fault) => Err(fault.clone()),
        };
        let (number, arguments, expected) = match name {
            "getppid" | "getppid_called" => {
                // SAFETY: takes no argument.
                let parent = unsafe { system_call(libc::SYS_getppid, [0; 4]) };
                (libc::SYS_getppid, [0; 4], parent)
            }
            "invalid" => (NO_SUCH_CALL, [0; 4], -(libc::ENOSYS as isize)),
            "read1" => (libc::SYS_read, [descriptor(&self.zero)?, byte, 1, 0], 1),
            "write1" => (libc::SYS_write, [descriptor(&self.null)?, byte, 1, 0], 1),
            "stat" => (libc::SYS_newfstatat, [at, path, stat, 0], 0),
            "fstat" => (libc::SYS_fstat, [descriptor(&self.null)?, stat, 0, 0], 0),
            "open_close" => {
                let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
                // SAFETY: the path is a constant; the descriptor is closed.
                let pair = unsafe { RawCall::and_close(libc::SYS_openat, [at, path, flags, 0]) };
                return verified(name, pair, None);
            }
            _ => return Err(SamplerFault::Failed(format!("unknown system call: {name}"))),
        };
        // SAFETY: the buffers are as large as the calls write, and are not read by this program;
        // the visit that uses the call keeps `self` until its last repetition.
        let mut call = unsafe { RawCall::new(number, arguments, expected) };
        if name == "getppid_called" {
            call = call.in_procedure();
            call.repeat(TRAINING_CALLS);
        }
        verified(name, call, (name == "invalid").then_some(libc::ENOSYS))
    }
}

/// Makes the call once; returns it if the result was as expected, else whether it is blocked here
/// or broken.
pub(super) fn verified(name: &str, call: RawCall, expected_errno: Option<i32>) -> Result<RawCall> {
    if call.repeat(1) == 1 {
        return Ok(call);
    }
    let errno = call.errno();
    match errno {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ENOENT)
            if errno != expected_errno =>
        {
            let error = std::io::Error::from_raw_os_error(errno.unwrap_or_default());
            Err(SamplerFault::unavailable(format!("{name}: {error}"), Remedy::LeaveSandbox))
        }
        _ => Err(SamplerFault::WrongWork(format!("{name}: unexpected result, errno {errno:?}"))),
    }
}

fn open(path: &CStr, flags: OFlags) -> Result<OwnedFd> {
    // A container may lack the device: unavailable, whatever the error.
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
        SamplerFault::Unavailable(format!("open {}: {error}", path.to_string_lossy()), None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_device_affects_only_its_call() {
        let mut targets = Targets::open();
        targets.zero = open(c"/dev/no-such-device", OFlags::RDONLY);
        let missing = targets.call("read1").err();
        assert!(
            matches!(missing, Some(SamplerFault::Unavailable(text, _)) if text.contains("no-such"))
        );
        assert!(targets.call("getppid").is_ok());
    }

    #[test]
    fn blocked_call_is_unavailable_or_wrong_work() {
        // SAFETY: no kernel has a call of this number.
        let call = unsafe { RawCall::new(NO_SUCH_CALL, [0; 4], 0) };
        assert!(matches!(verified("read1", call, None), Err(SamplerFault::Unavailable(..))));
        // SAFETY: takes no argument.
        let call = unsafe { RawCall::new(libc::SYS_getppid, [0; 4], -1) };
        assert!(matches!(verified("getppid", call, None), Err(SamplerFault::WrongWork(_))));
    }
}
