//! One run of a program: started as cheaply as the kernel allows, and timed by the project's clock
//! from just before the start to the exit.
//!
//! The child shares the memory of this process until it executes the program (`CLONE_VM` and
//! `CLONE_VFORK`, as posix_spawn(3) does), so that no page table is copied. Unlike posix_spawn it
//! can also tie the child to this process and pin it.

use std::cell::Cell;
use std::ffi::{CString, OsStr};
use std::hint::black_box;
use std::io::Error;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use fathom_cost::trace::{self, reap};
use fathom_cost::{Counts, TraceError};
use fathom_measure::Clock;
use fathom_measure::affinity::CpuMask;
use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use crate::script;
use crate::terminal::Terminal;

/// Few calls run on it before the program has its own.
const STACK_BYTES: usize = 64 << 10;
/// How often the stop flag and the state of the child are looked at. Its end ends the wait at once.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A program with its arguments, ready to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildProgram {
    path: CString,
    arguments: Vec<CString>,
    /// Its working folder, if that is not the one of this process.
    folder: Option<CString>,
    /// Rounds of [`spin`] before the program, of a planted loss.
    spins: Rc<Cell<u64>>,
}

impl ChildProgram {
    /// `None` if a word contains a zero byte.
    pub(crate) fn new(path: &Path, words: &[String]) -> Option<Self> {
        let text = |bytes: &OsStr| CString::new(bytes.as_bytes()).ok();
        let arguments = words.iter().map(|word| text(OsStr::new(word))).collect::<Option<_>>()?;
        Some(Self { path: text(path.as_os_str())?, arguments, folder: None, spins: Rc::default() })
    }

    /// `None` if the folder contains a zero byte.
    pub(crate) fn in_folder(self, folder: &Path) -> Option<Self> {
        Some(Self { folder: Some(CString::new(folder.as_os_str().as_bytes()).ok()?), ..self })
    }

    /// The same program, which takes planted losses of its own.
    pub(crate) fn double(&self) -> Self {
        Self { spins: Rc::default(), ..self.clone() }
    }

    /// Makes its runs take longer by so many rounds of [`spin`].
    pub(crate) fn plant(&self, spins: u64) {
        self.spins.set(spins);
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.as_bytes()))
    }
}

/// Where a run reads and writes, and the CPU that it is pinned to.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'f> {
    pub(crate) input: BorrowedFd<'f>,
    pub(crate) output: BorrowedFd<'f>,
    pub(crate) errors: BorrowedFd<'f>,
    pub(crate) cpu: Option<u32>,
    pub(crate) limit_ns: u64,
    /// Its own until it ends.
    pub(crate) terminal: Option<&'f Terminal>,
}

/// What a run took. The counters include its reaped descendants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildUsage {
    pub(crate) wall_ns: f64,
    pub(crate) status: ExitStatus,
    pub(crate) user_ns: f64,
    pub(crate) system_ns: f64,
    /// Resident memory at its highest, of the largest of its processes. Not below that of this
    /// process, from which the kernel begins to count.
    pub(crate) memory_bytes: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) io: Option<ChildIo>,
    /// What it wrote into a pipe as its output.
    pub(crate) piped: Option<u64>,
    /// Time runnable without a CPU, of its first process.
    pub(crate) run_queue_ns: Option<u64>,
    /// By a signal, and then continued.
    pub(crate) was_stopped: bool,
}

/// Bytes of a process by `/proc/PID/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChildIo {
    /// By system calls.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// From and to devices.
    pub(crate) device_read: u64,
    pub(crate) device_written: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("cannot be started: {0}")]
    Start(Error),
    #[error("cannot be started: {0}")]
    Script(String),
    #[error("cannot be waited for: {0}")]
    Wait(Error),
    #[error("ran longer than {0} s, was killed; allow more with --timeout")]
    TimedOut(f64),
    #[error("was stopped by a signal and not continued within {0} s, was killed")]
    NotContinued(f64),
    #[error(
        "waits for the terminal, which only hooks of a bench in the foreground have, was killed; \
         ask in --setup or --prepare, or give the answer by --input"
    )]
    WaitsForTerminal,
    #[error("was stopped")]
    Stopped,
    #[error("cannot be counted: {0}")]
    Counting(String),
}

