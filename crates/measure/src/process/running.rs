//! A running process with its process group.

use std::ffi::CString;
use std::io::{ErrorKind, Result, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid, waitpid,
};

use super::descendants::{descendants, run_queue_ns};
use super::output::{CollectError, OutputLimits, read_from, readable};
use super::tie::end_with;
use super::vfork;
use crate::affinity;
use crate::clock::monotonic_raw_ns;

/// Poll interval on kernels without pidfd (before 5.3).
const POLL_NS: u64 = 1_000_000;
/// Time for a killed group to close its standard error.
const CLOSE_NS: u64 = 100_000_000;

/// A running process in its own process group, which Ctrl-C in a terminal does not reach. Dropping
/// it kills the group.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<OwnedFd>,
    pidfd: Option<OwnedFd>,
    is_reaped: bool,
    status: Option<ExitStatus>,
    /// Stdout and stderr as collected so far.
    pub output: [Vec<u8>; 2],
}

impl Running {
    /// Starts a process.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).spawn()?;
        let (pid, stderr) = (pid(child.id())?, child.stderr.map(OwnedFd::from));
        Ok(Self::new(pid, child.stdin, child.stdout, stderr))
    }

    /// Starts a program with pipes as its standard input, output and error, found as by execvp(3).
    /// The kernel kills it when this thread ends. Faster than [`Self::start_tied`], since this
    /// process is not copied.
    ///
    /// # Errors
    /// If no process can be created or the program not be executed.
    pub fn start_vforked(arguments: &[CString]) -> Result<Self> {
        let (pid, [stdin, stdout, stderr]) = vfork::start(arguments)?;
        Ok(Self::new(pid, Some(stdin.into()), Some(stdout.into()), Some(stderr)))
    }

    fn new(
        pid: Pid,
        stdin: Option<ChildStdin>,
        stdout: Option<ChildStdout>,
        stderr: Option<OwnedFd>,
    ) -> Self {
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        let (is_reaped, status, output) = (false, None, [Vec::new(), Vec::new()]);
        Self { pid, stdin, stdout, stderr, pidfd, is_reaped, status, output }
    }

    /// Starts a process that the kernel kills when this one ends. That is set up between fork and
    /// exec, so that a process which is stopped during its start does not stay. It is pinned to
    /// `cpus`, unless that is empty.
    ///
    /// A sandbox may forbid the socket pair that the standard library needs for code before exec.
    /// Without `cpus` the process is then started normally, and ties itself later.
    ///
    /// # Errors
    /// As [`Command::spawn`], or if it cannot be pinned to `cpus`.
    pub fn start_tied(command: impl Fn() -> Result<Command>, cpus: &[u32]) -> Result<Self> {
        let (parent, pins) = (rustix::process::getpid(), cpus.to_vec());
        let prepare = move || {
            end_with(parent)?;
            if pins.is_empty() { Ok(()) } else { Ok(affinity::pin_to(&pins)?) }
        };
        let mut tied = command()?;
        // SAFETY: only system calls between fork and exec; no lock, no allocation.
        unsafe { tied.pre_exec(prepare) };
        match Self::start(&mut tied) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && cpus.is_empty() => {
                Self::start(&mut command()?)
            }
            outcome => outcome,
        }
    }

    /// As on a kernel without pidfd.
    #[cfg(test)]
    pub(super) fn forget_pidfd(&mut self) {
        self.pidfd = None;
    }

    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Writes its standard input, which must be a pipe, and closes it.
    ///
    /// # Errors
    /// If writing fails. A closed pipe is no error: the exit status is more informative.
    pub fn write_input(&mut self, bytes: &[u8]) -> Result<()> {
        match self.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(bytes)) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        }
    }

    /// # Errors
    /// If its standard output is not a pipe.
    pub fn stdout(&mut self) -> Result<&mut ChildStdout> {
        self.stdout.as_mut().ok_or_else(|| Errno::BADF.into())
    }

    /// Collects its output until it has closed its standard output and ended, then kills the rest
    /// of its group.
    ///
    /// # Errors
    /// If it exceeds a limit, or `stop` becomes readable. It is still running then.
    pub fn collect(
        &mut self,
        limits: OutputLimits,
        stop: BorrowedFd<'_>,
    ) -> std::result::Result<ExitStatus, CollectError> {
        let begun_ns = monotonic_raw_ns();
        let mut until_ns = begun_ns.saturating_add(limits.time_ns);
        let (mut out, mut err) = (self.stdout.take().map(OwnedFd::from), self.stderr.take());
        // Some programs close their output long before they end, such as dd.
        while out.is_some() || !self.has_ended()? {
            let pidfd = self.pidfd.as_ref().filter(|_| out.is_none());
            let is_polled = out.is_none() && pidfd.is_none();
            let poll_ns = if is_polled { monotonic_raw_ns() + POLL_NS } else { until_ns };
            // `stop` takes the place of descriptors that are closed.
            let [out_fd, err_fd, end_fd] =
                [out.as_ref(), err.as_ref(), pidfd].map(|fd| fd.map_or(stop, AsFd::as_fd));
            let ready = readable([stop, out_fd, err_fd, end_fd], poll_ns.min(until_ns))?;
            match ready {
                [true, ..] => return Err(CollectError::Stopped),
                [false, false, false, false] if poll_ns >= until_ns => {
                    let later_ns = begun_ns.saturating_add(limits.beside(run_queue_ns(self.id())));
                    if later_ns <= until_ns {
                        return Err(CollectError::TimedOut(limits.time_ns as f64 / 1e9));
                    }
                    until_ns = later_ns;
                }
                [_, from_out, from_err, _] => {
                    read_from(&mut out, from_out, &mut self.output[0], limits)?;
                    read_from(&mut err, from_err, &mut self.output[1], limits)?;
                }
            }
        }
        // Remaining children might hold its standard error open forever.
        self.signal_group(Signal::KILL);
        let close_ns = monotonic_raw_ns() + CLOSE_NS;
        while let Some(fd) = &err
            && readable([fd.as_fd()], close_ns)? == [true]
        {
            read_from(&mut err, true, &mut self.output[1], limits)?;
        }
        Ok(self.kill()?)
    }

    /// Its status, if it has ended. Kills the rest of its group then.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.has_ended()? { self.kill().map(Some) } else { Ok(None) }
    }

    /// Sends SIGTERM, and after `grace_ns` kills it and all descendants, even those that left its
    /// group.
    pub fn terminate(&mut self, grace_ns: u64) {
        let mut family = pidfds(self.id());
        self.signal_group(Signal::TERM);
        // A stopped process handles SIGTERM only after SIGCONT.
        self.signal_group(Signal::CONT);
        let until_ns = monotonic_raw_ns() + grace_ns;
        while !self.has_ended().unwrap_or(true) && monotonic_raw_ns() < until_ns {
            match &self.pidfd {
                Some(pidfd) => _ = readable([pidfd.as_fd()], until_ns),
                None => std::thread::sleep(std::time::Duration::from_nanos(POLL_NS)),
            }
        }
        family.extend(pidfds(self.id()));
        for one in &family {
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(one, Signal::KILL);
        }
        let _ = self.kill();
    }

    /// Kills its group and then reaps it: in this order the group id cannot be reused in between.
    fn kill(&mut self) -> Result<ExitStatus> {
        if !self.is_reaped {
            self.signal_group(Signal::KILL);
            self.is_reaped = true;
        }
        if self.status.is_none() {
            let ended = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()))?;
            self.status = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        self.status.ok_or_else(|| Errno::CHILD.into())
    }

    fn signal_group(&self, signal: Signal) {
        // The group may have ended.
        let _ = kill_process_group(self.pid, signal);
    }

    /// Whether it has ended, without reaping it.
    fn has_ended(&self) -> std::result::Result<bool, Errno> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(self.is_reaped || waitid(WaitId::Pid(self.pid), options)?.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The descendants of a process, as pidfds, because process ids can be reused.
fn pidfds(of: u32) -> Vec<OwnedFd> {
    let all = descendants(of).into_iter();
    all.filter_map(|one| pidfd_open(pid(one).ok()?, PidfdFlags::empty()).ok()).collect()
}

fn pid(number: u32) -> std::result::Result<Pid, Errno> {
    Pid::from_raw(number as i32).ok_or(Errno::SRCH)
}
