//! Freeing space: raw samples of old runs, or old runs whole.

use std::collections::HashMap;

use fathom_record::RunState;

use crate::column::{IS_SELECTION, parse_word, text};
use crate::database::{Database, DatabaseRow, values};
use crate::read::{current_state, number, owner};
use crate::write::delete_records;
use crate::{Store, StoreError};

/// The runs that are kept, besides those with a label, those that may still be running, and what
/// views without a run show of each host: its last complete run of each command and of all metrics,
/// and the last number of each case of `fathom run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The last stored.
    Newest(u32),
    /// Those that started at this time or later: RFC 3339 in UTC.
    Since(String),
}

/// A run that is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldRun {
    number: i64,
    id: String,
    /// The size of its raw samples.
    pub samples_bytes: u64,
    /// The size of everything else.
    pub bytes: u64,
}

impl Store {
    /// The runs that are not kept, the oldest first.
    pub fn old_runs(&self, keep: &Keep) -> Result<Vec<OldRun>, StoreError> {
        let query = format!(
            "SELECT number, state, pid, pid_start_ticks, boot_id, pid_namespace,
                (SELECT coalesce(sum(octet_length(samples.body)), 0) FROM record JOIN samples
                    ON samples.record = record.number WHERE record.run = run.number),
                octet_length(body) + octet_length(host) + octet_length(far) +
                    (SELECT coalesce(sum(octet_length(record.body)), 0) FROM record
                        WHERE run = run.number),
                id
             FROM run WHERE label IS NULL AND number NOT IN (
                SELECT max(number) FROM run WHERE state = 'complete'
                    GROUP BY coalesce(host_id, host_name), procedure, {IS_SELECTION}
                UNION SELECT max(run.number) FROM record JOIN run ON run.number = record.run
                    WHERE procedure IS NULL AND verdict IN ('valid', 'noisy')
                    GROUP BY coalesce(host_id, host_name), metric, params)
             AND CASE WHEN CAST(?1 AS TEXT) IS NULL
                THEN number NOT IN (SELECT number FROM run ORDER BY number DESC LIMIT ?2)
                ELSE started < ?1 END ORDER BY number"
        );
        let (since, newest) = match keep {
            Keep::Newest(runs) => (None, *runs),
            Keep::Since(time) => (Some(time), 0),
        };
        let run = |row: &dyn DatabaseRow| {
            let state = parse_word(text(row, 1)).unwrap_or(RunState::Complete);
            let state = current_state(state, &owner(row, 2, 5)?, self.database.is_shared());
            let size = |column| Ok(number(row, column)?.try_into().unwrap_or_default());
            let old = OldRun {
                number: number(row, 0)?,
                id: text(row, 8),
                samples_bytes: size(6)?,
                bytes: size(7)?,
            };
            Ok((!matches!(state, RunState::Running | RunState::Unknown)).then_some(old))
        };
        Ok(self.database.rows(&query, values![since, newest], run)?.into_iter().flatten().collect())
    }

    /// Deletes a run. Returns as [`Self::prune`].
    pub fn delete_run(&mut self, id: &str) -> Result<u64, StoreError> {
        let before = self.database.size()?;
        self.delete(id)?;
        self.shrunk(before)
    }

    /// Deletes the raw samples of runs, then, if `whole`, the runs; not those with a label since
    /// then. Returns the bytes by which the store shrank: 0 if there is no room to
    /// rewrite it, and later runs then use the free space.
    pub fn prune(&mut self, runs: &[OldRun], whole: bool) -> Result<u64, StoreError> {
        let before = self.database.size()?;
        let of_runs = "run IN (LIST ?1)";
        self.write(|database| {
            let samples = format!(
                "DELETE FROM samples WHERE record IN (SELECT number FROM record WHERE {of_runs})"
            );
            database.execute(&samples, values![&still_old(database, runs)?])
        })?;
        if whole {
            self.write(|database| {
                let these = still_old(database, runs)?;
                delete_records(database, of_runs, values![&these])?;
                database.execute("DELETE FROM run WHERE number IN (LIST ?1)", values![&these])
            })?;
        }
        self.shrunk(before)
    }

    /// Gives free space back. Returns the bytes by which the store is smaller than `before`.
    fn shrunk(&self, before: u64) -> Result<u64, StoreError> {
        self.database.compact();
        Ok(before.saturating_sub(self.database.size()?))
    }
}

/// The numbers of those runs that are as they were listed. Another process may have deleted one and
/// begun a run that has its number now.
fn still_old(database: &dyn Database, runs: &[OldRun]) -> Result<Vec<i64>, StoreError> {
    let listed: HashMap<i64, &str> = runs.iter().map(|run| (run.number, &*run.id)).collect();
    let numbers: Vec<i64> = listed.keys().copied().collect();
    let query = "SELECT number, id FROM run WHERE number IN (LIST ?1) AND label IS NULL";
    let found =
        database.rows(query, values![&numbers], |row| Ok((number(row, 0)?, text(row, 1))))?;
    let same = found.into_iter().filter(|(number, id)| listed[number] == id);
    Ok(same.map(|(number, _)| number).collect())
}
