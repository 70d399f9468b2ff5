//! Power cuts: on a disk that keeps only synced data, every acknowledged step survives a cut at
//! any moment.

use std::path::Path;
use std::time::Duration;

use fathom_lab::disk::{Faults, LabDisk, Past, Survivors};
use fathom_lab::fuse::FuseMount;
use fathom_lab::seeded::Seeded;
use fathom_record::RunState;
use fathom_store::{Store, StoreError};

use crate::{children, example, print_section};

/// Power cuts, and records of a run by then, in the short and the long test. The long one has
/// enough records that SQLite checkpoints its log while the run is under way.
const CUTS: [usize; 2] = [12, 1000];
const RECORDS: [u64; 2] = [5, 120];

/// The path of the store on the disk, in folders created with it.
const PLACE: &str = "share/fathom/fathom.db";

const RUNS: [&str; 2] = ["0000019514ab3c5d", "0000019514ab3c5e"];

/// An acknowledged step, and the number of changes the disk had seen by then.
struct StoreAcknowledged {
    changes: usize,
    step: PowerStep,
}

#[derive(Debug)]
enum PowerStep {
    Begun(&'static str),
    Added(&'static str),
    Ended(&'static str),
}

fn soak() -> bool {
    std::env::var_os("FATHOM_SOAK").is_some()
}

#[test]
fn acknowledged_records_survive_a_power_cut() {
    fathom_lab::isolate_mounts!();
    cut_the_power(Faults::default(), "wal");
}

/// Without mapped files the log has no index, and a rollback journal replaces it.
#[test]
fn power_cut_with_a_rollback_journal_loses_nothing() {
    fathom_lab::isolate_mounts!();
    cut_the_power(Faults { uncached: true, ..Faults::default() }, "journal");
}

fn cut_the_power(faults: Faults, beside: &str) {
    let disk = LabDisk::recording();
    disk.misbehave(faults);
    let folder = tempfile::tempdir().unwrap();
    let mount = FuseMount::new(&disk, folder.path()).unwrap();
    let acknowledged = write(&disk, &folder.path().join(PLACE));
    drop(mount);
    let changes = disk.changes();
    let cuts = CUTS[usize::from(soak())];
    let mut past = disk.past();
    let mut seeds = Seeded(20_260_203);
    let (mut empty, mut seen, mut checked) = (0, false, 0);
    for cut in (0..cuts).map(|at| at * changes / (cuts - 1)) {
        past.go_to(cut);
        seen |= past.last().contains(&format!("fathom.db-{beside}"));
        let steps = acknowledged.iter().take_while(|one| one.changes <= cut);
        let steps: Vec<&PowerStep> = steps.map(|one| &one.step).collect();
        empty += usize::from(steps.is_empty());
        for survivors in [Survivors::None, Survivors::Some(seeds.any()), Survivors::All] {
            check(&past, survivors, &steps);
            checked += steps.len();
        }
    }
    let (steps, all) = (acknowledged.len(), 3 * cuts);
    let section = format!(
        "## The store alone: power cuts, with a {beside}\n\n\
         {all} cuts at {cuts} of {changes} changes of the disk, each with no, some and all \
         unsynced data kept. {steps} steps were acknowledged; those before a cut were checked \
         after it, {checked} checks in all, and the test fails at the first one missing.\n"
    );
    print_section(&format!("9-store-power-{beside}"), &section);
    assert!(empty > 0 && empty < cuts / 2, "cuts before the first step and after it: {empty}");
    assert!(seen, "no {beside} was written");
}

/// Two runs by two processes, each closing the store at its end.
fn write(disk: &LabDisk, path: &Path) -> Vec<StoreAcknowledged> {
    let records = RECORDS[usize::from(soak())].to_string();
    let mut acknowledged = Vec::new();
    for run_id in RUNS {
        let part = ["write", path.to_str().unwrap(), run_id, &records];
        let mut command = children::command(&[], &part);
        // The default path, whose folder the store creates too.
        let data = path.ancestors().nth(2).unwrap();
        let mut child = command.env("XDG_DATA_HOME", data).spawn().unwrap();
        for line in children::lines_of(&mut child) {
            let step = match line.split(' ').next() {
                Some("begun") => PowerStep::Begun(run_id),
                Some("added") => PowerStep::Added(run_id),
                Some("ended") => PowerStep::Ended(run_id),
                _ => continue,
            };
            acknowledged.push(StoreAcknowledged { changes: disk.changes(), step });
        }
        assert!(child.wait().unwrap().success(), "the writer failed, see above");
    }
    acknowledged
}

/// After a power cut the store is complete and holds every acknowledged step, or is missing if
/// there was none.
fn check(past: &Past, survivors: Survivors, steps: &[&PowerStep]) {
    // In memory, where a sync is free.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.unwrap();
    past.after_power_cut(survivors).copy_to(folder.path()).unwrap();
    let path = folder.path().join(PLACE);
    let after = || format!("after `{}` with {survivors:?}, last {:?}", past.last(), steps.last());
    match Store::open_existing(&path) {
        Ok(store) => check_content(&store, steps, true, &after),
        Err(StoreError::Missing { .. }) => assert!(steps.is_empty(), "no store {}", after()),
        Err(error) => panic!("{error} {}", after()),
    }
    // A writer can open it again, and SQLite then finds no damage.
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let store = Store::open(&path).unwrap_or_else(|error| panic!("{error} {}", after()));
    check_content(&store, steps, false, &after);
    drop(store);
    example::is_whole(&path);
}

fn check_content(store: &Store, steps: &[&PowerStep], samples: bool, after: &impl Fn() -> String) {
    for run_id in RUNS {
        let document = match store.document(run_id, samples) {
            Ok(document) => document,
            Err(StoreError::NoSuchRun { .. }) => {
                let begun =
                    steps.iter().any(|one| matches!(one, PowerStep::Begun(id) if *id == run_id));
                assert!(!begun, "run {run_id} is lost {}", after());
                continue;
            }
            Err(error) => panic!("{error} {}", after()),
        };
        let ended = steps.iter().any(|one| matches!(one, PowerStep::Ended(id) if *id == run_id));
        assert!(!ended || document.run.state == RunState::Complete, "no end {}", after());
        let added = steps.iter().filter(|one| matches!(one, PowerStep::Added(id) if *id == run_id));
        // In the order added, each once. There may be more: the changes are counted when the
        // acknowledgement arrives, and the writer continues meanwhile.
        let numbers: Vec<u64> = document.records.iter().map(example::number_of).collect();
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "{}", after());
        let (added, found) = (added.count(), numbers.len());
        assert!(found >= added, "{found} of {added} records are left {}", after());
        let last = document.records.last().filter(|_| samples);
        assert!(last.is_none_or(|last| *last == example::record(found as u64 - 1)));
    }
}

#[test]
fn slow_disk_is_awaited_and_bad_sector_named() {
    fathom_lab::isolate_mounts!();
    let disk = LabDisk::new();
    let folder = tempfile::tempdir().unwrap();
    let _mount = FuseMount::new(&disk, folder.path()).unwrap();
    let path = folder.path().join("fathom.db");
    drop(write(&disk, &path));
    let read = || {
        let part = ["read", path.to_str().unwrap(), RUNS[0]];
        let mut child = children::command(&[], &part).spawn().unwrap();
        let output: Vec<String> = children::lines_of(&mut child).collect();
        child.wait().unwrap();
        output[0].clone()
    };
    let whole = format!("read {}", RECORDS[usize::from(soak())]);
    let reads = disk.reads();
    disk.misbehave(Faults { read_delay: Duration::from_millis(1), ..Faults::default() });
    assert_eq!(read(), whole);
    assert!(disk.reads() > reads, "nothing was read from the disk");
    let length = path.metadata().unwrap().len();
    let mut named = 0;
    for at in (0..length).step_by(length as usize / [3, 7][usize::from(soak())]) {
        let unreadable = Some(("fathom.db".to_owned(), at..at + 512));
        disk.misbehave(Faults { unreadable, ..Faults::default() });
        let output = read();
        // The pages of the other run are not read.
        if output != whole {
            assert!(output.contains(path.to_str().unwrap()), "{output}");
            // SQLite reports some unreadable sectors as a corrupt database.
            let starts = ["error read", "error open"];
            assert!(starts.iter().any(|start| output.starts_with(start)), "{output}");
            let reasons = ["disk I/O error", "damaged"];
            assert!(reasons.iter().any(|reason| output.contains(reason)), "{output}");
            named += 1;
        }
    }
    assert!(named > 1, "no bad sector was read");
    disk.misbehave(Faults::default());
    assert_eq!(read(), whole, "reading with faults changed nothing");
}
