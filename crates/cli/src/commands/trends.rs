//! The trends beside the rows of an overview.

use fathom_analysis::history;
use fathom_record::{Document, MetricId, Params};
use fathom_report::{TRENDS_WIDTH, Trends, overview_records};
use fathom_store::Store;

/// As many runs as a column has bars.
const RUNS_MAX: u32 = 18;

/// What [`trends_of`] reads, for [`Store::foresee`].
pub(super) fn read(store: &Store, document: &Document) {
    let (run, host) = (&document.run, document.host.identity());
    let _ = store.newest_of(host, run.effort, None, RUNS_MAX);
}

/// The trends of this run's headline cases over the newest runs of its host and effort, if the line
/// has room for them. A store that cannot be read has none.
pub(super) fn trends_of(document: &Document, width: usize, store: Option<&Store>) -> Trends {
    let (run, host) = (&document.run, document.host.identity());
    let store = store.filter(|_| width >= TRENDS_WIDTH);
    let newest = store.and_then(|store| store.newest_of(host, run.effort, None, RUNS_MAX).ok());
    let Some((mut runs, _)) = newest else { return Trends::default() };
    runs.retain(|other| other.run.started <= run.started);
    let series = overview_records(document).into_iter().filter_map(|record| {
        let selects = |params: &Params| *params == record.params;
        let metric = record.metric.as_str();
        let mut of_metric = runs.clone();
        of_metric.iter_mut().for_each(|one| one.headlines.retain(|it| it.metric == record.metric));
        let series = history::history(metric, host, &of_metric, &selects).series.into_iter().next();
        Some((MetricId::new(metric), series?))
    });
    Trends::new(series.collect())
}
