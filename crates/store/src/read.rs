//! Reading: the list of runs, whole runs, and outlines of many runs. Everything read is checked.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fathom_record::{Counts, Document, Effort, Outline, Run, RunState, SCHEMA_VERSION, State};
use rusqlite::{Connection, Row, ToSql};

use crate::column::{LABEL, PROCEDURE, bytes, parse, parse_word};
use crate::headline::{self, Cases};
use crate::liveness::{Owner, PROC};
use crate::raw_record::{self, KEY_COLUMNS, WITH_SAMPLES, WITHOUT_SAMPLES};
use crate::{Store, StoreError};

/// One run in the list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub id: String,
    pub label: Option<String>,
    /// RFC 3339 in UTC.
    pub started: String,
    pub ended: Option<String>,
    /// By the process of a running run: interrupted if it has ended, unknown if it is in another
    /// pid namespace.
    pub state: RunState,
    pub effort: Effort,
    pub host_name: String,
    pub host_id: Option<String>,
    pub kernel: String,
    pub cpu_model: String,
    /// The metrics or cases, or the subject of a command by hand; empty for all metrics.
    pub asked: Vec<String>,
    /// The command by hand.
    pub procedure: Option<String>,
    pub counts: Counts,
}

/// Runs that could be read, and the damage in the others.
pub(crate) type Readable<T> = (Vec<T>, Vec<StoreError>);

/// The number of a run's row, and the run without its records.
type Head = (i64, Result<Document, StoreError>);

/// Conditions for the runs with records of a metric, and for those records.
const OF_METRIC: [&str; 2] = [
    "EXISTS (SELECT 1 FROM record WHERE record.run = run.number AND record.metric = ?1)",
    "record.metric = ?1",
];

impl RunRow {
    /// The host's [`identity`](fathom_record::Host::identity).
    pub fn host(&self) -> &str {
        self.host_id.as_deref().unwrap_or(&self.host_name)
    }
}

impl Store {
    /// The runs, the last stored first. Checks no checksum.
    pub fn runs(&self) -> Result<Vec<RunRow>, StoreError> {
        self.run_rows("ORDER BY number DESC", &[])
    }

    /// The rows of runs that `rest` of a statement selects and orders.
    pub(crate) fn run_rows(
        &self,
        rest: &str,
        arguments: &[&dyn ToSql],
    ) -> Result<Vec<RunRow>, StoreError> {
        let count = |state: State| {
            let word = state.word();
            format!("(SELECT count(*) FROM record WHERE run = run.number AND verdict = '{word}')")
        };
        let query = format!(
            "SELECT id, started, ended, state, effort, host_name, kernel, cpu_model,
                pid, pid_start_ticks, boot_id, {}, {}, {}, {}, {}, {LABEL}, host_id,
                CASE WHEN json_valid(body) THEN body ->> '$.asked' END,
                {PROCEDURE}, pid_namespace
             FROM run {rest}",
            count(State::Valid),
            count(State::Noisy),
            count(State::Unavailable),
            count(State::Invalid),
            count(State::Failed),
        );
        let read = || {
            let mut statement = self.connection.prepare_cached(&query)?;
            let rows = statement.query_map(arguments, run_row)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| self.failed("read", error))
    }

    /// A whole run with its records in the order stored. `run_id` is a full id, as from
    /// [`Store::resolve`]. Samples are read, and checked, only with `with_samples`.
    pub fn document(&self, run_id: &str, with_samples: bool) -> Result<Document, StoreError> {
        match self.documents(["run.id = ?1", "true"], &[&run_id], with_samples)?.pop() {
            Some(document) => document,
            None => Err(self.no_such_run(run_id)?),
        }
    }

    /// The runs with records of a metric, oldest first, with only the headlines of those records. A
    /// damaged run is left out, so that it does not cost the history of the others.
    pub fn history(&self, metric: &str) -> Result<Readable<Outline>, StoreError> {
        self.outlines(OF_METRIC, &[&metric])
    }

