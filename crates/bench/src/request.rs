//! What was asked, as plain data: the command line fills it, or a file.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;

use crate::fields;
pub use crate::scan::ScanParameter;

/// Limits of a mistake.
pub(crate) const RUNS_MAX: u32 = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    #[serde(rename = "command")]
    pub commands: Vec<CommandLine>,
    #[serde(deserialize_with = "fields::parameters")]
    pub parameters: Vec<ScanParameter>,
    pub settings: BenchSettings,
}

/// A command, its name in records, and what it must do.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLine {
    /// By default made of the command.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(rename = "run")]
    pub command: BenchInvocation,
    /// Its working folder.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// The exit statuses that a run may have.
    #[serde(default = "success", deserialize_with = "fields::statuses")]
    pub exit: Vec<i32>,
    /// What it must write to standard output, by one run that is not timed.
    #[serde(default)]
    pub output: Option<String>,
    /// The limit of its time: `..20 ms`.
    #[serde(default)]
    pub limit: Option<String>,
}

impl CommandLine {
    pub fn new(name: Option<String>, command: BenchInvocation) -> Self {
        Self { name, command, folder: None, exit: success(), output: None, limit: None }
    }
}

fn success() -> Vec<i32> {
    vec![0]
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum BenchInvocation {
    /// Split into words, or given to the shell.
    Line(String),
    /// A program with its arguments, as they are.
    Words(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BenchSettings {
    /// The shell that runs the commands; none by default.
    pub shell: Option<String>,
    /// Standard input of each run; empty by default.
    pub input: Option<PathBuf>,
    pub output: BenchOutput,
    /// Before the first run.
    pub setup: Option<String>,
    /// Before each run.
    pub prepare: Option<String>,
    /// After each run.
    pub conclude: Option<String>,
    /// After the last run, also of an interrupted command.
    pub cleanup: Option<String>,
    /// Files that are evicted from the page cache before each run.
    pub cold: Vec<PathBuf>,
    /// The CPU of each run.
    pub cpu: Option<u32>,
    pub ignore_failure: bool,
    /// Runs of each command that are not timed, before all others.
    pub warmup: u32,
    /// Runs of each command, in place of as many as its time allows.
    pub runs: Option<u32>,
    /// Time of all runs of a command, in seconds.
    #[serde(rename = "time", deserialize_with = "fields::optional_time")]
    pub time_s: Option<f64>,
    /// Time limit of one run, in seconds.
    #[serde(rename = "timeout", deserialize_with = "fields::time")]
    pub timeout_s: f64,
    /// Seed of the order.
    pub seed: Option<u64>,
    /// Whether the operations of a run are counted and priced.
    pub cost: bool,
    /// The share by which a command may be slower than the first.
    #[serde(deserialize_with = "fields::optional_share")]
    pub fail_on: Option<f64>,
    /// Whether the command is measured beside itself, for the smallest loss that a gate detects.
    pub certify: bool,
    /// What `fail_on` takes an undecided answer for.
    pub undecided: Option<UndecidedAs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum UndecidedAs {
    Pass,
    Fail,
}

impl Default for BenchSettings {
    fn default() -> Self {
        Self {
            shell: None,
            input: None,
            output: BenchOutput::Pipe,
            setup: None,
            prepare: None,
            conclude: None,
            cleanup: None,
            cold: Vec::new(),
            cpu: None,
            ignore_failure: false,
            warmup: 0,
            runs: None,
            time_s: None,
            timeout_s: 3600.0,
            seed: None,
            cost: false,
            fail_on: None,
            certify: false,
            undecided: None,
        }
    }
}

/// Where the output of the commands goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum BenchOutput {
    /// A pipe that this process drains: some programs do less work if they see /dev/null.
    #[default]
    Pipe,
    Null,
    /// To standard error, with the errors: standard output has the result.
    Inherit,
    /// Written anew by each run; errors are discarded.
    File(PathBuf),
}

impl From<String> for BenchOutput {
    fn from(text: String) -> Self {
        match text.as_str() {
            "pipe" => Self::Pipe,
            "null" => Self::Null,
            "inherit" => Self::Inherit,
            _ => Self::File(text.into()),
        }
    }
}
