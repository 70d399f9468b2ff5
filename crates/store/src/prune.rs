//! Freeing space: raw samples of old runs, or old runs whole.

use fathom_record::RunState;
use rusqlite::{Row, params};

use crate::column::{IS_SELECTION, LABEL, PROCEDURE, json_list, parse_word};
use crate::read::{current_state, owner, text};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldRun {
    number: i64,
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
                (SELECT total(length(samples.body)) FROM record JOIN samples
                    ON samples.record = record.number WHERE record.run = run.number),
                length(body) + length(host) + length(far) +
                    (SELECT total(length(record.body)) FROM record WHERE run = run.number)
             FROM run WHERE {LABEL} IS NULL AND number NOT IN (
                SELECT max(number) FROM run WHERE state = 'complete'
                    GROUP BY coalesce(host_id, host_name), {PROCEDURE}, {IS_SELECTION}
                UNION SELECT max(run.number) FROM record JOIN run ON run.number = record.run
                    WHERE {PROCEDURE} IS NULL AND verdict IN ('valid', 'noisy')
                    GROUP BY coalesce(host_id, host_name), metric, params)
             AND CASE WHEN ?1 IS NULL
                THEN number NOT IN (SELECT number FROM run ORDER BY number DESC LIMIT ?2)
                ELSE started < ?1 END ORDER BY number"
        );
        let (since, newest) = match keep {
            Keep::Newest(runs) => (None, *runs),
            Keep::Since(time) => (Some(time), 0),
        };
        let run = |row: &Row<'_>| {
            let state = current_state(
                parse_word(text(row, 1)).unwrap_or(RunState::Complete),
                &owner(row, 2, 5)?,
            );
            let size = |column| -> rusqlite::Result<u64> { Ok(row.get::<_, f64>(column)? as u64) };
            let old = OldRun { number: row.get(0)?, samples_bytes: size(6)?, bytes: size(7)? };
            Ok((!matches!(state, RunState::Running | RunState::Unknown)).then_some(old))
        };
        let read = || {
            let mut statement = self.connection.prepare_cached(&query)?;
            let rows = statement.query_map(params![since, newest], run)?;
            rows.filter_map(Result::transpose).collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| self.failed("read", error))
    }

    /// Deletes the raw samples of runs, then, if `whole`, the runs. Returns the bytes by which the
    /// file shrank: 0 if there is no room to rewrite it, and later runs then use the free space.
    pub fn prune(&mut self, runs: &[OldRun], whole: bool) -> Result<u64, StoreError> {
        let size = |store: &Self| std::fs::metadata(&store.path).map_or(0, |facts| facts.len());
        // What is in the log only has no place in the file yet.
        let whole_file = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.execute_batch(whole_file).map_err(|error| self.failed("write", error))?;
        let before = size(self);
        let these = json_list(runs.iter().map(|run| run.number));
        let of_runs = "run IN (SELECT value FROM json_each(?1))";
        self.write(|transaction, failed| {
            let samples = format!(
                "DELETE FROM samples WHERE record IN (SELECT number FROM record WHERE {of_runs})"
            );
            transaction.execute(&samples, [&these]).map(drop).map_err(failed)
        })?;
        if whole {
            self.write(|transaction, failed| {
                delete_records(transaction, of_runs, &[&these]).map_err(failed)?;
                let run = "DELETE FROM run WHERE number IN (SELECT value FROM json_each(?1))";
                transaction.execute(run, [&these]).map(drop).map_err(failed)
            })?;
        }
        // The copy is as large as the store: not in memory.
        let vacuum = format!("PRAGMA temp_store = file; VACUUM; {whole_file}");
        let _ = self.connection.execute_batch(&vacuum);
        let _ = self.connection.pragma_update(None, "temp_store", "memory");
        Ok(before.saturating_sub(size(self)))
    }
}
