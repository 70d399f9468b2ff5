//! Following a run with all its threads and processes, from its first program to its end.
//!
//! Signals, stops and continuations reach the run as without a tracer: a stop by a signal is kept
//! (PTRACE_LISTEN), and what outlives the run outside its process group is released.

use std::collections::BTreeMap;
use std::io::Error;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns;
use libc::{c_int, pid_t};

use super::count::Counts;
use super::ptrace::{self, CallStop};
use super::watch::{Birth, Watch};

/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// No stop of it is awaited for longer once the run has ended.
const RELEASE_STOPS_MAX: usize = 100_000;

/// Why a run was not followed to its end.
#[derive(Debug)]
pub enum TraceError {
    /// In words, with what to do.
    Refused(String),
    Wait(Error),
    TimedOut,
    Stopped,
}

/// A run that was followed to its end, which is reaped.
pub struct Traced {
    pub status: ExitStatus,
    pub used: libc::rusage,
    pub counts: Counts,
    pub ended_ns: u64,
}

/// Attaches to a child that waits before its exec.
///
/// # Errors
/// Why it is not permitted, and what to do.
pub fn attach(root: pid_t) -> Result<(), TraceError> {
    ptrace::seize(root, true).map_err(|error| TraceError::Refused(ptrace::obstacle(&error, None)))
}

/// Follows an attached child to its end.
///
/// # Errors
/// If the run cannot be counted, exceeds its time, or `stop` is set. It is killed and reaped then.
pub fn follow(root: pid_t, limit_ns: u64, stop: &AtomicBool) -> Result<Traced, TraceError> {
    let until_ns = monotonic_raw_ns().saturating_add(limit_ns);
    let (has_ended, is_late) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut trace = Trace { root, ..Trace::default() };
    trace.watch.begin(root);
    let ended = std::thread::scope(|scope| {
        let guard = scope.spawn(|| {
            while !has_ended.load(Ordering::Acquire) {
                std::thread::park_timeout(LOOK);
                let is_over = monotonic_raw_ns() >= until_ns;
                if is_over || stop.load(Ordering::Relaxed) {
                    is_late.store(true, Ordering::Release);
                    // Wakes the tracer: the end of the child is reported. It is not reaped before
                    // `has_ended`.
                    // SAFETY: sends a signal to the child.
                    unsafe { libc::kill(root, libc::SIGKILL) };
                }
            }
        });
        let ended = trace.until_end(&is_late);
        has_ended.store(true, Ordering::Release);
        guard.thread().unpark();
        ended
    });
    let reaped = trace.reap();
    trace.release(u64::MAX);
    if is_late.load(Ordering::Acquire) {
        return Err(match stop.load(Ordering::Relaxed) {
            true => TraceError::Stopped,
            false => TraceError::TimedOut,
        });
    }
    let ended_ns = ended?;
    let (status, used) = reaped.map_err(TraceError::Wait)?;
    Ok(Traced { status, used, counts: trace.watch.ended(), ended_ns })
}

/// Those that are followed by the calling thread.
#[derive(Debug, Default)]
pub(super) struct Trace {
    root: pid_t,
    pub(super) watch: Watch,
    /// A program that one of them executes is not followed: without the right to trace it, the
    /// kernel would deny it the privileges of its file.
    releases_exec: bool,
    /// New ones at their first stop, whose parents did not yet report them.
    early: Vec<pid_t>,
    /// Those that parents reported, before their first stop.
    announced: BTreeMap<pid_t, (pid_t, Birth)>,
}

pub(super) enum Next {
    /// A traced thread and its status.
    Change((pid_t, c_int)),
    /// It is not reaped yet, so that its id stays its own.
    RootEnded,
    Nothing,
}

impl Trace {
    pub(super) fn of_service(releases_exec: bool) -> Self {
        Self { releases_exec, ..Self::default() }
    }

    /// Until the first process ends, which is not reaped then. Returns when. If the run cannot be
    /// counted or is late, all of it is killed.
    fn until_end(&mut self, is_late: &AtomicBool) -> Result<u64, TraceError> {
        let mut failed = None;
        loop {
            match next_change(self.root).map_err(TraceError::Wait)? {
                Next::RootEnded => break,
                Next::Nothing => continue,
                Next::Change(change) => {
                    let handled = self.handle(change);
                    failed = failed.or(handled.err());
                }
            }
            if failed.is_some() || is_late.load(Ordering::Acquire) {
                for (_, process) in self.watch.threads() {
                    // SAFETY: sends a signal to a traced process, which is not reaped.
                    unsafe { libc::kill(process, libc::SIGKILL) };
                }
            }
        }
        let ended_ns = monotonic_raw_ns();
        failed.map_or(Ok(ended_ns), Err)
    }

