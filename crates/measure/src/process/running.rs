//! A process with all that it starts: its start, its output and its end.

use std::io::{ErrorKind, Result, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

use super::descendants::descendants;
use super::output::{CollectError, Limits, read_from, readable};
use super::tie::end_with;
use crate::affinity;
use crate::clock::monotonic_raw_ns;

/// Between two looks at a process where the kernel has no descriptors of processes (before 5.3).
const LOOK_NS: u64 = 1_000_000;
/// How long a killed group may take to close its standard error.
const CLOSE_NS: u64 = 100_000_000;

/// A running process in a group of its own: the terminal's Ctrl-C does not reach it, and its group
/// is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Readable when it has ended.
    pidfd: Option<OwnedFd>,
    is_reaped: bool,
    /// What was collected of its standard output and of its standard error.
    pub output: [Vec<u8>; 2],
}

impl Running {
    /// Starts a process.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).spawn()?;
        let pidfd = pidfd_open(pid(child.id())?, PidfdFlags::empty()).ok();
        Ok(Self { child, pidfd, is_reaped: false, output: [Vec::new(), Vec::new()] })
    }

    /// Starts a process that is tied to this one before it is a program: one that is stopped while
    /// it starts would do nothing about it, and stay. It runs on `cpus`, or, where there are none,
    /// wherever this thread may.
    ///
    /// A sandbox may forbid what the library needs to run anything before exec (a pair of sockets);
    /// then a process that has no CPUs given ties itself later.
    ///
    /// # Errors
    /// As [`Command::spawn`], or where it may not run on `cpus`.
    pub fn start_tied(command: impl Fn() -> Result<Command>, cpus: &[u32]) -> Result<Self> {
        let (parent, pins) = (rustix::process::getpid(), cpus.to_vec());
        let prepare = move || {
            end_with(parent)?;
            if pins.is_empty() { Ok(()) } else { Ok(affinity::pin_to(&pins)?) }
        };
        let mut tied = command()?;
        // SAFETY: three bare system calls between fork and exec; no lock, no heap.
        unsafe { tied.pre_exec(prepare) };
        match Self::start(&mut tied) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && cpus.is_empty() => {
                Self::start(&mut command()?)
            }
            outcome => outcome,
        }
    }

    /// As on a kernel without descriptors of processes.
    #[cfg(test)]
    pub(super) fn forget_pidfd(&mut self) {
        self.pidfd = None;
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes all of its standard input, which must be a pipe.
    ///
    /// # Errors
    /// Where that fails; but one that ended without reading is described by how it ended.
    pub fn write_input(&mut self, bytes: &[u8]) -> Result<()> {
        // Taken, so that it sees the end of its input.
        match self.child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(bytes)) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        }
    }

    /// The pipe from its standard output.
    ///
    /// # Errors
    /// Where it has none.
    pub fn stdout(&mut self) -> Result<&mut ChildStdout> {
        self.child.stdout.as_mut().ok_or_else(|| Errno::BADF.into())
    }

    /// Waits until it has closed its standard output and ended, and keeps its output meanwhile.
    /// What it left in its group is killed.
    ///
    /// # Errors
    /// Where it goes on past a limit, or `stop` becomes readable; it is still there then.
    pub fn collect(
        &mut self,
        limits: Limits,
        stop: BorrowedFd<'_>,
    ) -> std::result::Result<ExitStatus, CollectError> {
        let until_ns = monotonic_raw_ns().saturating_add(limits.time_ns);
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let (mut out, mut err) = (out.map(OwnedFd::from), err.map(OwnedFd::from));
        // Some close their output long before they end: dd makes it the file that it writes.
        while out.is_some() || !self.has_ended()? {
            let pidfd = self.pidfd.as_ref().filter(|_| out.is_none());
            let is_look = out.is_none() && pidfd.is_none();
            let look_ns = if is_look { monotonic_raw_ns() + LOOK_NS } else { until_ns };
            // What is not waited for is replaced by what is.
            let [out_fd, err_fd, end_fd] =
                [out.as_ref(), err.as_ref(), pidfd].map(|fd| fd.map_or(stop, AsFd::as_fd));
            let ready = readable([stop, out_fd, err_fd, end_fd], look_ns.min(until_ns))?;
            match ready {
                [true, ..] => return Err(CollectError::Stopped),
                [false, false, false, false] if look_ns >= until_ns => {
                    return Err(CollectError::TimedOut(limits.time_ns as f64 / 1e9));
                }
                [_, from_out, from_err, _] => {
                    read_from(&mut out, from_out, &mut self.output[0], limits)?;
                    read_from(&mut err, from_err, &mut self.output[1], limits)?;
                }
            }
        }
        // What it left might hold its standard error open for ever.
        self.signal_group(Signal::KILL);
        let until_ns = monotonic_raw_ns() + CLOSE_NS;
        while let Some(fd) = &err
            && readable([fd.as_fd()], until_ns)? == [true]
        {
            read_from(&mut err, true, &mut self.output[1], limits)?;
        }
        Ok(self.kill()?)
    }

    /// Its status, where it has ended. What it left in its group is killed then.
    ///
    /// # Errors
    /// Where it cannot be waited for.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.has_ended()? { self.kill().map(Some) } else { Ok(None) }
    }

    /// Asks it to end, and after `grace_ns` kills it with all that it started: some leave its
    /// group.
    pub fn terminate(&mut self, grace_ns: u64) {
        let mut family = pidfds(self.id());
        self.signal_group(Signal::TERM);
        // One that is stopped gets no signal but this.
        self.signal_group(Signal::CONT);
        let until_ns = monotonic_raw_ns() + grace_ns;
        while !self.has_ended().unwrap_or(true) && monotonic_raw_ns() < until_ns {
            match &self.pidfd {
                Some(pidfd) => _ = readable([pidfd.as_fd()], until_ns),
                None => std::thread::sleep(std::time::Duration::from_nanos(LOOK_NS)),
            }
        }
        family.extend(pidfds(self.id()));
        for one in &family {
            // It may have ended by itself.
            let _ = pidfd_send_signal(one, Signal::KILL);
        }
        let _ = self.kill();
    }

    /// Kills its group and reaps it: in this order, so that the group's number cannot have become
    /// another's.
    fn kill(&mut self) -> Result<ExitStatus> {
        if !self.is_reaped {
            self.signal_group(Signal::KILL);
            self.is_reaped = true;
        }
        self.child.wait()
    }

    fn signal_group(&self, signal: Signal) {
        // A group that is gone needs no signal.
        let _ = pid(self.id()).and_then(|group| kill_process_group(group, signal));
    }

    /// Whether it has ended; it is not reaped.
    fn has_ended(&self) -> std::result::Result<bool, Errno> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(self.is_reaped || waitid(WaitId::Pid(pid(self.id())?), options)?.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The descendants of a process, each held so that its number cannot become another's.
fn pidfds(of: u32) -> Vec<OwnedFd> {
    let all = descendants(of).into_iter();
    all.filter_map(|one| pidfd_open(pid(one).ok()?, PidfdFlags::empty()).ok()).collect()
}

fn pid(number: u32) -> std::result::Result<Pid, Errno> {
    Pid::from_raw(number as i32).ok_or(Errno::SRCH)
}
