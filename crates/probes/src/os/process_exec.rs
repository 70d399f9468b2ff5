//! os.process.vfork_exec, os.process.spawn and os.process.shell: starting another program.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::child::{Child, creation_fault};
use super::program::{CStrings, EXIT_STATUS, Program};
use super::turns::check_pinned;
use super::vfork::vfork_exec;
use crate::prelude::*;

pub static VFORK_EXEC: ProcessExec =
    ProcessExec { about: &VFORK_ABOUT, method: ProcessExecMethod::Vfork };
pub static SPAWN: ProcessExec =
    ProcessExec { about: &SPAWN_ABOUT, method: ProcessExecMethod::Spawn };
pub static SHELL: ProcessExec =
    ProcessExec { about: &SHELL_ABOUT, method: ProcessExecMethod::Shell };

/// Starting a program by one of three methods.
pub struct ProcessExec {
    about: &'static About,
    method: ProcessExecMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessExecMethod {
    Vfork,
    Spawn,
    Shell,
}

const BASE: About = About {
    parameters: &[Parameter::new(
        "part",
        "first_instruction, total",
        "until the program's first instructions have read the clock · until the program, \
                  or its shell, is reaped",
    )],
    not_timed: "writing the program, a static ELF file of 300 bytes in memory; loading it for the \
                first time; C library start-up and dynamic loading (none)",
    requires: "executable memfds (vm.memfd_noexec below 2) and /proc",
    ..super::TURNS
};
const OWN_PROGRAM: &str = "programs of the system bring their own loader and libraries: this one \
                           reads the clock in its first instructions, calls getpid, writes both to \
                           a pipe and exits, so part=total includes three system calls of its own";
const VERIFIED: &str = "a program that cannot be started fails fast: exit status, pid and \
                        timestamp are checked each time";
const ONE_CPU: &str = "parent and program share one CPU: after execve the parent is runnable too, \
                       and the scheduler may run it first. On another CPU the program would start \
                       with cold caches and include waking an idle CPU";
const SMALL: &str = "the parent's memory size does not matter, since vfork shares its address \
                     space instead of copying it; that of its open descriptors does, a little";

static VFORK_ABOUT: About = About {
    id: "os.process.vfork_exec",
    title: "vfork and exec of a program",
    timed: "vfork (clone with CLONE_VM and CLONE_VFORK, inlined) whose child immediately calls \
            execve on a minimal program, which exits immediately; no C library involved",
    model: "a bound: starting a program includes what a thread's life includes (a clone and two \
            switches) plus a new address space, so part=first_instruction ≥ \
            os.thread.create_join; part=total ≥ part=first_instruction. There is no value: no \
            metric measures building and tearing down an address space",
    source: "bound: Linux kernel/fork.c and fs/exec.c: what copy_process does for a thread, then \
             begin_new_exec; lmbench's lat_proc, which forks, has no vfork",
    pitfalls: &[OWN_PROGRAM, VERIFIED, ONE_CPU, SMALL],
    needs: &["os.thread.create_join"],
    published: "976 µs with fork in place of vfork (lmbench lat_proc exec, 1.4 GHz Cortex-A53, TI \
                AM62x Linux 12.01 Performance Guide)",
    ..BASE
};

static SPAWN_ABOUT: About = About {
    id: "os.process.spawn",
    title: "posix_spawn of a program",
    timed: "the C library's posix_spawn without attributes or file actions, of the same minimal \
            program as os.process.vfork_exec",
    model: "os.process.vfork_exec of the same part + 6 × os.syscall{call=getppid}: posix_spawn is \
            the same clone and execve, plus mapping and unmapping a stack and two signal mask \
            changes on each side; with glibc before 2.38, which resets the action of every \
            signal, + 122 × os.signal.install",
    source: "glibc sysdeps/unix/sysv/linux/spawni.c and musl src/process/posix_spawn.c; the 122 \
             calls of rt_sigaction by strace",
    pitfalls: &[
        "some C libraries reset the action of every signal in the child, two system calls each: \
         glibc before 2.38, which does not use CLONE_CLEAR_SIGHAND",
        OWN_PROGRAM,
        VERIFIED,
        ONE_CPU,
        SMALL,
    ],
    needs: &["os.process.vfork_exec", "os.syscall", "os.signal.install"],
    ..BASE
};

static SHELL_ABOUT: About = About {
    id: "os.process.shell",
    title: "a program through /bin/sh -c",
    timed: "/bin/sh -c PROGRAM, the shell started as in os.process.vfork_exec: loading it with its \
            dynamic libraries, its start-up, and its starting of the minimal program by exec or \
            fork; part=total includes the shell's exit",
    not_timed: "writing the program; loading the shell from disk; a large environment: PATH is the \
                only variable",
    model: "a bound: two programs are started in sequence, and the shell's start with its \
            libraries costs more than the vfork saved where the shell execs directly: ≥ 2 × \
            os.process.vfork_exec of the same part. No value: what the shell does at its start is \
            its own",
    source: "bound: POSIX sh -c; execve happens twice. lmbench's lat_proc shell starts the same by \
             fork",
    pitfalls: &[
        "shells differ: dash forks to run the command of -c, bash execs it; the pid shows which, \
         and the checks record it",
        "a login shell, or one with ENV or BASH_ENV set, reads files first: -c alone with PATH \
         alone avoids that",
        OWN_PROGRAM,
        VERIFIED,
        ONE_CPU,
    ],
    needs: &["os.process.vfork_exec"],
    requires: "executable memfds (vm.memfd_noexec below 2), /proc, and /bin/sh",
    published: "44.3 ms (lmbench's manual, lat_proc(8), 1994)",
    ..BASE
};

const SH: &CStr = c"/bin/sh";
/// System calls of posix_spawn other than clone and execve.
const SPAWN_CALLS: f64 = 6.0;
/// System calls with which glibc before 2.38 resets the action of every signal, counted with
/// strace.
const SIGNAL_CALLS: f64 = 122.0;

/// Calls that this C library makes to reset signal actions.
fn signal_calls() -> f64 {
    // SAFETY: returns a constant C string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    signal_calls_of(version.to_str().unwrap_or_default())
}

fn signal_calls_of(version: &str) -> f64 {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let numbers = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if numbers < (2, 38) { SIGNAL_CALLS } else { 0.0 }
}

fn params(part: &str) -> Params {
    Params::one("part", part)
}

metric!(ProcessExec.about);

impl Probe for ProcessExec {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        // Both parts together: about 30 starts of 100 µs, or of 700 µs through a shell.
        let cost_ns = if self.method == ProcessExecMethod::Shell { 4e6 } else { 2e6 };
        let case = |part| ProbeCase { params: params(part), cost_ns };
        vec![case("first_instruction"), case("total")]
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let order = |factor, metric, params: &Params, source| {
            Order { factor, metric, source }.claim(params, known)
        };
        let vfork_exec = VFORK_ABOUT.id;
        match (self.method, case.params.text("part")) {
            (ProcessExecMethod::Vfork, Some("total")) => {
                let source = "the same start, plus the program's exit";
                order(1.0, vfork_exec, &params("first_instruction"), source)
            }
            (ProcessExecMethod::Vfork, _) => {
                let source = "a program needs a new address space, which a thread shares: Linux \
                              kernel/fork.c, fs/exec.c";
                order(1.0, "os.thread.create_join", &Params::none(), source)
            }
            (ProcessExecMethod::Spawn, _) => Ok(Sum {
                terms: &[
                    Term::once(vfork_exec, case.params.clone()),
                    Term::new(SPAWN_CALLS, "os.syscall", getppid()),
                    Term::new(signal_calls(), "os.signal.install", Params::none()),
                ],
                tolerance: 0.3,
                source: "glibc sysdeps/unix/sysv/linux/spawni.c: clone as in vfork, execve, \
                         mapping and unmapping a stack, four signal mask changes",
                otherwise: "the C library makes more system calls in the child than glibc of its \
                            version (count with `strace -f -c`), or vfork and exec were measured \
                            in another state of the machine",
            }
            .predict(known)?
            .self_consistent()),
            (ProcessExecMethod::Shell, _) => {
                let source = "the shell is itself such a program, with libraries, and starts one";
                order(2.0, vfork_exec, &case.params, source)
            }
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        // A direct start first: its error is precise, a shell only returns an exit status.
        Starter::new(ProcessExecMethod::Vfork, sampler.clock())?.start(sampler.clock())?;
        let mut starter = Starter::new(self.method, sampler.clock())?;
        let indices = (0..cases.len()).collect();
        sampler.run(vec![super::both_parts(cases, indices, |clock| starter.start(clock))]);
        let (consistent, detail) = starter.is_consistent();
        for index in 0..cases.len() {
            sampler.check(index, "start method", consistent, detail.clone());
            check_pinned("one CPU", index, sampler);
        }
        Ok(())
    }
}

/// Starts the program repeatedly and counts as which process it ran.
struct Starter {
    method: ProcessExecMethod,
    program: Program,
    arguments: CStrings,
    environment: CStrings,
    /// Runs as the child itself.
    as_child: u64,
    /// Runs as a child of the child.
    as_grandchild: u64,
}

impl Starter {
    fn new(method: ProcessExecMethod, clock: &Clock) -> Result<Self> {
        let program = Program::new(clock)?;
        let arguments = match method {
            ProcessExecMethod::Shell => CStrings::new(&[c"sh", c"-c", &program.path]),
            ProcessExecMethod::Vfork | ProcessExecMethod::Spawn => CStrings::new(&[&program.path]),
        };
        let environment = CStrings::new(&[c"PATH=/usr/bin:/bin"]);
        Ok(Self { method, program, arguments, environment, as_child: 0, as_grandchild: 0 })
    }

