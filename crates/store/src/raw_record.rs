//! Reading a record from its row.

use std::fmt::Display;

use fathom_record::{Params, Record, Sample};

use crate::StoreError;
use crate::column::{bytes, parse};
use crate::database::DatabaseRow;

/// The first columns of every row of a record: run, id, record, metric, parameters.
pub(crate) const KEY_COLUMNS: &str =
    "run.number, run.id, record.number, record.metric, record.params";
/// The columns that follow for a whole record, and for one without its samples.
pub(crate) const WITH_SAMPLES: &str = "record.body, samples.body, samples.crc";
pub(crate) const WITHOUT_SAMPLES: &str = "record.body, NULL, NULL";

/// The record, if it matches its checksums.
pub(crate) fn read(row: &dyn DatabaseRow) -> Result<Record, StoreError> {
    let name = name(row);
    let mut record: Record = parse(bytes(row, 5)).map_err(|error| damaged(row, &name, error))?;
    if !record.is_intact() {
        return Err(damaged(row, &name, "checksum mismatch"));
    }
    if record.name() != name {
        let reason = format!("contains {}", record.name());
        return Err(damaged(row, &name, reason));
    }
    if let Some(crc) = row.integer(7).unwrap_or(Some(-1)) {
        let part = format!("the samples of {name}");
        let samples = bytes(row, 6);
        if i64::from(crc32fast::hash(samples)) != crc {
            return Err(damaged(row, &part, "checksum mismatch"));
        }
        let samples: Vec<Sample> = parse(samples).map_err(|error| damaged(row, &part, error))?;
        record.samples = Some(samples);
    }
    Ok(record)
}

/// The name by the key columns.
pub(crate) fn name(row: &dyn DatabaseRow) -> String {
    let text = |column| String::from_utf8_lossy(bytes(row, column));
    match parse::<Params>(bytes(row, 4)) {
        Ok(params) => format!("{}{params}", text(3)),
        Err(_) => format!("{}{}", text(3), text(4)),
    }
}

pub(crate) fn damaged(row: &dyn DatabaseRow, part: &str, reason: impl Display) -> StoreError {
    StoreError::damaged(&String::from_utf8_lossy(bytes(row, 1)), part, reason.to_string())
}
