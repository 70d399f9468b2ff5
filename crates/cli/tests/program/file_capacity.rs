//! `fathom file capacity`: finds the size of the page cache without OOM kills.

use std::path::Path;

use fathom_record::{Origin, RunState, State};
use rustix::process::Signal;

use crate::children::{assert_interrupted, assert_kill_leaves_nothing, spawn_until_io};
use crate::group::group;
use crate::test_env::{Folder, assert_contains, assert_status, document, median};
use crate::{TestEnv, text};

const LIMIT: u64 = 256 << 20;

#[test]
fn capacity_matches_cgroup_memory_limit() {
    let Some(disk) = Folder::on_disk() else { return };
    let limits = [("memory.limit_in_bytes", LIMIT)];
    let Some(group) = group("memory", "capacity", &limits) else { return };
    let env = TestEnv::new();
    let line = format!("file capacity --yes --json --folder {}", disk.path_text());
    let document = document(&env.exec_in(&group, &line));
    let record = &document.records[0];
    let details = format!("{:?} {:?}", record.facts, record.verdict);
    let prediction = record.prediction.as_ref().expect("it is predicted");
    let predicted = prediction.value.expect("a value");
    assert!(predicted < LIMIT as f64 && predicted > 0.8 * LIMIT as f64, "{predicted}");
    let Origin::Counted { at } = &prediction.inputs[0].origin else { panic!("{prediction:?}") };
    assert!(at.contains("memory.limit_in_bytes of /fathom-lab"), "{at}");
    let found = median(record);
    // The group's other memory varies.
    assert!((found / predicted - 1.0).abs() < 0.25, "{found} of {predicted}: {details}");
    assert!(details.contains("does not fit"), "{details}");
    let read = |name: &str| std::fs::read_to_string(group.file(name)).expect("a counter");
    assert!(read("memory.oom_control").contains("oom_kill 0"), "{}", read("memory.oom_control"));
    assert_ne!(read("memory.failcnt").trim(), "0", "the limit was never reached");
    assert!(disk.is_empty());
}

#[test]
fn capacity_above_max_is_unavailable() {
    let Some(disk) = Folder::on_disk() else { return };
    let env = TestEnv::new();
    let output = env.exec(&format!("file capacity --max 32MiB --folder {}", disk.path_text()));
    assert_status(&output, 3);
    let parts = ["writes 32 MiB at most", "32 MiB: 4 KiB take", "100 % after the second", "--max"];
    assert_contains(&text(&output.stdout), &parts);
    let record = &env.latest().records[0];
    assert_eq!(record.verdict.state, State::Unavailable);
    let sizes = record.facts.iter().filter(|fact| fact.name == "size").count();
    assert_eq!(sizes, 16, "a sixteenth at a time: {:?}", record.facts);
}

#[test]
fn invalid_capacity_arguments_are_one_line() {
    let env = TestEnv::new();
    let table = "--max 0 | at least 1 MiB | --max
        --max many | many | a size";
    env.assert_usage_errors("file capacity --yes", table);
    let table = "--folder /no/such/folder | /no/such/folder
        --folder /proc | --folder /proc | disk";
    env.assert_failures("file capacity --yes", table);
    let shared = Path::new("/dev/shm");
    if fathom_fileio::inspect(shared).is_ok_and(|it| it.file_system.name == "tmpfs") {
        let table = "--folder /dev/shm | tmpfs is not on a device";
        env.assert_failures("file capacity --yes", table);
    }
}

#[test]
fn ctrl_c_stores_a_lower_bound() {
    let Some(disk) = Folder::on_disk() else { return };
    let env = TestEnv::new();
    let line = format!("file capacity --max 2GiB --yes --folder {}", disk.path_text());
    // After 384 MiB, the sizes of 128 MiB and 256 MiB are known to stay.
    assert_interrupted(spawn_until_io(&env, &line, "wchar", 384 << 20), Signal::INT);
    let document = env.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let record = &document.records[0];
    assert!(record.verdict.reasons[0].text.contains("stopped before its end"));
    assert!(median(record) >= f64::from(128 << 20), "a lower bound");
    assert_contains(&env.stdout("show latest"), &["at least", "iB: inconclusive", "interrupted"]);
    assert!(disk.is_empty());
}

#[test]
fn kill_leaves_no_file() {
    assert_kill_leaves_nothing("file capacity --max 4GiB --yes", "temporary");
}
