//! The data of the views, from the store: those of a report, of `fathom history` and of
//! `fathom show --runs`.

use std::collections::BTreeMap;

use fathom_analysis::history::{History, HistorySeries};
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::{Document, KINDS, Params};
use fathom_report::RunListing;
use fathom_report::page::json;
use fathom_store::{Filter, RunTrend, Store, StoreError, VERSION};
use fathom_ui::{HistoryOf, Problem, RunsOf, View, Views};
use serde::Serialize;

use crate::arguments::StoreArguments;
use crate::commands::{history, report, show, stored_run};
use crate::exit::UsageError;
use crate::remedy;

/// Runs on a page of the list.
const LISTED: u32 = 100;
/// Points of all series together; of more the newest are drawn.
const POINTS_MAX: usize = 20_000;
/// Points of a series that are drawn in any case.
const POINTS_MIN: usize = 60;
/// Runs of a label that are judged together.
const GROUP_MAX: usize = 4_000;

/// The views of a store, which each request opens.
pub(super) struct OfStore(StoreArguments);

/// Data of views that no report has.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Data<'a> {
    Runs(Runs),
    History(Over<'a>),
}

#[derive(Serialize)]
struct Runs {
    rows: Vec<RunListing>,
    total: u32,
    /// Those before the first row.
    passed: u32,
    /// The hosts by identity and name, the metrics and the kinds, to filter by.
    hosts: Vec<(String, String)>,
    metrics: Vec<String>,
    kinds: [&'static str; KINDS.len()],
    /// Where the runs of one metric are listed.
    trend: Option<Trend>,
    store: String,
}

/// The first case of a metric, and its number in each run that has one.
#[derive(Serialize)]
struct Trend {
    params: Params,
    unit: String,
    values: BTreeMap<String, f64>,
}

#[derive(Default, Serialize)]
struct Over<'a> {
    /// As asked for.
    metric: &'a str,
    /// The titles of the metrics, where they are registered.
    titles: Vec<Option<&'static str>>,
    all: Vec<History>,
    /// The points that were left out, of each series.
    earlier: Vec<Vec<usize>>,
    /// Runs that could not be read.
    damaged: Vec<String>,
    hosts: Vec<(String, String)>,
    /// All that have a history, where none was asked for, each with the host of its newest run.
    metrics: Vec<(String, String)>,
}

impl OfStore {
    pub(super) fn new(store: StoreArguments) -> Self {
        Self(store)
    }

    /// Opens the store, which another program may have moved or replaced.
    fn open(&self) -> Result<Store, StoreError> {
        let read_only = StoreArguments { no_migrate: true, ..self.0.clone() };
        Store::open_existing(&stored_run::store_place(&read_only)?)
    }

    fn make(&self, view: &View) -> anyhow::Result<String> {
        let store = self.open()?;
        match view {
            View::Runs(of) => Ok(runs(&store, of, stored_run::place(&self.0)?.to_string())?),
            View::Run(name) => {
                let run = run(&store, name)?;
                Ok(report::data(&[run], &[], Some(&store), None, None))
            }
            View::Compare(a, b) => {
                let both = [run(&store, a)?, run(&store, b)?];
                if both[0].run.id == both[1].run.id {
                    let id = &both[0].run.id;
                    return Err(
                        UsageError(format!("a and b: both are run {id}; name two runs")).into()
                    );
                }
                let comparison = report::comparison(&both, Some(&store));
                Ok(report::data(&both, &[], Some(&store), comparison.as_ref(), None))
            }
            View::History(of) => over(&store, of),
            View::Hosts(label) => hosts(&store, label),
        }
    }
}

