//! Headlines: what a history needs of each record, as columns of a table beside it, so that no JSON
//! of records is read.
//!
//! A headline is written with its record, and its own checksum covers it and the case and run it
//! belongs to.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use fathom_record::{Headline, MetricId, Params};
use rusqlite::{Connection, Row, params};

use crate::StoreError;
use crate::column::{bytes, parse_word, word};
use crate::raw_record;

/// The columns of a headline, after those that name its record, and where they are.
pub(crate) const COLUMNS: &str =
    "unit, better, headline.state, value, low, high, bound, cut_short, headline.crc";
pub(crate) const JOINED: &str = "LEFT JOIN headline ON headline.record = record.number";

/// Stores the headline of the record in row `number` of a run.
pub(crate) fn insert(
    connection: &Connection,
    number: i64,
    run_id: &str,
    headline: &Headline,
) -> rusqlite::Result<()> {
    let [low, high] = headline.interval.map_or([None; 2], |ends| ends.map(Some));
    connection
        .prepare_cached("INSERT INTO headline VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?
        .execute(params![
            number,
            word(&headline.unit),
            word(&headline.better),
            word(&headline.state),
            headline.value,
            low,
            high,
            headline.bound,
            headline.cut_short,
            crc(run_id, headline),
        ])?;
    Ok(())
}

/// CRC-32 over a headline and the run it belongs to.
fn crc(run_id: &str, headline: &Headline) -> u32 {
    let Headline { metric, unit, better, state, cut_short, .. } = headline;
    // SQLite keeps no sign of a zero.
    let [value, bound] = [headline.value, headline.bound].map(|it| it.map(|number| number + 0.0));
    let interval = headline.interval.map(|ends| ends.map(|number| number + 0.0));
    let params = headline.params.as_ref();
    let covered = (run_id, metric, params, unit, better, state, value, interval, bound, cut_short);
    crc32fast::hash(&serde_json::to_vec(&covered).expect("a headline is plain data"))
}

/// Parameters by their text, which is that of the same few cases in every run.
pub(crate) type Cases = HashMap<Vec<u8>, Arc<Params>>;

/// The headline in a row of [`NAMING`] and [`COLUMNS`], or what is wrong with it.
pub(crate) fn read(row: &Row<'_>, cases: &mut Cases) -> Result<Headline, StoreError> {
    match decoded(row, cases) {
        Ok((headline, crc)) if row.get(13) == Ok(i64::from(crc)) => Ok(headline),
        _ => {
            let reason = "its headline does not fit its checksum";
            Err(raw_record::damaged(row, &raw_record::name(row), reason))
        }
    }
}

/// A headline, and the checksum it should have.
fn decoded(row: &Row<'_>, cases: &mut Cases) -> Result<(Headline, u32), Box<dyn Error>> {
    let text = bytes(row, 4);
    if !cases.contains_key(text) {
        cases.insert(text.to_owned(), Arc::new(serde_json::from_slice(text)?));
    }
    let headline = Headline {
        metric: MetricId::new(row.get::<_, String>(3)?),
        params: Arc::clone(&cases[text]),
        unit: parse_word(row.get(5)?)?,
        better: parse_word(row.get(6)?)?,
        state: parse_word(row.get(7)?)?,
        value: row.get(8)?,
        interval: row.get::<_, Option<f64>>(9)?.zip(row.get(10)?).map(<[f64; 2]>::from),
        bound: row.get(11)?,
        cut_short: row.get(12)?,
    };
    let crc = crc(&row.get::<_, String>(1)?, &headline);
    Ok((headline, crc))
}
