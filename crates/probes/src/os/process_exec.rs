//! os.process.vfork_exec, os.process.spawn and os.process.shell: starting another program.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work, affinity};
use fathom_record::{Counters, Host, NoModel, Params, Prediction, Remedy};

use super::child::{Child, refused};
use super::program::{EXIT_STATUS, Program, Strings};
use super::vfork::vfork_exec;
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.process.vfork_exec.
pub static VFORK_EXEC: ProcessExec = ProcessExec { about: &BARE, way: Way::Bare };
/// os.process.spawn.
pub static SPAWN: ProcessExec = ProcessExec { about: &SPAWNED, way: Way::Spawn };
/// os.process.shell.
pub static SHELL: ProcessExec = ProcessExec { about: &SHELLED, way: Way::Shell };

/// Starting a program in one of three ways.
pub struct ProcessExec {
    about: &'static About,
    way: Way,
}

/// How the program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bare,
    Spawn,
    Shell,
}

const PARTS: &[Parameter] = &[Parameter {
    name: "part",
    values: "first_instruction, total",
    meaning: "until the program's first instructions have read the clock · until it, or the shell \
              in front of it, is reaped",
}];
const NOT_TIMED: &str = "writing the program, a static ELF file of 300 bytes in memory; its being \
                         loaded for the first time; whatever a C library's start-up and a dynamic \
                         loader do in other programs: this one has neither";
const OWN_PROGRAM: &str = "a program of the system brings its own loader and libraries: this one \
                           reads the clock in its first instructions, asks for its process number, \
                           writes both to a pipe and leaves, so part=total has three system calls \
                           of its own";
const VERIFIED: &str = "a program that cannot be started fails fast: exit status, process number \
                        and stamp are checked each time";
const ONE_CPU: &str = "starter and program share one CPU: when execve has succeeded, the starter \
                       is awake too and may run first, as the scheduler likes; on another CPU the \
                       program would begin with cold caches and an idle CPU to wake";
const SMALL: &str = "what the starter has in memory does not matter, since it is borrowed and not \
                     copied as by fork; how many descriptors it has open does, a little";

