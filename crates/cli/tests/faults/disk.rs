//! Full disks and concurrent writers.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fathom_lab::processes;
use fathom_record::RunState;
use rustix::process::Signal;

use crate::test_env::{RUN, SHORT, TestEnv, signal, wait_for};
use crate::{scaled, stored, text, write_section};

/// Fills the disk except for some bytes.
fn fill(filler: &Path, free: u64) {
    let mut file = std::fs::File::create(filler).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
    let length = file.metadata().expect("facts").len();
    file.set_len(length.saturating_sub(free)).expect("a shorter file");
}

fn both_outputs(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn full_disk_keeps_finished_records() {
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(folder.path())
        .status();
    assert!(mounted.is_ok_and(|status| status.success()), "a small disk");
    let env = TestEnv::with_store(&folder.path().join("fathom.db"));
    let filler = folder.path().join("filler");
    let canned = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/document.json");
    assert!(env.output(&["import", canned]).status.success());
    let first = stored::runs(env.store()).expect("a store").remove(0);
    let (mut stored_runs, mut unstored, mut failed_later) = (0, 0, 0);
    let steps = scaled(2, 40) as u64;
    for at in 0..steps {
        let free = 4096 * at * 40 / steps;
        fill(&filler, free);
        let format = if at % 2 == 0 { "--jsonl" } else { "--cycles" };
        let run = env.output(&[&RUN, &[format, SHORT[0]][..]].concat());
        let output = both_outputs(&run);
        // Reading needs no space.
        for arguments in [&["show"][..], &["show", "--runs"], &["explain", SHORT[0]]] {
            let shown = env.output(arguments);
            assert!(shown.status.success(), "{free} bytes free: {}", text(&shown.stderr));
        }
        std::fs::remove_file(&filler).expect("the filler");
        let runs = stored::runs(env.store()).expect("a store");
        assert!(runs.contains(&first), "{free} bytes free: the first run has changed");
        assert!(output.contains(SHORT[0]), "{free} bytes free: nothing was measured: {output}");
        let is_whole = runs.len() > 1 && runs[0].run.ended.is_some();
        if run.status.code() == Some(0) {
            assert!(is_whole, "{free} bytes free: not stored: {output}");
            stored_runs += 1;
        } else {
            assert_eq!(run.status.code(), Some(1), "{free} bytes free: {output}");
            assert!(output.contains("no space left on the device"), "{free} bytes free: {output}");
            assert!(!is_whole && !output.contains("Kept as run"), "{free} bytes free: {output}");
            unstored += 1;

            failed_later += usize::from(output.contains("no longer stored"));
        }
        delete_other_runs(&env, &first.run.id);
    }
    let page = format!(
        "## A full disk\n\n\
         | amounts of free space | stored | not stored, with a warning | earlier runs changed |\n\
         |---|---|---|---|\n| {steps} | {stored_runs} | {unstored} | 0 |\n",
    );
    write_section("6-disk", &page);
    assert!(0 < failed_later && failed_later < unstored, "{failed_later} of {unstored}");
    std::fs::remove_file(env.store()).expect("the store");
    interrupt_on_full_disk(&env, &filler);
}

/// Deletes all runs but one.
fn delete_other_runs(env: &TestEnv, run_id: &str) {
    let connection = rusqlite::Connection::open(env.store()).expect("a store");
    connection
        .execute_batch(&format!(
            "DELETE FROM samples WHERE record IN (SELECT record.number FROM record JOIN run
                 ON run.number = record.run WHERE run.id <> '{run_id}');
             DELETE FROM record WHERE run IN (SELECT number FROM run WHERE id <> '{run_id}');
             DELETE FROM run WHERE id <> '{run_id}'; VACUUM"
        ))
        .expect("a smaller store");
}

/// Interrupts a run after its store failed: it must not claim that anything is stored.
fn interrupt_on_full_disk(env: &TestEnv, filler: &Path) {
    let mut command = env.fathom(&[&RUN[..], &SHORT].concat());
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The run has begun when it has a worker.
    wait_for(|| processes::children(run.id()).first().copied());
    fill(filler, 0);
    let mut stderr = BufReader::new(run.stderr.take().expect("a pipe"));
    let mut message = String::new();
    while !message.contains("no longer stored") {
        assert_ne!(stderr.read_line(&mut message).expect("a line"), 0, "{message}");
    }
    signal(run.id(), Signal::INT);
    stderr.read_to_string(&mut message).expect("lines");
    let finished = run.wait_with_output().expect("it ends");
    let output = message + &text(&finished.stdout);
    assert_eq!(finished.status.code(), Some(1), "{output}");
    for claim in ["Kept as run", "completed cases are stored"] {
        assert!(!output.contains(claim), "{output}");
    }
}

#[test]
fn concurrent_runs_on_new_store_keep_all_records() {
    let rounds = scaled(1, 20);
    let [mut printed, mut stored] = [0, 0];
    for _ in 0..rounds {
        let env = TestEnv::new();
        let arguments = [&RUN, &["--jsonl"][..], &SHORT].concat();
        let running = [(); 3].map(|()| env.spawn(&arguments));
        let records = running.map(|run| {
            let output = run.wait_with_output().expect("it ends");
            assert!(output.status.success());
            stored::records(&text(&output.stdout))
        });
        let runs = stored::runs(env.store()).expect("a store");
        assert_eq!(runs.len(), 3);
        assert!(runs.iter().all(|run| run.run.state == RunState::Complete));
        for records in records {
            assert_eq!(records.len(), SHORT.len());
            printed += records.len();
            let holders = runs.iter().filter(|run| stored::check(run, &records).is_ok()).count();
            stored += holders * records.len();
        }
        assert!(env.stray_files().is_empty());
    }
    let page = format!(
        "## Concurrent runs on a new store\n\n\
         | rounds of three runs | records printed | stored, each in one run |\n\
         |---|---|---|\n| {rounds} | {printed} | {stored} |\n"
    );
    write_section("7-writers", &page);
    assert_eq!(printed, stored);
}
