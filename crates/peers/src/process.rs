//! Running another program: its command, what it printed, and what it had of its CPUs.

mod usage;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fathom_measure::clock;
use fathom_measure::process::{self, CollectError, Limits, Running};
use usage::Usage;

/// No program that is asked for a number prints more.
const OUTPUT_MAX: usize = 4 << 20;
/// How long one that is asked to end may take, before it is killed.
const GRACE_NS: u64 = 2_000_000_000;

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

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("LC_ALL", "C").env_remove("LANGUAGE");
        self.without.iter().for_each(|name| _ = command.env_remove(name));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
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

/// What a program printed, and how long it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
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

impl Output {
    /// Nothing, at once.
    pub const NOTHING: Self =
        Self { out: String::new(), err: String::new(), ns: 0.0, preempted: 0, lost_ns: None };

    /// A text on standard output.
    #[cfg(test)]
    pub(crate) fn printed(out: &str) -> Self {
        Self { out: out.to_owned(), ..Self::NOTHING }
    }
}

/// Why a program has no output that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
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
    pub fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        let failed = |text: String| RunError::Failed(format!("{}: {text}", invocation.program));
        let before = Usage::now(&self.cpus);
        let begin = clock::monotonic_raw_ns();
        let mut running = Running::start_tied(|| Ok(invocation.command()), &self.cpus)
            .map_err(|error| failed(format!("start it: {error}")))?;
        let limits = Limits { time_ns: self.limit_ns, output_bytes: OUTPUT_MAX };
        let written = running.write_input(invocation.input.as_bytes());
        let collected =
            written.map_err(Into::into).and_then(|()| running.collect(limits, self.stop));
        let ns = (clock::monotonic_raw_ns() - begin) as f64;
        let status = collected.map_err(|error| {
            running.terminate(GRACE_NS);
            match error {
                CollectError::Stopped => RunError::Stopped,
                error => failed(error.to_string()),
            }
        })?;
        let after = Usage::now(&self.cpus);
        let [out, err] = &running.output;
        if !status.success() {
            let line = process::last_words(err).or_else(|| process::last_words(out));
            let line = line.map_or(String::new(), |line| format!(": {line}"));
            return Err(failed(format!("{}{line}", process::exit_text(status))));
        }
        let [out, err] = [out, err].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let preempted = after.preempted_since(&before);
        let lost_ns = after.lost_ns_since(&before, ns * self.cpus.len() as f64);
        Ok(Output { out, err, ns, preempted, lost_ns })
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

#[cfg(test)]
mod tests;
