//! Taking runs from another store, and checking everything that one has.

use fathom_record::{Counts, Document, Record, RunState};

use crate::column::{parse_word, text};
use crate::database::{DatabaseRow, values};
use crate::headline::{self, Cases};
use crate::liveness::Owner;
use crate::raw_record::{self, WITH_SAMPLES};
use crate::read::{ParsedFacts, document, owner, with_samples_join};
use crate::write::{
    RecordRows, WriteRunRow as NewRow, delete_records, find_run, insert_all, update,
};
use crate::{RunRow, Store, StoreError};

/// What became of a run that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    New,
    /// In place of what was taken of it while it ran.
    Renewed,
    /// It had been taken whole.
    Known,
}

/// What was found of a run.
#[derive(Debug)]
pub struct Checked {
    /// The intact ones.
    pub records: usize,
    pub damage: Vec<StoreError>,
}

impl Store {
    /// Takes a run of another store as it is there, in one transaction. What is repeated, or done
    /// by several processes at once, stores each record once; a run that has ended here is left
    /// unchanged. Returns its state, too.
    pub fn take(&mut self, from: &Self, id: &str) -> Result<(Taken, RunState), StoreError> {
        let mut document = from.document(id, true)?;
        let state = document.run.state;
        if state == RunState::Unknown {
            document.run.state = RunState::Running;
        }
        let row = NewRow::from_document(&document, from.owner_of(id)?)?;
        let rows = RecordRows::of_all(id, &document.records);
        let taken = self.write(|database| {
            if let Some(number) = row.insert(database)? {
                return refuse_none(insert_all(&rows, database, (number, id))?, Taken::New);
            }
            let number = find_run(database, id)?.unwrap_or_default();
            let query = "SELECT state FROM run WHERE number = ?1";
            let found = database.first(query, values![number], |row| {
                Ok(parse_word(text(row, 0)).unwrap_or(RunState::Interrupted))
            })?;
            if found != Some(RunState::Running) {
                return Ok(Taken::Known);
            }
            update(database, number, &document.run, &row.texts.body)?;
            delete_records(database, "run = ?1", values![number])?;
            refuse_none(insert_all(&rows, database, (number, id))?, Taken::Renewed)
        })?;
        Ok((taken, state))
    }

    /// The process that began a run.
    fn owner_of(&self, id: &str) -> Result<Owner, StoreError> {
        let query = "SELECT pid, pid_start_ticks, boot_id, pid_namespace FROM run WHERE id = ?1";
        let found = self.database.first(query, values![id], |row| owner(row, 0, 3))?;
        found.map_or_else(|| Err(self.no_such_run(id)?), Ok)
    }

    /// Deletes a run with everything that it has.
    pub fn delete(&mut self, id: &str) -> Result<(), StoreError> {
        self.write(|database| {
            let of_run = "run IN (SELECT number FROM run WHERE id = ?1)";
            delete_records(database, of_run, values![id])?;
            database.execute("DELETE FROM run WHERE id = ?1", values![id])
        })
    }

    /// Damage of the file as a whole.
    pub fn damage(&self) -> Result<Vec<String>, StoreError> {
        self.database.damage()
    }

    /// Reads everything that is stored of a run against its checksums, and the columns of lists
    /// against what they repeat.
    pub fn check(&self, row: &RunRow) -> Result<Checked, StoreError> {
        let condition = ["run.id = ?1", "true"];
        let arguments = values![&row.id];
        let mut damage = Vec::new();
        let mut records = Vec::new();
        let whole = |row: &dyn DatabaseRow| {
            match raw_record::read(row) {
                Ok(record) => records.push(record),
                Err(error) => damage.push(error),
            }
            Ok(())
        };
        let columns = with_samples_join(WITH_SAMPLES);
        let head = |run, shared, _| document(run, shared, Vec::new());
        let runs =
            self.read_runs(ParsedFacts::default(), condition, arguments, columns, whole, head)?;
        let mut cases = Cases::new();
        let headlines = |row: &dyn DatabaseRow| {
            damage.extend(headline::read(row, &mut cases).err());
            Ok(())
        };
        let of_headlines = [headline::COLUMNS, headline::JOIN];
        let known = ParsedFacts::default();
        self.read_runs(known, condition, arguments, of_headlines, headlines, |_, _, _| ())?;
        for run in runs {
            match run {
                Ok(run) => damage.extend(differs(row, &run, &records, damage.is_empty())),
                Err(error) => damage.push(error),
            }
        }
        damage.dedup_by_key(|error| error.to_string());
        Ok(Checked { records: records.len(), damage })
    }
}

fn refuse_none(refused: Vec<StoreError>, taken: Taken) -> Result<Taken, StoreError> {
    refused.into_iter().next().map_or(Ok(taken), Err)
}

/// Whether the columns of a run's row are other than what they repeat.
fn differs(row: &RunRow, run: &Document, records: &[Record], is_whole: bool) -> Option<StoreError> {
    let counts = Counts::from_states(records.iter().map(|record| record.verdict.state));
    let Document { run, host, .. } = run;
    let is_same = (&row.label, &row.started, &row.ended) == (&run.label, &run.started, &run.ended)
        && (&row.asked, &row.procedure, row.effort) == (&run.asked, &run.procedure, run.effort)
        && (&row.host_name, &row.host_id) == (&host.name, &host.id)
        && (&row.kernel, &row.cpu_model) == (&host.kernel, &host.cpu.model)
        && row.state == run.state
        && (row.counts == counts || !is_whole);
    let reason = "its columns differ from it".to_owned();
    (!is_same).then(|| StoreError::damaged(&run.id, "the row of the run", reason))
}
