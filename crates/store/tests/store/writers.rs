//! Several threads on one store, and a killed process.

use std::sync::atomic::{AtomicU64, Ordering};

use fathom_record::{Run, RunState};
use fathom_store::{Keep, Store};
use rustix::process::{WaitId, WaitIdOptions};

use crate::{children, example};

/// Of fifty processes at once, as the runs of a cluster end.
#[test]
pub(crate) fn fifty_writers_store_each_record_once() {
    let (_folder, place) = example::new_place();
    drop(Store::open(&place).unwrap());
    let ids: Vec<String> = (0..50).map(|n| format!("{n:016x}")).collect();
    let write = |id: &str| {
        let mut store = example::store_at(&place, id, 3);
        store.update_run(&Run { state: RunState::Complete, ..example::run(id) }).unwrap();
    };
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| write(id));
        }
    });
    let store = Store::open_existing(&place).unwrap();
    let mut stored: Vec<String> = store.runs().unwrap().into_iter().map(|run| run.id).collect();
    stored.sort_unstable();
    assert_eq!(stored, ids);
    for id in &ids {
        let document = store.document(id, true).unwrap();
        assert_eq!(document.records, example::records(3), "{id}");
        assert_eq!(document.run.state, RunState::Complete);
    }
    assert_eq!(example::history(&store).len(), 50);
    example::is_whole_place(&place);
}

/// What is written meanwhile is whole, and nothing is gone but what was pruned.
#[test]
pub(crate) fn prune_while_others_write_deletes_what_it_listed_only() {
    const WRITERS: u64 = 4;
    const RUNS: u64 = 8;
    let (_folder, place) = example::new_place();
    drop(Store::open(&place).unwrap());
    let writing = AtomicU64::new(WRITERS);
    let write = &|writer: u64| {
        for number in 0..RUNS {
            let id = format!("{:016x}", writer * RUNS + number);
            let mut store = example::store_at(&place, &id, 3);
            let state = RunState::Complete;
            store.update_run(&Run { state, ..example::run(&id) }).unwrap();
        }
        writing.fetch_sub(1, Ordering::Relaxed);
    };
    let prune = || {
        let mut store = Store::open(&place).unwrap();
        let mut pruned = 0;
        while writing.load(Ordering::Relaxed) > 0 {
            let old = store.old_runs(&Keep::Newest(2)).unwrap();
            store.prune(&old, true).unwrap();
            pruned += old.len();
        }
        pruned
    };
    let pruned = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
        scope.spawn(prune).join().unwrap()
    });
    let store = Store::open_existing(&place).unwrap();
    let left = store.runs().unwrap();
    assert_eq!(left.len() + pruned, (WRITERS * RUNS) as usize);
    assert!(pruned > 0 && left.len() >= 2, "{pruned} pruned, {} left", left.len());
    for run in left {
        assert_eq!(store.document(&run.id, true).unwrap().records, example::records(3));
    }
    example::is_whole_place(&place);
}

#[test]
fn concurrent_opens_create_one_store() {
    for _ in 0..4 {
        let (_folder, path) = example::new_path();
        let ids: Vec<String> = (0..6).map(|n| format!("{n:016x}")).collect();
        std::thread::scope(|scope| {
            for id in &ids {
                scope.spawn(|| drop(example::store_at(&path, id, 0)));
            }
        });
        assert_eq!(Store::open_existing(&path).unwrap().runs().unwrap().len(), ids.len());
    }
}

#[test]
fn run_of_a_killed_process_is_interrupted() {
    let (_folder, path) = example::new_path();
    let part = ["write", path.to_str().unwrap(), "00000000000000cc", "1000000"];
    let mut child = children::command(&[], &part).spawn().unwrap();
    // Kept until the end: the child would be killed by SIGPIPE without its reader.
    let mut lines = children::lines_of(&mut child);
    assert!(lines.any(|line| line == "begun"));
    let state = || {
        let store = Store::open_existing(&path).unwrap();
        let listed = store.runs().unwrap()[0].state;
        let shown = store.document("00000000000000cc", false).unwrap();
        assert_eq!(listed, shown.run.state);
        listed
    };
    assert_eq!(state(), RunState::Running);
    child.kill().unwrap();
    // A zombie until it is waited for, and no longer running.
    let id = rustix::process::Pid::from_child(&child);
    let flags = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(id), flags).unwrap();
    assert_eq!(state(), RunState::Interrupted);
    child.wait().unwrap();
    assert_eq!(state(), RunState::Interrupted);
}
