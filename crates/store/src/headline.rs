//! Headlines: the columns that a history needs of each record, in a table of their own, so that a
//! history parses no JSON of records.
//!
//! A headline is written with its record. Its checksum covers it, its case and its run id.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use fathom_record::{Headline, MetricId, Params};

use crate::StoreError;
use crate::column::{bytes, parse_word, text, word};
use crate::database::{Database, DatabaseRow, values};
use crate::raw_record;

/// The columns of a headline, after those of [`raw_record::KEY_COLUMNS`].
pub(crate) const COLUMNS: &str =
    "unit, better, headline.state, value, low, high, bound, cut_short, stratum, found, found_low,
     found_high, headline.crc";
pub(crate) const JOIN: &str = "LEFT JOIN headline ON headline.record = record.number";

/// Inserts the headline of the record in row `number`.
pub(crate) fn insert(
    database: &dyn Database,
    number: i64,
    run_id: &str,
    headline: &Headline,
) -> Result<(), StoreError> {
    let ends = |interval: Option<[f64; 2]>| interval.map_or([None; 2], |ends| ends.map(Some));
    let [low, high] = ends(headline.interval);
    let [found_low, found_high] = ends(headline.as_found_interval);
    let insert = "INSERT INTO headline VALUES
        (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    let [unit, better] = [word(&headline.unit), word(&headline.better)];
    let [state, stratum] = [word(&headline.state), word(&headline.stratum)];
    let arguments = values![
        number,
        &unit,
        &better,
        &state,
        headline.value,
        low,
        high,
        headline.bound,
        headline.cut_short,
        &stratum,
        headline.as_found,
        found_low,
        found_high,
        crc(run_id, headline),
    ];
    database.execute(insert, arguments)
}

/// CRC-32 of a headline and the id of its run.
fn crc(run_id: &str, headline: &Headline) -> u32 {
    let Headline { metric, unit, better, state, cut_short, stratum, .. } = headline;
    // SQLite does not keep the sign of a zero.
    let numbers = [headline.value, headline.bound, headline.as_found];
    let numbers = numbers.map(|it| it.map(|number| number + 0.0));
    let intervals = [headline.interval, headline.as_found_interval];
    let intervals = intervals.map(|it| it.map(|ends| ends.map(|number| number + 0.0)));
    let case = (metric, headline.params.as_ref(), unit, better);
    let covered = (run_id, case, state, numbers, intervals, cut_short, stratum);
    crc32fast::hash(&serde_json::to_vec(&covered).expect("a headline is plain data"))
}

/// Parameters by their JSON text, shared by all headlines of a case.
pub(crate) type Cases = HashMap<Vec<u8>, Arc<Params>>;

/// Reads the headline from a row of [`raw_record::KEY_COLUMNS`] and [`COLUMNS`].
pub(crate) fn read(row: &dyn DatabaseRow, cases: &mut Cases) -> Result<Headline, StoreError> {
    match decode(row, cases) {
        Ok((headline, crc)) if row.integer(17)? == Some(i64::from(crc)) => Ok(headline),
        _ => {
            let reason = "headline checksum mismatch";
            Err(raw_record::damaged(row, &raw_record::name(row), reason))
        }
    }
}

/// A headline and its expected checksum.
fn decode(row: &dyn DatabaseRow, cases: &mut Cases) -> Result<(Headline, u32), Box<dyn Error>> {
    let params = bytes(row, 4);
    if !cases.contains_key(params) {
        cases.insert(params.to_owned(), Arc::new(serde_json::from_slice(params)?));
    }
    let interval = |at: usize| -> Result<Option<[f64; 2]>, StoreError> {
        Ok(row.real(at)?.zip(row.real(at + 1)?).map(<[f64; 2]>::from))
    };
    let headline = Headline {
        metric: MetricId::new(text(row, 3)),
        params: Arc::clone(&cases[params]),
        unit: parse_word(text(row, 5))?,
        better: parse_word(text(row, 6))?,
        state: parse_word(text(row, 7))?,
        value: row.real(8)?,
        interval: interval(9)?,
        bound: row.real(11)?,
        cut_short: row.integer(12)?.ok_or("no flag")? != 0,
        stratum: parse_word(text(row, 13))?,
        as_found: row.real(14)?,
        as_found_interval: interval(15)?,
    };
    let crc = crc(&text(row, 1), &headline);
    Ok((headline, crc))
}
