//! Writing: the begin of a run, its records one by one, its end.

use std::path::Path;

use fathom_record::{Document, Headline, Host, Record, Run};
use serde_json::Error as JsonError;

use crate::column::{optional, text, word};
use crate::database::{Database, DatabaseAccess, DatabaseValue, values};
use crate::error::retry_device_errors;
use crate::liveness::{Owner, PROC};
use crate::read::{number, run_crc};
use crate::{Store, StoreError, headline};

impl Store {
    /// Stores a new run, its tool, its hosts and its records so far, as [`Store::put`] does. The
    /// run belongs to this process: if that ends without [`Store::update_run`], the run counts as
    /// interrupted.
    pub fn begin(&mut self, document: &Document) -> Result<Vec<StoreError>, StoreError> {
        let id = &document.run.id;
        let row = WriteRunRow::from_document(document, current_owner())?;
        let rows = RecordRows::of_all(id, &document.records);
        self.write(|database| match row.insert(database)? {
            Some(number) => insert_all(&rows, database, (number, id)),
            None => Err(StoreError::RunExists { run: id.clone() }),
        })
    }

    /// Stores a whole run that has ended, in one transaction. False if the store has a run with
    /// this id, which is left unchanged.
    pub fn import(&mut self, document: &Document) -> Result<bool, StoreError> {
        let id = &document.run.id;
        let row = WriteRunRow::from_document(document, current_owner())?;
        let rows = RecordRows::of_all(id, &document.records);
        let rows: Vec<RecordRows<'_>> = rows.into_iter().collect::<Result<_, _>>()?;
        self.write(|database| {
            let Some(number) = row.insert(database)? else { return Ok(false) };
            rows.iter().try_for_each(|row| row.insert(database, (number, id)))?;
            Ok(true)
        })
    }