    /// The newest `runs_max` runs of a host at one effort, of a command by hand or of `fathom run`,
    /// oldest first. `host` is an [`identity`](fathom_record::Host::identity).
    pub fn newest_of(
        &self,
        host: &str,
        effort: Effort,
        procedure: Option<&str>,
        runs_max: u32,
    ) -> Result<Readable<Outline>, StoreError> {
        let newest = format!(
            "run.number IN (SELECT number FROM run WHERE coalesce(host_id, host_name) = ?1
            AND effort = ?2 AND {PROCEDURE} IS ?3 ORDER BY number DESC LIMIT ?4)"
        );
        self.outlines([&newest, "true"], &[&host, &effort.word(), &procedure, &runs_max])
    }

    fn outlines(
        &self,
        conditions: [&str; 2],
        arguments: &[&dyn ToSql],
    ) -> Result<Readable<Outline>, StoreError> {
        let mut cases = Cases::new();
        let read = |row: &Row<'_>| headline::read(row, &mut cases);
        let outline = |document, headlines| Outline { document, headlines };
        let columns = [headline::COLUMNS, headline::JOIN];
        Ok(without_damaged(self.read_runs(conditions, arguments, columns, read, outline)?))
    }

    pub(crate) fn documents(
        &self,
        conditions: [&str; 2],
        arguments: &[&dyn ToSql],
        with_samples: bool,
    ) -> Result<Vec<Result<Document, StoreError>>, StoreError> {
        let document = |document, records| Document { records, ..document };
        let columns = match with_samples {
            true => [WITH_SAMPLES, "LEFT JOIN samples ON samples.record = record.number"],
            false => [WITHOUT_SAMPLES, ""],
        };
        self.read_runs(conditions, arguments, columns, raw_record::read, document)
    }

    /// The runs that meet one condition, oldest first, with their records that meet another, in the
    /// order stored. `read` gets [`KEY_COLUMNS`] and `columns`, which `join` may provide.
    fn read_runs<T, R>(
        &self,
        [of_runs, of_records]: [&str; 2],
        arguments: &[&dyn ToSql],
        [columns, join]: [&str; 2],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
        combine: impl Fn(Document, Vec<T>) -> R,
    ) -> Result<Vec<Result<R, StoreError>>, StoreError> {
        // CROSS, so that SQLite looks up records by run and metric instead of scanning all.
        let query = format!(
            "SELECT {KEY_COLUMNS}, {columns} FROM run CROSS JOIN record ON record.run = run.number
             {join} WHERE {of_runs} AND {of_records}"
        );
        let mut work = || {
            // One snapshot for all tables, whatever is written meanwhile.
            let snapshot = self.connection.unchecked_transaction()?;
            let heads = heads(&snapshot, of_runs, arguments)?;
            let mut statement = snapshot.prepare_cached(&query)?;
            let mut rows = statement.query(arguments)?;
            let mut by_run = HashMap::<i64, BTreeMap<i64, _>>::new();
            while let Some(row) = rows.next()? {
                by_run.entry(row.get(0)?).or_default().insert(row.get(2)?, read(row));
            }
            let runs = heads.into_iter().map(|(number, document)| {
                let records = by_run.remove(&number).unwrap_or_default().into_values();
                Ok(combine(document?, records.collect::<Result<_, _>>()?))
            });
            Ok(runs.collect())
        };
        work().map_err(|error| self.failed("read", error))
    }
}

pub(crate) fn without_damaged<R>(runs: Vec<Result<R, StoreError>>) -> Readable<R> {
    let (mut readable, mut damaged) = (Vec::new(), Vec::new());
    for run in runs {
        match run {
            Ok(run) => readable.push(run),
            Err(error) => damaged.push(error),
        }
    }
    (readable, damaged)
}

/// The runs that meet a condition, oldest first.
fn heads(
    connection: &Connection,
    condition: &str,
    arguments: &[&dyn ToSql],
) -> rusqlite::Result<Vec<Head>> {
    let query = format!(
        "SELECT number, id, pid, pid_start_ticks, boot_id, tool, body, host, far, crc, pid_namespace
         FROM run WHERE {condition} ORDER BY number"
    );
    let mut statement = connection.prepare_cached(&query)?;
    statement.query_map(arguments, head)?.collect()
}

fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let owner = owner(row, 2, 10)?;
    let texts = [5, 6, 7, 8].map(|column| bytes(row, column));
    let decode = || {
        let [tool, body, host, far] = texts;
        let run: Run = parse(body)?;
        let run = Run { state: current_state(run.state, &owner), ..run };
        let (tool, host, far) = (parse(tool)?, parse(host)?, parse(far)?);
        Ok(Document { schema: SCHEMA_VERSION, tool, run, host, far, records: Vec::new() })
    };
    let id = text(row, 1);
    let damaged = |reason| StoreError::damaged(&id, "the row of the run", reason);
    let document = match i64::from(run_crc(texts)) == row.get::<_, i64>(9)? {
        true => decode().map_err(|error: serde_json::Error| damaged(error.to_string())),
        false => Err(damaged("checksum mismatch".to_owned())),
    };
    Ok((row.get(0)?, document))
}

/// CRC-32 of the texts of a run's row, each followed by a zero byte, which JSON never contains.
pub(crate) fn run_crc(texts: [&[u8]; 4]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for text in texts {
        hasher.update(text);
        hasher.update(&[0]);
    }
    hasher.finalize()
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let owner = owner(row, 8, 20)?;
    // An unknown word is damage: assume that the run did not complete.
    let state = parse_word(text(row, 3)).unwrap_or(RunState::Interrupted);
    Ok(RunRow {
        id: text(row, 0),
        started: text(row, 1),
        ended: row.get(2).unwrap_or_default(),
        state: current_state(state, &owner),
        effort: parse_word(text(row, 4)).unwrap_or_default(),
        host_name: text(row, 5),
        kernel: text(row, 6),
        cpu_model: text(row, 7),
        counts: Counts {
            valid: row.get(11)?,
            noisy: row.get(12)?,
            unavailable: row.get(13)?,
            invalid: row.get(14)?,
            failed: row.get(15)?,
        },
        asked: parse(bytes(row, 18)).unwrap_or_default(),
        procedure: row.get(19).unwrap_or_default(),
        label: row.get(16).unwrap_or_default(),
        host_id: row.get(17).unwrap_or_default(),
    })
}

pub(crate) fn text(row: &Row<'_>, column: usize) -> String {
    String::from_utf8_lossy(bytes(row, column)).into_owned()
}

/// From pid, start time and boot id in three columns, and the namespace in another. Text that is
/// not UTF-8 is damage of this row only.
pub(crate) fn owner(row: &Row<'_>, first: usize, namespace: usize) -> rusqlite::Result<Owner> {
    Ok(Owner {
        pid: row.get(first)?,
        start_ticks: row.get(first + 1)?,
        boot_id: row.get(first + 2).unwrap_or_default(),
        namespace: row.get(namespace).unwrap_or_default(),
    })
}

/// The state of a running run is that of its process.
pub(crate) fn current_state(state: RunState, owner: &Owner) -> RunState {
    match state {
        RunState::Running => owner.state(Path::new(PROC)),
        state => state,
    }
}
