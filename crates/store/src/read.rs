//! Reading: the list of runs, one run whole, and many runs in short. What is read is checked first.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fathom_record::{Counts, Document, Effort, Outline, Run, RunState, SCHEMA_VERSION, State};
use rusqlite::{Connection, Row, ToSql};

use crate::column::{bytes, parse, parse_word};
use crate::headline::{self, Cases};
use crate::liveness::{Owner, PROC};
use crate::raw_record::{self, NAMING, NO_SAMPLES, WHOLE};
use crate::run_name::LABEL;
use crate::{Store, StoreError};

/// One run in the list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub id: String,
    /// Its label, where it has one.
    pub label: Option<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// When it ended, where it did.
    pub ended: Option<String>,
    /// How far it came; interrupted where its process is gone without a word.
    pub state: RunState,
    /// How thoroughly.
    pub effort: Effort,
    /// The host's name.
    pub host_name: String,
    /// The host's id, where it has one.
    pub host_id: Option<String>,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model.
    pub cpu_model: String,
    /// Its records by verdict.
    pub counts: Counts,
}

/// What was read, and what is damaged and was left out.
type Sound<T> = (Vec<T>, Vec<StoreError>);

/// A run without its records, and the number of its row.
type Head = (i64, Result<Document, StoreError>);

/// The runs that have records of a metric, and those records.
const OF_METRIC: [&str; 2] = [
    "EXISTS (SELECT 1 FROM record WHERE record.run = run.number AND record.metric = ?1)",
    "record.metric = ?1",
];

impl RunRow {
    /// What the host is [known by](fathom_record::Host::identity).
    pub fn host(&self) -> &str {
        self.host_id.as_deref().unwrap_or(&self.host_name)
    }
}

impl Store {
    /// The runs, newest first: in the order of their ids, which sort by time. Nothing is
    /// checked, and of JSON only the label is read.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn runs(&self) -> Result<Vec<RunRow>, StoreError> {
        let count = |state: State| {
            let word = state.word();
            format!("(SELECT count(*) FROM record WHERE run = run.number AND verdict = '{word}')")
        };
        let query = format!(
            "SELECT id, started, ended, state, effort, host_name, kernel, cpu_model,
                pid, pid_start_ticks, boot_id, {}, {}, {}, {}, {}, {LABEL}, host_id
             FROM run ORDER BY id DESC",
            count(State::Valid),
            count(State::Noisy),
            count(State::Unavailable),
            count(State::Invalid),
            count(State::Failed),
        );
        let read = || {
            let mut statement = self.connection.prepare_cached(&query)?;
            let rows = statement.query_map([], run_row)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| self.failed("read", error))
    }

    /// One run whole, with its records in the order they were stored; `run_id` is a whole id, as
    /// [`Store::resolve`] gives it. Without samples they are not read, and so not checked.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] where anything does not fit its checksum;
    /// where reading fails.
    pub fn document(&self, run_id: &str, with_samples: bool) -> Result<Document, StoreError> {
        match self.documents(["run.id = ?1", "true"], &[&run_id], with_samples)?.pop() {
            Some(document) => document,
            None => Err(self.no_such_run(run_id)?),
        }
    }

    /// All runs that have records of a metric, oldest first, with those records only and without
    /// samples. What is damaged is left out, and named by the second value.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn of_metric(&self, metric: &str) -> Result<Sound<Document>, StoreError> {
        Ok(sound(self.documents(OF_METRIC, &[&metric], false)?))
    }

    /// The same runs with the headlines of those records alone, which is many times faster. What
    /// is damaged is left out, and named by the second value: one damaged run must not take the
    /// history of the rest.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn history(&self, metric: &str) -> Result<Sound<Outline>, StoreError> {
        self.outlines(OF_METRIC, &[&metric])
    }

    /// The newest runs of a host at one effort, oldest first, at most so many; else as
    /// [`Store::history`]. The host is known by its [`identity`](fathom_record::Host::identity).
    ///
    /// # Errors
    /// Where reading fails.
    pub fn newest_of(
        &self,
        host: &str,
        effort: Effort,
        runs_max: u32,
    ) -> Result<Sound<Outline>, StoreError> {
        let newest = "run.number IN (SELECT number FROM run WHERE coalesce(host_id, host_name) = ?1
            AND effort = ?2 ORDER BY id DESC LIMIT ?3)";
        self.outlines([newest, "true"], &[&host, &effort.word(), &runs_max])
    }

    fn outlines(
        &self,
        conditions: [&str; 2],
        arguments: &[&dyn ToSql],
    ) -> Result<Sound<Outline>, StoreError> {
        let mut cases = Cases::new();
        let read = |row: &Row<'_>| headline::read(row, &mut cases);
        let made = |document, headlines| Outline { document, headlines };
        let beside = [headline::COLUMNS, headline::JOINED];
        Ok(sound(self.runs_with(conditions, arguments, beside, read, made)?))
    }

    fn documents(
        &self,
        conditions: [&str; 2],
        arguments: &[&dyn ToSql],
        with_samples: bool,
    ) -> Result<Vec<Result<Document, StoreError>>, StoreError> {
        let read = |row: &Row<'_>| raw_record::read(row);
        let made = |document, records| Document { records, ..document };
        let beside = match with_samples {
            true => [WHOLE, "LEFT JOIN samples ON samples.record = record.number"],
            false => [NO_SAMPLES, ""],
        };
        self.runs_with(conditions, arguments, beside, read, made)
    }

    /// The runs that fit one condition, oldest first, with what is read of their records that fit
    /// another, in the order in which they were stored: columns, some of them of a table that is
    /// joined.
    fn runs_with<T, R>(
        &self,
        [of_runs, of_records]: [&str; 2],
        arguments: &[&dyn ToSql],
        [columns, joined]: [&str; 2],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
        made: impl Fn(Document, Vec<T>) -> R,
    ) -> Result<Vec<Result<R, StoreError>>, StoreError> {
        // CROSS, so that SQLite looks records up by run and metric and does not pass over all.
        let query = format!(
            "SELECT {NAMING}, {columns} FROM run CROSS JOIN record ON record.run = run.number
             {joined} WHERE {of_runs} AND {of_records}"
        );
        let mut work = || {
            // One view of the store for all tables, whatever is written meanwhile.
            let view = self.connection.unchecked_transaction()?;
            let heads = heads(&view, of_runs, arguments)?;
            let mut statement = view.prepare_cached(&query)?;
            let mut rows = statement.query(arguments)?;
            let mut by_run = HashMap::<i64, BTreeMap<i64, _>>::new();
            while let Some(row) = rows.next()? {
                by_run.entry(row.get(0)?).or_default().insert(row.get(2)?, read(row));
            }
            let runs = heads.into_iter().map(|(number, document)| {
                let records = by_run.remove(&number).unwrap_or_default().into_values();
                Ok(made(document?, records.collect::<Result<_, _>>()?))
            });
            Ok(runs.collect())
        };
        work().map_err(|error| self.failed("read", error))
    }
}

