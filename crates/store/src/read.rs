//! Reading: the list of runs, and one run whole. Everything read from JSON is checked first.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use fathom_record::{
    Counts, Document, Effort, Headline, Host, MetricId, Outline, Params, Record, Run, RunState,
    SCHEMA_VERSION, Sample, State, Tool,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use serde::de::DeserializeOwned;

use crate::liveness::{Owner, PROC};
use crate::write::RunTexts;
use crate::{Store, StoreError};

/// One run in the list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub id: String,
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
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model.
    pub cpu_model: String,
    /// Its records by verdict.
    pub counts: Counts,
}

impl Store {
    /// The runs, newest first: in the order of their ids, which sort by time. No JSON is read, and
    /// nothing is checked.
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
                pid, pid_start_ticks, boot_id, {}, {}, {}, {}, {}
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
        let failed = |error| self.failed("read", error);
        // One view of the store for both tables, whatever is written meanwhile.
        let view = self.connection.unchecked_transaction().map_err(failed)?;
        let head = head(&view, run_id).optional().map_err(failed)?;
        let Some((number, head)) = head else {
            return Err(self.no_such_run(run_id)?);
        };
        let raw = raw_records(&view, number, with_samples, None).map_err(failed)?;
        drop(view);
        let (tool, run, host) = head.checked(run_id)?;
        let records = raw.iter().map(|raw| raw.checked(run_id)).collect::<Result<_, _>>()?;
        Ok(Document { schema: SCHEMA_VERSION, tool, run, host, records })
    }

    /// All runs that have records of a metric, oldest first, with those records only and without
    /// samples. What is damaged is left out, and told by the second value.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn of_metric(&self, metric: &str) -> Result<(Vec<Document>, Vec<StoreError>), StoreError> {
        let failed = |error| self.failed("read", error);
        let view = self.connection.unchecked_transaction().map_err(failed)?;
        let (mut documents, mut damaged) = (Vec::new(), Vec::new());
        for id in ids(&view, RUNS_WITH, &[&metric]).map_err(failed)? {
            let (number, head) = head(&view, &id).map_err(failed)?;
            let raw = raw_records(&view, number, false, Some(metric)).map_err(failed)?;
            let checked = head.checked(&id).and_then(|(tool, run, host)| {
                let records = raw.iter().map(|raw| raw.checked(&id)).collect::<Result<_, _>>()?;
                Ok(Document { schema: SCHEMA_VERSION, tool, run, host, records })
            });
            match checked {
                Ok(document) => documents.push(document),
                Err(error) => damaged.push(error),
            }
        }
        Ok((documents, damaged))
    }

    /// The same runs with the headlines of those records alone, which is many times faster. What
    /// is damaged is left out, and told by the second value: one damaged run must not take the
    /// history of the rest.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn history(&self, metric: &str) -> Result<(Vec<Outline>, Vec<StoreError>), StoreError> {
        self.outlines(RUNS_WITH, &[&metric], Some(metric))
    }

    /// The newest runs of a host at one effort, oldest first, at most so many; else as
    /// [`Store::history`].
    ///
    /// # Errors
    /// Where reading fails.
    pub fn newest_of(
        &self,
        host_name: &str,
        effort: Effort,
        runs_max: u32,
    ) -> Result<(Vec<Outline>, Vec<StoreError>), StoreError> {
        let query = "SELECT id FROM
            (SELECT id FROM run WHERE host_name = ?1 AND effort = ?2 ORDER BY id DESC LIMIT ?3)
            ORDER BY id";
        self.outlines(query, &[&host_name, &effort.word(), &runs_max], None)
    }

    /// The runs whose ids a query gives, with the headlines of their records, of one metric or all.
    fn outlines(
        &self,
        query: &str,
        arguments: &[&dyn ToSql],
        metric: Option<&str>,
    ) -> Result<(Vec<Outline>, Vec<StoreError>), StoreError> {
        let failed = |error| self.failed("read", error);
        // One view of the store for all its runs, whatever is written meanwhile.
        let view = self.connection.unchecked_transaction().map_err(failed)?;
        let ids = ids(&view, query, arguments).map_err(failed)?;
        // What was read is made sense of while the next is read, which takes longer.
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads())
                .map(|_| {
                    let (sender, receiver) = sync_channel::<RawRun>(RUNS_AHEAD);
                    let work = move || {
                        let mut cases = Cases::new();
                        receiver.into_iter().map(|run| run.outline(&mut cases)).collect::<Vec<_>>()
                    };
                    (sender, scope.spawn(work))
                })
                .collect();
            for (id, (sender, _)) in ids.into_iter().zip(workers.iter().cycle()) {
                let (number, head) = head(&view, &id).map_err(failed)?;
                let records = raw_records(&view, number, false, metric).map_err(failed)?;
                if sender.send(RawRun { id, head, records }).is_err() {
                    break;
                }
            }
            let done = workers.into_iter().map(|(sender, worker)| {
                drop(sender);
                worker.join().unwrap_or_else(|panic| resume_unwind(panic)).into_iter()
            });
            // Dealt out in turn, and gathered in turn.
            let mut done: Vec<_> = done.collect();
            let (mut outlines, mut damaged) = (Vec::new(), Vec::new());
            for turn in (0..done.len()).cycle() {
                match done[turn].next() {
                    Some(Ok(outline)) => outlines.push(outline),
                    Some(Err(error)) => damaged.push(error),
                    None => return Ok((outlines, damaged)),
                }
            }
            Ok((outlines, damaged))
        })
    }
}