/// Starts programs one after another.
pub(crate) struct Launcher {
    stack: Vec<u128>,
}

/// What the child needs between clone and exec.
struct ChildStart {
    path: *const libc::c_char,
    arguments: *const *const libc::c_char,
    /// Or null.
    folder: *const libc::c_char,
    spins: u64,
    fds: [libc::c_int; 3],
    parent: libc::pid_t,
    cpus: Option<CpuMask>,
    /// Or -1.
    terminal: libc::c_int,
    /// A socket, or -1: its start is awaited on it, for which the memory is not shared, and an
    /// error is written to it.
    gate: libc::c_int,
    /// The error of exec or of a call before it; 0 if the program was executed.
    error: AtomicI32,
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// Handlers of this process that the child must not run in the shared memory, and SIGPIPE, which
/// the Rust runtime ignores.
const RESET: [libc::c_int; 5] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ, libc::SIGPIPE];

extern "C" fn begin(start: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent passes a `Start`, and does not run before exec or exit.
    let start = unsafe { &*start.cast::<ChildStart>() };
    // SAFETY: only system calls; all pointers are to memory of the parent, which waits.
    unsafe {
        execute(start);
        let error = *libc::__errno_location();
        start.error.store(error, Ordering::Relaxed);
        if start.gate >= 0 {
            libc::write(start.gate, (&raw const error).cast(), size_of_val(&error));
        }
        libc::_exit(127)
    }
}

/// Returns only if a call fails.
///
/// # Safety
/// The pointers of `start` must be valid, and no other thread may use this stack.
unsafe fn execute(start: &ChildStart) {
    // SAFETY: as above; a failed call leaves its errno.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
            || libc::getppid() != start.parent
            || libc::setpgid(0, 0) != 0
            // Signals are blocked, so that SIGTTOU does not stop this process of the background.
            || (start.terminal >= 0 && libc::tcsetpgrp(start.terminal, libc::getpid()) != 0)
            || (!start.folder.is_null() && libc::chdir(start.folder) != 0)
        {
            return;
        }
        if let Some(cpus) = &start.cpus
            && cpus.confine(0).is_err()
        {
            return;
        }
        for (to, from) in (0..).zip(start.fds) {
            if libc::dup2(from, to) < 0 {
                return;
            }
        }
        for signal in RESET {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        let mut go = 0_u8;
        if start.gate >= 0 && libc::read(start.gate, (&raw mut go).cast(), 1) != 1 {
            return;
        }
        spin(start.spins);
        libc::execve(start.path, start.arguments, environ);
    }
}