    /// Starts the program once, waits for its exit and reads its report. Returns the nanoseconds
    /// until its first instructions and until its exit.
    fn start(&mut self, clock: &Clock) -> Result<[f64; 2]> {
        let path = if self.method == ProcessExecMethod::Shell { SH } else { &self.program.path };
        let start = clock.start();
        let child = match self.method {
            ProcessExecMethod::Vfork | ProcessExecMethod::Shell => {
                vfork_exec(path, &self.arguments, &self.environment)
            }
            ProcessExecMethod::Spawn => spawn(path, &self.arguments, &self.environment),
        };
        let child = child.map_err(|error| start_fault(path, &error))?;
        let pid = u64::from(child.id());
        child.wait_for(EXIT_STATUS)?;
        let end = clock.stop();
        let report = self.program.report()?;
        if !(start..=end).contains(&report.stamp) {
            return Err(SamplerFault::WrongWork(format!(
                "the program's timestamp {} is not between {start} and {end}",
                report.stamp
            )));
        }
        if report.pid == pid {
            self.as_child += 1
        } else {
            self.as_grandchild += 1
        }
        Ok([report.stamp, end].map(|stop| clock.ns(start, stop)))
    }

    /// Whether every program ran as the child, or, from a shell, all by the same method.
    fn is_consistent(&self) -> (bool, String) {
        let Self { method, as_child, as_grandchild, .. } = self;
        match method {
            ProcessExecMethod::Shell => (
                *as_child == 0 || *as_grandchild == 0,
                format!("shell execed the program {as_child} times, forked {as_grandchild} times"),
            ),
            ProcessExecMethod::Vfork | ProcessExecMethod::Spawn => {
                let all = as_child + as_grandchild;
                (*as_grandchild == 0, format!("{as_child} of {all} programs ran as the child"))
            }
        }
    }
}

/// Starts a program by the C library's posix_spawn.
fn spawn(path: &CStr, arguments: &CStrings, environment: &CStrings) -> io::Result<Child> {
    let mut pid = MaybeUninit::uninit();
    // SAFETY: the call writes the pid if it succeeds; null means no file actions and no attributes;
    // the strings outlive the call, which does not write to them.
    unsafe {
        match libc::posix_spawn(
            pid.as_mut_ptr(),
            path.as_ptr(),
            ptr::null(),
            ptr::null(),
            arguments.as_ptr().cast(),
            environment.as_ptr().cast(),
        ) {
            0 => Child::from_result(pid.assume_init() as isize),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// The fault for a program that could not be started.
fn start_fault(path: &CStr, error: &io::Error) -> SamplerFault {
    let what = format!("start {}", path.to_string_lossy());
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            let remedy = if path == SH { Remedy::InstallShell } else { Remedy::MountProc };
            SamplerFault::unavailable(format!("{what}: {error}"), remedy)
        }
        Some(libc::EACCES) => {
            SamplerFault::unavailable(format!("{what}: {error}"), Remedy::AllowMemoryPrograms)
        }
        _ => creation_fault(&what, error),
    }
}

#[cfg(test)]
mod tests;
