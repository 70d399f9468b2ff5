//! Both ends of a worker process: the coordinator's, which starts, awaits and if need be kills it;
//! and the worker's own, which takes one visit and answers.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use fathom_measure::sampler::{Fault, KernelCounters, Sampler};
use fathom_measure::{Clock, affinity, clock, process};
use fathom_metric::{Case, Entry, Registry};
use fathom_record::{Cause, Reason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::machine::{Outcome, VisitAnswer, VisitRequest};

/// A worker that has not answered this long after its last possible round hangs.
const GRACE_NS: f64 = 10e9;
/// No answer is longer: a bound on what a broken worker can make the coordinator keep.
const ANSWER_MAX_BYTES: usize = 64 << 20;

/// Starts workers.
pub struct Workers {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long after its time limit a worker is given up.
    pub grace_ns: f64,
}

impl Workers {
    /// This very program as worker.
    ///
    /// # Errors
    /// When the path of the running program cannot be told.
    pub fn of_this_program() -> std::io::Result<Self> {
        let program = process::this_program()?;
        Ok(Self { program, arguments: vec!["worker".to_owned()], grace_ns: GRACE_NS })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A group of its own: the terminal's Ctrl-C does not reach it, its children end with it.
        command.process_group(0);
        command
    }

    /// Takes one visit in a fresh process and waits for it. `stop` is a descriptor that becomes
    /// readable when the person wants the run to end.
    pub fn visit(&self, request: &VisitRequest, stop: &impl std::os::fd::AsFd) -> Outcome {
        let failed = |cause, text: String| Outcome::Failed(Reason::new(cause, text));
        let child = match process::start_tied(|| Ok(self.command())) {
            Ok(child) => child,
            Err(error) => return failed(Cause::Crashed, format!("start a worker: {error}")),
        };
        let mut worker = Worker { child, reaped: false };
        if let Err(error) = worker.ask(request) {
            return failed(
                Cause::Crashed,
                format!("{} (ask the worker: {error})", worker.last_words()),
            );
        }
        // Rounds end after the limit by at most one round, and the set-up comes on top.
        let bound_ns = 2.0 * request.settings.time_limit_ns + self.grace_ns;
        match worker.answer(bound_ns, stop) {
            Ending::Answered(bytes) => match serde_json::from_slice::<VisitAnswer>(&bytes) {
                Ok(answer) => Outcome::Answered(answer),
                Err(_) => failed(Cause::Crashed, worker.last_words()),
            },
            Ending::TimedOut => failed(
                Cause::TimedOut,
                format!("the worker gave no answer within {:.0} s and was killed", bound_ns / 1e9),
            ),
            Ending::Broken(error) => {
                failed(Cause::Crashed, format!("read the worker's answer: {error}"))
            }
            Ending::Stopped => Outcome::Interrupted,
        }
    }
}

/// A running worker. It and its children end with this value.
struct Worker {
    child: Child,
    reaped: bool,
}

enum Ending {
    Answered(Vec<u8>),
    TimedOut,
    Broken(std::io::Error),
    Stopped,
}

impl Worker {
    fn ask(&mut self, request: &VisitRequest) -> std::io::Result<()> {
        let line = serde_json::to_vec(request)?;
        // Taken, so that the worker sees the end of its input.
        self.child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(&line))
    }

    /// Sleeps on the worker's pipe until it ends, the bound passes or the person stops the run.
    fn answer(&mut self, bound_ns: f64, stop: &impl std::os::fd::AsFd) -> Ending {
        let Some(mut pipe) = self.child.stdout.take() else { return Ending::Answered(Vec::new()) };
        let deadline = clock::monotonic_raw_ns() + bound_ns as u64;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let left = deadline.saturating_sub(clock::monotonic_raw_ns());
            let timeout = Timespec {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_nsec: (left % 1_000_000_000) as i64,
            };
            let mut waits = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut waits, Some(&timeout)) {
                Err(Errno::INTR) => continue,
                Err(error) => return Ending::Broken(error.into()),
                Ok(_) => {}
            }
            if !waits[1].revents().is_empty() {
                return Ending::Stopped;
            }
            if waits[0].revents().is_empty() {
                // Only now: an answer that came while this process was stopped is an answer.
                if left == 0 {
                    return Ending::TimedOut;
                }
                continue;
            }
            match pipe.read(&mut buffer) {
                Ok(0) => return Ending::Answered(bytes),
                Ok(_) if bytes.len() > ANSWER_MAX_BYTES => return Ending::Answered(Vec::new()),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Ending::Broken(error),
            }
        }
    }

    /// How a worker without an answer ended, with the last line it wrote to standard error.
    fn last_words(&mut self) -> String {
        self.await_exit();
        let ended = match self.end() {
            Ok(status) => ending(status),
            Err(error) => format!("was lost: {error}"),
        };
        let mut text = String::new();
        if let Some(pipe) = self.child.stderr.take() {
            let _ = pipe.take(4096).read_to_string(&mut text);
        }
        match text
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty() && !line.starts_with("note:"))
        {
            Some(line) => format!("the worker {ended}: {line}"),
            None => format!("the worker {ended}"),
        }
    }

    /// Gives a worker that closed its output a moment to end by itself, so that its own status is
    /// seen and not that of the kill.
    fn await_exit(&self) {
        let Some(pid) = Pid::from_raw(self.child.id() as i32) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        for _ in 0..500 {
            if !matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Ends the worker with all its children, then reaps it: in this order, so that its group's
    /// number cannot have become another's.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if !self.reaped {
            self.reaped = true;
            if let Some(group) = Pid::from_raw(self.child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        self.child.wait()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended without an answer".to_owned(),
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(libc::SIGKILL)) => "was killed (by a person, or for lack of memory)".to_owned(),
        (None, Some(signal)) => format!("crashed with signal {signal} ({})", signal_name(signal)),
        (None, None) => "ended for an unknown reason".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "segmentation fault",
        libc::SIGBUS => "bus error",
        libc::SIGILL => "illegal instruction",
        libc::SIGSYS => "forbidden system call",
        libc::SIGABRT => "abort",
        libc::SIGTERM => "terminated",
        _ => "see `kill -l`",
    }
}

