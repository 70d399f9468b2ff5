//! Reading: the list of runs, whole runs, and outlines of many runs. Everything read is checked.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use fathom_record::{
    Counts, Document, Effort, Outline, Params, Record, Run, RunState, SCHEMA_VERSION, State,
};

use crate::column::{bytes, optional, parse, parse_word, text};
use crate::database::{Database, DatabaseAccess, DatabaseRow, DatabaseValue, values};
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
type ReadHead = (i64, Result<Document, StoreError>);

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
        arguments: &[DatabaseValue<'_>],
    ) -> Result<Vec<RunRow>, StoreError> {
        let count = |state: State| {
            let word = state.word();
            format!("(SELECT count(*) FROM record WHERE run = run.number AND verdict = '{word}')")
        };
        let query = format!(
            "SELECT id, started, ended, state, effort, host_name, kernel, cpu_model,
                pid, pid_start_ticks, boot_id, {}, {}, {}, {}, {}, label, host_id,
                asked, procedure, pid_namespace
             FROM run {rest}",
            count(State::Valid),
            count(State::Noisy),
            count(State::Unavailable),
            count(State::Invalid),
            count(State::Failed),
        );
        let is_shared = self.database.is_shared();
        self.database.rows(&query, arguments, |row| run_row(row, is_shared))
    }

    /// A whole run with its records in the order stored. `run_id` is a full id, as from
    /// [`Store::resolve`]. Samples are read, and checked, only with `with_samples`.
    pub fn document(&self, run_id: &str, with_samples: bool) -> Result<Document, StoreError> {
        match self.documents(["run.id = ?1", "true"], values![run_id], with_samples)?.pop() {
            Some(document) => document,
            None => Err(self.no_such_run(run_id)?),
        }
    }

    /// What [`Self::document`] reads of a run without samples; for [`Store::foresee`].
    pub fn read_document(&self, run_id: &str) {
        let _ = self.documents(["run.id = ?1", "true"], values![run_id], false);
    }

    /// The runs with records of a metric, oldest first, with only the headlines of those records. A
    /// damaged run is left out, so that it does not cost the history of the others.
    pub fn history(&self, metric: &str) -> Result<Readable<Outline>, StoreError> {
        self.outlines(OF_METRIC, values![metric])
    }

    /// The record of each case of a metric, without its samples, by run. Of metrics of the user,
    /// whose ids are made of a part of a name. Damaged ones are left out, as in [`Self::history`].
    pub fn own_records(
        &self,
        metric: &str,
    ) -> Result<HashMap<(String, Params), Record>, StoreError> {
        let (runs, _) = without_damaged(self.documents(OF_METRIC, values![metric], false)?);
        let records = runs.into_iter().flat_map(|Document { run, records, .. }| {
            records.into_iter().map(move |one| ((run.id.clone(), one.params.clone()), one))
        });
        Ok(records.collect())
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
        let newest = "run.number IN (SELECT number FROM run WHERE coalesce(host_id, host_name) = ?1
            AND effort = ?2 AND procedure IS NOT DISTINCT FROM ?3 ORDER BY number DESC LIMIT ?4)";
        self.outlines([newest, "true"], values![host, effort.word(), procedure, runs_max])
    }

    fn outlines(
        &self,
        conditions: [&str; 2],
        arguments: &[DatabaseValue<'_>],
    ) -> Result<Readable<Outline>, StoreError> {
        let mut cases = Cases::new();
        let read = |row: &dyn DatabaseRow| headline::read(row, &mut cases);
        let outline = |document, headlines| Outline { document, headlines };
        let columns = [headline::COLUMNS, headline::JOIN];
        let part = HeadPart::WithoutOrigins;
        Ok(without_damaged(self.read_runs(part, conditions, arguments, columns, read, outline)?))
    }

    pub(crate) fn documents(
        &self,
        conditions: [&str; 2],
        arguments: &[DatabaseValue<'_>],
        with_samples: bool,
    ) -> Result<Vec<Result<Document, StoreError>>, StoreError> {
        let document = |document, records| Document { records, ..document };
        let columns = match with_samples {
            true => with_samples_join(WITH_SAMPLES),
            false => [WITHOUT_SAMPLES, ""],
        };
        let read = raw_record::read;
        self.read_runs(HeadPart::Whole, conditions, arguments, columns, read, document)
    }

    /// The runs that meet one condition, oldest first, with their records that meet another, in the
    /// order stored. `read` gets [`KEY_COLUMNS`] and `columns`, which `join` may provide.
    pub(crate) fn read_runs<T, R>(
        &self,
        part: HeadPart,
        [of_runs, of_records]: [&str; 2],
        arguments: &[DatabaseValue<'_>],
        [columns, join]: [&str; 2],
        mut read: impl FnMut(&dyn DatabaseRow) -> Result<T, StoreError>,
        combine: impl Fn(Document, Vec<T>) -> R,
    ) -> Result<Vec<Result<R, StoreError>>, StoreError> {
        // CROSS, so that SQLite looks up records by run and metric instead of scanning all.
        let query = format!(
            "SELECT {KEY_COLUMNS}, {columns} FROM run CROSS JOIN record ON record.run = run.number
             {join} WHERE {of_runs} AND {of_records}"
        );
        let mut by_run = HashMap::<i64, BTreeMap<i64, _>>::new();
        self.database.foresee(|| {
            let _ = head_texts(&*self.database, of_runs, arguments);
            let _ = self.database.execute(&query, arguments);
        })?;
        // One snapshot for all tables, whatever is written meanwhile.
        let heads = self.database.transaction(DatabaseAccess::Read, || {
            let heads = head_texts(&*self.database, of_runs, arguments)?;
            self.database.query(&query, arguments, &mut |row| {
                by_run.entry(number(row, 0)?).or_default().insert(number(row, 2)?, read(row));
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(heads)
        })?;
        self.database.forget(&query, arguments);
        self.database.forget(&heads_query(of_runs), arguments);
        let runs = heads_of(&heads, part, self.database.is_shared()).into_iter();
        drop(heads);
        let runs = runs.map(|(number, document)| {
            let records = by_run.remove(&number).unwrap_or_default().into_values();
            Ok(combine(document?, records.collect::<Result<_, _>>()?))
        });
        Ok(runs.collect())
    }
}

pub(crate) fn with_samples_join(columns: &str) -> [&str; 2] {
    [columns, "LEFT JOIN samples ON samples.record = record.number"]
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

/// What is read of the row of a run.
#[derive(Clone, Copy)]
pub(crate) enum HeadPart {
    Whole,
    /// Without the sources of the facts of its host, half of its text: outlines are of thousands of
    /// runs.
    WithoutOrigins,
}

/// The row of a run before its JSON is parsed.
struct HeadTexts {
    number: i64,
    id: String,
    owner: Owner,
    /// Tool, body, host and far hosts.
    texts: [Vec<u8>; 4],
    crc: i64,
}

/// The runs that meet a condition, oldest first.
fn head_texts(
    database: &dyn Database,
    condition: &str,
    arguments: &[DatabaseValue<'_>],
) -> Result<Vec<HeadTexts>, StoreError> {
    database.rows(&heads_query(condition), arguments, |row| {
        let texts = [5, 6, 7, 8].map(|column| bytes(row, column).to_owned());
        let (number, crc) = (number(row, 0)?, number(row, 9)?);
        Ok(HeadTexts { number, id: text(row, 1), owner: owner(row, 2, 10)?, texts, crc })
    })
}

/// Those of many runs are parsed by all CPUs.
fn heads_of(rows: &[HeadTexts], part: HeadPart, is_shared: bool) -> Vec<ReadHead> {
    /// So many take as long as a thread.
    const SHARE_MIN: usize = 100;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = rows.len().div_ceil(threads).max(SHARE_MIN);
    let of = |rows: &[HeadTexts]| -> Vec<ReadHead> {
        rows.iter().map(|row| (row.number, head(row, part, is_shared))).collect()
    };
    thread::scope(|scope| {
        let mut shares = rows.chunks(share);
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|rows| (rows, thread::Builder::new().spawn_scoped(scope, move || of(rows))))
            .collect();
        let mut all = of(own);
        for (rows, thread) in others {
            // Without a thread for it, a share is parsed here.
            let heads = thread.map_or_else(
                |_| of(rows),
                |thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            );
            all.extend(heads);
        }
        all
    })
}

fn heads_query(condition: &str) -> String {
    format!(
        "SELECT number, id, pid, pid_start_ticks, boot_id, tool, body, host, far, crc, pid_namespace
         FROM run WHERE {condition} ORDER BY number"
    )
}

fn head(row: &HeadTexts, part: HeadPart, is_shared: bool) -> Result<Document, StoreError> {
    let HeadTexts { id, owner, crc, .. } = row;
    let texts = row.texts.each_ref().map(Vec::as_slice);
    let decode = || {
        let [tool, body, host, far] = texts;
        let run: Run = parse(body)?;
        let run = Run { state: current_state(run.state, owner, is_shared), ..run };
        let host = match part {
            HeadPart::Whole => parse(host)?,
            HeadPart::WithoutOrigins => parse(&without_origins(host))?,
        };
        let (tool, far) = (parse(tool)?, parse(far)?);
        Ok(Document { schema: SCHEMA_VERSION, tool, run, host, far, records: Vec::new() })
    };
    let damaged = |reason| StoreError::damaged(id, "the row of the run", reason);
    match i64::from(run_crc(texts)) == *crc {
        true => decode().map_err(|error: serde_json::Error| damaged(error.to_string())),
        false => Err(damaged("checksum mismatch".to_owned())),
    }
}

/// The JSON of a host with no origins, where they are its last part: a list of texts, in which no
/// quotation mark is without a backslash before it.
fn without_origins(host: &[u8]) -> Cow<'_, [u8]> {
    const ORIGINS: &[u8] = b",\"origins\":{";
    let at = host.windows(ORIGINS.len()).position(|part| part == ORIGINS);
    let is_last = |at: &usize| host[at + ORIGINS.len()..].iter().filter(|it| **it == b'}').count();
    match at.filter(|at| is_last(at) == 2 && host.ends_with(b"}}")) {
        Some(at) => [&host[..at + ORIGINS.len()], b"}}"].concat().into(),
        None => host.into(),
    }
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

fn run_row(row: &dyn DatabaseRow, is_shared: bool) -> Result<RunRow, StoreError> {
    let owner = owner(row, 8, 20)?;
    // An unknown word is damage: assume that the run did not complete.
    let state = parse_word(text(row, 3)).unwrap_or(RunState::Interrupted);
    let count = |column| Ok(number(row, column)?.try_into().unwrap_or_default());
    Ok(RunRow {
        id: text(row, 0),
        started: text(row, 1),
        ended: optional(row, 2),
        state: current_state(state, &owner, is_shared),
        effort: parse_word(text(row, 4)).unwrap_or_default(),
        host_name: text(row, 5),
        kernel: text(row, 6),
        cpu_model: text(row, 7),
        counts: Counts {
            valid: count(11)?,
            noisy: count(12)?,
            unavailable: count(13)?,
            invalid: count(14)?,
            failed: count(15)?,
        },
        asked: parse(bytes(row, 18)).unwrap_or_default(),
        procedure: optional(row, 19),
        label: optional(row, 16),
        host_id: optional(row, 17),
    })
}

/// An integer that is never null.
pub(crate) fn number(row: &dyn DatabaseRow, column: usize) -> Result<i64, StoreError> {
    Ok(row.integer(column)?.unwrap_or_default())
}

/// From pid, start time and boot id in three columns, and the namespace in another. Text that is
/// not UTF-8 is damage of this row only.
pub(crate) fn owner(
    row: &dyn DatabaseRow,
    first: usize,
    namespace: usize,
) -> Result<Owner, StoreError> {
    Ok(Owner {
        pid: number(row, first)?.try_into().unwrap_or_default(),
        start_ticks: row.integer(first + 1)?,
        boot_id: optional(row, first + 2),
        namespace: optional(row, namespace),
    })
}

/// The state of a running run is that of its process.
pub(crate) fn current_state(state: RunState, owner: &Owner, is_shared: bool) -> RunState {
    match state {
        RunState::Running => owner.state(Path::new(PROC), is_shared),
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Host;

    use super::*;

    #[test]
    fn origins_are_cut_only_where_they_are_the_last_part() {
        let mut host = Host { name: "a,\"origins\":{}}".to_owned(), ..Host::default() };
        host.origin("cpu.model", "/proc/cpuinfo");
        host.origin("kernel", "uname");
        let text = serde_json::to_vec(&host).unwrap();
        let bare = without_origins(&text);
        assert!(bare.len() < text.len());
        host.origins.clear();
        assert_eq!(parse::<Host>(&bare).unwrap(), host);
        for other in [r#"{"a":1,"origins":{"b":"c"},"d":{}}"#, r#"{"origins":{"b":"}"}}"#, "{}"] {
            assert_eq!(without_origins(other.as_bytes()), other.as_bytes());
        }
    }
}
