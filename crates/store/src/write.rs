//! Writing: the begin of a run, its records one by one, its end.

use std::path::Path;

use fathom_record::{Document, Headline, Host, Record, Run};
use rusqlite::{OptionalExtension, ToSql, Transaction, TransactionBehavior, ffi, params};
use serde_json::Error as JsonError;

use crate::column::word;
use crate::error::retry_device_errors;
use crate::liveness::{Owner, PROC};
use crate::read::run_crc;
use crate::{Store, StoreError, headline};

/// Adds the action and the path of the store to an error of SQLite.
type ToError<'e> = &'e dyn Fn(rusqlite::Error) -> StoreError;

impl Store {
    /// Stores a new run, its tool, its hosts and its records so far, as [`Store::put`] does. The
    /// run belongs to this process: if that ends without [`Store::update_run`], the run counts as
    /// interrupted.
    pub fn begin(&mut self, document: &Document) -> Result<Vec<StoreError>, StoreError> {
        let id = &document.run.id;
        let row = RunRow::of(document)?;
        let rows = RecordRows::of_all(id, &document.records);
        self.write(|transaction, failed| {
            row.insert(transaction, failed)?;
            insert_all(&rows, transaction, (transaction.last_insert_rowid(), id), failed)
        })
    }

    /// Stores a whole run that has ended, in one transaction. False if the store has a run with
    /// this id, which is left unchanged.
    pub fn import(&mut self, document: &Document) -> Result<bool, StoreError> {
        let id = &document.run.id;
        let row = RunRow::of(document)?;
        let rows = RecordRows::of_all(id, &document.records);
        let rows: Vec<RecordRows<'_>> = rows.into_iter().collect::<Result<_, _>>()?;
        self.write(|transaction, failed| {
            match row.insert(transaction, failed) {
                Err(StoreError::RunExists { .. }) => return Ok(false),
                done => done?,
            }
            let number = transaction.last_insert_rowid();
            rows.iter().try_for_each(|row| row.insert(transaction, (number, id), failed))?;
            Ok(true)
        })
    }

    /// Stores records of a run with their samples in one transaction, in place of earlier ones of
    /// the same cases. One that cannot be stored costs itself only: returns the errors of those.
    /// After `Ok` all others are on the disk; after an error nothing is stored.
    pub fn put(&mut self, run_id: &str, records: &[Record]) -> Result<Vec<StoreError>, StoreError> {
        let rows = RecordRows::of_all(run_id, records);
        self.write_run(run_id, |transaction, run, failed| {
            for RecordRows { record, params, .. } in rows.iter().flatten() {
                let same = "run = ?1 AND metric = ?2 AND params = ?3";
                let case: [&dyn ToSql; 3] = [&run, &record.metric.as_str(), params];
                delete_records(transaction, same, &case).map_err(failed)?;
            }
            insert_all(&rows, transaction, (run, run_id), failed)
        })
    }

    /// Replaces all records of a run, in one transaction. Returns the errors of those that cannot
    /// be stored.
    pub fn replace_records(
        &mut self,
        run_id: &str,
        records: &[Record],
    ) -> Result<Vec<StoreError>, StoreError> {
        let rows = RecordRows::of_all(run_id, records);
        self.write_run(run_id, |transaction, run, failed| {
            delete_records(transaction, "run = ?1", &[&run]).map_err(failed)?;
            insert_all(&rows, transaction, (run, run_id), failed)
        })
    }

