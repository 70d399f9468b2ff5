//! A record as it lies in its row.

use fathom_record::{Params, Record, Sample};
use rusqlite::Row;

use crate::StoreError;
use crate::column::{bytes, parse};

/// The first columns of every row of a record that is read.
pub(crate) const NAMING: &str = "run.number, run.id, record.number, record.metric, record.params";
/// Those that follow where it is read whole; [`NO_SAMPLES`] where its samples are not wanted.
pub(crate) const WHOLE: &str = "record.body, samples.body, samples.crc";
pub(crate) const NO_SAMPLES: &str = "record.body, NULL, NULL";

/// The record, where all of it fits its checksums.
pub(crate) fn read(row: &Row<'_>) -> Result<Record, StoreError> {
    let name = name(row);
    let damaged = |reason| damaged(row, &name, reason);
    let mut record: Record = parse(bytes(row, 5)).map_err(damaged)?;
    if !record.is_intact() {
        return Err(damaged("it does not fit its checksum".to_owned()));
    }
    if record.name() != name {
        return Err(damaged(format!("its content is that of {}", record.name())));
    }
    if let Some(crc) = row.get::<_, Option<i64>>(7).unwrap_or(Some(-1)) {
        let part = format!("the samples of {name}");
        let damaged = |reason| self::damaged(row, &part, reason);
        let samples = bytes(row, 6);
        if i64::from(crc32fast::hash(samples)) != crc {
            return Err(damaged("they do not fit their checksum".to_owned()));
        }
        let samples: Vec<Sample> = parse(samples).map_err(damaged)?;
        record.samples = Some(samples);
    }
    Ok(record)
}

/// The name by the columns, whatever the body says.
pub(crate) fn name(row: &Row<'_>) -> String {
    let text = |column| String::from_utf8_lossy(bytes(row, column));
    match parse::<Params>(bytes(row, 4)) {
        Ok(params) => format!("{}{params}", text(3)),
        Err(_) => format!("{}{}", text(3), text(4)),
    }
}

pub(crate) fn damaged(row: &Row<'_>, part: &str, reason: String) -> StoreError {
    StoreError::damaged(&String::from_utf8_lossy(bytes(row, 1)), part, reason)
}
