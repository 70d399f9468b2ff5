//! A writer is killed at random moments: what it was told is stored, is stored, once.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use fathom_record::RunState;
use fathom_store::{Store, StoreError};

use crate::example::{self, Digits};
use crate::{children, tell};

/// `FATHOM_KILLS=200` for the long proof.
const KILLS: u64 = 40;

/// More than any child gets to write.
const RECORDS_MAX: &str = "5000";

/// What one child was told before it was killed.
#[derive(Debug, Default)]
struct Told {
    run_id: String,
    open: bool,
    begun: bool,
    added: BTreeSet<u64>,
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_exactly_once() {
    let kills = std::env::var("FATHOM_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let (folder, path) = example::new_place();
    let mut digits = Digits(20_260_203);
    let mut journal = Vec::new();
    for kill in 0..kills {
        let run_id = format!("{:016x}", 0x1000 + kill);
        if kill % 4 == 3 {
            // A store of its own, to be killed while it is made.
            let own = folder.path().join(format!("{run_id}.db"));
            let told = kill_early(&own, &run_id, &mut digits);
            check_young(&own, &told);
        } else {
            let told = kill_late(&path, &run_id, &mut digits);
            check(&Store::open_existing(&path).unwrap(), &told);
            journal.push(told);
        }
    }
    let store = Store::open(&path).unwrap();
    for told in &journal {
        check(&store, told);
    }
    example::is_whole(&path);
    let added: usize = journal.iter().map(|told| told.added.len()).sum();
    let page = format!(
        "## The store alone: kills of a writer\n\n\
         {kills} kills, {} of them while the store was made; {added} records acknowledged, each \
         found once, as it was written; `integrity_check` ok.\n",
        kills - journal.len() as u64
    );
    tell("9-store-kills", &page);
    assert!(added >= journal.len(), "the kills came before there was anything to lose");
}

/// Kills after some acknowledgements and a moment more, which lies anywhere within the next few.
fn kill_late(path: &Path, run_id: &str, digits: &mut Digits) -> Told {
    let heard_max = digits.below(30);
    let moment = Duration::from_micros(digits.below(6000));
    kill(path, run_id, |lines, told| {
        while told.added.len() < heard_max as usize {
            hear(&lines.next().expect("the writer goes on until it is killed"), told);
        }
        sleep(moment);
    })
}

/// Kills while the program starts, the store is made or the first records are added.
fn kill_early(path: &Path, run_id: &str, digits: &mut Digits) -> Told {
    let moment = Duration::from_micros(1000 + digits.below(40_000));
    kill(path, run_id, |_, _| sleep(moment))
}

fn kill(
    path: &Path,
    run_id: &str,
    wait: impl FnOnce(&mut dyn Iterator<Item = String>, &mut Told),
) -> Told {
    let part = ["write", path.to_str().unwrap(), run_id, RECORDS_MAX];
    let mut child = children::command(&[], &part).spawn().unwrap();
    let mut lines = children::lines_of(&mut child);
    let mut told = Told { run_id: run_id.to_owned(), ..Told::default() };
    wait(&mut lines, &mut told);
    child.kill().unwrap();
    for line in lines {
        hear(&line, &mut told);
    }
    child.wait().unwrap();
    told
}

fn hear(line: &str, told: &mut Told) {
    match line.split_once(' ') {
        None if line == "opening" => {}
        None if line == "open" => told.open = true,
        None if line == "begun" => told.begun = true,
        Some(("added", number)) => assert!(told.added.insert(number.parse().unwrap())),
        _ => panic!("the writer was not killed, it said: {line}"),
    }
}

/// A store killed in its first milliseconds: whole, or not there, and either way usable.
fn check_young(path: &Path, told: &Told) {
    match Store::open_existing(path) {
        Ok(store) => check(&store, told),
        Err(StoreError::Missing { .. }) => assert!(!told.open, "an open store is no store"),
        Err(error) => panic!("after {told:?}: {error}"),
    }
    check(&Store::open(path).unwrap(), told);
    example::is_whole(path);
}

fn check(store: &Store, told: &Told) {
    let document = match store.document(&told.run_id, true) {
        Ok(document) => document,
        Err(StoreError::NoSuchRun { .. }) if !told.begun => return,
        Err(error) => panic!("after {told:?}: {error}"),
    };
    assert_eq!(document.run.state, RunState::Interrupted, "its process is gone");
    let mut found = BTreeSet::new();
    for record in &document.records {
        let number = example::number_of(record);
        assert!(found.insert(number), "record {number} is there twice");
        assert_eq!(*record, example::record(number), "as it was written, samples and all");
    }
    let lost: Vec<_> = told.added.difference(&found).collect();
    assert_eq!(lost, Vec::<&u64>::new(), "acknowledged in {} and lost", told.run_id);
    // The kill can fall between a commit and its acknowledgement.
    let unasked = found.difference(&told.added).count();
    assert!(unasked <= 1, "{unasked} records nobody was told of");
}
