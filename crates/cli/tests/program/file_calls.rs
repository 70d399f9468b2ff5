//! `fathom file calls` and `fathom file contend`: output, records, errors and cleanup.

use fathom_lab::processes::children;
use fathom_record::{Record, RunState};
use rustix::process::Signal;

use crate::children::{
    assert_interrupted, assert_no_process_left, signal_and_wait, spawn_piped, spawn_until_io,
    spawn_until_line, wait_for_record, wait_until,
};
use crate::test_env::{TestEnvFolder, assert_contains, document, median};
use crate::{ProgramTestEnv, text};

const SHORT: &str = "file calls --calls 1e3,1e4 --repeat 3 --blocks";
const CONTEND: &str = "file contend --bytes 1MiB --time-limit 3s --repeat 2 --processes 1..3";

#[test]
fn each_call_is_a_stored_record() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let line = format!("{SHORT} 1,64K --json --folder {}", disk.path_text());
    let document = document(&env.exec(&line));
    let names: Vec<String> = document.records.iter().map(Record::name).collect();
    let calls = ["read1", "read4", "pread4k", "lseek", "fstat", "buffered_read1"];
    assert_eq!(names[..6], calls.map(|call| format!("file.call{{call={call}}}")));
    for record in &document.records[..6] {
        assert!(median(record) > 0.0, "{}", record.name());
        assert_eq!(record.checks["calls"], "33000 of 33000", "{}", record.name());
        assert!(record.checks.contains_key("in memory before"), "{:?}", record.checks);
        assert!(record.facts.iter().any(|fact| fact.name == "1000 calls"), "{:?}", record.facts);
    }
    let by_count = ["call=read1,calls=1000", "call=read1,calls=10000", "call=lseek,calls=1000"];
    assert_eq!(names[6..9], by_count.map(|case| format!("file.call{{{case}}}")));
    for record in &document.records[6..10] {
        let has = |name: &str| record.facts.iter().any(|fact| fact.name == name);
        assert!(has("time") && has("rate"), "seconds and calls a second: {:?}", record.facts);
    }
    let pairs = ["read", "lseek"].map(|call| format!("file.call{{block=65536,call={call}}}"));
    assert_eq!(names[12..], pairs, "two calls for each block size");
    assert_eq!(document.records[12].checks["calls"], "768 of 768", "256 blocks, 3 times");
    assert!(document.records[13].facts.iter().any(|fact| fact.name == "lseek ÷ read"));
    assert_eq!(env.latest().records.len(), document.records.len());
    let history = env.run(&["history", "file.call{call=lseek}"]);
    assert!(text(&history.stdout).contains("file.call"), "{}", text(&history.stdout));
    assert!(disk.is_empty());
}

#[test]
fn calls_on_named_file_leave_it_unchanged() {
    let env = ProgramTestEnv::new();
    let file = env.path().join("file");
    std::fs::write(&file, vec![1; 100_000]).expect("a file");
    let printed = env.stdout(&format!("{SHORT} 1,4096 {}", env.path_text("file")));
    assert_contains(&printed, &["file.call", "/s", "lseek ÷ read", "fstat", "no model"]);
    assert_eq!(std::fs::read(&file).expect("a file"), vec![1; 100_000]);
}

#[test]
fn ctrl_c_keeps_finished_calls() {
    let env = ProgramTestEnv::new();
    let file = env.path().join("file");
    std::fs::write(&file, vec![1; 100_000]).expect("a file");
    let calls = format!("file calls {} --calls 1e10", env.path_text("file"));
    assert_interrupted(spawn_until_io(&env, &calls, "syscr", 100_000), Signal::INT);
    let document = env.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record = &document.records[0];
    assert_eq!(record.name(), "file.call{call=read1}");
    assert!(record.verdict.reasons.iter().any(|reason| reason.text.contains("stopped")));
}

#[test]
fn killed_commands_keep_finished_steps() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    const WRITE: &str = "file write --block 4K --count 100 --force --sync none --repeat 100000";
    let contend = "file contend --processes 2 --bytes 1MiB --repeat 1000 --time-limit 500s";
    let named = disk.path().join("file");
    std::fs::write(&named, vec![1; 1 << 20]).expect("a file");
    let (folder, file) = (format!("--folder {}", disk.path_text()), named.display().to_string());
    for (line, place, metric) in [
        ("file calls --calls 1e4 --repeat 1000", &folder, "file.call"),
        (contend, &folder, "file.contention"),
        ("file read --repeat 100000", &file, "file.read.throughput"),
        ("file fast --repeat 100000", &file, "file.fast"),
        (WRITE, &file, "file.write.throughput"),
        ("run --thorough --only os.syscall", &String::new(), "os.syscall"),
    ] {
        let env = ProgramTestEnv::new();
        let line = format!("{line} {place}");
        let child = spawn_piped(env.command(&line));
        wait_for_record(&env);
        signal_and_wait(child, Signal::KILL);
        let document = env.latest();
        assert_eq!(document.run.state, RunState::Interrupted);
        assert_eq!(document.records[0].metric.as_str(), metric);
        assert!(document.records[0].summary.is_some());
    }
}

#[test]
fn contention_has_a_record_per_process_count() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let line = format!("{CONTEND} --json --samples --folder {}", disk.path_text());
    let document = document(&env.exec(&line));
    let names: Vec<&str> = document.records.iter().map(|one| one.metric.as_str()).collect();
    assert_eq!(names[..3], ["file.contention"; 3]);
    assert_eq!(names[3..], ["file.contention.per_process"]);
    for (processes, record) in (1..).zip(&document.records[..3]) {
        assert_eq!(record.params.integer("processes"), Some(processes));
        let samples = record.samples.as_ref().expect("the values");
        assert_eq!(samples.iter().map(|one| one.values.len()).sum::<usize>(), 2, "two rounds");
        assert!(median(record) > 0.0);
        assert_eq!(record.prediction.is_some(), processes > 1, "a bound relative to one process");
    }
    let names = document.records[3].facts.iter().map(|fact| fact.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["line", "intercept", "r²"]);
    assert!(disk.is_empty());
}

#[test]
fn signal_ends_all_contending_processes() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let line = format!("file contend --processes 3 --repeat 1000 --folder {}", disk.path_text());
    let child = spawn_until_line(&env, &line, "temporary");
    wait_until("no readers", || children(child.id()).len() >= 3);
    assert_interrupted(child, Signal::TERM);
    assert_no_process_left(&env);
    assert!(disk.is_empty());
}