    /// Stores records of a run with their samples in one transaction, in place of earlier ones of
    /// the same cases. One that cannot be stored costs itself only: returns the errors of those.
    /// After `Ok` all others are on the disk; after an error nothing is stored.
    pub fn put(&mut self, run_id: &str, records: &[Record]) -> Result<Vec<StoreError>, StoreError> {
        let rows = RecordRows::of_all(run_id, records);
        self.write_run(run_id, |database, run| {
            for RecordRows { record, params, .. } in rows.iter().flatten() {
                let same = "run = ?1 AND metric = ?2 AND params = ?3";
                let case = values![run, record.metric.as_str(), params];
                delete_records(database, same, case)?;
            }
            insert_all(&rows, database, (run, run_id))
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
        self.write_run(run_id, |database, run| {
            delete_records(database, "run = ?1", values![run])?;
            insert_all(&rows, database, (run, run_id))
        })
    }

    /// Replaces the state, end, clock, verdict and other facts of a run that was begun. Its tool,
    /// hosts and records stay.
    pub fn update_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let body = json(&run.id, || "the run".to_owned(), run)?;
        self.write_run(&run.id, |database, number| update(database, number, run, &body))
    }

    /// Gives the id of a host to its runs that have the one of an earlier version, and to the far
    /// hosts of runs. Damaged runs, and those of another name, stay as they are.
    pub fn map_host(&mut self, former: &str, host: &Host) -> Result<(), StoreError> {
        let Some(id) = host.id.as_deref() else { return Ok(()) };
        // The length is in the head of a row, the text on pages of its own: without far hosts, and
        // thus in most runs, these are not read.
        let these = "(host_id = ?1 AND host_name = ?2) OR (octet_length(far) > 2 AND far LIKE ?3)";
        let (far, name) = (format!("%{former}%"), host.name.as_str());
        let arguments = values![former, name, &far];
        let count = format!("SELECT count(*) FROM run WHERE {these}");
        if self.database.integer(&count, arguments)? == 0 {
            return Ok(());
        }
        let query = format!(
            "SELECT number, tool, body, host, far, crc, host_id FROM run WHERE {these}{}",
            self.database.for_update()
        );
        self.write(|database| {
            let rows = database.rows(&query, arguments, |row| {
                let [tool, body, host, far] = [1, 2, 3, 4].map(|column| text(row, column));
                let texts = RunTexts { tool, body, host, far };
                Ok((number(row, 0)?, texts, row.integer(5)?, optional(row, 6)))
            })?;
            for (number, texts, crc, host_id) in rows {
                if crc != Some(i64::from(texts.crc())) {
                    continue;
                }
                let is_own = host_id.as_deref() == Some(former);
                let [host, far] = [&texts.host, &texts.far].map(|it| it.replace(former, id));
                let host = if is_own { host } else { texts.host.clone() };
                let texts = RunTexts { host, far, ..texts };
                let host_id = if is_own { Some(id) } else { host_id.as_deref() };
                let update = "UPDATE run SET host_id = ?2, host = ?3, far = ?4, crc = ?5
                    WHERE number = ?1";
                let values = values![number, host_id, &texts.host, &texts.far, texts.crc()];
                database.execute(update, values)?;
            }
            Ok(())
        })
    }

    /// One transaction on the run with this id; `work` gets the number of its row.
    fn write_run<T>(
        &mut self,
        run_id: &str,
        work: impl Fn(&dyn Database, i64) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = self.write(|database| {
            find_run(database, run_id)?.map(|run| work(database, run)).transpose()
        })?;
        match done {
            Some(done) => Ok(done),
            None => Err(self.no_such_run(run_id)?),
        }
    }

    /// One transaction that writes. A failed one is rolled back, so it can be retried.
    pub(crate) fn write<T>(
        &mut self,
        work: impl Fn(&dyn Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = &*self.database;
        retry_device_errors(|| database.transaction(DatabaseAccess::Write, || work(database)))
    }
}

fn current_owner() -> Owner {
    Owner::current(Path::new(PROC))
}

/// The number of a run's row, which no other writer changes before the end of the transaction.
pub(crate) fn find_run(database: &dyn Database, id: &str) -> Result<Option<i64>, StoreError> {
    let query = format!("SELECT number FROM run WHERE id = ?1{}", database.for_update());
    database.first(&query, values![id], |row| number(row, 0))
}

/// Replaces the facts of a run in its row.
pub(crate) fn update(
    database: &dyn Database,
    number: i64,
    run: &Run,
    body: &str,
) -> Result<(), StoreError> {
    let query = "SELECT tool, host, far FROM run WHERE number = ?1";
    let texts = database.first(query, values![number], |row| {
        let [tool, host, far] = [0, 1, 2].map(|column| text(row, column));
        Ok(RunTexts { tool, body: body.to_owned(), host, far })
    })?;
    let crc = texts.map_or(0, |texts| texts.crc());
    let update = "UPDATE run SET started = ?2, ended = ?3, state = ?4, effort = ?5, body = ?6,
        crc = ?7, label = ?8, procedure = ?9, asked = ?10 WHERE number = ?1";
    database.execute(
        update,
        values![
            number,
            &run.started,
            run.ended.as_ref(),
            &word(&run.state),
            run.effort.word(),
            body,
            crc,
            run.label.as_ref(),
            run.procedure.as_ref(),
            &asked(run),
        ],
    )
}

fn asked(run: &Run) -> String {
    serde_json::to_string(&run.asked).expect("a list of texts")
}

/// The row of a run.
pub(crate) struct WriteRunRow<'r> {
    run: &'r Run,
    host: &'r Host,
    pub(crate) texts: RunTexts,
    owner: Owner,
}

impl<'r> WriteRunRow<'r> {
    pub(crate) fn from_document(document: &'r Document, owner: Owner) -> Result<Self, StoreError> {
        let Document { tool, run, host, far, .. } = document;
        let texts = RunTexts {
            tool: json(&run.id, || "the tool".to_owned(), tool)?,
            body: json(&run.id, || "the run".to_owned(), run)?,
            host: json(&run.id, || "the host".to_owned(), host)?,
            far: json(&run.id, || "the far hosts".to_owned(), far)?,
        };
        Ok(Self { run, host, texts, owner })
    }

