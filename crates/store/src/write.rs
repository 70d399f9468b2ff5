//! Writing: the begin of a run, its records one by one, its end.

use std::path::Path;

use fathom_record::{Document, Headline, Host, Record, Run};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, ffi, params};
use serde_json::Error as JsonError;

use crate::column::word;
use crate::error::persevere;
use crate::liveness::{Owner, PROC};
use crate::read::run_crc;
use crate::{Store, StoreError, headline};

/// Makes an error of SQLite's one of ours, with what was done and where.
type ToError<'e> = &'e dyn Fn(rusqlite::Error) -> StoreError;

impl Store {
    /// Stores a new run, its tool and its hosts, without records. The run belongs to this process:
    /// when that is gone without [`Store::update_run`], the run counts as interrupted.
    ///
    /// # Errors
    /// [`StoreError::RunExists`] where the store has the id already; where writing fails.
    pub fn begin(&mut self, document: &Document) -> Result<(), StoreError> {
        let row = RunRow::of(document)?;
        self.write(|transaction, failed| row.insert(transaction, failed))
    }

    /// Stores a whole run that is over, in one transaction: all of it, or nothing. False
    /// where the store has that run already, which is left as it is.
    ///
    /// # Errors
    /// As [`Store::begin`] and [`Store::add`]; where writing fails.
    pub fn import(&mut self, document: &Document) -> Result<bool, StoreError> {
        let run = &document.run;
        let row = RunRow::of(document)?;
        let texts: Result<Vec<RecordTexts>, StoreError> =
            document.records.iter().map(|record| RecordTexts::of(&run.id, record)).collect();
        let texts = texts?;
        self.write(|transaction, failed| {
            match row.insert(transaction, failed) {
                Err(StoreError::RunExists { .. }) => return Ok(false),
                done => done?,
            }
            let number = transaction.last_insert_rowid();
            for (record, texts) in document.records.iter().zip(&texts) {
                insert(transaction, (number, &run.id), record, texts, failed)?;
            }
            Ok(true)
        })
    }

    /// Stores one record of a run, its samples apart, in one transaction. When this returns `Ok`
    /// the record is on the disk, whole; otherwise nothing of it is.
    ///
    /// # Errors
    /// [`StoreError::NotSealed`] where its checksum does not fit; [`StoreError::NotStorable`] where
    /// it holds a number that JSON cannot; [`StoreError::Duplicate`] where the run has this metric
    /// with these parameters; [`StoreError::NoSuchRun`]; where writing fails.
    pub fn add(&mut self, run_id: &str, record: &Record) -> Result<(), StoreError> {
        let texts = RecordTexts::of(run_id, record)?;
        let found = self.write(|transaction, failed| {
            let run = transaction
                .query_row("SELECT number FROM run WHERE id = ?1", [run_id], |row| row.get(0))
                .optional()
                .map_err(failed)?;
            let Some(run) = run else { return Ok(false) };
            insert(transaction, (run, run_id), record, &texts, failed).map(|()| true)
        })?;
        match found {
            true => Ok(()),
            false => Err(self.no_such_run(run_id)?),
        }
    }

    /// Puts these records in the place of all that a run has, in one transaction.
    ///
    /// # Errors
    /// As [`Store::add`].
    pub fn replace_records(&mut self, run_id: &str, records: &[Record]) -> Result<(), StoreError> {
        let texts: Result<Vec<RecordTexts>, StoreError> =
            records.iter().map(|record| RecordTexts::of(run_id, record)).collect();
        let texts = texts?;
        let found = self.write(|transaction, failed| {
            let run: Option<i64> = transaction
                .query_row("SELECT number FROM run WHERE id = ?1", [run_id], |row| row.get(0))
                .optional()
                .map_err(failed)?;
            let Some(run) = run else { return Ok(false) };
            for table in ["samples", "headline"] {
                let of_run = "(SELECT number FROM record WHERE run = ?1)";
                let delete = format!("DELETE FROM {table} WHERE record IN {of_run}");
                transaction.execute(&delete, [run]).map_err(failed)?;
            }
            transaction.execute("DELETE FROM record WHERE run = ?1", [run]).map_err(failed)?;
            for (record, texts) in records.iter().zip(&texts) {
                insert(transaction, (run, run_id), record, texts, failed)?;
            }
            Ok(true)
        })?;
        match found {
            true => Ok(()),
            false => Err(self.no_such_run(run_id)?),
        }
    }

