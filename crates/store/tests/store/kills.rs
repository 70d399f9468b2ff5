//! A writer is killed at random moments: every acknowledged record is stored exactly once.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use fathom_record::RunState;
use fathom_store::{Store, StoreError};

use crate::example::{self, Digits};
use crate::{children, print_section};

/// `FATHOM_KILLS=200` for a long test.
const KILLS: u64 = 40;

/// More records than any child writes before it is killed.
const RECORDS_MAX: &str = "5000";

/// What the store acknowledged to one child before it was killed.
#[derive(Debug, Default)]
struct Acknowledged {
    run_id: String,
    open: bool,
    begun: bool,
    added: BTreeSet<u64>,
}

#[test]
fn acknowledged_records_survive_a_kill() {
    let kills = std::env::var("FATHOM_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let (folder, path) = example::new_path();
    let mut digits = Digits(20_260_203);
    let mut journal = Vec::new();
    for kill in 0..kills {
        let run_id = format!("{:016x}", 0x1000 + kill);
        if kill % 4 == 3 {
            // A store of its own, killed while it is created.
            let own = folder.path().join(format!("{run_id}.db"));
            let acknowledged = kill_early(&own, &run_id, &mut digits);
            check_new_store(&own, &acknowledged);
        } else {
            let acknowledged = kill_late(&path, &run_id, &mut digits);
            check(&Store::open_existing(&path).unwrap(), &acknowledged);
            journal.push(acknowledged);
        }
    }
    let store = Store::open(&path).unwrap();
    for acknowledged in &journal {
        check(&store, acknowledged);
    }
    example::is_whole(&path);
    let added: usize = journal.iter().map(|one| one.added.len()).sum();
    let section = format!(
        "## The store alone: kills of a writer\n\n\
         {kills} kills, {} of them while the store was created; {added} records acknowledged, \
         each found once and unchanged; `integrity_check` ok.\n",
        kills - journal.len() as u64
    );
    print_section("9-store-kills", &section);
    assert!(added >= journal.len(), "killed before any record was acknowledged");
}

/// Kills after some acknowledgements and a random delay within the next few.
fn kill_late(path: &Path, run_id: &str, digits: &mut Digits) -> Acknowledged {
    let lines_max = digits.below(30);
    let delay = Duration::from_micros(digits.below(6000));
    kill(path, run_id, |lines, acknowledged| {
        while acknowledged.added.len() < lines_max as usize {
            acknowledged.note(&lines.next().expect("the writer runs until it is killed"));
        }
        sleep(delay);
    })
}

/// Kills while the program starts, the store is created or the first records are added.
fn kill_early(path: &Path, run_id: &str, digits: &mut Digits) -> Acknowledged {
    let delay = Duration::from_micros(1000 + digits.below(40_000));
    kill(path, run_id, |_, _| sleep(delay))
}

fn kill(
    path: &Path,
    run_id: &str,
    wait: impl FnOnce(&mut dyn Iterator<Item = String>, &mut Acknowledged),
) -> Acknowledged {
    let part = ["write", path.to_str().unwrap(), run_id, RECORDS_MAX];
    let mut child = children::command(&[], &part).spawn().unwrap();
    let mut lines = children::lines_of(&mut child);
    let mut acknowledged = Acknowledged { run_id: run_id.to_owned(), ..Acknowledged::default() };
    wait(&mut lines, &mut acknowledged);
    child.kill().unwrap();
    for line in lines {
        acknowledged.note(&line);
    }
    child.wait().unwrap();
    acknowledged
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        match line.split_once(' ') {
            None if line == "opening" => {}
            None if line == "open" => self.open = true,
            None if line == "begun" => self.begun = true,
            Some(("added", number)) => assert!(self.added.insert(number.parse().unwrap())),
            _ => panic!("the writer was not killed and printed: {line}"),
        }
    }
}

/// A store killed in its first milliseconds is complete or missing, and in both cases usable.
fn check_new_store(path: &Path, acknowledged: &Acknowledged) {
    match Store::open_existing(path) {
        Ok(store) => check(&store, acknowledged),
        Err(StoreError::Missing { .. }) => assert!(!acknowledged.open, "the store is lost"),
        Err(error) => panic!("after {acknowledged:?}: {error}"),
    }
    check(&Store::open(path).unwrap(), acknowledged);
    example::is_whole(path);
}

fn check(store: &Store, acknowledged: &Acknowledged) {
    let document = match store.document(&acknowledged.run_id, true) {
        Ok(document) => document,
        Err(StoreError::NoSuchRun { .. }) if !acknowledged.begun => return,
        Err(error) => panic!("after {acknowledged:?}: {error}"),
    };
    assert_eq!(document.run.state, RunState::Interrupted, "its process was killed");
    let mut found = BTreeSet::new();
    for record in &document.records {
        let number = example::number_of(record);
        assert!(found.insert(number), "record {number} is stored twice");
        assert_eq!(*record, example::record(number), "unchanged, with its samples");
    }
    let lost: Vec<_> = acknowledged.added.difference(&found).collect();
    assert_eq!(lost, Vec::<&u64>::new(), "acknowledged in {} and lost", acknowledged.run_id);
    // The kill can fall between a commit and its acknowledgement.
    let unacknowledged = found.difference(&acknowledged.added).count();
    assert!(unacknowledged <= 1, "{unacknowledged} records were never acknowledged");
}