    /// Replaces the state, end, clock, verdict and other facts of a run that was begun. Its tool,
    /// hosts and records stay.
    pub fn update_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let body = json(&run.id, || "the run".to_owned(), run)?;
        self.write_run(&run.id, |transaction, number, failed| {
            let query = "SELECT tool, host, far FROM run WHERE number = ?1";
            let texts = transaction.query_row(query, [number], |row| {
                let (tool, host, far) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(RunTexts { tool, body: body.clone(), host, far })
            });
            let texts = texts.map_err(failed)?;
            let update = "UPDATE run SET started = ?2, ended = ?3, state = ?4, effort = ?5,
                body = ?6, crc = ?7 WHERE number = ?1";
            let (state, effort) = (word(&run.state), run.effort.word());
            transaction
                .execute(
                    update,
                    params![number, run.started, run.ended, state, effort, texts.body, texts.crc()],
                )
                .map(drop)
                .map_err(failed)
        })
    }

    /// One transaction on the run with this id; `work` gets the number of its row.
    fn write_run<T>(
        &mut self,
        run_id: &str,
        work: impl Fn(&Transaction<'_>, i64, ToError<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let exists = self.write(|transaction, failed| {
            let run = transaction
                .query_row("SELECT number FROM run WHERE id = ?1", [run_id], |row| row.get(0))
                .optional()
                .map_err(failed)?;
            run.map(|run| work(transaction, run, failed)).transpose()
        })?;
        match exists {
            Some(done) => Ok(done),
            None => Err(self.no_such_run(run_id)?),
        }
    }

    /// One transaction. It takes the write lock when it begins, so that what it reads cannot change
    /// before it writes. A failed transaction is rolled back, so it can be retried.
    pub(crate) fn write<T>(
        &mut self,
        work: impl Fn(&Transaction<'_>, ToError<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = &self.path;
        let failed = |error| StoreError::from_sqlite("write", path, error);
        retry_device_errors(|| {
            let transaction = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failed)?;
            let done = work(&transaction, &failed)?;
            transaction.commit().map_err(failed)?;
            Ok(done)
        })
    }
}

/// The row of a run.
struct RunRow<'r> {
    run: &'r Run,
    host: &'r Host,
    texts: RunTexts,
    owner: Owner,
}

impl<'r> RunRow<'r> {
    fn of(document: &'r Document) -> Result<Self, StoreError> {
        let Document { tool, run, host, far, .. } = document;
        let texts = RunTexts {
            tool: json(&run.id, || "the tool".to_owned(), tool)?,
            body: json(&run.id, || "the run".to_owned(), run)?,
            host: json(&run.id, || "the host".to_owned(), host)?,
            far: json(&run.id, || "the far hosts".to_owned(), far)?,
        };
        Ok(Self { run, host, texts, owner: Owner::current(Path::new(PROC)) })
    }

    fn insert(&self, transaction: &Transaction<'_>, failed: ToError<'_>) -> Result<(), StoreError> {
        let Self { run, host, texts, owner } = self;
        let inserted = transaction.execute(
            "INSERT INTO run (id, started, ended, state, effort, host_name, host_id, kernel,
                cpu_model, pid, pid_start_ticks, boot_id, tool, body, host, far, crc,
                pid_namespace)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                ?17, ?18)",
            params![
                run.id,
                run.started,
                run.ended,
                word(&run.state),
                run.effort.word(),
                host.name,
                host.id,
                host.kernel,
                host.cpu.model,
                owner.pid,
                owner.start_ticks,
                owner.boot_id,
                texts.tool,
                texts.body,
                texts.host,
                texts.far,
                texts.crc(),
                owner.namespace,
            ],
        );
        inserted.map(drop).map_err(|error| match is_unique_violation(&error) {
            true => StoreError::RunExists { run: run.id.clone() },
            false => failed(error),
        })
    }
}

/// The JSON columns of a run's row.
struct RunTexts {
    tool: String,
    body: String,
    host: String,
    far: String,
}

impl RunTexts {
    fn crc(&self) -> u32 {
        run_crc([&self.tool, &self.body, &self.host, &self.far].map(|text| text.as_bytes()))
    }
}

/// A record and the JSON columns of its rows.
struct RecordRows<'r> {
    record: &'r Record,
    params: String,
    body: String,
    samples: Option<String>,
}

