//! Running another program: its command, its output and the CPU time that it got.

mod usage;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fathom_measure::clock;
use fathom_measure::process::{self, CollectError, OutputLimits, Running};
use fathom_record::{Activity, shell_word, system_cause};
use usage::Usage;

pub(crate) const OUTPUT_MAX: usize = 4 << 20;
/// Time between SIGTERM and SIGKILL; the programs of tests ignore the first.
const GRACE_NS: u64 = if cfg!(test) { 100_000_000 } else { 2_000_000_000 };

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    pub program: String,
    pub arguments: Vec<String>,
    /// Standard input.
    pub input: &'static str,
    /// Environment variables to remove.
    pub without: &'static [&'static str],
}

impl Invocation {
    pub fn new(
        program: impl Into<String>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, input: "", without: &[] }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("LC_ALL", "C").env_remove("LANGUAGE");
        self.without.iter().for_each(|name| _ = command.env_remove(name));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl fmt::Display for Invocation {
    /// Quoted for a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        f.write_str(&words.map(|word| shell_word(word)).collect::<Vec<String>>().join(" "))
    }
}

/// Output and resource usage of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Wall time from start to exit.
    pub ns: f64,
    /// CPU time of the program and its children. Exact if no other program ends at the same time.
    pub cpu_ns: u64,
    /// Involuntary context switches of the program and its children. Exact if no other program runs
    /// at the same time.
    pub preempted: u64,
    /// CPU time that other programs used on its CPUs, summed over the CPUs; `None` if the kernel
    /// does not count it.
    pub lost_ns: Option<f64>,
}

impl Output {
    #[cfg(test)]
    pub(crate) fn printed(out: &str) -> Self {
        Self { out: out.to_owned(), ..Self::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The program did not start, failed, was killed, or printed no measurement.
    Failed(String),
    /// The user interrupted it.
    Stopped,
}

/// Limits under which programs run.
#[derive(Clone, Debug)]
pub struct Runner<'s> {
    /// Becomes readable when the user interrupts.
    pub stop: BorrowedFd<'s>,
    pub limit_ns: u64,
    /// CPU affinity of the programs.
    pub cpus: Vec<u32>,
}

impl Runner<'_> {
    /// Runs a program to its end in the C locale.
    ///
    /// # Errors
    /// If it cannot be started, fails, exceeds the limits of time or output, or the user
    /// interrupts.
    pub fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        let failed = |text: String| RunError::Failed(format!("{}: {text}", invocation.program));
        let before = Usage::now(&self.cpus);
        let begin = clock::monotonic_raw_ns();
        let mut running =
            Running::start_tied(|| Ok(invocation.command()), &self.cpus).map_err(|error| {
                failed(format!("cannot start: {}", system_cause(&error, Activity::Read)))
            })?;
        let limits = OutputLimits { time_ns: self.limit_ns, output_bytes: OUTPUT_MAX };
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
        let preempted = after.preempted.saturating_sub(before.preempted);
        let lost_ns = after.lost_ns_since(&before, ns * self.cpus.len() as f64);
        let cpu_ns = after.cpu_ns_since(&before);
        Ok(Output { out, err, ns, cpu_ns, preempted, lost_ns })
    }
}

/// Whether execvp would find the program in PATH.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |file: PathBuf| {
        file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).any(|folder| is_program(folder.join(program)))
}

#[cfg(test)]
mod tests;
