//! `fathom file calls` and `fathom file contend`: what they say and keep, what they refuse, and
//! that nothing is left of them.

use std::time::Duration;

use fathom_record::{Record, RunState};
use rustix::process::Signal;

use crate::children::{begun, is_interrupted, killed_leaves_nothing, none_is_left, started};
use crate::place::{Folder, document, median, says};
use crate::{Place, text};

/// Few and short.
const SHORT: &str = "file calls --calls 1e3,1e4 --repeat 3 --blocks";
const CONTEND: &str = "file contend --bytes 4MiB --time-limit 3s --repeat 2 --processes 1..3";

#[test]
fn every_call_is_a_record_that_is_kept_and_says_how_many_calls_did_their_work() {
    let Some(disk) = Folder::on_disk() else { return };
    let place = Place::new();
    let asked = format!("{SHORT} 1,64K --json --folder {}", disk.name());
    let document = document(&place.ask(&asked));
    let names: Vec<String> = document.records.iter().map(Record::name).collect();
    let calls = ["read1", "read4", "pread4k", "lseek", "fstat", "buffered_read1"];
    assert_eq!(names[..6], calls.map(|call| format!("file.call{{call={call}}}")));
    for record in &document.records[..6] {
        assert!(median(record) > 0.0, "{}", record.name());
        assert_eq!(record.checks["calls"], "33000 of 33000", "{}", record.name());
        assert!(record.checks["in memory before"].starts_with("WARM"));
        assert!(record.facts.iter().any(|fact| fact.name == "1000 calls"), "{:?}", record.facts);
    }
    let pairs = ["read", "lseek"].map(|call| format!("file.call{{block=65536,call={call}}}"));
    assert_eq!(names[8..], pairs, "two for each block");
    assert_eq!(document.records[8].checks["calls"], "768 of 768", "256 blocks, three times");
    assert!(document.records[9].facts.iter().any(|fact| fact.name == "lseek ÷ read"));
    assert_eq!(place.latest().records.len(), document.records.len());
    let history = place.run(&["history", "file.call{call=lseek}"]);
    assert!(text(&history.stdout).contains("file.call"), "{}", text(&history.stdout));
    assert!(disk.is_empty());
}

#[test]
fn a_file_that_was_named_is_read_into_memory_and_shown_with_its_rates() {
    let place = Place::new();
    let file = place.path().join("file");
    std::fs::write(&file, vec![1; 100_000]).expect("a file");
    let said = place.ask(&format!("{SHORT} 1,4096 {}", place.name("file")));
    says(&text(&said.stdout), &["file.call", "/s", "lseek ÷ read", "fstat", "no model"]);
    assert_eq!(std::fs::read(&file).expect("it is there"), vec![1; 100_000]);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let place = Place::new();
    for bytes in [0, 5000] {
        std::fs::write(place.file(&format!("file-{bytes}")), vec![1; bytes]).expect("a file");
    }
    let folder = place.name("");
    let (empty, small) = (place.name("file-0"), place.name("file-5000"));
    let usage = "calls --calls 0 | `0` | 1 to
        calls --calls 1e6..1e4 | 1e6..1e4 | an ascending range
        calls --calls 1e15 | `1e15` | passes of 1 to
        calls --blocks 0 | `0` | a block of 1 to
        contend --processes 0 | `0` | 1 to 64
        contend --processes 3..1 | `3..1`
        contend --bytes 4K | 4 KiB | 1 MiB to";
    place.refuses("file", usage);
    let failures = format!(
        "calls /no/such/file | /no/such/file
        calls {folder} | directory
        calls {empty} | has 0 bytes | larger file
        calls {small} --blocks 64K | has 5000 bytes | 65536
        calls --folder /no/such/folder | /no/such/folder
        calls --folder {small} | not a directory
        calls --folder /proc | --folder /proc | name one on a disk
        contend --bytes 8GiB --processes 64 --folder /proc | /proc"
    );
    place.fails("file", &failures);
    assert!(!place.store().exists(), "nothing is kept of a mistake");
    let output = place.ask(&format!("file contend --reader-file {small} --coordinator 1"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`fathom file contend` itself"));
}

#[test]
fn ctrl_c_keeps_the_calls_that_were_made() {
    let place = Place::new();
    let file = place.path().join("file");
    std::fs::write(&file, vec![1; 100_000]).expect("a file");
    let calls = format!("file calls {} --calls 1e10", place.name("file"));
    is_interrupted(begun(&place, &calls, |io| io.calls > 100_000), Signal::INT);
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record = &document.records[0];
    assert_eq!(record.name(), "file.call{call=read1}");
    assert!(median(record) > 0.0 && record.verdict.reasons[0].text.contains("stopped"));
}

#[test]
fn processes_that_contend_have_a_block_time_each_and_a_line() {
    let Some(disk) = Folder::on_disk() else { return };
    let place = Place::new();
    let asked = format!("{CONTEND} --json --samples --folder {}", disk.name());
    let document = document(&place.ask(&asked));
    let names: Vec<&str> = document.records.iter().map(|one| one.metric.as_str()).collect();
    assert_eq!(names[..3], ["file.contention"; 3]);
    assert_eq!(names[3..], ["file.contention.per_process"]);
    for (processes, record) in (1..).zip(&document.records[..3]) {
        assert_eq!(record.params.integer("processes"), Some(processes));
        let samples = record.samples.as_ref().expect("the values");
        assert_eq!(samples.iter().map(|one| one.values.len()).sum::<usize>(), 2, "two rounds");
        assert!(median(record) > 0.0);
        assert_eq!(record.prediction.is_some(), processes > 1, "an order against one alone");
    }
    assert_eq!(document.records[3].facts[0].name, "a block takes", "a line");
    assert!(disk.is_empty());
}

#[test]
fn ctrl_c_ends_all_processes_that_contend() {
    let Some(disk) = Folder::on_disk() else { return };
    let place = Place::new();
    let asked = format!("file contend --processes 3 --repeat 1000 --folder {}", disk.name());
    let child = started(&place, &asked, "temporary");
    std::thread::sleep(Duration::from_millis(700));
    is_interrupted(child, Signal::TERM);
    none_is_left(&place);
    assert!(disk.is_empty());
}

#[test]
fn kill_leaves_no_file_and_no_process() {
    killed_leaves_nothing("file calls --calls 1e10", "temporary");
    killed_leaves_nothing("file contend --repeat 1000", "temporary");
}
