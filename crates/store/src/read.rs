//! Reading: the list of runs, whole runs, and outlines of many runs. Everything read is checked.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use fathom_record::{
    Counts, Document, Effort, FarHost, Host, Outline, Params, Record, Run, RunState,
    SCHEMA_VERSION, State, Tool,
};
use serde::de::DeserializeOwned;

use crate::column::{bytes, optional, parse, parse_word, text};
use crate::database::{DatabaseAccess, DatabaseRow, DatabaseValue, values};
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
        let outline = |run, SharedFacts { tool, host, far }, headlines| Outline {
            tool,
            run,
            host,
            far,
            headlines,
        };
        let columns = [headline::COLUMNS, headline::JOIN];
        let known = ParsedFacts { is_lasting: true, ..ParsedFacts::default() };
        Ok(without_damaged(self.read_runs(known, conditions, arguments, columns, read, outline)?))
    }

    pub(crate) fn documents(
        &self,
        conditions: [&str; 2],
        arguments: &[DatabaseValue<'_>],
        with_samples: bool,
    ) -> Result<Vec<Result<Document, StoreError>>, StoreError> {
        let columns = match with_samples {
            true => with_samples_join(WITH_SAMPLES),
            false => [WITHOUT_SAMPLES, ""],
        };
        let read = raw_record::read;
        self.read_runs(ParsedFacts::default(), conditions, arguments, columns, read, document)
    }

    /// The runs that meet one condition, oldest first, with their records that meet another, in the
    /// order stored. `read` gets [`KEY_COLUMNS`] and `columns`, which `join` may provide.
    pub(crate) fn read_runs<T, R>(
        &self,
        mut known: ParsedFacts,
        [of_runs, of_records]: [&str; 2],
        arguments: &[DatabaseValue<'_>],
        [columns, join]: [&str; 2],
        mut read: impl FnMut(&dyn DatabaseRow) -> Result<T, StoreError>,
        combine: impl Fn(Run, SharedFacts, Vec<T>) -> R,
    ) -> Result<Vec<Result<R, StoreError>>, StoreError> {
        // CROSS, so that SQLite looks up records by run and metric instead of scanning all.
        let query = format!(
            "SELECT {KEY_COLUMNS}, {columns} FROM run CROSS JOIN record ON record.run = run.number
             {join} WHERE {of_runs} AND {of_records}"
        );
        let heads_query = heads_query(of_runs);
        let mut by_run = HashMap::<i64, BTreeMap<i64, _>>::new();
        self.database.foresee(|| {
            let _ = self.database.execute(&heads_query, arguments);
            let _ = self.database.execute(&query, arguments);
        })?;
        // One snapshot for all tables, whatever is written meanwhile.
        let heads = self.database.transaction(DatabaseAccess::Read, || {
            let head = |row: &dyn DatabaseRow| UnparsedRun::read(row, &mut known);
            let heads = self.database.rows(&heads_query, arguments, head)?;
            self.database.query(&query, arguments, &mut |row| {
                by_run.entry(number(row, 0)?).or_default().insert(number(row, 2)?, read(row));
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(heads)
        })?;
        self.database.forget(&query, arguments);
        self.database.forget(&heads_query, arguments);
        let runs = runs_of(&heads, self.database.is_shared());
        let runs = heads.into_iter().zip(runs).map(|(head, run)| {
            let records = by_run.remove(&head.number).unwrap_or_default().into_values();
            let (run, (_, shared)) = (run?, head.texts?);
            Ok(combine(run, shared, records.collect::<Result<_, _>>()?))
        });
        Ok(runs.collect())
    }
}

/// A whole run.
pub(crate) fn document(run: Run, shared: SharedFacts, records: Vec<Record>) -> Document {
    let SharedFacts { tool, host, far } = shared;
    let (tool, host) = (Arc::unwrap_or_clone(tool), Arc::unwrap_or_clone(host));
    Document { schema: SCHEMA_VERSION, tool, run, host, far: Arc::unwrap_or_clone(far), records }
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

/// The row of a run of which only what is its own is still to be parsed: an outline is of
/// thousands of runs, and they are of few hosts.
struct UnparsedRun {
    number: i64,
    id: String,
    owner: Owner,
    /// The run as JSON.
    texts: Result<(Vec<u8>, SharedFacts), StoreError>,
}

impl UnparsedRun {
    fn read(row: &dyn DatabaseRow, known: &mut ParsedFacts) -> Result<Self, StoreError> {
        let (id, texts) = (text(row, 1), [5, 6, 7, 8].map(|column| bytes(row, column)));
        let texts = match i64::from(run_crc(texts)) == number(row, 9)? {
            true => known.parsed(texts).map_err(|error| damaged_head(&id, error)),
            false => Err(damaged_head(&id, "checksum mismatch")),
        };
        Ok(Self { number: number(row, 0)?, id, owner: owner(row, 2, 10)?, texts })
    }

    fn run(&self, is_shared: bool) -> Result<Run, StoreError> {
        let (body, _) = self.texts.as_ref().map_err(StoreError::clone)?;
        let run: Run = parse(body).map_err(|error| damaged_head(&self.id, error))?;
        Ok(Run { state: current_state(run.state, &self.owner, is_shared), ..run })
    }
}

fn damaged_head(run: &str, reason: impl Display) -> StoreError {
    StoreError::damaged(run, "the row of the run", reason.to_string())
}

/// What runs have in common.
pub(crate) struct SharedFacts {
    tool: Arc<Tool>,
    host: Arc<Host>,
    far: Arc<Vec<FarHost>>,
}

/// All that is known of it, parsed once.
#[derive(Default)]
pub(crate) struct ParsedFacts {
    /// Hosts without their uptime and the sources of their facts.
    is_lasting: bool,
    tools: Distinct<Tool>,
    hosts: Distinct<Host>,
    far: Distinct<Vec<FarHost>>,
}

impl ParsedFacts {
    fn parsed(
        &mut self,
        [tool, body, host, far]: [&[u8]; 4],
    ) -> serde_json::Result<(Vec<u8>, SharedFacts)> {
        let host = if self.is_lasting { lasting(host) } else { [host, b""] };
        let tool = self.tools.parsed([tool, b""])?;
        let (host, far) = (self.hosts.parsed(host)?, self.far.parsed([far, b""])?);
        Ok((body.to_owned(), SharedFacts { tool, host, far }))
    }
}

/// Values by the beginning of their JSON. Of a text of kilobytes a CRC is a hash in no time.
struct Distinct<T>(HashMap<Vec<u8>, Arc<T>, BuildHasherDefault<crc32fast::Hasher>>);

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: DeserializeOwned> Distinct<T> {
    fn parsed(&mut self, [text, end]: [&[u8]; 2]) -> serde_json::Result<Arc<T>> {
        if let Some(known) = self.0.get(text) {
            return Ok(Arc::clone(known));
        }
        let value = Arc::new(parse(&[text, end].concat())?);
        self.0.insert(text.to_owned(), Arc::clone(&value));
        Ok(value)
    }
}

/// The JSON of a host up to its uptime, which no two runs share, and the sources of its facts, half
/// of its text, and an end for it. All of it where these are not its last parts: a number, and a
/// list of texts, in which no quotation mark is without a backslash before it.
fn lasting(host: &[u8]) -> [&[u8]; 2] {
    const UPTIME: &[u8] = b",\"uptime_s\":";
    const ORIGINS: &[u8] = b",\"origins\":{";
    let is_number = |byte: &&u8| !matches!(byte, b',' | b'"' | b'{' | b'}');
    let are_last = |at: &usize| {
        let rest = &host[at + UPTIME.len()..];
        let rest = &rest[rest.iter().take_while(is_number).count()..];
        rest.starts_with(ORIGINS)
            && rest.ends_with(b"}}")
            && memchr::memchr_iter(b'}', rest).count() == 2
    };
    match memchr::memmem::find(host, UPTIME).filter(are_last) {
        Some(at) => [&host[..at], b",\"uptime_s\":null,\"origins\":{}}"],
        None => [host, b""],
    }
}

/// Those of many runs are parsed by all CPUs.
fn runs_of(heads: &[UnparsedRun], is_shared: bool) -> Vec<Result<Run, StoreError>> {
    /// So many take as long as a thread.
    const SHARE_MIN: usize = 100;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = heads.len().div_ceil(threads).max(SHARE_MIN);
    let of =
        |heads: &[UnparsedRun]| heads.iter().map(|head| head.run(is_shared)).collect::<Vec<_>>();
    thread::scope(|scope| {
        let mut shares = heads.chunks(share);
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|heads| (heads, thread::Builder::new().spawn_scoped(scope, move || of(heads))))
            .collect();
        let mut all = of(own);
        for (heads, thread) in others {
            // Without a thread for it, a share is parsed here.
            let runs = thread.map_or_else(
                |_| of(heads),
                |thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            );
            all.extend(runs);
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
    use super::*;

    #[test]
    fn host_is_cut_only_where_uptime_and_origins_are_its_last_parts() {
        let mut host = Host { name: "a,\"uptime_s\":1}}".to_owned(), ..Host::default() };
        host.origin("cpu.model", "/proc/cpuinfo");
        host.origin("kernel", "uname");
        let text = |uptime_s| serde_json::to_vec(&Host { uptime_s, ..host.clone() }).unwrap();
        let texts = [None, Some(86_400.25), Some(1e-7)].map(text);
        let mut hosts = Distinct::<Host>::default();
        let parsed = texts.each_ref().map(|text| hosts.parsed(lasting(text)).unwrap());
        assert_eq!(hosts.0.len(), 1, "one host is parsed once, however long it is up");
        host.origins.clear();
        assert!(parsed.iter().all(|it| **it == host));
        for other in [
            r#"{"a":1,"uptime_s":2,"origins":{"b":"c"},"d":{}}"#,
            r#"{"uptime_s":2,"origins":{"b":"}"}}"#,
            r#"{"a":1,"uptime_s":"2","origins":{"b":"c"}}"#,
            r#"{"a":{"b":1,"uptime_s":2},"origins":{}}"#,
            "{}",
        ] {
            assert_eq!(lasting(other.as_bytes()), [other.as_bytes(), b""], "{other}");
        }
    }
}
