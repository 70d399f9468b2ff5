//! A command under every fault that makes sense for it, and what became of its promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_lab::processes;
use fathom_lab::strace::{self, Injection};

use crate::test_env::TestEnv;
use crate::fault_plan::{self, PlannedFault};
use crate::{count, write_section};

/// A trial that takes longer hangs.
const PATIENCE_S: u64 = 60;

/// The word for how a trial ended, or the promise that was broken.
pub(crate) type Word = Result<&'static str, String>;

/// A command that is put under fire.
pub(crate) trait Target: Copy + Debug + Send + Sync {
    /// Where it runs; what is to lie in its folder `out` lies there.
    fn place(self) -> TestEnv;
    fn command(self, env: &TestEnv) -> Command;
    /// Whether every promise was kept.
    fn judge(self, env: &TestEnv, status: ExitStatus, injection: &Injection, said: &str) -> Word;
}

/// Puts all targets under fire and reports; the words and how often each came.
pub(crate) fn take<T: Target>(
    (section, title): (&str, &str),
    targets: &[T],
) -> BTreeMap<&'static str, usize> {
    let mut trials = Vec::new();
    for &target in targets {
        trials.extend(of_baseline(target).into_iter().map(|tampering| (target, tampering)));
    }
    let trials = fault_plan::sample(trials, |(_, tampering)| &tampering.injection.call);
    let (next, told) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..amount(3, 4) {
            scope.spawn(|| {
                while let Some((target, tampering)) =
                    trials.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let Some(word) = one(*target, tampering) else { continue };
                    told.lock().expect("no panic").push((*target, tampering, word));
                }
            });
        }
    });
    report((section, title), &told.into_inner().expect("no panic"))
}

/// Every fault that makes sense for an undisturbed run.
fn of_baseline(target: impl Target) -> Vec<PlannedFault> {
    let env = target.place();
    let log = env.file("calls");
    let mut traced = strace::under(&target.command(&env), None, &log);
    let said = env.redirect(&mut traced);
    let status = traced.status().expect("it starts");
    assert!(status.success(), "undisturbed: {}", read(&said));
    let calls = strace::calls(&log);
    // What is before is the loader's and the language's.
    let main = calls.iter().position(|call| call.line.contains("SIGINT")).expect("its first act");
    fault_plan::of(&calls[main..], &env.file("out/data"))
}

/// Takes a trial. `None` where the program did not come to that call.
fn one(target: impl Target, tampering: &PlannedFault) -> Option<Word> {
    let env = target.place();
    let log = env.file("calls");
    let injection = &tampering.injection;
    let mut traced = strace::under(&target.command(&env), Some(injection), &log);
    let said = env.redirect(&mut traced);
    let status = processes::ended_within(&mut traced.spawn().expect("it starts"), PATIENCE_S);
    strace::happened(injection, &log).then(|| {
        let said = read(&said);
        match status {
            Some(status) => target.judge(&env, status, injection, &said),
            None => Err(format!("it hangs\n{said}")),
        }
    })
}

fn read(said: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(said).expect("what it said")).into_owned()
}

/// The names in the folder `out` of a env.
pub(crate) fn names(env: &TestEnv) -> Vec<String> {
    let entries = std::fs::read_dir(env.file("out")).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn report<T: Target>(
    (section, title): (&str, &str),
    told: &[(T, &PlannedFault, Word)],
) -> BTreeMap<&'static str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut broken = Vec::new();
    for (target, tampering, word) in told {
        match word {
            Ok(word) => *counts.entry(word).or_default() += 1,
            Err(why) => broken.push(format!("{target:?}: {}: {why}", tampering.injection)),
        }
    }
    let calls: BTreeSet<&String> =
        told.iter().map(|(_, tampering, _)| &tampering.injection.call).collect();
    let (faults, calls, broke) = (told.len(), calls.len(), broken.len());
    let mut page =
        format!("## {title}\n\n{faults} faults of {calls} calls, {broke} broke a promise:\n\n");
    for (word, count) in &counts {
        page.push_str(&format!("- {word}: {count}\n"));
    }
    write_section(section, &page);
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    counts
}
