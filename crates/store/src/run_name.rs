//! Run names: an id, an id prefix, a label, `latest`, `latest~2`.

use rusqlite::OptionalExtension;

use crate::{Store, StoreError};

/// A shorter prefix would often match several runs.
const PREFIX_MIN: usize = 4;

/// The label of a run in SQL; null if the row is damaged.
pub(crate) const LABEL: &str = "CASE WHEN json_valid(body) THEN body ->> '$.label' END";

/// The runs with records, the newest first.
const LATEST: &str = "SELECT id FROM run
    WHERE EXISTS (SELECT 1 FROM record WHERE record.run = run.number)
    ORDER BY id DESC LIMIT 1 OFFSET ?1";

impl Store {
    /// The id of the run with this name: an id, a label that one run has, a prefix of at least 4
    /// characters that one id has, `latest`, or `latest~N` for the N-th run before it, in this
    /// order. A running run can be the latest; a run without records is not.
    pub fn resolve(&self, name: &str) -> Result<String, StoreError> {
        if let Some(rest) = name.strip_prefix("latest") {
            return self.before_latest(name, rest);
        }
        let prefix = "substr(id, 1, length(?1)) = ?1 COLLATE NOCASE";
        let starting = self.ids_where(prefix, name)?;
        if let Some(whole) = starting.iter().find(|id| id.eq_ignore_ascii_case(name)) {
            return Ok(whole.clone());
        }
        let labelled = self.ids_where(&format!("{LABEL} = ?1"), name)?;
        if labelled.is_empty() {
            let is_prefix = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if name.is_empty() || !is_prefix {
                return Err(StoreError::BadName { name: name.to_owned() });
            }
            if name.len() < PREFIX_MIN {
                return Err(StoreError::TooShort { name: name.to_owned(), min: PREFIX_MIN });
            }
        }
        let mut candidates = if labelled.is_empty() { starting } else { labelled };
        match candidates.len() {
            0 => Err(self.no_such_run(name)?),
            1 => Ok(candidates.remove(0)),
            _ => Err(StoreError::Ambiguous { name: name.to_owned(), candidates }),
        }
    }

    fn before_latest(&self, name: &str, rest: &str) -> Result<String, StoreError> {
        let back = match rest.strip_prefix('~') {
            None if rest.is_empty() => Some(0),
            None => None,
            Some(digits) => digits.parse::<u32>().ok(),
        };
        let Some(back) = back else {
            return Err(StoreError::BadName { name: name.to_owned() });
        };
        let found = self
            .connection
            .query_row(LATEST, [back], |row| row.get(0))
            .optional()
            .map_err(|error| self.failed("read", error))?;
        match found {
            Some(id) => Ok(id),
            None => Err(self.no_such_run(name)?),
        }
    }

    /// The runs that a condition on `?1` selects, newest first.
    fn ids_where(&self, condition: &str, name: &str) -> Result<Vec<String>, StoreError> {
        let query = format!("SELECT id FROM run WHERE {condition} ORDER BY id DESC");
        let read = || {
            let mut statement = self.connection.prepare_cached(&query)?;
            let rows = statement.query_map([name], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| self.failed("read", error))
    }

    /// The error for a name that no run has.
    pub(crate) fn no_such_run(&self, name: &str) -> Result<StoreError, StoreError> {
        let query = "SELECT count(*), count(*) FILTER (WHERE NOT EXISTS
            (SELECT 1 FROM record WHERE record.run = run.number)) FROM run";
        let (runs, empty) = self
            .connection
            .query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(|error| self.failed("read", error))?;
        Ok(StoreError::NoSuchRun { name: name.to_owned(), runs, empty })
    }
}