impl Views for OfStore {
    fn data(&self, view: &View) -> Result<String, Problem> {
        self.make(view).map_err(|error| problem(&error))
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn runs(store: &Store, of: &RunsOf, place: String) -> Result<String, StoreError> {
    let filter = Filter {
        host: some(&of.host),
        label: some(&of.label),
        kind: some(&of.kind),
        metric: some(&of.metric),
        since: some(&of.since),
        until: some(&of.until),
    };
    let passed = of.page.saturating_sub(1) * LISTED;
    let (rows, total) = store.runs_where(&filter, LISTED, passed)?;
    let trend = match of.metric.as_str() {
        "" => None,
        metric => store.trend_where(&filter, metric, LISTED, passed)?,
    };
    let trend = trend.map(|RunTrend { params, unit, values }| Trend { params, unit, values });
    Ok(json(&Data::Runs(Runs {
        rows: rows.into_iter().map(show::listing).collect(),
        total,
        passed,
        hosts: store.hosts()?.into_iter().collect(),
        metrics: store.metrics()?,
        kinds: KINDS,
        trend,
        store: place,
    })))
}

/// A run by its id, label or `latest`; never a file, whose name a request could have.
fn run(store: &Store, name: &str) -> anyhow::Result<Document> {
    let host = match name.starts_with("latest") {
        true => Some(stored_run::default_host(store)?),
        false => None,
    };
    let id = store.find(name, host.as_deref())?.id;
    stored_run::of_store(store, &id, true)
}

fn over(store: &Store, of: &HistoryOf) -> anyhow::Result<String> {
    let hosts = store.hosts()?.into_iter().collect();
    if of.metric.is_empty() {
        let metrics = store.metrics()?.into_iter().map(|metric| newest_host(store, metric));
        let metrics = metrics.collect::<Result<_, StoreError>>()?;
        let none = Over { metric: "", hosts, metrics, ..Over::default() };
        return Ok(json(&Data::History(none)));
    }
    let word = crate::commands::selector(&of.metric)?;
    let registered = history::registered(&word)?;
    let (host, label) = (some(&of.host), some(&of.label));
    let found = history::find(store, &word, registered, host.as_deref(), label.as_deref())?;
    let mut all = found.all;
    let earlier = shorten(&mut all, POINTS_MAX);
    let title = |one: &History| {
        let entries = REGISTRY.entries().iter().map(Entry::about);
        entries.filter(|about| about.id == one.metric).map(|about| about.title).next()
    };
    Ok(json(&Data::History(Over {
        metric: &of.metric,
        titles: all.iter().map(title).collect(),
        all,
        earlier,
        damaged: found.damaged.iter().map(|error| remedy::with_remedy(error)).collect(),
        hosts,
        metrics: Vec::new(),
    })))
}

fn newest_host(store: &Store, metric: String) -> Result<(String, String), StoreError> {
    let filter = Filter { metric: Some(metric.clone()), ..Filter::default() };
    let (rows, _) = store.runs_where(&filter, 1, 0)?;
    let host = rows.into_iter().next().map(|row| row.host_id.unwrap_or(row.host_name));
    Ok((metric, host.unwrap_or_default()))
}

/// Leaves the newest points, about `most` of all series together; how many of each are left out.
fn shorten(all: &mut [History], most: usize) -> Vec<Vec<usize>> {
    let series: usize = all.iter().map(|one| one.series.len()).sum();
    let most = (most / series.max(1)).max(POINTS_MIN);
    let cut = |series: &mut HistorySeries| {
        let earlier = series.points.len().saturating_sub(most);
        series.points.drain(..earlier);
        earlier
    };
    all.iter_mut().map(|one| one.series.iter_mut().map(cut).collect()).collect()
}

fn hosts(store: &Store, label: &str) -> anyhow::Result<String> {
    let ids = match label {
        "" => newest(store)?,
        _ => store.labelled(label)?,
    };
    if ids.is_empty() {
        let has = match label {
            "" => "is complete; `fathom run` makes one".to_owned(),
            _ => format!("has the label {label}; the list of runs has all labels"),
        };
        anyhow::bail!("no stored run {has}");
    }
    if ids.len() > GROUP_MAX {
        return Err(UsageError(format!(
            "{} runs, at most {GROUP_MAX} are judged together; name a label of fewer: \
             /hosts?label=…",
            ids.len()
        ))
        .into());
    }
    let runs: anyhow::Result<Vec<Document>> =
        ids.iter().map(|id| stored_run::of_store(store, id, false)).collect();
    let name = if label.is_empty() { "The newest run of each host" } else { label };
    Ok(report::fleet_data(name, &runs?).0)
}

/// The newest complete `fathom run` of each host that has one.
fn newest(store: &Store) -> anyhow::Result<Vec<String>> {
    let found = store.hosts()?.into_keys().map(|host| store.find("latest", Some(&host)));
    let is_none = |found: &Result<_, _>| matches!(found, Err(StoreError::NoSuchLatest { .. }));
    Ok(found
        .filter(|found| !is_none(found))
        .map(|found| Ok(found?.id))
        .collect::<Result<_, StoreError>>()?)
}

/// An error by what is to blame: the request, the stored data or the store; with its remedy.
fn problem(error: &anyhow::Error) -> Problem {
    use StoreError as E;
    let line = remedy::line(error);
    match error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()) {
        Some(E::NoSuchRun { .. } | E::NoSuchLatest { .. }) => Problem::Missing(line),
        Some(E::Ambiguous { .. } | E::TooShort { .. } | E::BadName { .. }) => Problem::Wrong(line),
        Some(E::Damaged { .. }) => Problem::Damaged(line),
        // Another program has brought an older store here.
        Some(older @ E::OtherVersion { found, .. }) if *found < VERSION => {
            Problem::Unavailable(format!("{older}; start `fathom ui` again, which migrates it"))
        }
        Some(_) => Problem::Unavailable(line),
        None if error.is::<UsageError>() => Problem::Wrong(line),
        None => Problem::Missing(line),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Host, MetricId, Outline, Params, Record, Run, SCHEMA_VERSION, Tool};

    use super::*;

    /// The history of two cases over so many runs.
    fn history_of(runs: usize) -> History {
        let record = |case: &str| Record {
            metric: MetricId::new("os.syscall"),
            params: Params::one("call", case),
            ..Record::default()
        };
        let run = |at: usize| {
            let tool = Tool { name: String::new(), version: String::new(), compiler: None };
            let (run, host) = (Run { id: at.to_string(), ..Run::default() }, Host::default());
            let (schema, far, records) = (SCHEMA_VERSION, Vec::new(), ["stat", "read"].map(record));
            let records = records.to_vec();
            Outline::from(&Document { schema, tool, run, host, far, records })
        };
        let runs: Vec<Outline> = (0..runs).map(run).collect();
        fathom_analysis::history::history("os.syscall", Host::default().identity(), &runs, &|_| {
            true
        })
    }

    #[test]
    fn newest_points_of_each_series_are_kept() {
        let mut all = [history_of(100)];
        assert_eq!(shorten(&mut all, 200), [[0, 0]]);
        assert_eq!(shorten(&mut all, 160), [[20, 20]]);
        let points = &all[0].series[1].points;
        assert_eq!(
            (points.len(), points[0].run.as_str(), points[79].run.as_str()),
            (80, "20", "99")
        );
        assert_eq!(shorten(&mut all, 1), [[20, 20]], "a few in any case");
    }
}