/// Threads that make sense of what was read.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// More would wait for the one that reads.
const THREADS_MAX: usize = 4;
/// So many runs are read ahead of what is made of them.
const RUNS_AHEAD: usize = 16;

/// Parameters by their text, which is that of the same few cases in every run.
type Cases = HashMap<Vec<u8>, Arc<Params>>;

/// A run as it lies in the store.
struct RawRun {
    id: String,
    head: Head,
    records: RawRecords,
}

impl RawRun {
    fn outline(self, cases: &mut Cases) -> Result<Outline, StoreError> {
        let (tool, run, host) = self.head.checked(&self.id)?;
        let headlines: Result<Vec<Headline>, StoreError> =
            self.records.iter().map(|record| record.headline(&self.id, cases)).collect();
        let (schema, records) = (SCHEMA_VERSION, Vec::new());
        let document = Document { schema, tool, run, host, records };
        Ok(Outline { document, headlines: headlines? })
    }
}

/// Ids of the runs that have records of a metric, oldest first.
const RUNS_WITH: &str = "SELECT id FROM run WHERE EXISTS
    (SELECT 1 FROM record WHERE record.run = run.number AND metric = ?1) ORDER BY id";

/// Which records of a run are read: all, or those of one metric. One condition for both, with
/// `?2 IS NULL OR` in it, would look at every record of the run.
fn of_run(metric: Option<&str>) -> &'static str {
    match metric {
        Some(_) => "record.run = ?1 AND record.metric = ?2 ORDER BY record.number",
        None => "record.run = ?1 AND ?2 IS NULL ORDER BY record.number",
    }
}

fn ids(
    connection: &Connection,
    query: &str,
    arguments: &[&dyn ToSql],
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(query)?;
    let ids = statement.query_map(arguments, |row| row.get(0))?;
    ids.collect()
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let owner = Owner { pid: row.get(8)?, start_ticks: row.get(9)?, boot_id: row.get(10)? };
    Ok(RunRow {
        id: row.get(0)?,
        started: row.get(1)?,
        ended: row.get(2)?,
        state: shown(state_of(&row.get::<_, String>(3)?), &owner),
        effort: effort_of(&row.get::<_, String>(4)?),
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
    })
}