/// Rounds of arithmetic, each of which needs the one before. It calls nothing.
pub(crate) fn spin(rounds: u64) {
    let mut state = rounds;
    for _ in 0..rounds {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(state);
}

impl ChildProgram {
    fn pointers(&self) -> Vec<*const libc::c_char> {
        self.arguments.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect()
    }
}

impl ChildStart {
    /// `arguments` must be kept until it has started.
    fn new(
        program: &ChildProgram,
        arguments: &[*const libc::c_char],
        around: Surroundings<'_>,
    ) -> Self {
        Self {
            path: program.path.as_ptr(),
            arguments: arguments.as_ptr(),
            folder: program.folder.as_ref().map_or(ptr::null(), |folder| folder.as_ptr()),
            spins: program.spins.get(),
            fds: [around.input, around.output, around.errors].map(|fd| fd.as_raw_fd()),
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            cpus: around.cpu.map(|cpu| CpuMask::from_cpus(&[cpu])),
            terminal: around.terminal.map_or(-1, |terminal| terminal.as_fd().as_raw_fd()),
            gate: -1,
            error: AtomicI32::new(0),
        }
    }
}

impl ChildUsage {
    fn new(wall_ns: f64, status: ExitStatus, used: &libc::rusage) -> Self {
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
        Self {
            wall_ns,
            status,
            user_ns: ns(used.ru_utime),
            system_ns: ns(used.ru_stime),
            memory_bytes: count(used.ru_maxrss) << 10,
            minor_faults: count(used.ru_minflt),
            major_faults: count(used.ru_majflt),
            voluntary_switches: count(used.ru_nvcsw),
            involuntary_switches: count(used.ru_nivcsw),
            io: None,
            piped: None,
            run_queue_ns: None,
            was_stopped: false,
        }
    }
}

fn not_started(program: &ChildProgram, error: libc::c_int) -> ChildError {
    let error = Error::from_raw_os_error(error);
    match script::refused(program.path(), &error) {
        Some(why) => ChildError::Script(why),
        None => ChildError::Start(error),
    }
}

fn counting(error: TraceError, around: Surroundings<'_>) -> ChildError {
    match error {
        TraceError::Refused(why) => ChildError::Counting(why),
        TraceError::Wait(error) => ChildError::Wait(error),
        TraceError::TimedOut => ChildError::TimedOut(around.limit_ns as f64 / 1e9),
        TraceError::Stopped => ChildError::Stopped,
    }
}

impl Launcher {
    pub(crate) fn new() -> Self {
        Self { stack: vec![0; STACK_BYTES / size_of::<u128>()] }
    }

    /// Runs a program to its end. Whatever it leaves behind in its process group is killed.
    ///
    /// # Errors
    /// If it cannot be executed, exceeds its time, or `stop` is set. It is reaped in any case.
    pub(crate) fn run(
        &mut self,
        program: &ChildProgram,
        around: Surroundings<'_>,
        clock: &Clock,
        stop: &AtomicBool,
    ) -> Result<ChildUsage, ChildError> {
        let arguments = program.pointers();
        let mut start = ChildStart::new(program, &arguments, around);
        let begun = clock.start();
        let child = self.clone_child(&mut start).map_err(ChildError::Start)?;
        // From here on the program runs.
        let ended = end_of(child, around, stop);
        let stopped = clock.stop();
        let error = start.error.load(Ordering::Relaxed);
        let (io, run_queue_ns) = (read_io(child), read_run_queue(child));
        // Before it is reaped, so that the group cannot be another one.
        // SAFETY: sends signals to the group of the child, and to a child that left it.
        unsafe {
            libc::kill(-child, libc::SIGKILL);
            if ended.is_err() {
                libc::kill(child, libc::SIGKILL);
            }
        }
        let reaped = reap(child).map_err(ChildError::Wait);
        if let Some(terminal) = around.terminal {
            terminal.take_back();
        }
        let (status, used) = reaped?;
        if error != 0 {
            return Err(not_started(program, error));
        }
        let was_stopped = ended?;
        let usage = ChildUsage::new(clock.ns(begun, stopped), status, &used);
        Ok(ChildUsage { io, run_queue_ns, was_stopped, ..usage })
    }

    /// As [`Self::run`], followed by ptrace(2), which takes longer: what it did is counted.
    ///
    /// # Errors
    /// As of that, or if this run cannot be counted.
    pub(crate) fn run_counted(
        &mut self,
        program: &ChildProgram,
        around: Surroundings<'_>,
        stop: &AtomicBool,
    ) -> Result<(ChildUsage, Counts), ChildError> {
        let arguments = program.pointers();
        let (gate, held) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(|error| ChildError::Start(error.into()))?;
        let mut start = ChildStart::new(program, &arguments, around);
        start.gate = held.as_raw_fd();
        let child = self.clone_child(&mut start).map_err(ChildError::Start)?;
        drop(held);
        let attached = trace::attach(child);
        let begun_ns = monotonic_raw_ns();
        let opened = attached.is_ok() && write(&gate, &[1]) == Ok(1);
        if !opened {
            // SAFETY: sends a signal to a child that waits, and is not reaped.
            unsafe { libc::kill(child, libc::SIGKILL) };
            reap(child).map_err(ChildError::Wait)?;
            let error = attached.err().map(|error| counting(error, around));
            return Err(error.unwrap_or(ChildError::Stopped));
        }
        let traced = trace::follow(child, around.limit_ns, stop);
        let traced = traced.map_err(|error| counting(error, around))?;
        let mut error = [0; size_of::<libc::c_int>()];
        if read(&gate, &mut error) == Ok(error.len()) {
            return Err(not_started(program, libc::c_int::from_ne_bytes(error)));
        }
        let wall_ns = traced.ended_ns.saturating_sub(begun_ns) as f64;
        Ok((ChildUsage::new(wall_ns, traced.status, &traced.used), traced.counts))
    }

    fn clone_child(&mut self, start: &mut ChildStart) -> Result<libc::pid_t, Error> {
        let shared = if start.gate < 0 { libc::CLONE_VM | libc::CLONE_VFORK } else { 0 };
        let flags = shared | libc::SIGCHLD;
        let top = self.stack.as_mut_ptr_range().end.cast();
        // SAFETY: signals are blocked, so that no handler runs in the child, which shares this
        // memory. The stack grows down from its end and is used by the child alone; this thread
        // sleeps until the child executes a program or exits, or the child has its own memory.
        unsafe {
            let (mut all, mut own) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut own);
            let child = libc::clone(begin, top, flags, ptr::from_mut(start).cast());
            let error = Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const own, ptr::null_mut());
            if child < 0 { Err(error) } else { Ok(child) }
        }
    }
}

