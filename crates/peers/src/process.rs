//! Running another program: on given CPUs, for so long at most, with so much output at most, and
//! ended with everything that it started.

mod usage;

use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use fathom_measure::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use usage::Usage;

/// No program that is asked for a number says more.
const OUTPUT_MAX: usize = 4 << 20;
/// How long one that is told to end may take, before it is killed.
const GRACE_NS: u64 = 2_000_000_000;
/// Longer, a line is no reason that a person reads.
const LINE_MAX: usize = 300;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Its name or its path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it reads.
    pub input: &'static str,
    /// Variables that it does not see.
    pub without: &'static [&'static str],
}

impl Invocation {
    /// A program that reads nothing.
    pub fn new(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, input: "", without: &[] }
    }
}

impl fmt::Display for Invocation {
    /// As a shell takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=/.,:+%@".contains(&byte);
        for (at, word) in std::iter::once(&self.program).chain(&self.arguments).enumerate() {
            let gap = if at == 0 { "" } else { " " };
            match !word.is_empty() && word.bytes().all(plain) {
                true => write!(f, "{gap}{word}")?,
                false => write!(f, "{gap}'{}'", word.replace('\'', r"'\''"))?,
            }
        }
        Ok(())
    }
}

/// What a program said, and how long it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// On standard output.
    pub out: String,
    /// On standard error.
    pub err: String,
    /// From before its start to after its end.
    pub ns: f64,
    /// How often it lost its CPU to others, with its children. Exact where no other program is
    /// run at the same time.
    pub preempted: u64,
    /// How long others had the CPUs where it may run, all of them together, where the kernel tells.
    pub lost_ns: Option<f64>,
}

impl Said {
    /// Nothing, at once.
    pub const NOTHING: Self =
        Self { out: String::new(), err: String::new(), ns: 0.0, preempted: 0, lost_ns: None };

    /// A text on standard output.
    #[cfg(test)]
    pub(crate) fn printed(out: &str) -> Self {
        Self { out: out.to_owned(), ..Self::NOTHING }
    }
}

/// Why a program said nothing that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It did not start, failed, or was killed.
    Failed(String),
    /// The person stopped it.
    Stopped,
}

/// Runs programs.
#[derive(Clone, Debug)]
pub struct Runner<'s> {
    /// Becomes readable when the person wants to stop.
    pub stop: BorrowedFd<'s>,
    /// So long a program may take.
    pub limit_ns: u64,
    /// Where it may run.
    pub cpus: Vec<u32>,
}

impl Runner<'_> {
    /// Runs a program to its end. Its language is C.
    ///
    /// # Errors
    /// Where it cannot be started, ends with another status than 0, takes longer or says more than
    /// it may; where the person stops it.
    pub fn run(&self, invocation: &Invocation) -> Result<Said, Trouble> {
        let failed = |text: String| Trouble::Failed(format!("{}: {text}", invocation.program));
        let before = Usage::now(&self.cpus);
        let begin = clock::monotonic_raw_ns();
        let mut running = Running::start(invocation, &self.cpus)
            .map_err(|error| failed(format!("start it: {error}")))?;
        let until = begin + self.limit_ns;
        let outputs = match running.hear(until, self.stop) {
            Heard::All(outputs) => outputs,
            Heard::Stopped => return Err(Trouble::Stopped),
            Heard::TimedOut => {
                let seconds = self.limit_ns as f64 / 1e9;
                return Err(failed(format!("did not end within {seconds} s, and was killed")));
            }
            Heard::TooMuch => {
                let mib = OUTPUT_MAX >> 20;
                return Err(failed(format!("said more than {mib} MiB, and was killed")));
            }
            Heard::Broken(error) => return Err(failed(format!("listen to it: {error}"))),
        };
        let ns = (clock::monotonic_raw_ns() - begin) as f64;
        let status = running.reap().map_err(|error| failed(format!("await it: {error}")))?;
        let [out, err] = outputs.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let after = Usage::now(&self.cpus);
        let preempted = after.preempted_since(&before);
        let lost_ns = after.lost_ns_since(&before, ns * self.cpus.len() as f64);
        match status.success() {
            true => Ok(Said { out, err, ns, preempted, lost_ns }),
            false => Err(failed(format!("{}{}", ended(status), last_words(&err, &out)))),
        }
    }
}

/// Whether a program can be found in PATH, as execvp looks for it.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |file: PathBuf| {
        file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).any(|folder| is_program(folder.join(program)))
}

/// A program that runs. It and what it started end with this value.
struct Running {
    child: Child,
    /// Readable when it has ended.
    ending: OwnedFd,
    reaped: bool,
}

enum Heard {
    All([Vec<u8>; 2]),
    TimedOut,
    TooMuch,
    Stopped,
    Broken(std::io::Error),
}

