//! The contents of a store, compared with the output of the program.

use std::path::Path;

use fathom_record::{Document, Record, RunState};
use fathom_store::{Store, StoreError};

/// All runs of a store, the newest first, after SQLite's integrity check.
pub(crate) fn runs(store: &Path) -> Result<Vec<Document>, String> {
    let read = || -> Result<Vec<Document>, StoreError> {
        let store = Store::open_existing(store)?;
        store.runs()?.iter().map(|row| store.document(&row.id, true)).collect()
    };
    let runs = read().map_err(|error| error.to_string())?;
    let connection = rusqlite::Connection::open(store).map_err(|error| error.to_string())?;
    let integrity: rusqlite::Result<String> =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
    match integrity {
        Ok(word) if word == "ok" => Ok(runs),
        other => Err(format!("integrity_check: {other:?}")),
    }
}

/// The records of `--jsonl`, each in its last version: the end of a run may classify visits again.
/// A truncated last line acknowledges nothing.
pub(crate) fn records(text: &str) -> Vec<Record> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let is_record = |line: &&str| line.starts_with('{') && line.contains("\"verdict\":");
    let lines = whole.lines().filter(is_record);
    last_versions(lines.map(|line| serde_json::from_str(line).expect("a record")))
}

pub(crate) fn last_versions(printed: impl Iterator<Item = Record>) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for new in printed {
        match records.iter_mut().find(|known| known.name() == new.name()) {
            Some(known) => *known = new,
            None => records.push(new),
        }
    }
    records
}

/// Checks that the run has each of these records as it was printed, and no case twice.
pub(crate) fn check(run: &Document, printed: &[Record]) -> Result<(), String> {
    let mut names: Vec<String> = run.records.iter().map(Record::name).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} is stored twice", pair[0]));
    }
    let bare = |one: &Record| Record { samples: None, ..one.clone() };
    // An interrupted run may have classified visits again without printing that.
    let is_whole = run.run.state == RunState::Complete;
    let is_same = |stored: &Record, record: &Record| match is_whole {
        true => bare(stored) == bare(record),
        false => stored.name() == record.name(),
    };
    let is_lost = |record: &&Record| !run.records.iter().any(|stored| is_same(stored, record));
    match printed.iter().find(is_lost) {
        Some(lost) => Err(format!("{} was printed and is not in run {}", lost.name(), run.run.id)),
        None => Ok(()),
    }
}
