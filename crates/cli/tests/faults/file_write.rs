//! System calls that fail under `fathom file write`, and kills at them: the file is written
//! completely or not at all, no other file is left, and failures are reported.

use std::process::Command;

use fathom_fileio::{FileGenerator, XorSum};

use crate::test_env::TestEnv;
use crate::trials::{self, FaultTrial, TrialOutcome, TrialTarget, is_strace_missing, names};

const BYTES: usize = 64 << 10;
/// The content of a file that is replaced.
const FORMER: &[u8] = b"before";

#[derive(Debug)]
struct FaultyWrite {
    sync: &'static str,
    /// Replace a file with `--force`.
    force: bool,
}

const WRITES: [FaultyWrite; 3] = [
    FaultyWrite { sync: "data", force: false },
    FaultyWrite { sync: "every", force: true },
    FaultyWrite { sync: "none", force: true },
];

impl TrialTarget for FaultyWrite {
    fn env(&self) -> TestEnv {
        let env = TestEnv::new();
        std::fs::create_dir(env.file("out")).expect("a folder");
        if self.force {
            std::fs::write(env.file("out/data"), FORMER).expect("a file");
        }
        env
    }

    fn command(&self, env: &TestEnv) -> Command {
        let mut command = env.fathom(&["file", "write", "--block", "4K", "--count", "16"]);
        command.args(["--sync", self.sync]).args(self.force.then_some("--force"));
        command.arg(env.file("out/data"));
        command
    }

    fn judge(&self, trial: &FaultTrial<'_>) -> TrialOutcome {
        let names = names(trial.env);
        if names.iter().any(|name| name != "data") {
            return Err(format!("files are left: {names:?}"));
        }
        let content = std::fs::read(trial.env.file("out/data")).ok();
        let is_whole = content.as_deref() == Some(&data()[..]);
        let former = if self.force { Some(FORMER) } else { None };
        if !is_whole && content.as_deref() != former {
            let bytes = content.map(|bytes| bytes.len());
            return Err(format!("{bytes:?} bytes are neither the former nor the new content"));
        }
        if let Some(outcome) = trial.early_end() {
            return outcome;
        }
        let checksum = format!("{:08x}", XorSum::over(&data()).xor);
        let has_result = [checksum.as_str(), "verdict"].iter().all(|it| trial.output.contains(it));
        match trial.status.code() {
            Some(0) if is_whole && has_result => Ok("complete"),
            Some(0) => Err("exit status 0 without a file or a result".to_owned()),
            Some(1) if is_whole => Ok("written, with another error"),
            Some(1) if has_result => Err("a result without the file".to_owned()),
            Some(1) => Ok("error, nothing left"),
            _ => Err(trial.status.to_string()),
        }
    }
}

/// The data that the program writes.
fn data() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    FileGenerator::new(0).fill(0, &mut bytes);
    bytes
}

#[test]
fn failing_calls_leave_whole_file_or_none() {
    if is_strace_missing() {
        return;
    }
    let heading = ("6-file-write", "System calls of `fathom file write` that fail");
    let counts = trials::run(heading, &WRITES);
    assert!(counts.contains_key("error, nothing left") && counts.contains_key("killed"));
}