/// Waits for the end of a child, without reaping it. Returns whether it was stopped meanwhile.
fn end_of(
    child: libc::pid_t,
    around: Surroundings<'_>,
    stop: &AtomicBool,
) -> Result<bool, ChildError> {
    let wait = |error: Errno| ChildError::Wait(error.into());
    let pid = Pid::from_raw(child).expect("a child has an id");
    let end = end_signal(pid).map_err(wait)?;
    let until_ns = monotonic_raw_ns().saturating_add(around.limit_ns);
    let (mut was_stopped, mut is_stopped) = (false, false);
    loop {
        let mut waits = [PollFd::new(&end, PollFlags::IN)];
        match poll(&mut waits, Some(&POLL)) {
            Ok(1..) => return Ok(was_stopped),
            Ok(0) | Err(Errno::INTR) => {}
            Err(error) => return Err(wait(error)),
        }
        if let Some(signal) = stop_or_continuation(pid) {
            match (signal, around.terminal) {
                (libc::SIGTTIN | libc::SIGTTOU, _) => return Err(ChildError::WaitsForTerminal),
                (libc::SIGTSTP, Some(terminal)) => terminal.suspend(pid),
                _ => (was_stopped, is_stopped) = (true, signal != libc::SIGCONT),
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(ChildError::Stopped);
        }
        if monotonic_raw_ns() >= until_ns {
            let limit_s = around.limit_ns as f64 / 1e9;
            return Err(match is_stopped {
                true => ChildError::NotContinued(limit_s),
                false => ChildError::TimedOut(limit_s),
            });
        }
    }
}

/// Becomes readable when a child ends: by pidfd_open(2), or where that is forbidden or missing by a
/// thread that waits.
fn end_signal(pid: Pid) -> Result<OwnedFd, Errno> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {}
        answer => return answer,
    }
    let (end, held) = pipe_with(PipeFlags::CLOEXEC)?;
    std::thread::spawn(move || {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Once it is reaped, which ends the wait too.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), ended));
        drop(held);
    });
    Ok(end)
}

/// The signal that stopped a child, or SIGCONT, since the last call.
fn stop_or_continuation(pid: Pid) -> Option<libc::c_int> {
    let kinds = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(pid), kinds).ok()??;
    status.stopping_signal().or(status.continued().then_some(libc::SIGCONT))
}

/// Of a process that has ended and is not reaped.
fn read_io(child: libc::pid_t) -> Option<ChildIo> {
    parse_io(&std::fs::read_to_string(format!("/proc/{child}/io")).ok()?)
}

fn parse_io(text: &str) -> Option<ChildIo> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line?.trim().parse().ok()
    };
    Some(ChildIo {
        read: of("rchar")?,
        written: of("wchar")?,
        device_read: of("read_bytes")?,
        device_written: of("write_bytes")?,
    })
}

fn read_run_queue(child: libc::pid_t) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{child}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
