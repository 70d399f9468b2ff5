//! A page of the list of runs, filtered in the store, and what it can be filtered by: ten thousand
//! runs are not read for the hundred that are shown.

use std::collections::BTreeMap;

use fathom_record::{KINDS, Params};

use crate::column::{IS_SELECTION, bytes, optional, parse, text};
use crate::database::{DatabaseRow, DatabaseValue};
use crate::{RunRow, Store, StoreError};

/// Which runs are listed; all where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A name or an [`identity`](fathom_record::Host::identity) of a host.
    pub host: Option<String>,
    pub label: Option<String>,
    /// One of [`KINDS`].
    pub kind: Option<String>,
    /// Runs with records of this metric or group.
    pub metric: Option<String>,
    /// Runs that started at this time or later: RFC 3339 in UTC, or the beginning of it.
    pub since: Option<String>,
    /// Runs that started before the end of this time: of the whole day, if it is a date.
    pub until: Option<String>,
}

/// A case in several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTrend {
    pub params: Params,
    /// As in records.
    pub unit: String,
    /// By the id of the run.
    pub values: BTreeMap<String, f64>,
}

/// A name that runs of a host have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    pub id: Option<String>,
    pub name: String,
}

impl HostName {
    /// The host's [`identity`](fathom_record::Host::identity).
    pub fn identity(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.name)
    }
}

impl Filter {
    /// The conditions as SQL, and their arguments.
    fn conditions(&self) -> (String, Vec<String>) {
        let mut conditions = vec!["true".to_owned()];
        let mut arguments = Vec::new();
        let mut add = |value: Option<String>, condition: &dyn Fn(&str) -> String| {
            if let Some(value) = value {
                arguments.push(value);
                conditions.push(condition(&format!("?{}", arguments.len())));
            }
        };
        add(self.host.clone(), &|it| {
            format!("(run.host_name = {it} OR coalesce(run.host_id, run.host_name) = {it})")
        });
        add(self.label.clone(), &|it| format!("run.label = {it}"));
        let is_by_hand = |kind: &&String| !KINDS[..2].contains(&kind.as_str());
        // The first word of the command.
        let word = self.kind.as_ref().filter(is_by_hand).map(|kind| format!("{kind} "));
        add(word, &|it| format!("substr(run.procedure || ' ', 1, length({it})) = {it}"));
        add(self.metric.clone(), &|it| {
            format!(
                "EXISTS (SELECT 1 FROM record WHERE record.run = run.number AND (
                    record.metric = {it}
                    OR (record.metric > {it} || '.' AND record.metric < {it} || '/')))"
            )
        });
        add(self.since.clone(), &|it| format!("run.started >= {it}"));
        add(self.until.clone(), &|it| format!("substr(run.started, 1, length({it})) <= {it}"));
        match self.kind.as_deref() {
            Some(kind) if kind == KINDS[0] => conditions.push("run.procedure IS NULL".to_owned()),
            Some(kind) if kind == KINDS[1] => {
                conditions.push(format!("run.procedure IS NULL AND NOT ({IS_SELECTION})"));
            }
            _ => {}
        }
        (conditions.join(" AND "), arguments)
    }
}

impl Store {
    /// The runs that a filter selects, the last stored first: at most `most` after the first
    /// `passed`, and how many there are. Checks no checksum.
    pub fn runs_where(
        &self,
        filter: &Filter,
        most: u32,
        passed: u32,
    ) -> Result<(Vec<RunRow>, u32), StoreError> {
        let (conditions, arguments) = filter.conditions();
        let arguments: Vec<DatabaseValue<'_>> = arguments.iter().map(DatabaseValue::from).collect();
        let rest =
            format!("WHERE {conditions} ORDER BY run.number DESC LIMIT {most} OFFSET {passed}");
        let query = format!("SELECT count(*) FROM run WHERE {conditions}");
        let total = self.database.integer(&query, &arguments)?;
        Ok((self.run_rows(&rest, &arguments)?, u32::try_from(total).unwrap_or(u32::MAX)))
    }

    /// The numbers of a metric in those runs, by the id of their run, with its first case and unit.
    pub fn trend_where(
        &self,
        filter: &Filter,
        metric: &str,
        most: u32,
        passed: u32,
    ) -> Result<Option<RunTrend>, StoreError> {
        let (conditions, mut arguments) = filter.conditions();
        arguments.push(metric.to_owned());
        let arguments: Vec<DatabaseValue<'_>> = arguments.iter().map(DatabaseValue::from).collect();
        let query = format!(
            "SELECT run.id, record.params, headline.unit, headline.value
             FROM (SELECT number, id FROM run WHERE {conditions}
                ORDER BY run.number DESC LIMIT {most} OFFSET {passed}) AS run
             JOIN record ON record.run = run.number AND record.metric = ?{}
             JOIN headline ON headline.record = record.number
             WHERE headline.state IN ('valid', 'noisy') AND headline.value IS NOT NULL
             ORDER BY record.params",
            arguments.len()
        );
        let row = |row: &dyn DatabaseRow| {
            let params: Params = parse(bytes(row, 1)).unwrap_or_default();
            Ok((params, text(row, 2), text(row, 0), row.real(3)?.unwrap_or_default()))
        };
        let rows = self.database.rows(&query, &arguments, row)?;
        let Some((params, unit, ..)) = rows.first().cloned() else { return Ok(None) };
        let own = rows.into_iter().filter(|row| row.0 == params && row.1 == unit);
        let values = own.map(|(_, _, id, value)| (id, value)).collect();
        Ok(Some(RunTrend { params, unit, values }))
    }

    /// The hosts by their identity, with the name in their last run.
    pub fn hosts(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let names = self.host_names()?.into_iter();
        Ok(names.map(|it| (it.identity().to_owned(), it.name)).collect())
    }

    /// Each name of each host, that of the last run last. Reads the first columns only.
    pub fn host_names(&self) -> Result<Vec<HostName>, StoreError> {
        let query = "SELECT host_id, host_name, max(number) FROM run GROUP BY 1, 2 ORDER BY 3";
        self.texts(query, |row| HostName { id: optional(row, 0), name: text(row, 1) })
    }

    /// The metrics that have records, in alphabetical order. Each is found by the index, however
    /// many records there are.
    pub fn metrics(&self) -> Result<Vec<String>, StoreError> {
        let query = "WITH RECURSIVE one (metric) AS (
                SELECT min(metric) FROM record
                UNION ALL
                SELECT (SELECT min(metric) FROM record WHERE metric > one.metric)
                FROM one WHERE one.metric IS NOT NULL)
            SELECT metric FROM one WHERE metric IS NOT NULL";
        self.texts(query, |row| text(row, 0))
    }

    fn texts<T>(
        &self,
        query: &str,
        of: impl Fn(&dyn DatabaseRow) -> T,
    ) -> Result<Vec<T>, StoreError> {
        self.database.rows(query, &[], |row| Ok(of(row)))
    }
}