impl<'r> RecordRows<'r> {
    fn of_all(run: &str, records: &'r [Record]) -> Vec<Result<Self, StoreError>> {
        records.iter().map(|record| Self::of(run, record)).collect()
    }

    fn of(run: &str, record: &'r Record) -> Result<Self, StoreError> {
        let name = || record.name();
        if !record.is_intact() {
            let reason = "checksum mismatch; seal the record first";
            return Err(not_storable(run, name(), reason));
        }
        let bare = Record { samples: None, ..record.clone() };
        let samples = record.samples.as_ref();
        Ok(Self {
            record,
            params: json(run, name, &record.params)?,
            body: json(run, name, &bare)?,
            samples: samples
                .map(|samples| json(run, || format!("the samples of {}", name()), samples))
                .transpose()?,
        })
    }

    fn insert(
        &self,
        transaction: &Transaction<'_>,
        (run, run_id): (i64, &str),
        failed: ToError<'_>,
    ) -> Result<(), StoreError> {
        let Self { record, params, body, samples } = self;
        let insert = || {
            transaction
                .prepare_cached(
                    "INSERT INTO record (run, metric, params, verdict, body)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute((
                    run,
                    record.metric.as_str(),
                    params,
                    record.verdict.state.word(),
                    body,
                ))?;
            let number = transaction.last_insert_rowid();
            if let Some(samples) = samples {
                let crc = crc32fast::hash(samples.as_bytes());
                transaction
                    .prepare_cached("INSERT INTO samples (record, body, crc) VALUES (?1, ?2, ?3)")?
                    .execute((number, samples.as_bytes(), crc))?;
            }
            headline::insert(transaction, number, run_id, &Headline::from(*record))
        };
        insert().map_err(|error| match is_unique_violation(&error) {
            true => not_storable(run_id, record.name(), "the run has this record already"),
            false => failed(error),
        })
    }
}

/// Inserts the rows that can be stored; returns the errors of the others.
fn insert_all(
    rows: &[Result<RecordRows<'_>, StoreError>],
    transaction: &Transaction<'_>,
    run: (i64, &str),
    failed: ToError<'_>,
) -> Result<Vec<StoreError>, StoreError> {
    let mut refused = Vec::new();
    for row in rows {
        let inserted = match row {
            Ok(row) => row.insert(transaction, run, failed),
            Err(error) => Err(error.clone()),
        };
        match inserted {
            Err(error @ StoreError::NotStorable { .. }) => refused.push(error),
            done => done?,
        }
    }
    Ok(refused)
}

/// Deletes the records that meet a condition, with their samples and headlines.
pub(crate) fn delete_records(
    transaction: &Transaction<'_>,
    condition: &str,
    arguments: &[&dyn ToSql],
) -> rusqlite::Result<()> {
    for table in ["samples", "headline"] {
        let these = format!("(SELECT number FROM record WHERE {condition})");
        let delete = format!("DELETE FROM {table} WHERE record IN {these}");
        transaction.prepare_cached(&delete)?.execute(arguments)?;
    }
    let delete = format!("DELETE FROM record WHERE {condition}");
    transaction.prepare_cached(&delete)?.execute(arguments).map(drop)
}

/// The value as JSON that parses to an equal value. JSON has no infinity and no NaN: they would be
/// stored as null and read back as absent, or not at all.
fn json<T>(run: &str, what: impl FnOnce() -> String, value: &T) -> Result<String, StoreError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq,
{
    let text = serde_json::to_string(value);
    let back = |text: &String| -> Result<T, JsonError> { serde_json::from_str(text) };
    match text {
        Ok(text) if back(&text).is_ok_and(|back| back == *value) => Ok(text),
        _ => Err(not_storable(run, what(), "a number is not finite")),
    }
}

fn not_storable(run: &str, what: String, reason: &'static str) -> StoreError {
    StoreError::NotStorable { run: run.to_owned(), what, reason }
}

fn is_unique_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(ffi::SQLITE_CONSTRAINT_UNIQUE)
}