    /// Replaces what is known of a run that was begun: its state, its end, its clock, its verdict.
    /// Tool, host and records stay.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] where it was never begun; where writing fails.
    pub fn update_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let body = same_again(run, "the run", run)?;
        let found = self.write(|transaction, failed| {
            let kept = transaction
                .query_row("SELECT tool, host, far FROM run WHERE id = ?1", [&run.id], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()
                .map_err(failed)?;
            let Some((tool, host, far)) = kept else {
                return Ok(false);
            };
            let texts = RunTexts { tool, body: body.clone(), host, far };
            transaction
                .execute(
                    "UPDATE run SET started = ?2, ended = ?3, state = ?4, effort = ?5, body = ?6,
                        crc = ?7 WHERE id = ?1",
                    params![
                        run.id,
                        run.started,
                        run.ended,
                        word(&run.state),
                        run.effort.word(),
                        texts.body,
                        texts.crc(),
                    ],
                )
                .map_err(failed)?;
            Ok(true)
        })?;
        match found {
            true => Ok(()),
            false => Err(self.no_such_run(&run.id)?),
        }
    }

    /// One transaction: all of `work`, or nothing. It takes the lock for writing at its begin, so
    /// that what it reads cannot change before it writes. One that failed is undone, and so can be
    /// tried again.
    fn write<T>(
        &mut self,
        work: impl Fn(&Transaction<'_>, ToError<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = &self.path;
        let failed = |error| StoreError::from_sqlite("write", path, error);
        persevere(|| {
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

/// All of a run's row.
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
            tool: same_again(run, "the tool", tool)?,
            body: same_again(run, "the run", run)?,
            host: same_again(run, "the host", host)?,
            far: same_again(run, "the far hosts", far)?,
        };
        Ok(Self { run, host, texts, owner: Owner::current(Path::new(PROC)) })
    }

    fn insert(&self, transaction: &Transaction<'_>, failed: ToError<'_>) -> Result<(), StoreError> {
        let Self { run, host, texts, owner } = self;
        let done = transaction.execute(
            "INSERT INTO run (id, started, ended, state, effort, host_name, host_id, kernel,
                cpu_model, pid, pid_start_ticks, boot_id, tool, body, host, far, crc)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                ?17)",
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
            ],
        );
        match done {
            Ok(_) => Ok(()),
            Err(error) if is_there_already(&error) => {
                Err(StoreError::RunExists { run: run.id.clone() })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// The JSON of a run's row.
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

/// The JSON of a record's rows.
struct RecordTexts {
    params: String,
    body: String,
    samples: Option<String>,
}

impl RecordTexts {
    fn of(run: &str, record: &Record) -> Result<Self, StoreError> {
        let name = || record.name();
        if !record.is_intact() {
            return Err(StoreError::NotSealed { run: run.to_owned(), record: name() });
        }
        let bare = Record { samples: None, ..record.clone() };
        let samples = record.samples.as_ref();
        Ok(Self {
            params: json(run, name, &record.params)?,
            body: json(run, name, &bare)?,
            samples: samples
                .map(|samples| json(run, || format!("the samples of {}", name()), samples))
                .transpose()?,
        })
    }
}

/// Stores a record of the run of this number and id.
fn insert(
    transaction: &Transaction<'_>,
    (run, run_id): (i64, &str),
    record: &Record,
    texts: &RecordTexts,
    failed: ToError<'_>,
) -> Result<(), StoreError> {
    let RecordTexts { params, body, samples } = texts;
    let insert = || {
        transaction
            .prepare_cached(
                "INSERT INTO record (run, metric, params, verdict, body)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((run, record.metric.as_str(), params, record.verdict.state.word(), body))?;
        let number = transaction.last_insert_rowid();
        if let Some(samples) = samples {
            let crc = crc32fast::hash(samples.as_bytes());
            transaction
                .prepare_cached("INSERT INTO samples (record, body, crc) VALUES (?1, ?2, ?3)")?
                .execute((number, samples.as_bytes(), crc))?;
        }
        headline::insert(transaction, number, run_id, &Headline::from(record))
    };
    insert().map_err(|error| match is_there_already(&error) {
        true => StoreError::Duplicate { run: run_id.to_owned(), record: record.name() },
        false => failed(error),
    })
}

fn same_again<T>(run: &Run, what: &str, value: &T) -> Result<String, StoreError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq,
{
    json(&run.id, || what.to_owned(), value)
}

/// The value as JSON that reads back as the same value. JSON has no infinity and no NaN: it would
/// keep them as null, and the reader would find a hole, or no record at all.
fn json<T>(run: &str, what: impl FnOnce() -> String, value: &T) -> Result<String, StoreError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq,
{
    let text = serde_json::to_string(value);
    let back = |text: &String| -> Result<T, JsonError> { serde_json::from_str(text) };
    match text {
        Ok(text) if back(&text).is_ok_and(|back| back == *value) => Ok(text),
        _ => Err(StoreError::NotStorable { run: run.to_owned(), what: what() }),
    }
}

fn is_there_already(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(ffi::SQLITE_CONSTRAINT_UNIQUE)
}
