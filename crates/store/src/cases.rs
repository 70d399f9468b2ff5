//! The newest record of each case. Each is found by an index, however many runs there are.

use fathom_record::{Document, Host, Params};

use crate::column::{bytes, optional, parse, text};
use crate::database::{DatabaseRow, values};
use crate::read::{Readable, number, without_damaged};
use crate::{Store, StoreError};

/// Which runs are searched.
#[derive(Clone, Copy, Debug)]
pub struct CaseSearch<'a> {
    /// An [`identity`](Host::identity).
    pub host: &'a str,
    /// Only runs on the kernel and the CPUs of this one.
    pub like: Option<&'a Host>,
    /// Only valid and noisy records.
    pub numbers: bool,
    /// Only runs that came to their end.
    pub complete: bool,
}

impl<'a> CaseSearch<'a> {
    pub fn on_host(host: &'a str) -> Self {
        Self { host, like: None, numbers: false, complete: false }
    }

    /// Numbers of runs that came to their end.
    pub fn whole(self) -> Self {
        Self { numbers: true, complete: true, ..self }
    }
}

/// The newest record of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCase {
    /// The id of its run.
    pub run: String,
    /// The command by hand of that run.
    pub procedure: Option<String>,
    pub metric: String,
    pub params: Params,
    /// The rows of the run, which are in the order stored, and of the record.
    numbers: (i64, i64),
}

/// The first record of a case after the one before, and so on: as many steps as there are cases.
const CASES: &str = "WITH RECURSIVE one (params) AS (
    SELECT min(params) FROM record WHERE metric = ?1
    UNION ALL
    SELECT (SELECT min(params) FROM record WHERE metric = ?1 AND params > one.params)
    FROM one WHERE one.params IS NOT NULL)";

impl Store {
    /// The newest record of each case of these metrics, by the order of their runs, the oldest
    /// first.
    pub fn newest_cases<'m>(
        &self,
        metrics: impl IntoIterator<Item = &'m str>,
        search: CaseSearch<'_>,
    ) -> Result<Vec<StoredCase>, StoreError> {
        let query = format!(
            "{CASES} SELECT record.number, run.number, run.id, record.params, run.procedure
             FROM one CROSS JOIN record ON record.number = (
                SELECT other.number FROM record AS other CROSS JOIN run AS its
                    ON its.number = other.run
                WHERE other.metric = ?1 AND other.params = one.params
                    AND coalesce(its.host_id, its.host_name) = ?2
                    AND (NOT ?3 OR other.verdict IN ('valid', 'noisy'))
                    AND (CAST(?4 AS TEXT) IS NULL OR (its.kernel = ?4 AND its.cpu_model = ?5
                        AND its.logical_cpus = ?6))
                    AND (NOT ?7 OR its.state = 'complete')
                ORDER BY other.run DESC LIMIT 1)
             CROSS JOIN run ON run.number = record.run"
        );
        let CaseSearch { host, like, numbers, complete } = search;
        let [kernel, model] = [like.map(|it| &it.kernel), like.map(|it| &it.cpu.model)];
        let logical = like.map(|it| it.cpu.logical);
        let cases_of = |metric: &str| {
            let case = |row: &dyn DatabaseRow| {
                Ok(StoredCase {
                    run: text(row, 2),
                    procedure: optional(row, 4),
                    metric: metric.to_owned(),
                    params: parse(bytes(row, 3)).unwrap_or_default(),
                    numbers: (number(row, 1)?, number(row, 0)?),
                })
            };
            let arguments = values![metric, host, numbers, kernel, model, logical, complete];
            self.database.rows(&query, arguments, case)
        };
        let metrics: Vec<&str> = metrics.into_iter().collect();
        self.database.foresee(|| metrics.iter().for_each(|metric| drop(cases_of(metric))))?;
        let mut cases = Vec::new();
        for metric in metrics {
            cases.extend(cases_of(metric)?);
        }
        cases.sort_by_key(|case: &StoredCase| case.numbers);
        Ok(cases)
    }

    /// The metrics of a group that have records, in alphabetical order.
    pub fn metrics_of(&self, group: &str) -> Result<Vec<String>, StoreError> {
        // By the index; `/` follows the dot.
        let query = "SELECT DISTINCT metric FROM record WHERE metric >= ?1 AND metric < ?2
            ORDER BY metric";
        let [first, end] = [format!("{group}."), format!("{group}/")];
        self.database.rows(query, values![&first, &end], |row| Ok(text(row, 0)))
    }

    /// Those records in their runs, the oldest first, without samples. Damaged ones are left out.
    pub fn records_of(&self, cases: &[StoredCase]) -> Result<Readable<Document>, StoreError> {
        let of_runs = "run.number IN (SELECT run FROM record WHERE number IN (LIST ?1))";
        let of_records = "record.number IN (LIST ?1)";
        let records: Vec<i64> = cases.iter().map(|case| case.numbers.1).collect();
        Ok(without_damaged(self.documents([of_runs, of_records], values![&records], false)?))
    }
}
