//! System calls that fail under `fathom file write`, and kills at them: the file is there whole or
//! not at all, nothing else is left, and what is printed is true.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use fathom_fileio::{Generator, Sum};
use fathom_lab::seeded::Seeded;
use fathom_lab::strace::{self, Fault, Injection};

use crate::count;
use crate::trials::{self, Target, Word, names};
use crate::test_env::TestEnv;

const BYTES: usize = 64 << 10;
/// What was there before, where something was.
const BEFORE: &[u8] = b"before";

/// A way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    sync: &'static str,
    force: bool,
}

const FORMS: [Form; 3] = [
    Form { sync: "data", force: false },
    Form { sync: "every", force: true },
    Form { sync: "none", force: true },
];

impl Target for Form {
    fn place(self) -> TestEnv {
        let env = TestEnv::new();
        std::fs::create_dir(env.file("out")).expect("a folder");
        if self.force {
            std::fs::write(env.file("out/data"), BEFORE).expect("a file");
        }
        env
    }

    fn command(self, env: &TestEnv) -> std::process::Command {
        let path = env.file("out/data");
        let path = path.to_str().expect("a name");
        let mut words =
            vec!["file", "write", path, "--block", "4K", "--count", "16", "--sync", self.sync];
        words.extend(self.force.then_some("--force"));
        env.fathom(&words)
    }

    fn judge(self, env: &TestEnv, status: ExitStatus, injection: &Injection, said: &str) -> Word {
        let broken = |what: &str| Err(format!("{what}\n{said}"));
        let names = names(env);
        if names.iter().any(|name| name != "data") {
            return broken(&format!("left behind: {names:?}"));
        }
        let found = std::fs::read(env.file("out/data")).ok();
        let is_whole = found.as_deref() == Some(&data()[..]);
        let is_as_before =
            if self.force { found.as_deref() == Some(BEFORE) } else { found.is_none() };
        if !is_whole && !is_as_before {
            return broken(&format!("{:?} bytes are neither", found.map(|bytes| bytes.len())));
        }
        if injection.fault == Fault::Kill {
            return Ok("killed");
        }
        let sums = Sum::of(&data());
        let claims = said.contains(&format!("{:08x}", sums.xor)) && said.contains("verdict");
        match status.code() {
            Some(0) if is_whole && claims => Ok("done all the same"),
            Some(0) => broken("it says that all went well"),
            Some(130) => Ok("interrupted"),
            // Whom every write fails cannot say so.
            Some(1) if injection.call == "write" && injection.times.is_none() => Ok("mute"),
            Some(1) if !said.contains("fathom: ") => broken("it gives no reason"),
            Some(1) if is_whole => Ok("written, and told what else failed"),
            Some(1) if claims => broken("it prints a result of what is not there"),
            Some(1) => Ok("told, nothing left"),
            _ => broken(&format!("it ended with {status}")),
        }
    }
}

/// The data that the program writes.
fn data() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    Generator::new(0).fill(0, &mut bytes);
    bytes
}

#[test]
fn failing_calls_leave_whole_file_or_none() {
    if let Some(why) = strace::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let title = "System calls of `fathom file write` that fail";
    let counts = fire::take(("6-file-write", title), &FORMS);
    assert!(counts.contains_key("told, nothing left") && counts.contains_key("killed"));
}

#[test]
fn kills_leave_whole_file_or_none() {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let mut delays = Seeded(7);
    for number in 0..amount(50, 200) {
        let form = FORMS[number % FORMS.len()];
        let env = form.place();
        let mut command = form.command(&env);
        let said = env.redirect(&mut command);
        let mut child = command.spawn().expect("it starts");
        // Calibrating the clock alone takes 50 ms.
        std::thread::sleep(std::time::Duration::from_micros(delays.below(160_000)));
        child.kill().expect("a signal");
        let status = child.wait().expect("it ends");
        let said = std::fs::read(said).expect("what it said");
        let kill = Injection::once("", 0, Fault::Kill);
        form.judge(&env, status, &kill, &String::from_utf8_lossy(&said))
            .unwrap_or_else(|why| panic!("{form:?}: {why}"));
        let is_whole = std::fs::read(env.file("out/data")).is_ok_and(|found| found == data());
        *ends.entry(if is_whole { "whole" } else { "none" }).or_default() += 1;
    }
    println!("killed at {} moments: {ends:?}", count(50, 200));
    assert!(ends.contains_key("none"), "no kill came before the end: {ends:?}");
}