    pub(super) fn handle(&mut self, (thread, status): (pid_t, c_int)) -> Result<(), TraceError> {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            self.gone(thread);
            return Ok(());
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if !self.watch.is_known(thread) {
            match self.announced.remove(&thread) {
                Some((parent, birth)) => self.begin(thread, Some(parent), birth),
                None => self.early.push(thread),
            }
            return Ok(());
        }
        self.watch.stopped(thread);
        match event {
            libc::PTRACE_EVENT_FORK => self.announce(thread, Birth::Fork),
            libc::PTRACE_EVENT_VFORK => self.announce(thread, Birth::Vfork),
            libc::PTRACE_EVENT_CLONE => self.announce(thread, Birth::Thread),
            libc::PTRACE_EVENT_EXEC => {
                if let Some(program) = privileged_program(thread) {
                    return Err(TraceError::Refused(format!(
                        "{program} is setuid or has capabilities, and would run without them; \
                         count it as root, or count the program that it starts"
                    )));
                }
                let former = ptrace::event_message(thread).unwrap_or(thread);
                self.watch.executed(thread, former);
            }
            libc::PTRACE_EVENT_EXIT => self.watch.exits(thread),
            ptrace::EVENT_STOP if is_stop(signal) => {
                ptrace::listen(thread);
                return Ok(());
            }
            ptrace::EVENT_STOP => {}
            _ if signal == libc::SIGTRAP | 0x80 => self.call(thread)?,
            _ => {
                // Not yet delivered.
                ptrace::resume(thread, signal);
                return Ok(());
            }
        }
        ptrace::resume(thread, 0);
        Ok(())
    }

    fn call(&mut self, thread: pid_t) -> Result<(), TraceError> {
        let old = |error: Error| match error.raw_os_error() {
            Some(libc::EIO | libc::EINVAL) => {
                TraceError::Refused("Linux 5.3 or newer is needed".to_owned())
            }
            _ => TraceError::Refused(format!("ptrace: {error}")),
        };
        match ptrace::call_stop(thread).map_err(old)? {
            CallStop::Entry { number, .. }
                if self.releases_exec
                    && [libc::SYS_execve, libc::SYS_execveat].contains(&number) =>
            {
                ptrace::detach(thread, 0);
                self.watch.counts.uncounted.insert("programs that it executes");
                self.watch.gone(thread);
            }
            CallStop::Entry { number, arguments } => self.watch.enters(thread, number, arguments),
            CallStop::Exit { result } => self.watch.leaves(thread, result),
            CallStop::None => {}
            CallStop::Foreign => {
                // A service runs on.
                ptrace::resume(thread, 0);
                let program = executable(thread).unwrap_or_else(|| "a program of it".to_owned());
                return Err(TraceError::Refused(format!(
                    "{program} makes 32-bit system calls; only those of this program's \
                     architecture are counted"
                )));
            }
        }
        Ok(())
    }

    /// A parent reports a child, whose first stop may have been before.
    fn announce(&mut self, parent: pid_t, birth: Birth) {
        let Some(child) = ptrace::event_message(parent) else { return };
        match self.early.iter().position(|early| *early == child) {
            Some(at) => {
                self.early.swap_remove(at);
                self.begin(child, Some(parent), birth);
            }
            None => {
                self.announced.insert(child, (parent, birth));
            }
        }
    }

    fn begin(&mut self, child: pid_t, parent: Option<pid_t>, birth: Birth) {
        // clone(2) with another signal makes a process, too.
        let is_process = process_of(child) == Some(child);
        let birth = if birth == Birth::Thread && is_process { Birth::Fork } else { birth };
        self.watch.born(child, parent, birth);
        ptrace::resume(child, 0);
    }

    fn gone(&mut self, thread: pid_t) {
        self.watch.gone(thread);
        self.announced.remove(&thread);
        self.early.retain(|early| *early != thread);
        // A parent that was killed does not report its child.
        for child in self.early.clone() {
            let parent = parent_of(child);
            if parent.is_none_or(|parent| !self.watch.is_known(parent)) {
                self.early.retain(|early| *early != child);
                self.begin(child, None, Birth::Fork);
            }
        }
    }