/// Parts what could be read from what is damaged.
fn sound<R>(runs: Vec<Result<R, StoreError>>) -> Sound<R> {
    let (mut sound, mut damaged) = (Vec::new(), Vec::new());
    for run in runs {
        match run {
            Ok(run) => sound.push(run),
            Err(error) => damaged.push(error),
        }
    }
    (sound, damaged)
}

/// The runs that fit a condition, oldest first.
fn heads(
    connection: &Connection,
    condition: &str,
    arguments: &[&dyn ToSql],
) -> rusqlite::Result<Vec<Head>> {
    let query = format!(
        "SELECT number, id, pid, pid_start_ticks, boot_id, tool, body, host, far, crc
         FROM run WHERE {condition} ORDER BY id"
    );
    let mut statement = connection.prepare_cached(&query)?;
    statement.query_map(arguments, head)?.collect()
}

fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let owner = Owner { pid: row.get(2)?, start_ticks: row.get(3)?, boot_id: row.get(4)? };
    let texts = [5, 6, 7, 8].map(|column| bytes(row, column));
    let decoded = || {
        let [tool, body, host, far] = texts;
        let run: Run = parse(body)?;
        let run = Run { state: shown(run.state, &owner), ..run };
        let (tool, host, far) = (parse(tool)?, parse(host)?, parse(far)?);
        Ok(Document { schema: SCHEMA_VERSION, tool, run, host, far, records: Vec::new() })
    };
    let id: String = row.get(1)?;
    let damaged = |reason| StoreError::damaged(&id, "the row of the run", reason);
    let document = match i64::from(run_crc(texts)) == row.get::<_, i64>(9)? {
        true => decoded().map_err(|error: serde_json::Error| damaged(error.to_string())),
        false => Err(damaged("it does not fit its checksum".to_owned())),
    };
    Ok((row.get(0)?, document))
}

/// CRC-32 over the texts of a run's row, each ended by a zero byte, which JSON never holds.
pub(crate) fn run_crc(texts: [&[u8]; 4]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for text in texts {
        hasher.update(text);
        hasher.update(&[0]);
    }
    hasher.finalize()
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let owner = Owner { pid: row.get(8)?, start_ticks: row.get(9)?, boot_id: row.get(10)? };
    // An unknown word means a damaged row; nothing says that run was complete.
    let state = parse_word(row.get(3)?).unwrap_or(RunState::Interrupted);
    Ok(RunRow {
        id: row.get(0)?,
        started: row.get(1)?,
        ended: row.get(2)?,
        state: shown(state, &owner),
        effort: parse_word(row.get(4)?).unwrap_or_default(),
        host_name: row.get(5)?,
        kernel: row.get(6)?,
        cpu_model: row.get(7)?,
        counts: Counts {
            valid: row.get(11)?,
            noisy: row.get(12)?,
            unavailable: row.get(13)?,
            invalid: row.get(14)?,
            failed: row.get(15)?,
        },
        label: row.get(16)?,
        host_id: row.get(17)?,
    })
}

/// A run whose process is gone does not go on.
fn shown(state: RunState, owner: &Owner) -> RunState {
    match state {
        RunState::Running if owner.is_gone(Path::new(PROC)) => RunState::Interrupted,
        state => state,
    }
}
