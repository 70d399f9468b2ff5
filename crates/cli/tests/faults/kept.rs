//! What a store holds, held against what the program said.

use std::path::Path;

use fathom_record::{Document, Record};
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

/// The records of a text of `--jsonl`. A last line that was cut off acknowledges nothing.
pub(crate) fn records(text: &str) -> Vec<Record> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// Whether the run holds each of these records, as it was printed, and no case twice.
pub(crate) fn holds(run: &Document, printed: &[Record]) -> Result<(), String> {
    let mut names: Vec<String> = run.records.iter().map(Record::name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} is there twice", twice[0]));
    }
    for record in printed {
        let bare = |one: &Record| Record { samples: None, ..one.clone() };
        if !run.records.iter().any(|kept| bare(kept) == bare(record)) {
            return Err(format!("{} was printed and is not kept in {}", record.name(), run.run.id));
        }
    }
    Ok(())
}
