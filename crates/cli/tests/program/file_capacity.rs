//! `fathom file capacity`: that it finds the end of the page cache without harm, and what it does
//! where it cannot.

use std::path::Path;

use fathom_record::{RunState, State};
use rustix::process::Signal;

use crate::file_calls::{
    Disk, begun, document, is_interrupted, killed_leaves_nothing, send, value,
};
use crate::group::{Group, skipped};
use crate::{Place, is_refused, text};

/// Of the group's memory.
const LIMIT: u64 = 256 << 20;

#[test]
fn in_a_group_of_256_mib_the_page_cache_ends_where_the_group_does_and_nobody_is_killed() {
    let (disk, group) = match (
        Disk::new(),
        Group::new("memory", "capacity", &[("memory.limit_in_bytes", LIMIT)]),
    ) {
        (Ok(disk), Ok(group)) => (disk, group),
        (Err(why), _) | (_, Err(why)) => return skipped(&why),
    };
    let place = Place::new();
    let program = Path::new(env!("CARGO_BIN_EXE_fathom"));
    let asked = ["file", "capacity", "--yes", "--json", "--folder", disk.name()];
    let mut inside = group.enter(program, &asked);
    let document =
        document(&inside.env("FATHOM_STORE", place.store()).output().expect("it starts"));
    let record = &document.records[0];
    let told = format!("{:?} {:?}", record.facts, record.verdict);
    let prediction = record.prediction.as_ref().expect("it is predicted");
    let predicted = prediction.value.expect("a value");
    assert!(predicted < LIMIT as f64 && predicted > 0.8 * LIMIT as f64, "{predicted}");
    assert!(prediction.inputs[0].origin.contains("memory.limit_in_bytes of /fathom-lab"));
    let found = value(record);
    assert!((found / predicted - 1.0).abs() < 0.15, "{found} of {predicted}: {told}");
    assert!(told.contains("does not stay"), "{told}");
    let read = |name: &str| std::fs::read_to_string(group.file(name)).expect("a counter");
    assert!(read("memory.oom_control").contains("oom_kill 0"), "{}", read("memory.oom_control"));
    assert_ne!(read("memory.failcnt").trim(), "0", "the limit was never met");
    assert!(disk.is_empty());
}

#[test]
fn a_file_that_may_not_be_large_enough_is_unavailable_with_the_reason() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let output = place.run(&["file", "capacity", "--max", "32MiB", "--folder", disk.name()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    for part in ["writes 32 MiB at most", "32 MiB: 4 KiB take", "100 % after the second", "--max"] {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
    let record = &place.latest().records[0];
    assert_eq!(record.verdict.state, State::Unavailable);
    let sizes = record.facts.iter().filter(|fact| fact.name == "size").count();
    assert_eq!(sizes, 16, "a sixteenth at a time: {:?}", record.facts);
}

#[test]
fn what_leaves_no_room_is_refused_in_one_line() {
    let place = Place::new();
    let capacity = |rest: &[&str]| place.run(&[&["file", "capacity", "--yes"], rest].concat());
    is_refused(&capacity(&["--max", "0"]), &["1 MiB at least", "--max"]);
    is_refused(&capacity(&["--max", "many"]), &["many", "no size"]);
    is_refused(&capacity(&["--folder", "/no/such/folder"]), &["/no/such/folder"]);
    is_refused(&capacity(&["--folder", "/proc"]), &["--folder /proc", "disk"]);
    let shared = Path::new("/dev/shm");
    if fathom_fileio::look(shared).is_ok_and(|it| it.file_system.name == "tmpfs") {
        is_refused(&capacity(&["--folder", "/dev/shm"]), &["tmpfs keeps files in memory"]);
    }
}

#[test]
fn ctrl_c_tells_how_far_it_came_and_leaves_nothing() {
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let asked = ["file", "capacity", "--max", "2GiB", "--yes", "--folder", disk.name()];
    // Once 384 MiB are there, 128 MiB and 256 MiB were seen to stay.
    let child = begun(&place, &asked, |io| io.written > 384 << 20);
    send(&child, Signal::INT);
    is_interrupted(child);
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record = &document.records[0];
    assert!(record.verdict.reasons[0].text.contains("stopped before its end"));
    assert!(value(record) >= f64::from(128 << 20), "a lower limit");
    assert!(disk.is_empty());
}

#[test]
fn kill_leaves_no_file() {
    killed_leaves_nothing(&["file", "capacity", "--max", "4GiB", "--yes"], "temporary");
}