/// A run whose process is gone does not go on.
fn shown(state: RunState, owner: &Owner) -> RunState {
    match state {
        RunState::Running if owner.is_gone(Path::new(PROC)) => RunState::Interrupted,
        state => state,
    }
}

/// A run's row as it lies in the store.
struct Head {
    texts: RunTexts,
    crc: u32,
    owner: Owner,
}

fn head(connection: &Connection, run_id: &str) -> rusqlite::Result<(i64, Head)> {
    connection
        .prepare_cached(
            "SELECT number, tool, body, host, crc, pid, pid_start_ticks, boot_id
             FROM run WHERE id = ?1",
        )?
        .query_row([run_id], |row| {
            let texts = RunTexts { tool: row.get(1)?, body: row.get(2)?, host: row.get(3)? };
            let owner = Owner { pid: row.get(5)?, start_ticks: row.get(6)?, boot_id: row.get(7)? };
            let crc = row.get(4)?;
            Ok((row.get(0)?, Head { texts, crc, owner }))
        })
}

impl Head {
    fn checked(self, run_id: &str) -> Result<(Tool, Run, Host), StoreError> {
        let damaged = |reason: String| StoreError::Damaged {
            run: run_id.to_owned(),
            part: "the row of the run".to_owned(),
            reason,
        };
        if self.texts.crc() != self.crc {
            return Err(damaged("it does not fit its checksum".to_owned()));
        }
        let tool = parse(&self.texts.tool).map_err(damaged)?;
        let host = parse(&self.texts.host).map_err(damaged)?;
        let mut run: Run = parse(&self.texts.body).map_err(damaged)?;
        run.state = shown(run.state, &self.owner);
        Ok((tool, run, host))
    }
}

/// Records of a run as their rows lie in the store, in one piece of memory: by pieces of their own,
/// getting and freeing those would take as long as reading them. Text is read as bytes: damaged, it
/// may be no UTF-8.
struct RawRecords {
    bytes: Vec<u8>,
    rows: Vec<Places>,
}

/// Room for the records of a curve of twenty points, before more is asked for.
const ROOM_BYTES: usize = 64 << 10;

/// Where the columns of a record lie.
struct Places {
    metric: Range<usize>,
    params: Range<usize>,
    body: Range<usize>,
    samples: Option<(Range<usize>, u32)>,
}

impl RawRecords {
    /// Takes over a column of the row that is read.
    fn push(&mut self, row: &Row<'_>, column: usize) -> rusqlite::Result<Range<usize>> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row.get_ref(column)?.as_bytes()?);
        Ok(start..self.bytes.len())
    }

    fn iter(&self) -> impl Iterator<Item = RawRecord<'_>> {
        let bytes = |place: &Range<usize>| &self.bytes[place.clone()];
        self.rows.iter().map(move |row| RawRecord {
            metric: bytes(&row.metric),
            params: bytes(&row.params),
            body: bytes(&row.body),
            samples: row.samples.as_ref().map(|(place, crc)| (bytes(place), *crc)),
        })
    }
}

/// The columns of one record.
struct RawRecord<'r> {
    metric: &'r [u8],
    params: &'r [u8],
    body: &'r [u8],
    samples: Option<(&'r [u8], u32)>,
}

fn raw_records(
    connection: &Connection,
    run: i64,
    with_samples: bool,
    metric: Option<&str>,
) -> rusqlite::Result<RawRecords> {
    let columns = match with_samples {
        true => "samples.body, samples.crc",
        false => "NULL, NULL",
    };
    let joined = match with_samples {
        true => "LEFT JOIN samples ON samples.record = record.number",
        false => "",
    };
    let query = format!(
        "SELECT record.metric, record.params, record.body, {columns} FROM record {joined} WHERE {}",
        of_run(metric)
    );
    let mut statement = connection.prepare_cached(&query)?;
    let mut rows = statement.query((run, metric))?;
    let mut records = RawRecords { bytes: Vec::with_capacity(ROOM_BYTES), rows: Vec::new() };
    while let Some(row) = rows.next()? {
        let (metric, params) = (records.push(row, 0)?, records.push(row, 1)?);
        let body = records.push(row, 2)?;
        let samples = match row.get(4)? {
            Some(crc) => Some((records.push(row, 3)?, crc)),
            None => None,
        };
        records.rows.push(Places { metric, params, body, samples });
    }
    Ok(records)
}

