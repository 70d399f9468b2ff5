//! `fathom file calls` and `fathom file contend`: what they say and keep, what they refuse, and
//! that nothing is left of them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use fathom_lab::processes;
use fathom_record::{Document, Record, RunState};
use rustix::process::{Pid, Signal, kill_process};

use crate::group::skipped;
use crate::{Place, is_refused, text};

/// A folder that lies on a disk, as temporary files want it.
pub(crate) struct Disk(tempfile::TempDir);

impl Disk {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
        let subject = fathom_fileio::look(folder.path()).map_err(|error| error.to_string())?;
        match subject.is_on_device() {
            Some(false) => Err(format!("/var/tmp is {}", subject.file_system.name)),
            _ => Ok(Self(folder)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn name(&self) -> &str {
        self.path().to_str().expect("a plain path")
    }

    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(self.path()).expect("a folder").next().is_none()
    }
}

/// The document of a command that ends well.
pub(crate) fn document(output: &Output) -> Document {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

pub(crate) fn value(record: &Record) -> f64 {
    record.summary.as_ref().expect("a number").median
}

/// Starts a command and reads its output up to a line that contains `sign`.
pub(crate) fn started(place: &Place, arguments: &[&str], sign: &str) -> Child {
    let mut command = place.fathom(arguments);
    command.env("FATHOM_TEST_PLACE", place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe"));
    let mut line = String::new();
    while !line.contains(sign) {
        line.clear();
        let read = lines.read_line(&mut line).expect("lines");
        assert!(read > 0, "it ended before it said {sign}");
    }
    child
}

/// What a process has read and written so far.
pub(crate) struct Io {
    /// Reads.
    pub(crate) calls: u64,
    /// Bytes that it wrote.
    pub(crate) written: u64,
}

/// Starts a command and waits until it has read or written as much as this wants.
pub(crate) fn begun(place: &Place, arguments: &[&str], enough: impl Fn(&Io) -> bool) -> Child {
    let mut command = place.fathom(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    for _ in 0..6000 {
        let text = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        if enough(&Io { calls: number("syscr:"), written: number("wchar:") }) {
            return child;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did too little in a minute");
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// Asserts that a command that was told to stop does so, and says so.
pub(crate) fn is_interrupted(mut child: Child) {
    let status = processes::ended_within(&mut child, 30).expect("it goes on for half a minute");
    assert_eq!(status.code(), Some(130), "{status}");
}

/// Kills a command in the middle of what it does: no process and no file is left.
pub(crate) fn killed_leaves_nothing(arguments: &[&str], sign: &str) {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let arguments = [arguments, &["--folder", disk.name()]].concat();
    let mut child = started(&place, &arguments, sign);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("a child").is_none(), "it ended before it was killed");
    send(&child, Signal::KILL);
    child.wait().expect("it ends");
    let marker = format!("FATHOM_TEST_PLACE={}", place.path().display());
    assert_eq!(processes::left_after(&marker, 10), [0_u32; 0], "processes are left");
    assert!(disk.is_empty(), "files are left");
}

/// Few and short.
const SHORT: [&str; 7] = ["file", "calls", "--calls", "1e3,1e4", "--repeat", "3", "--blocks"];
const CONTEND: [&str; 8] =
    ["file", "contend", "--bytes", "4MiB", "--time-limit", "3s", "--repeat", "2"];

#[test]
fn every_call_is_a_record_that_is_kept_and_says_how_many_calls_did_their_work() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let asked = [&SHORT[..], &["1,64K", "--json", "--folder", disk.name()]].concat();
    let document = document(&place.run(&asked));
    let names: Vec<String> = document.records.iter().map(Record::name).collect();
    let calls = ["read1", "read4", "pread4k", "lseek", "fstat", "buffered_read1"];
    assert_eq!(names[..6], calls.map(|call| format!("file.call{{call={call}}}")));
    for record in &document.records[..6] {
        assert!(value(record) > 0.0, "{}", record.name());
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
    let name = file.to_str().expect("a path");
    let said = text(&place.run(&[&SHORT[..], &["1,4096", name]].concat()).stdout);
    for part in ["file.call", "/s", "lseek ÷ read", "fstat", "no model"] {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), vec![1; 100_000]);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let place = Place::new();
    let file = |bytes: usize| -> PathBuf {
        let path = place.path().join(format!("file-{bytes}"));
        std::fs::write(&path, vec![1; bytes]).expect("a file");
        path
    };
    let (empty, small) = (file(0), file(5000));
    let (empty, small) = (empty.to_str().expect("a path"), small.to_str().expect("a path"));
    let folder = place.path().to_str().expect("a path");
    let calls = |rest: &[&str]| place.run(&[&["file", "calls"], rest].concat());
    is_refused(&calls(&["/no/such/file"]), &["/no/such/file"]);
    is_refused(&calls(&[folder]), &["directory"]);
    is_refused(&calls(&[empty]), &["has 0 bytes", "larger file"]);
    is_refused(&calls(&[small, "--blocks", "64K"]), &["has 5000 bytes", "65536"]);
    is_refused(&calls(&["--calls", "0"]), &["0 calls"]);
    is_refused(&calls(&["--calls", "1e6..1e4"]), &["1e6..1e4", "no range"]);
    is_refused(&calls(&["--calls", "1e15"]), &["hours"]);
    is_refused(&calls(&["--blocks", "0"]), &["0 bytes"]);
    is_refused(&calls(&["--folder", "/no/such/folder"]), &["/no/such/folder"]);
    is_refused(&calls(&["--folder", small]), &["it is no folder"]);
    is_refused(&calls(&["--folder", "/proc"]), &["--folder /proc", "name one on a disk"]);
    let contend = |rest: &[&str]| place.run(&[&["file", "contend"], rest].concat());
    is_refused(&contend(&["--processes", "0"]), &["`0`", "1 to 64"]);
    is_refused(&contend(&["--processes", "3..1"]), &["`3..1`"]);
    is_refused(&contend(&["--bytes", "4K"]), &["4 KiB", "1 MiB to"]);
    is_refused(
        &contend(&["--bytes", "8GiB", "--processes", "64", "--folder", "/proc"]),
        &["/proc"],
    );
    assert!(!place.store().exists(), "nothing is kept of a mistake");
    let output = place.run(&["file", "contend", "--reader-file", small, "--coordinator", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`fathom file contend` itself"));
}

#[test]
fn ctrl_c_keeps_the_calls_that_were_made() {
    let place = Place::new();
    let file = place.path().join("file");
    std::fs::write(&file, vec![1; 100_000]).expect("a file");
    let name = file.to_str().expect("a path");
    let child = begun(&place, &["file", "calls", name, "--calls", "1e10"], |io| io.calls > 100_000);
    send(&child, Signal::INT);
    is_interrupted(child);
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record = &document.records[0];
    assert_eq!(record.name(), "file.call{call=read1}");
    assert!(value(record) > 0.0 && record.verdict.reasons[0].text.contains("stopped"));
}

#[test]
fn processes_that_contend_have_a_block_time_each_and_a_line() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let asked = [&CONTEND[..], &["--processes", "1..3", "--folder", disk.name()]].concat();
    let document = document(&place.run(&[&asked[..], &["--json", "--samples"]].concat()));
    let names: Vec<&str> = document.records.iter().map(|one| one.metric.as_str()).collect();
    assert_eq!(names[..3], ["file.contention"; 3]);
    assert_eq!(names[3..], ["file.contention.per_process"]);
    for (processes, record) in (1..).zip(&document.records[..3]) {
        assert_eq!(record.params.integer("processes"), Some(processes));
        let samples = record.samples.as_ref().expect("the values");
        assert_eq!(samples.iter().map(|one| one.values.len()).sum::<usize>(), 2, "two rounds");
        assert!(value(record) > 0.0);
        assert_eq!(record.prediction.is_some(), processes > 1, "an order against one alone");
    }
    assert_eq!(document.records[3].facts[0].name, "a block takes", "a line");
    assert!(disk.is_empty());
}

#[test]
fn ctrl_c_ends_all_processes_that_contend() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let asked =
        ["file", "contend", "--processes", "3", "--repeat", "1000", "--folder", disk.name()];
    let child = started(&place, &asked, "temporary");
    std::thread::sleep(Duration::from_millis(700));
    send(&child, Signal::TERM);
    is_interrupted(child);
    let marker = format!("FATHOM_TEST_PLACE={}", place.path().display());
    assert_eq!(processes::left_after(&marker, 10), [0_u32; 0]);
    assert!(disk.is_empty());
}

#[test]
fn kill_leaves_no_file_and_no_process() {
    killed_leaves_nothing(&["file", "calls", "--calls", "1e10"], "temporary");
    killed_leaves_nothing(&["file", "contend", "--repeat", "1000"], "temporary");
}
