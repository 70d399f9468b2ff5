//! What a store holds, held against what the program said.

use std::path::Path;

use fathom_record::{Document, Record, RunState};
use fathom_store::{Store, StoreError};

/// All runs of a store, the newest first, with what SQLite says of the file.
pub(crate) fn runs(store: &Path) -> Result<Vec<Document>, String> {
    let read = || -> Result<Vec<Document>, StoreError> {
        let store = Store::open_existing(store)?;
        store.runs()?.iter().map(|row| store.document(&row.id, true)).collect()
    };
    let runs = read().map_err(|error| error.to_string())?;
    let connection = rusqlite::Connection::open(store).map_err(|error| error.to_string())?;
    let whole: rusqlite::Result<String> =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
    match whole {
        Ok(word) if word == "ok" => Ok(runs),
        other => Err(format!("integrity_check: {other:?}")),
    }
}

/// The records of a text of `--jsonl`, each as it was printed last: the end of a run may classify
/// visits again. A last line that was cut off acknowledges nothing.
pub(crate) fn records(text: &str) -> Vec<Record> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| line.starts_with('{'));
    let mut records: Vec<Record> = Vec::new();
    for line in lines {
        let new: Record = serde_json::from_str(line).expect("a record");
        match records.iter_mut().find(|known| known.name() == new.name()) {
            Some(known) => *known = new,
            None => records.push(new),
        }
    }
    records
}

/// Of a run: the cases that it holds more than once, and the records that were printed and are not
/// kept as they were printed.
pub(crate) fn tally(run: &Document, printed: &[Record]) -> [Vec<String>; 2] {
    let mut names: Vec<String> = run.records.iter().map(Record::name).collect();
    names.sort();
    let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
    let bare = |one: &Record| Record { samples: None, ..one.clone() };
    // A run that was cut off may have been classified again, and not have said so any more.
    let is_whole = run.run.state == RunState::Complete;
    let is_it = |kept: &Record, record: &Record| match is_whole {
        true => bare(kept) == bare(record),
        false => kept.name() == record.name(),
    };
    let kept = |record: &Record| run.records.iter().any(|kept| is_it(kept, record));
    let lost = printed.iter().filter(|record| !kept(record));
    [twice.map(|pair| pair[0].clone()).collect(), lost.map(Record::name).collect()]
}

/// Whether the run holds each of these records, as it was printed, and no case twice.
pub(crate) fn holds(run: &Document, printed: &[Record]) -> Result<(), String> {
    match tally(run, printed) {
        [twice, _] if !twice.is_empty() => Err(format!("{} is there twice", twice.join(", "))),
        [_, lost] if !lost.is_empty() => {
            let (lost, run) = (lost.join(", "), &run.run.id);
            Err(format!("{lost} was printed and is not kept in {run}"))
        }
        _ => Ok(()),
    }
}