impl Running {
    fn start(invocation: &Invocation, cpus: &[u32]) -> std::io::Result<Self> {
        let mut command = Command::new(&invocation.program);
        command.args(&invocation.arguments).env("LC_ALL", "C").env_remove("LANGUAGE");
        invocation.without.iter().for_each(|name| _ = command.env_remove(name));
        command.stdin(Stdio::from(input(invocation.input)?));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: the terminal's Ctrl-C does not reach it, its children end with it.
        command.process_group(0);
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu as usize));
        let parent = rustix::process::getpid();
        // SAFETY: three bare system calls between fork and exec; no lock, no heap.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // It may have ended before the line above.
                if rustix::process::getppid() != Some(parent) {
                    return Err(Errno::SRCH.into());
                }
                Ok(sched_setaffinity(None, &set)?)
            });
        }
        let mut child = command.spawn()?;
        let opened = pid_of(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match opened {
            Ok(ending) => Ok(Self { child, ending, reaped: false }),
            Err(error) => {
                // Without it there is no waiting for its end that has a limit.
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// Sleeps until it has said everything and ended, the time is over, or the person stops it.
    fn hear(&mut self, until: u64, stop: BorrowedFd<'_>) -> Heard {
        let (Some(mut out), Some(mut err)) = (self.child.stdout.take(), self.child.stderr.take())
        else {
            return Heard::Broken(Errno::BADF.into());
        };
        let mut heard = [Vec::new(), Vec::new()];
        let mut open = [true, true];
        let mut buffer = vec![0; 64 << 10];
        loop {
            let is_quiet = !open[0] && !open[1];
            // Standard input of this side is never ready: what is closed is not waited for.
            let sources = [
                if open[0] { out.as_fd() } else { stop },
                if open[1] { err.as_fd() } else { stop },
                if is_quiet { self.ending.as_fd() } else { stop },
            ];
            let ready = match ready(stop, sources, until) {
                Ok(ready) => ready,
                Err(error) => return Heard::Broken(error.into()),
            };
            match ready {
                Ready::Stop => return Heard::Stopped,
                Ready::Late => return Heard::TimedOut,
                Ready::Sources([_, _, true]) if is_quiet => return Heard::All(heard),
                Ready::Sources(ready) => {
                    let taken = [
                        take(&mut out, ready[0] && open[0], &mut buffer, &mut heard[0]),
                        take(&mut err, ready[1] && open[1], &mut buffer, &mut heard[1]),
                    ];
                    for (open, taken) in open.iter_mut().zip(taken) {
                        match taken {
                            Ok(more) => *open &= more,
                            Err(error) => return Heard::Broken(error),
                        }
                    }
                    if heard.iter().any(|bytes| bytes.len() > OUTPUT_MAX) {
                        return Heard::TooMuch;
                    }
                }
            }
        }
    }

    /// Its status, once it has ended. What it left in its group goes first, while the group's
    /// number cannot have become another's.
    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        self.reaped = true;
        self.signal_group(Signal::KILL);
        self.child.wait()
    }

    fn signal_group(&self, signal: Signal) {
        // A group that is gone needs no signal.
        let _ = pid_of(&self.child).and_then(|group| kill_process_group(group, signal));
    }

    /// Ends it in order, and after a grace at once, with all its children: some leave its group.
    fn end(&mut self) {
        let mut family = family(self.child.id());
        self.signal_group(Signal::TERM);
        // One that is stopped hears nothing.
        self.signal_group(Signal::CONT);
        let until = clock::monotonic_raw_ns() + GRACE_NS;
        loop {
            let mut wait = [PollFd::new(&self.ending, PollFlags::IN)];
            match poll(&mut wait, Some(&left(until))) {
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        family.extend(self::family(self.child.id()));
        for one in &family {
            // It may have ended by itself.
            let _ = pidfd_send_signal(one, Signal::KILL);
        }
        let _ = self.reap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.end();
        }
    }
}

/// Takes what a pipe has, where it has something; false at its end.
fn take(
    pipe: &mut impl Read,
    is_ready: bool,
    buffer: &mut [u8],
    heard: &mut Vec<u8>,
) -> std::io::Result<bool> {
    if !is_ready {
        return Ok(true);
    }
    match pipe.read(buffer) {
        Ok(count) => {
            heard.extend_from_slice(&buffer[..count]);
            Ok(count > 0)
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// What is ready of what is waited for.
enum Ready {
    Stop,
    Late,
    Sources([bool; 3]),
}

fn ready(stop: BorrowedFd<'_>, sources: [BorrowedFd<'_>; 3], until: u64) -> Result<Ready, Errno> {
    loop {
        let left = left(until);
        let mut waits = [stop, sources[0], sources[1], sources[2]]
            .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        match poll(&mut waits, Some(&left)) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let [stopped, one, two, three] = waits.map(|wait| !wait.revents().is_empty());
        return Ok(match (stopped, one || two || three) {
            (true, _) => Ready::Stop,
            (_, true) => Ready::Sources([one, two, three]),
            // Only now: what came while this process was stopped has come.
            _ if left.tv_sec == 0 && left.tv_nsec == 0 => Ready::Late,
            _ => continue,
        });
    }
}

fn left(until: u64) -> Timespec {
    let ns = until.saturating_sub(clock::monotonic_raw_ns());
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The processes that a process started, and those that these did, each held so that its number
/// cannot become another's.
fn family(pid: u32) -> Vec<OwnedFd> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| std::fs::read_to_string(one.path().join("children")).ok());
    let words: Vec<String> = lists.map(|list| list.trim().to_owned()).collect();
    let children = words.iter().flat_map(|list| list.split_whitespace());
    let mut found = Vec::new();
    for child in children.filter_map(|word| word.parse::<u32>().ok()) {
        let held = Pid::from_raw(child as i32)
            .and_then(|child| pidfd_open(child, PidfdFlags::empty()).ok());
        found.extend(held);
        found.extend(family(child));
    }
    found
}

fn pid_of(child: &Child) -> Result<Pid, Errno> {
    Pid::from_raw(child.id() as i32).ok_or(Errno::SRCH)
}

/// A file in memory with the text, which no writer has to keep up with.
fn input(text: &str) -> std::io::Result<std::fs::File> {
    use std::io::{Seek, Write};
    if text.is_empty() {
        return std::fs::File::open("/dev/null");
    }
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("input", flags)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "was lost".to_owned(),
    }
}

/// The last line that it said, where it said any.
fn last_words(err: &str, out: &str) -> String {
    let line = |text: &str| {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().take(LINE_MAX).collect::<String>())
    };
    line(err).or_else(|| line(out)).map_or(String::new(), |line| format!(": {line}"))
}

#[cfg(test)]
mod tests;