    /// The number of the new row; `None` if there is a run with this id.
    pub(crate) fn insert(&self, database: &dyn Database) -> Result<Option<i64>, StoreError> {
        let Self { run, host, texts, owner } = self;
        let insert = "INSERT INTO run (id, started, ended, state, effort, host_name, host_id,
                kernel, cpu_model, pid, pid_start_ticks, boot_id, tool, body, host, far, crc,
                pid_namespace, label, procedure, asked, logical_cpus)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                ?17, ?18, ?19, ?20, ?21, ?22)
             ON CONFLICT DO NOTHING RETURNING number";
        let (state, asked) = (word(&run.state), asked(run));
        let arguments = values![
            &run.id,
            &run.started,
            run.ended.as_ref(),
            &state,
            run.effort.word(),
            &host.name,
            host.id.as_ref(),
            &host.kernel,
            &host.cpu.model,
            owner.pid,
            owner.start_ticks,
            owner.boot_id.as_ref(),
            &texts.tool,
            &texts.body,
            &texts.host,
            &texts.far,
            texts.crc(),
            owner.namespace.as_ref(),
            run.label.as_ref(),
            run.procedure.as_ref(),
            &asked,
            host.cpu.logical,
        ];
        database.first(insert, arguments, |row| number(row, 0))
    }
}

/// The JSON columns of a run's row.
pub(crate) struct RunTexts {
    tool: String,
    pub(crate) body: String,
    host: String,
    far: String,
}

impl RunTexts {
    fn crc(&self) -> u32 {
        run_crc([&self.tool, &self.body, &self.host, &self.far].map(|text| text.as_bytes()))
    }
}

/// A record and the JSON columns of its rows.
pub(crate) struct RecordRows<'r> {
    record: &'r Record,
    params: String,
    body: String,
    samples: Option<String>,
}

impl<'r> RecordRows<'r> {
    pub(crate) fn of_all(run: &str, records: &'r [Record]) -> Vec<Result<Self, StoreError>> {
        records.iter().map(|record| Self::from_run(run, record)).collect()
    }

    fn from_run(run: &str, record: &'r Record) -> Result<Self, StoreError> {
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

    /// Fails with [`StoreError::NotStorable`] if the run has this record, and changes nothing.
    fn insert(
        &self,
        database: &dyn Database,
        (run, run_id): (i64, &str),
    ) -> Result<(), StoreError> {
        let Self { record, params, body, samples } = self;
        let insert = "INSERT INTO record (run, metric, params, verdict, body)
            VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING RETURNING number";
        let verdict = record.verdict.state.word();
        let arguments = values![run, record.metric.as_str(), params, verdict, body];
        let Some(number) = database.first(insert, arguments, |row| number(row, 0))? else {
            let reason = "the run has this record already";
            return Err(not_storable(run_id, record.name(), reason));
        };
        if let Some(samples) = samples {
            let crc = crc32fast::hash(samples.as_bytes());
            let statement = "INSERT INTO samples (record, body, crc) VALUES (?1, ?2, ?3)";
            database.execute(statement, values![number, samples.as_bytes(), crc])?;
        }
        headline::insert(database, number, run_id, &Headline::from(*record))
    }
}

/// Inserts the rows that can be stored; returns the errors of the others.
pub(crate) fn insert_all(
    rows: &[Result<RecordRows<'_>, StoreError>],
    database: &dyn Database,
    run: (i64, &str),
) -> Result<Vec<StoreError>, StoreError> {
    let mut refused = Vec::new();
    for row in rows {
        let inserted = match row {
            Ok(row) => row.insert(database, run),
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
    database: &dyn Database,
    condition: &str,
    arguments: &[DatabaseValue<'_>],
) -> Result<(), StoreError> {
    for table in ["samples", "headline"] {
        let these = format!("(SELECT number FROM record WHERE {condition})");
        database.execute(&format!("DELETE FROM {table} WHERE record IN {these}"), arguments)?;
    }
    database.execute(&format!("DELETE FROM record WHERE {condition}"), arguments)
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
