//! System calls that fail: each call that a run makes, at sampled positions, with each error that
//! makes sense, once and for good; and kills at them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_lab::{processes, strace};
use fathom_record::Document;

use crate::coverage::Coverage;
use crate::judge::Faulty;
use crate::test_env::TestEnv;
use crate::fault_plan::PlannedFault;
use crate::{count, kept, tampering, write_section};

/// A faulty run lasts no longer, waits for locks included.
const PATIENCE_S: u64 = 90;

/// Where the runs begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    /// There is no store, and no folder for it.
    Nothing,
    /// There is a store with a run in it.
    AStore,
}

/// A run that nothing disturbed, and the env where it is kept.
struct Example {
    env: TestEnv,
    run: Document,
}

impl Example {
    fn new(cpu: &str) -> Self {
        let env = TestEnv::new();
        let output = env.fathom(&arguments(0, cpu)).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let run = stored::runs(env.store()).expect("a store").remove(0);
        Self { env, run }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Trial {
    before: Before,
    tampering: PlannedFault,
}

/// What a run is asked to print. `--strict`, so that a missing number has a status of its own.
const FORMS: [&[&str]; 2] =
    [&["run", "--quick", "--strict", "--jsonl"], &["run", "--quick", "--strict"]];

fn arguments(form: usize, cpu: &str) -> Vec<&str> {
    [FORMS[form], &["--cpu", cpu, "cpu.frequency"]].concat()
}

#[test]
fn failing_calls_keep_every_acknowledged_record() {
    if let Some(why) = strace::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let cpus: Vec<String> =
        fathom_measure::affinity::allowed().iter().map(u32::to_string).collect();
    let example = Example::new(&cpus[0]);
    let mut trials = BTreeSet::new();
    for before in [Before::Nothing, Before::AStore] {
        trials.extend(of_baseline(before, &example, &cpus[0]));
    }
    let trials =
        fault_plan::sample(trials.into_iter().collect(), |trial| &trial.tampering.injection.call);
    let (next, told) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Most of a run is waiting, and most of that for nothing but the clock.
    std::thread::scope(|scope| {
        for helper in 0..amount(3, 8) {
            let (next, told, trials, example) = (&next, &told, &trials, &example);
            let cpu = &cpus[helper % cpus.len()];
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(trial) = trials.get(at) else { return };
                    let outcome = take(trial, at % FORMS.len(), example, cpu);
                    told.lock().expect("no panic").push((trial.clone(), outcome));
                }
            });
        }
    });
    report(told.into_inner().expect("no panic"));
}

/// Every fault that makes sense for the calls that a run makes which nothing disturbs.
fn of_baseline(before: Before, example: &Example, cpu: &str) -> Vec<Trial> {
    let env = prepared(before, example);
    let log = env.file("calls");
    let run = env.fathom(&arguments(0, cpu));
    let mut traced = strace::under(&run, None, &log);
    env.redirect(&mut traced);
    assert!(traced.status().expect("it starts").success(), "an undisturbed run");
    let calls = strace::calls(&log);
    // What is before is the loader's and the language's.
    let main = calls.iter().position(|call| call.name == "pipe2").expect("its first act");
    let untouched = fault_plan::untouched(&calls);
    println!("{before:?}: {} calls; nothing is done to {untouched}", calls.len());
    let all = fault_plan::of(&calls[main..], env.store());
    all.into_iter().map(|tampering| Trial { before, tampering }).collect()
}

/// A store that holds the example, or none.
fn prepared(before: Before, example: &Example) -> TestEnv {
    let env = TestEnv::new();
    if before == Before::AStore {
        let folder = env.store().parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::copy(example.env.store(), env.store()).expect("a copy");
    }
    env
}

/// How a trial ended: a word, or what broke; and what the program complained of.
struct Outcome {
    word: Result<&'static str, String>,
    complaint: Option<String>,
}

/// Takes a trial. `None` where the run did not come to that call.
fn take(trial: &Trial, form: usize, example: &Example, cpu: &str) -> Option<Outcome> {
    let env = prepared(trial.before, example);
    let log = env.file("calls");
    let run = env.fathom(&arguments(form, cpu));
    let injection = &trial.tampering.injection;
    let mut traced = strace::under(&run, Some(injection), &log);
    let said = env.redirect(&mut traced);
    let status = processes::ended_within(&mut traced.spawn().expect("it starts"), PATIENCE_S);
    strace::happened(injection, &log).then(|| {
        let said = std::fs::read(said).expect("what it said");
        let said = String::from_utf8_lossy(&said);
        let faulty = Faulty {
            env: &env,
            injection,
            status,
            said: &said,
            example: &example.run,
            had_example: trial.before == Before::AStore,
        };
        let complaint = said.lines().find(|line| {
            line.starts_with("fathom: ") && !line.contains("another fathom run measures")
        });
        let folder = env.store().parent().expect("a folder").to_string_lossy().into_owned();
        let complaint = complaint.map(|line| line.replace(&folder, "…"));
        Outcome { word: faulty.judge().map_err(|why| format!("{why}\n{said}")), complaint }
    })
}

/// Tells what was covered, and fails with all that broke.
fn report(told: Vec<(Trial, Option<Outcome>)>) {
    let mut covered: BTreeMap<Before, Coverage> = BTreeMap::new();
    let mut complaints: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut broken, mut unreached) = (Vec::new(), 0);
    for (Trial { before, tampering }, outcome) in told {
        let Some(Outcome { word, complaint }) = outcome else {
            unreached += 1;
            continue;
        };
        let injection = &tampering.injection;
        if let Some(complaint) = complaint {
            complaints.entry(complaint).or_default().insert(injection.to_string());
        }
        let word = word.unwrap_or_else(|why| {
            broken.push(format!("{before:?}: {injection}: {why}"));
            "BROKEN"
        });
        covered.entry(before).or_default().add(&tampering, word);
    }
    let mut page = "## System calls of the coordinator that fail\n\n".to_owned();
    for (before, coverage) in &covered {
        let start = match before {
            Before::Nothing => "Without a store before",
            Before::AStore => "With a store before",
        };
        page.push_str(&format!("{start}: {}\n", coverage.table()));
    }
    page.push_str("What the program said:\n\n");
    for (complaint, faults) in &complaints {
        let of = faults.first().expect("one");
        page.push_str(&format!("- for {} faults such as {of}: {complaint}\n", faults.len()));
    }
    page.push_str(&format!(
        "\n{unreached} faults were not reached, because runs differ; {} broke a promise.\n",
        broken.len()
    ));
    write_section("3-calls", &page);
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    let kinds = covered.values().map(Coverage::kinds).max();
    assert!(kinds > Some(3), "the faults made no difference: {page}");
}