/// The worker's own side: reads a request, takes the visit, writes the answer.
///
/// # Errors
/// When the request cannot be read or the answer cannot be written.
pub fn serve(registry: &Registry) -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    anyhow::ensure!(!text.is_empty(), "`fathom worker` is for `fathom run` itself");
    let request: VisitRequest = serde_json::from_str(&text)?;
    // Once more: at exec the kernel forgets it where the program's file gives capabilities.
    let coordinator = Pid::from_raw(request.coordinator as i32);
    let ended = || anyhow::anyhow!("the coordinator has ended");
    process::end_with(coordinator.ok_or_else(ended)?).map_err(|_| ended())?;
    let answer = take(&request, registry);
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()?;
    Ok(())
}

fn take(request: &VisitRequest, registry: &Registry) -> VisitAnswer {
    let all = |fault: Fault| VisitAnswer {
        samples: request.params.iter().map(|_| Err(fault.clone())).collect(),
        spin: None,
    };
    let Some(Entry::Probe(probe)) = registry.find(&request.metric) else {
        return all(Fault::Failed(format!("no probe is called {}", request.metric)));
    };
    if let Err(error) = affinity::pin(request.settings.cpu) {
        let text = format!("pin to CPU {}: {error}", request.settings.cpu);
        return all(match error {
            Errno::PERM => {
                Fault::Unavailable(format!("{text}; run outside the sandbox that forbids it"))
            }
            _ => Fault::Failed(text),
        });
    }
    if request.priority {
        // Best effort: what `--tune` could not do is said by the coordinator.
        let _ = rustix::process::setpriority_process(None, -20);
    }
    let cases: Vec<Case> = request.params.iter().cloned().map(Case::usual).collect();
    let waits = cases.first().map_or(probe.about().expects, |case| probe.expects(case));
    let clock = Clock::from_specification(request.clock);
    let counters = KernelCounters::new(request.settings.cpu, waits);
    let mut sampler = Sampler::new(clock, request.settings, cases.len(), Box::new(counters));
    sampler.may_use(request.allowed.clone());
    sampler.may_write(request.files.clone());
    if let Err(fault) = probe.visit(&cases, &mut sampler) {
        (0..cases.len()).for_each(|case| sampler.fault(case, fault.clone()));
    }
    let visit = sampler.finish();
    VisitAnswer { samples: visit.samples, spin: visit.spin }
}

#[cfg(test)]
mod tests;
