//! System calls that fail under file commands with temporary files, and kills at them: no file and
//! no process is left, and failures are reported.

use std::process::Command;

use crate::test_env::TestEnv;
use crate::trials::{self, FaultTrial, TrialOutcome, TrialTarget, is_strace_missing, names};

/// The arguments of a file command, without `--folder`.
#[derive(Debug)]
struct FileCommand(&'static str);

const COMMANDS: [FileCommand; 5] = [
    FileCommand("size --block 64K --between 1ms..1s --max 16M"),
    FileCommand("sweep --sizes 1M --blocks 64K,1M --each 1ms --passes 2"),
    FileCommand("cache --sizes 1M --blocks 64K --rounds 1"),
    FileCommand("calls --calls 100 --blocks 4K --repeat 1"),
    FileCommand("contend --processes 1..2 --bytes 1M --repeat 1"),
];

impl TrialTarget for FileCommand {
    fn env(&self) -> TestEnv {
        let env = TestEnv::new();
        std::fs::create_dir(env.file("out")).expect("a folder");
        env
    }

    fn command(&self, env: &TestEnv) -> Command {
        let mut command = env.fathom(&["file"]);
        command.args(self.0.split(' ')).arg("--folder").arg(env.file("out"));
        command
    }

    fn judge(&self, trial: &FaultTrial<'_>) -> TrialOutcome {
        let left = names(trial.env);
        if !left.is_empty() {
            return Err(format!("files are left: {left:?}"));
        }
        let running = trial.env.running_processes();
        if !running.is_empty() {
            return Err(format!("processes are left: {running:?}"));
        }
        if let Some(outcome) = trial.early_end() {
            return outcome;
        }
        // Parts of results: of records, of a sweep, and of tables.
        let has_result = ["verdict", "best  ", "predicted", "no model"]
            .iter()
            .any(|it| trial.output.contains(it));
        match trial.status.code() {
            Some(0) if has_result => Ok("complete"),
            Some(0) => Err("exit status 0 without a result".to_owned()),
            Some(1) if has_result => Ok("result and error"),
            Some(1) => Ok("error, nothing left"),
            Some(3) if trial.output.contains("no size") => Ok("no size fits"),
            _ => Err(trial.status.to_string()),
        }
    }
}

#[test]
fn failing_calls_leave_no_temporary_file() {
    if is_strace_missing() {
        return;
    }
    let heading = ("7-file-commands", "System calls of other file commands that fail");
    let counts = trials::run(heading, &COMMANDS);
    assert!(counts.contains_key("error, nothing left") && counts.contains_key("killed"));
}
