//! Several processes and threads on one store.

use fathom_record::RunState;
use fathom_store::Store;
use rustix::process::{WaitId, WaitIdOptions};

use crate::{children, example};

const RECORDS: usize = 100;

#[test]
fn two_concurrent_writers_lose_nothing() {
    let (_folder, path) = example::new_path();
    let runs = ["00000000000000aa", "00000000000000bb"];
    let records = RECORDS.to_string();
    let mut children: Vec<_> = runs
        .iter()
        .map(|run_id| {
            let part = ["write", path.to_str().unwrap(), run_id, &records];
            children::command(&[], &part).spawn().unwrap()
        })
        .collect();
    let mut outputs: Vec<_> = children.iter_mut().map(children::lines_of).collect();
    // In turn, so that both write at the same time.
    let mut added = [0, 0];
    while added != [RECORDS, RECORDS] {
        for (writer, lines) in outputs.iter_mut().enumerate() {
            if added[writer] < RECORDS {
                let line = lines.next().expect("the writer runs to its end");
                added[writer] += usize::from(line.starts_with("added"));
            }
        }
        for row in Store::open_existing(&path).map_or_else(|_| vec![], |s| s.runs().unwrap()) {
            assert!(row.counts.total() as usize <= RECORDS);
        }
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let store = Store::open_existing(&path).unwrap();
    for run_id in runs {
        let document = store.document(run_id, true).unwrap();
        let expected = example::records(RECORDS as u64);
        assert!(document.records == expected, "run {run_id} differs from what was written");
    }
}

#[test]
fn concurrent_opens_create_one_store() {
    for _ in 0..20 {
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
