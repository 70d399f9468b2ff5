//! The power fails: on a disk that keeps nothing but what was synced, everything acknowledged is
//! there afterwards, whenever it happens.

use std::path::Path;
use std::time::Duration;

use fathom_lab::disk::{Disk, Faults, Past, Survivors};
use fathom_lab::fuse::Mount;
use fathom_lab::mounts;
use fathom_lab::seeded::Seeded;
use fathom_record::RunState;
use fathom_store::{Store, StoreError};
use rusqlite::Connection;

use crate::{children, example, tell};

/// How often the power is cut, and how many records a run has by then: enough in the long proof
/// that SQLite takes its log over into the file while the run goes on.
const CUTS: [usize; 2] = [50, 1000];
const RECORDS: [u64; 2] = [25, 120];

/// Where the store lies on the disk: below folders that are made with it.
const PLACE: &str = "share/fathom/fathom.db";

const RUNS: [&str; 2] = ["0000019514ab3c5d", "0000019514ab3c5e"];

/// What was acknowledged, and how many changes the disk had seen by then.
struct Acknowledged {
    changes: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Begun(&'static str),
    Added(&'static str),
    Ended(&'static str),
}

fn soak() -> bool {
    std::env::var_os("FATHOM_SOAK").is_some()
}

fn inside(test: &str) -> bool {
    mounts::inside(test, |said| println!("{said}"))
}

#[test]
fn what_was_acknowledged_before_a_power_cut_is_there_after_it() {
    if inside("power::what_was_acknowledged_before_a_power_cut_is_there_after_it") {
        cut_the_power(Faults::default(), "wal");
    }
}

/// There the log has no index, and a rollback journal takes its place.
#[test]
fn a_power_cut_loses_nothing_where_files_cannot_be_mapped_either() {
    if inside("power::a_power_cut_loses_nothing_where_files_cannot_be_mapped_either") {
        cut_the_power(Faults { uncached: true, ..Faults::default() }, "journal");
    }
}

fn cut_the_power(faults: Faults, beside: &str) {
    let disk = Disk::recording();
    disk.misbehave(faults);
    let folder = tempfile::tempdir().unwrap();
    let mount = Mount::new(&disk, folder.path()).unwrap();
    let acknowledged = write(&disk, &folder.path().join(PLACE));
    drop(mount);
    let changes = disk.changes();
    let cuts = CUTS[usize::from(soak())];
    let mut past = disk.past();
    let mut seeds = Seeded(20_260_203);
    let (mut empty, mut met, mut checked) = (0, false, 0);
    for cut in (0..cuts).map(|at| at * changes / (cuts - 1)) {
        past.go_to(cut);
        met |= past.last().contains(&format!("fathom.db-{beside}"));
        let told = acknowledged.iter().take_while(|one| one.changes <= cut);
        let told: Vec<&What> = told.map(|one| &one.what).collect();
        empty += usize::from(told.is_empty());
        for survivors in [Survivors::None, Survivors::Some(seeds.any()), Survivors::All] {
            check(&past, survivors, &told);
            checked += told.len();
        }
    }
    let (kept, all) = (acknowledged.len(), 3 * cuts);
    let page = format!(
        "## The store alone: power cuts, with a {beside}\n\n\
         {all} cuts at {cuts} of {changes} changes of the disk, each with nothing, some and all of \
         the unsynced left. {kept} words were acknowledged; those before a cut were asked for \
         after it, {checked} times in all, and the test fails at the first that is missing.\n"
    );
    tell(&format!("9-store-power-{beside}"), &page);
    assert!(empty > 0 && empty < cuts / 2, "the moments cover the begin and the rest: {empty}");
    assert!(met, "no {beside} was written");
}

/// Two runs of two processes, each closing the store at its end.
fn write(disk: &Disk, path: &Path) -> Vec<Acknowledged> {
    let records = RECORDS[usize::from(soak())].to_string();
    let mut told = Vec::new();
    for run_id in RUNS {
        let part = ["write", path.to_str().unwrap(), run_id, &records];
        let mut command = children::command(&[], &part);
        // The default place, whose folder the store makes too.
        let data = path.ancestors().nth(2).unwrap();
        let mut child = command.env("XDG_DATA_HOME", data).spawn().unwrap();
        for line in children::lines_of(&mut child) {
            let what = match line.split(' ').next() {
                Some("begun") => What::Begun(run_id),
                Some("added") => What::Added(run_id),
                Some("ended") => What::Ended(run_id),
                _ => continue,
            };
            told.push(Acknowledged { changes: disk.changes(), what });
        }
        assert!(child.wait().unwrap().success(), "the writer failed, see above");
    }
    told
}

/// After a power cut the store is whole and holds what was told; or is not there, where nothing
/// was.
fn check(past: &Past, survivors: Survivors, told: &[&What]) {
    // In memory, where a sync costs nothing.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.unwrap();
    past.after_power_cut(survivors).copy_to(folder.path()).unwrap();
    let path = folder.path().join(PLACE);
    let after = || format!("after `{}` with {survivors:?}, told {:?}", past.last(), told.last());
    match Store::open_existing(&path) {
        Ok(store) => check_content(&store, told, true, &after),
        Err(StoreError::Missing { .. }) => assert!(told.is_empty(), "no store {}", after()),
        Err(error) => panic!("{error} {}", after()),
    }
    // It can be written again, and is then as whole as SQLite can tell.
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let store = Store::open(&path).unwrap_or_else(|error| panic!("{error} {}", after()));
    check_content(&store, told, false, &after);
    drop(store);
    let connection = Connection::open(&path).unwrap();
    let answer: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok", "{}", after());
}

fn check_content(store: &Store, told: &[&What], samples: bool, after: &impl Fn() -> String) {
    for run_id in RUNS {
        let document = match store.document(run_id, samples) {
            Ok(document) => document,
            Err(StoreError::NoSuchRun { .. }) => {
                let begun = told.iter().any(|one| matches!(one, What::Begun(id) if *id == run_id));
                assert!(!begun, "run {run_id} is lost {}", after());
                continue;
            }
            Err(error) => panic!("{error} {}", after()),
        };
        let ended = told.iter().any(|one| matches!(one, What::Ended(id) if *id == run_id));
        assert!(!ended || document.run.state == RunState::Complete, "no end {}", after());
        let added = told.iter().filter(|one| matches!(one, What::Added(id) if *id == run_id));
        // In the order they were added, each once. There may be more: the disk is asked when the
        // acknowledgement is heard, and the writer goes on.
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
fn a_slow_disk_is_waited_for_and_a_sector_that_cannot_be_read_is_named() {
    if !inside("power::a_slow_disk_is_waited_for_and_a_sector_that_cannot_be_read_is_named") {
        return;
    }
    let disk = Disk::new();
    let folder = tempfile::tempdir().unwrap();
    let _mount = Mount::new(&disk, folder.path()).unwrap();
    let path = folder.path().join("fathom.db");
    drop(write(&disk, &path));
    let read = || {
        let part = ["read", path.to_str().unwrap(), RUNS[0]];
        let mut child = children::command(&[], &part).spawn().unwrap();
        let said: Vec<String> = children::lines_of(&mut child).collect();
        child.wait().unwrap();
        said[0].clone()
    };
    let whole = format!("read {}", RECORDS[usize::from(soak())]);
    let reads = disk.reads();
    disk.misbehave(Faults { read_delay: Duration::from_millis(1), ..Faults::default() });
    assert_eq!(read(), whole);
    assert!(disk.reads() > reads, "nothing was read from the disk");
    let length = path.metadata().unwrap().len();
    let mut named = 0;
    for at in (0..length).step_by(length as usize / 7) {
        let unreadable = Some(("fathom.db".to_owned(), at..at + 512));
        disk.misbehave(Faults { unreadable, ..Faults::default() });
        let said = read();
        // The other run's pages are not looked at.
        if said != whole {
            assert!(said.contains(path.to_str().unwrap()), "{said}");
            // SQLite takes some sectors that cannot be read for damage.
            let causes = ["error read", "error open"].iter().any(|cause| said.starts_with(cause));
            assert!(causes && ["disk I/O error", "damaged"].iter().any(|one| said.contains(one)));
            named += 1;
        }
    }
    assert!(named > 1, "no bad sector was met");
    disk.misbehave(Faults::default());
    assert_eq!(read(), whole, "nothing was harmed by trying");
}