static BARE: About = About {
    id: "os.process.vfork_exec",
    title: "vfork and exec of a program",
    timed: "a bare vfork (clone with CLONE_VM and CLONE_VFORK) whose child calls execve at once, \
            of a tiny program of our own, which ends at once; no C library in between",
    not_timed: NOT_TIMED,
    model: "a bound: a program's start holds all that a thread's life holds (a clone, a switch \
            there and back) and a new address space besides, so part=first_instruction ≥ \
            os.thread.create_join; part=total ≥ part=first_instruction. There is no value: \
            building and tearing down an address space has no earlier metric",
    source: "bound: Linux kernel/fork.c and fs/exec.c: what copy_process does for a thread, then \
             begin_new_exec; lmbench's lat_proc, which forks, has no vfork",
    pitfalls: &[OWN_PROGRAM, VERIFIED, ONE_CPU, SMALL],
    parameters: PARTS,
    needs: &["os.thread.create_join"],
    requires: "memory that may be executed (vm.memfd_noexec below 2) and a /proc",
    published: "976 µs with fork in place of vfork (lmbench lat_proc exec, 1.4 GHz Cortex-A53, TI \
                AM62x Linux 12.01 Performance Guide)",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static SPAWNED: About = About {
    id: "os.process.spawn",
    title: "posix_spawn of a program",
    timed: "the C library's posix_spawn without attributes or file actions, of the same tiny \
            program as os.process.vfork_exec starts",
    not_timed: NOT_TIMED,
    model: "os.process.vfork_exec of the same part + 6 × os.syscall{call=getppid}: posix_spawn is \
            the same clone and execve, with a stack mapped and unmapped, and the signal mask \
            changed twice on each side",
    source: "glibc sysdeps/unix/sysv/linux/spawni.c and musl src/process/posix_spawn.c",
    pitfalls: &[
        "some C libraries set the action of every signal back in the child, two system calls for \
         each: glibc where it does not use CLONE_CLEAR_SIGHAND",
        OWN_PROGRAM,
        VERIFIED,
        ONE_CPU,
        SMALL,
    ],
    parameters: PARTS,
    needs: &["os.process.vfork_exec", "os.syscall", "os.signal.install"],
    requires: "memory that may be executed (vm.memfd_noexec below 2) and a /proc",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static SHELLED: About = About {
    id: "os.process.shell",
    title: "a program through /bin/sh -c",
    timed: "/bin/sh -c PROGRAM, the shell started as os.process.vfork_exec starts a program: its \
            loading with its dynamic libraries, its start-up, and its own starting of our program, \
            in its own place or by a fork, as the shell does it; part=total with the shell's end",
    not_timed: "writing the program; loading the shell from the disk; what an environment of many \
                variables costs: PATH is the only one",
    model: "a bound: two programs are started one after the other, and the shell's start with its \
            libraries costs more than the vfork that is spared where it gives its place to ours: \
            ≥ 2 × os.process.vfork_exec of the same part",
    source: "bound: POSIX sh -c; execve happens twice. lmbench's lat_proc shell starts the same by \
             a fork",
    pitfalls: &[
        "shells differ: dash forks for the program of -c, bash becomes it; which of the two \
         happened is found by the process number and told in the checks",
        "a login shell or one with ENV or BASH_ENV set reads files first: -c alone and an \
         environment of PATH keep to the shell itself",
        OWN_PROGRAM,
        VERIFIED,
        ONE_CPU,
    ],
    parameters: PARTS,
    needs: &["os.process.vfork_exec"],
    requires: "memory that may be executed (vm.memfd_noexec below 2), a /proc, and /bin/sh",
    published: "44.3 ms (lmbench's manual, lat_proc(8), 1994)",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

const SH: &CStr = c"/bin/sh";
/// System calls that posix_spawn makes besides the two that it is about.
const SPAWN_CALLS: f64 = 6.0;
/// System calls by which glibc before 2.38 sets the action of each signal back, counted by strace.
const SIGNAL_CALLS: f64 = 122.0;

/// How many of them this C library makes.
fn signal_calls() -> f64 {
    // SAFETY: returns a constant text that ends with a 0.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    signal_calls_of(version.to_str().unwrap_or_default())
}

fn signal_calls_of(version: &str) -> f64 {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version < (2, 38) { SIGNAL_CALLS } else { 0.0 }
}

fn params(part: &str) -> Params {
    Params::one("part", part)
}

impl Probe for ProcessExec {
    fn about(&self) -> &'static About {
        self.about
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        // Some 30 starts of 100 µs, or of 700 µs by a shell, for both parts together.
        let cost_ns = if self.way == Way::Shell { 9e6 } else { 2e6 };
        let case = |part| Case { params: params(part), cost_ns };
        vec![case("first_instruction"), case("total")]
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let order = |factor, metric, params: &Params, source| {
            Order { factor, metric, source }.claim(params, known)
        };
        match (self.way, case.params.text("part")) {
            (Way::Bare, Some("total")) => {
                let source = "the same start, and the program's end besides";
                order(1.0, BARE.id, &params("first_instruction"), source)
            }
            (Way::Bare, _) => {
                let source = "a thread shares the address space that a program is given anew: \
                              Linux kernel/fork.c, fs/exec.c";
                order(1.0, "os.thread.create_join", &Params::none(), source)
            }
            (Way::Spawn, _) => Sum {
                terms: &[
                    Term { times: 1.0, metric: BARE.id, params: case.params.clone() },
                    Term {
                        times: SPAWN_CALLS,
                        metric: "os.syscall",
                        params: Params::one("call", "getppid"),
                    },
                    Term {
                        times: signal_calls(),
                        metric: "os.signal.install",
                        params: Params::none(),
                    },
                ],
                tolerance: 0.3,
                source: "glibc sysdeps/unix/sysv/linux/spawni.c: clone as vfork does it, execve, a \
                         stack mapped and unmapped, four changes of the signal mask",
                otherwise: "the C library does other work in the child than glibc of its version \
                            (`strace -f -c` counts it), or vfork and exec were measured in \
                            another state of the machine",
            }
            .predict(known),
            (Way::Shell, _) => {
                let source = "the shell is such a program itself, with libraries, and starts ours";
                order(2.0, BARE.id, &case.params, source)
            }
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        // A shell would tell by its exit status and on standard error what this tells in words.
        Starter::new(Way::Bare, sampler.clock())?.start(sampler.clock())?;
        let mut starter = Starter::new(self.way, sampler.clock())?;
        let is_total = |case: &Case| case.params.text("part") == Some("total");
        let totals: Vec<bool> = cases.iter().map(is_total).collect();
        let operation = |clock: &Clock, values: &mut [f64]| {
            let times = starter.start(clock)?;
            for (value, total) in values.iter_mut().zip(&totals) {
                *value = if *total { times.total_ns } else { times.first_ns };
            }
            Ok(())
        };
        sampler.run(vec![Work::single((0..cases.len()).collect(), operation)]);
        let allowed = affinity::allowed();
        let pinned = allowed == [sampler.settings().cpu];
        let (as_one, detail) = starter.as_one();
        for index in 0..cases.len() {
            sampler.check(index, "one way", as_one, detail.clone());
            sampler.check(index, "one CPU", pinned, format!("the worker may run on {allowed:?}"));
        }
        Ok(())
    }
}

/// What one start took.
struct Times {
    first_ns: f64,
    total_ns: f64,
}

/// Starts the program, and counts as whom it ran.
struct Starter {
    way: Way,
    program: Program,
    arguments: Strings,
    environment: Strings,
    /// Programs that ran as the child that was started.
    as_child: u64,
    /// Programs that ran as a child of that child.
    as_grandchild: u64,
}

impl Starter {
    fn new(way: Way, clock: &Clock) -> Result<Self, Fault> {
        let program = Program::new(clock)?;
        let arguments = match way {
            Way::Shell => Strings::new(&[c"sh", c"-c", program.path()]),
            Way::Bare | Way::Spawn => Strings::new(&[program.path()]),
        };
        let environment = Strings::new(&[c"PATH=/usr/bin:/bin"]);
        Ok(Self { way, program, arguments, environment, as_child: 0, as_grandchild: 0 })
    }

    /// Starts the program once, waits for its end and takes its note.
    fn start(&mut self, clock: &Clock) -> Result<Times, Fault> {
        let path = if self.way == Way::Shell { SH } else { self.program.path() };
        let begun = clock.start();
        let child = match self.way {
            Way::Bare | Way::Shell => vfork_exec(path, &self.arguments, &self.environment),
            Way::Spawn => spawn(path, &self.arguments, &self.environment),
        };
        let child = child.map_err(|error| not_started(path, &error))?;
        let process = u64::from(child.id());
        child.wait_for(EXIT_STATUS)?;
        let ended = clock.stop();
        let note = self.program.note()?;
        if !(begun..=ended).contains(&note.stamp) {
            return Err(Fault::WrongWork(format!(
                "the program's stamp {} is not between {begun} and {ended}",
                note.stamp
            )));
        }
        match note.process == process {
            true => self.as_child += 1,
            false => self.as_grandchild += 1,
        }
        Ok(Times { first_ns: clock.ns(begun, note.stamp), total_ns: clock.ns(begun, ended) })
    }

    /// Whether all programs ran in the way that was asked for, and the shell's all in one.
    fn as_one(&self) -> (bool, String) {
        let Self { way, as_child, as_grandchild, .. } = self;
        match way {
            Way::Shell => (
                *as_child == 0 || *as_grandchild == 0,
                format!("in place of the shell {as_child} times, in a fork of it {as_grandchild}"),
            ),
            Way::Bare | Way::Spawn => {
                let all = as_child + as_grandchild;
                (*as_grandchild == 0, format!("{as_child} of {all} programs ran as the child"))
            }
        }
    }
}

/// Starts a program by the C library.
fn spawn(path: &CStr, arguments: &Strings, environment: &Strings) -> io::Result<Child> {
    let mut process = MaybeUninit::uninit();
    // SAFETY: the process number is written where the call succeeds; null asks for no file action
    // and no attribute; the strings live until the call returns, which does not write to them.
    unsafe {
        match libc::posix_spawn(
            process.as_mut_ptr(),
            path.as_ptr(),
            ptr::null(),
            ptr::null(),
            arguments.as_ptr().cast(),
            environment.as_ptr().cast(),
        ) {
            0 => Child::of(process.assume_init() as isize),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// What it means that a program could not be started.
fn not_started(path: &CStr, error: &io::Error) -> Fault {
    let what = format!("start {}", path.to_string_lossy());
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            let remedy = if path == SH { Remedy::InstallShell } else { Remedy::MountProc };
            Fault::unavailable(format!("{what}: {error}"), remedy)
        }
        Some(libc::EACCES) => {
            Fault::unavailable(format!("{what}: {error}"), Remedy::AllowMemoryPrograms)
        }
        _ => refused(&what, error),
    }
}

#[cfg(test)]
mod tests;
