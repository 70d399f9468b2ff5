//! System calls that fail under the file commands that make temporary files, and kills at them:
//! nothing is left in the folder, and what is printed is true.

use std::process::{Command, ExitStatus};

use fathom_lab::strace::{self, Fault, Injection};

use crate::trials::{self, Target, Word, names};
use crate::test_env::TestEnv;

/// A command, by its words without the folder.
#[derive(Clone, Copy, Debug)]
struct Asked(&'static [&'static str]);

const ASKED: [Asked; 5] = [
    Asked(&["size", "--block", "64K", "--between", "1ms..40ms", "--max", "64M"]),
    Asked(&["sweep", "--sizes", "1M", "--blocks", "64K,1M", "--each", "1ms", "--passes", "2"]),
    Asked(&["cache", "--sizes", "1M", "--blocks", "64K", "--rounds", "1"]),
    Asked(&["calls", "--calls", "100", "--blocks", "4K", "--repeat", "1"]),
    Asked(&["contend", "--processes", "1..2", "--bytes", "1M", "--repeat", "1"]),
];

impl Target for Asked {
    fn place(self) -> TestEnv {
        let env = TestEnv::new();
        std::fs::create_dir(env.file("out")).expect("a folder");
        env
    }

    fn command(self, env: &TestEnv) -> Command {
        let folder = env.file("out");
        let mut words = vec!["file"];
        words.extend(self.0);
        words.extend(["--folder", folder.to_str().expect("a name")]);
        env.fathom(&words)
    }

    fn judge(self, env: &TestEnv, status: ExitStatus, injection: &Injection, said: &str) -> Word {
        let broken = |what: &str| Err(format!("{what}\n{said}"));
        let left = names(env);
        if !left.is_empty() {
            return broken(&format!("left behind: {left:?}"));
        }
        let running = env.running_processes();
        if !running.is_empty() {
            return broken(&format!("still running: {running:?}"));
        }
        if injection.fault == Fault::Kill {
            return Ok("killed");
        }
        // A sweep names what was best, and tables have a column of what was measured.
        let claims = ["verdict", "best  ", "measured  "].iter().any(|word| said.contains(word));
        match status.code() {
            Some(0) if claims => Ok("done all the same"),
            Some(0) => broken("it ends well without a result"),
            Some(130) => Ok("interrupted"),
            // Whom every write fails cannot say so.
            Some(1) if injection.call == "write" && injection.times.is_none() => Ok("mute"),
            Some(1) if !said.contains("fathom: ") => broken("it gives no reason"),
            Some(1) if claims => Ok("done, and told what failed"),
            Some(1) => Ok("told, nothing left"),
            Some(3) if said.contains("no size") => Ok("told that no size fits"),
            _ => broken(&format!("it ended with {status}")),
        }
    }
}

#[test]
fn failing_calls_leave_no_temporary_file() {
    if let Some(why) = strace::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let title = "System calls of the other file commands that fail";
    let counts = fire::take(("7-file-commands", title), &ASKED);
    assert!(counts.contains_key("told, nothing left") && counts.contains_key("killed"));
}
