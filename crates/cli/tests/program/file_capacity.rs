//! `fathom file capacity`: that it finds the end of the page cache without harm, and what it does
//! where it cannot.

use std::path::Path;

use fathom_record::{Origin, RunState, State};
use rustix::process::Signal;

use crate::children::{begun, is_interrupted, killed_leaves_nothing};
use crate::group::group;
use crate::place::{Folder, document, ends_with, median, says};
use crate::{Place, text};

/// Of the group's memory.
const LIMIT: u64 = 256 << 20;

#[test]
fn in_a_group_of_256_mib_the_page_cache_ends_where_the_group_does_and_nobody_is_killed() {
    let Some(disk) = Folder::on_disk() else { return };
    let limits = [("memory.limit_in_bytes", LIMIT)];
    let Some(group) = group("memory", "capacity", &limits) else { return };
    let place = Place::new();
    let asked = format!("file capacity --yes --json --folder {}", disk.name());
    let document = document(&place.ask_within(&group, &asked));
    let record = &document.records[0];
    let shown = format!("{:?} {:?}", record.facts, record.verdict);
    let prediction = record.prediction.as_ref().expect("it is predicted");
    let predicted = prediction.value.expect("a value");
    assert!(predicted < LIMIT as f64 && predicted > 0.8 * LIMIT as f64, "{predicted}");
    let Origin::Counted { at } = &prediction.inputs[0].origin else { panic!("{prediction:?}") };
    assert!(at.contains("memory.limit_in_bytes of /fathom-lab"), "{at}");
    let found = median(record);
    // Beside other tests the group's own memory varies.
    assert!((found / predicted - 1.0).abs() < 0.25, "{found} of {predicted}: {shown}");
    assert!(shown.contains("does not fit"), "{shown}");
    let read = |name: &str| std::fs::read_to_string(group.file(name)).expect("a counter");
    assert!(read("memory.oom_control").contains("oom_kill 0"), "{}", read("memory.oom_control"));
    assert_ne!(read("memory.failcnt").trim(), "0", "the limit was never met");
    assert!(disk.is_empty());
}

#[test]
fn a_file_that_may_not_be_large_enough_is_unavailable_with_the_reason() {
    let Some(disk) = Folder::on_disk() else { return };
    let place = Place::new();
    let output = place.ask(&format!("file capacity --max 32MiB --folder {}", disk.name()));
    ends_with(&output, 3);
    let parts = ["writes 32 MiB at most", "32 MiB: 4 KiB take", "100 % after the second", "--max"];
    says(&text(&output.stdout), &parts);
    let record = &place.latest().records[0];
    assert_eq!(record.verdict.state, State::Unavailable);
    let sizes = record.facts.iter().filter(|fact| fact.name == "size").count();
    assert_eq!(sizes, 16, "a sixteenth at a time: {:?}", record.facts);
}

#[test]
fn what_leaves_no_room_is_refused_in_one_line() {
    let place = Place::new();
    let table = "--max 0 | at least 1 MiB | --max
        --max many | many | a size";
    place.refuses("file capacity --yes", table);
    let table = "--folder /no/such/folder | /no/such/folder
        --folder /proc | --folder /proc | disk";
    place.fails("file capacity --yes", table);
    let shared = Path::new("/dev/shm");
    if fathom_fileio::inspect(shared).is_ok_and(|it| it.file_system.name == "tmpfs") {
        let table = "--folder /dev/shm | tmpfs keeps files in memory";
        place.fails("file capacity --yes", table);
    }
}

#[test]
fn ctrl_c_tells_how_far_it_came_and_leaves_nothing() {
    let Some(disk) = Folder::on_disk() else { return };
    let place = Place::new();
    let asked = format!("file capacity --max 2GiB --yes --folder {}", disk.name());
    // Once 384 MiB are there, 128 MiB and 256 MiB were seen to stay.
    is_interrupted(begun(&place, &asked, |io| io.written > 384 << 20), Signal::INT);
    let document = place.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record = &document.records[0];
    assert!(record.verdict.reasons[0].text.contains("stopped before its end"));
    assert!(median(record) >= f64::from(128 << 20), "a lower limit");
    assert!(disk.is_empty());
}

#[test]
fn kill_leaves_no_file() {
    killed_leaves_nothing("file capacity --max 4GiB --yes", "temporary");
}
