//! `fathom file capacity`: finds the size of the page cache without OOM kills.

use fathom_record::{Origin, Record, RunState};
use rustix::process::Signal;

use crate::children::{assert_interrupted, assert_kill_leaves_nothing, spawn_until_io};
use crate::group::group;
use crate::test_env::{TestEnvFolder, assert_contains, document, median};
use crate::{ProgramTestEnv, text};

const LIMIT: u64 = 256 << 20;

#[test]
#[ignore = "lab: other memory of the group varies"]
fn capacity_matches_cgroup_memory_limit() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let limits = [("memory.limit_in_bytes", LIMIT)];
    let Some(group) = group("memory", "capacity", &limits) else { return };
    let env = ProgramTestEnv::new();
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
    let partly = |it: &&Record| it.facts.iter().any(|fact| fact.name == "cached");
    assert!(document.records.iter().filter(partly).count() > 2, "{details}");
    let read = |name: &str| std::fs::read_to_string(group.file(name)).expect("a counter");
    assert!(read("memory.oom_control").contains("oom_kill 0"), "{}", read("memory.oom_control"));
    assert_ne!(read("memory.failcnt").trim(), "0", "the limit was never reached");
    assert!(disk.is_empty());
}

#[test]
fn sizes_are_tried_up_to_max() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let output = env.exec(&format!("file capacity --max 16MiB --folder {}", disk.path_text()));
    assert_contains(&text(&output.stdout), &["writes 16 MiB at most", "file.capacity.block_time"]);
    let records = &env.latest().records;
    assert_eq!(records[0].metric.as_str(), "file.capacity");
    let sizes: Vec<i64> =
        records[1..].iter().filter_map(|it| it.params.integer("file_bytes")).collect();
    assert!(sizes.len() > 4 && sizes.is_sorted(), "{sizes:?}");
    assert_eq!(sizes.last(), Some(&(16 << 20)));
    let times: Vec<f64> = records[1..].iter().map(median).collect();
    assert!(times.iter().all(|ns| *ns > 0.0), "{times:?}");
    // Against the first size, whose time is no prediction.
    let predicted = records[1..].iter().filter(|it| it.prediction.is_some()).count();
    assert_eq!(predicted, sizes.len() - 1);
    assert!(disk.is_empty());
}

#[test]
fn ctrl_c_stores_the_interrupted_search() {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let line = format!("file capacity --max 2GiB --yes --folder {}", disk.path_text());
    assert_interrupted(spawn_until_io(&env, &line, "wchar", 32 << 20), Signal::INT);
    let document = env.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    assert_contains(&env.stdout("show latest"), &["interrupted"]);
    assert!(disk.is_empty());
}

#[test]
fn kill_leaves_no_file() {
    assert_kill_leaves_nothing("file capacity --max 4GiB --yes", "temporary");
}
