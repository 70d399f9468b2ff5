//! What was asked, as plain data: the command line fills it, and a file can.

use std::path::PathBuf;

use fathom_record::ParamValue;
use serde::Deserialize;

/// Limits of a mistake.
pub(crate) const RUNS_MAX: u32 = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    pub commands: Vec<CommandLine>,
    pub parameters: Vec<Parameter>,
    pub settings: Settings,
}

/// A command, and its name in records.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLine {
    /// By default made of the command.
    #[serde(default)]
    pub name: Option<String>,
    pub command: Invocation,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Invocation {
    /// Split into words, or given to the shell.
    Line(String),
    /// A program with its arguments, as they are.
    Words(Vec<String>),
}

/// A parameter and the values that replace `{name}` in commands and hooks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    pub name: String,
    pub values: Vec<ParamValue>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The shell that runs the commands; none by default.
    pub shell: Option<String>,
    /// Standard input of each run; empty by default.
    pub input: Option<PathBuf>,
    pub output: Output,
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
    pub time_s: Option<f64>,
    /// Time limit of one run, in seconds.
    pub timeout_s: f64,
    /// Seed of the order.
    pub seed: Option<u64>,
    /// The share by which a command may be slower than the first.
    pub fail_on: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shell: None,
            input: None,
            output: Output::Null,
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
            fail_on: None,
        }
    }
}

/// Where the output of the commands goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    #[default]
    Null,
    /// To standard error, with the errors: standard output has the result.
    Inherit,
    /// Written anew by each run; errors are discarded.
    File(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_filled_by_a_file() {
        let text = r#"{
            "commands": [
                {"name": "a", "command": "sort -n {file}"},
                {"command": ["sort", "{file}"]}
            ],
            "parameters": [{"name": "file", "values": ["x", 2]}],
            "settings": {"warmup": 1, "output": {"file": "out"}, "cold": ["data"]}
        }"#;
        let request: Request = serde_json::from_str(text).expect("a request");
        assert_eq!(request.commands[1].name, None);
        assert_eq!(
            request.commands[1].command,
            Invocation::Words(vec!["sort".to_owned(), "{file}".to_owned()])
        );
        assert_eq!(request.parameters[0].values, [ParamValue::from("x"), ParamValue::from(2)]);
        let settings = request.settings;
        assert_eq!(settings.output, Output::File("out".into()));
        assert_eq!((settings.warmup, settings.runs, settings.timeout_s), (1, None, 3600.0));
        let misspelt = r#"{"settings": {"warmups": 1}}"#;
        assert!(serde_json::from_str::<Request>(misspelt).is_err());
    }
}