    fn reap(&mut self) -> Result<(ExitStatus, libc::rusage), Error> {
        // Before it is reaped, so that the group cannot be another one.
        // SAFETY: sends a signal to the group of the child.
        unsafe { libc::kill(-self.root, libc::SIGKILL) };
        let reaped = reap(self.root);
        self.gone(self.root);
        reaped
    }

    /// What is left runs on without a tracer. What has not stopped by `until_ns` is released with
    /// the end of this thread.
    pub(super) fn release(&mut self, until_ns: u64) {
        for (thread, _) in self.watch.threads() {
            ptrace::interrupt(thread);
        }
        for child in std::mem::take(&mut self.early) {
            ptrace::detach(child, 0);
        }
        for _ in 0..RELEASE_STOPS_MAX {
            let is_all = self.watch.is_empty() && self.announced.is_empty();
            if is_all || monotonic_raw_ns() >= until_ns {
                return;
            }
            let (thread, status) = match next_change(0) {
                Ok(Next::Change(change)) => change,
                Ok(_) => continue,
                // No child is left.
                Err(_) => return,
            };
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.gone(thread);
                continue;
            }
            let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
            if matches!(
                event,
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE
            ) && let Some(child) = ptrace::event_message(thread)
            {
                self.announced.insert(child, (thread, Birth::Fork));
            }
            let is_signal = event == 0 && signal != libc::SIGTRAP | 0x80;
            ptrace::detach(thread, if is_signal { signal } else { 0 });
            self.watch.gone(thread);
            self.announced.remove(&thread);
        }
    }
}

/// Waits for a change of a thread that this one traces, or of its child.
pub(super) fn next_change(root: pid_t) -> Result<Next, Error> {
    // SAFETY: a zeroed structure is valid, and both calls write to it or to `status` only.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let kinds = libc::WEXITED | libc::WSTOPPED | libc::__WALL | libc::__WNOTHREAD;
        if libc::waitid(libc::P_ALL, 0, &raw mut info, kinds | libc::WNOWAIT) != 0 {
            let error = Error::last_os_error();
            let is_signal = error.raw_os_error() == Some(libc::EINTR);
            return if is_signal { Ok(Next::Nothing) } else { Err(error) };
        }
        let thread = info.si_pid();
        let is_end = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&info.si_code);
        if thread == root && is_end {
            return Ok(Next::RootEnded);
        }
        let mut status = 0;
        let got = libc::waitpid(thread, &raw mut status, libc::__WALL | libc::__WNOTHREAD);
        Ok(if got == thread { Next::Change((thread, status)) } else { Next::Nothing })
    }
}

pub fn reap(child: libc::pid_t) -> Result<(ExitStatus, libc::rusage), Error> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is valid, and both pointers are to writable memory.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: as above.
        if unsafe { libc::wait4(child, &raw mut status, 0, &raw mut used) } == child {
            return Ok((ExitStatus::from_raw(status), used));
        }
        let error = Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

fn is_stop(signal: c_int) -> bool {
    [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal)
}

pub(super) fn executable(process: pid_t) -> Option<String> {
    Some(std::fs::read_link(format!("/proc/{process}/exe")).ok()?.display().to_string())
}

/// The program, if the kernel denies it the privileges of its file because it is traced.
fn privileged_program(process: pid_t) -> Option<String> {
    let own = rustix::process::geteuid();
    if own.is_root() {
        return None;
    }
    let path = format!("/proc/{process}/exe");
    let file = std::fs::metadata(&path).ok()?;
    let is_setuid = file.mode() & libc::S_ISUID != 0 && file.uid() != own.as_raw();
    let of_group = libc::S_ISGID | libc::S_IXGRP;
    let is_setgid =
        file.mode() & of_group == of_group && file.gid() != rustix::process::getegid().as_raw();
    let has_capabilities =
        rustix::fs::getxattr(&path, "security.capability", &mut [0_u8; 64][..]).is_ok();
    (is_setuid || is_setgid || has_capabilities).then(|| executable(process).unwrap_or(path))
}

fn process_of(thread: pid_t) -> Option<pid_t> {
    status_field(thread, "Tgid:")
}

fn parent_of(thread: pid_t) -> Option<pid_t> {
    status_field(thread, "PPid:")
}

pub(super) fn status_field(thread: pid_t, name: &str) -> Option<pid_t> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}