impl RawRecord<'_> {
    fn checked(self, run_id: &str) -> Result<Record, StoreError> {
        let name = self.name();
        let damaged = |part: &str, reason: String| StoreError::Damaged {
            run: run_id.to_owned(),
            part: part.to_owned(),
            reason,
        };
        let mut record: Record = parse_bytes(self.body).map_err(|reason| damaged(&name, reason))?;
        if !Record::is_intact_text(self.body) && !record.is_intact() {
            let reason = "it does not fit its checksum".to_owned();
            return Err(damaged(&name, reason));
        }
        if record.name() != name {
            let reason = format!("its content is that of {}", record.name());
            return Err(damaged(&name, reason));
        }
        if let Some((bytes, crc)) = self.samples {
            let part = format!("the samples of {name}");
            if crc32fast::hash(bytes) != crc {
                return Err(damaged(&part, "they do not fit their checksum".to_owned()));
            }
            let samples: Vec<Sample> =
                parse_bytes(bytes).map_err(|reason| damaged(&part, reason))?;
            record.samples = Some(samples);
        }
        Ok(record)
    }

    /// The headline alone. What does not fit its checksum and its columns letter by letter is read
    /// whole, which finds out what is wrong with it, if anything is.
    fn headline(self, run_id: &str, cases: &mut Cases) -> Result<Headline, StoreError> {
        if Record::is_intact_text(self.body)
            && self.is_own()
            && let Some(headline) = self.intact_headline(cases)
        {
            return Ok(headline);
        }
        self.checked(run_id).map(|record| Headline::from(&record))
    }

    /// The headline of a body that is intact and begins with the columns.
    fn intact_headline(&self, cases: &mut Cases) -> Option<Headline> {
        let metric = MetricId::new(std::str::from_utf8(self.metric).ok()?);
        let params = match cases.get(self.params) {
            Some(params) => Arc::clone(params),
            None => {
                let params = Arc::new(parse_bytes(self.params).ok()?);
                cases.insert(self.params.to_vec(), Arc::clone(&params));
                params
            }
        };
        let mut body = serde_json::Deserializer::from_slice(self.body);
        Headline::read(&mut body, metric, params).ok()
    }

    /// Whether the body begins with what stands in the columns, as it is written.
    fn is_own(&self) -> bool {
        let parts: [&[u8]; 5] =
            [b"{\"metric\":\"", self.metric, b"\",\"params\":", self.params, b","];
        let rest = parts.iter().try_fold(self.body, |rest, part| rest.strip_prefix(*part));
        rest.is_some()
    }

    /// The name by the columns, for whatever its body may say.
    fn name(&self) -> String {
        let metric = String::from_utf8_lossy(self.metric);
        match parse_bytes::<Params>(self.params) {
            Ok(params) => format!("{metric}{params}"),
            Err(_) => format!("{metric}{}", String::from_utf8_lossy(self.params)),
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    parse_bytes(text.as_bytes())
}

fn parse_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// The state in the column that lists need.
pub(crate) fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Complete => "complete",
        RunState::Interrupted => "interrupted",
    }
}

/// A word that is none of ours means a damaged row; nothing says that run was complete.
fn state_of(word: &str) -> RunState {
    match word {
        "running" => RunState::Running,
        "complete" => RunState::Complete,
        _ => RunState::Interrupted,
    }
}

fn effort_of(word: &str) -> Effort {
    match word {
        "quick" => Effort::Quick,
        "thorough" => Effort::Thorough,
        _ => Effort::Standard,
    }
}
