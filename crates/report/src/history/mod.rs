//! One metric over time: its values in all kept runs of a host, and since when they are others
//! (METHOD 30).
//!
//! Hosts are never pooled: a series is one case on one host. What else changed between two runs, a
//! kernel or a setting, does not part a series; it is said beside the change that came with it.

mod render;

pub use render::render;

use fathom_record::statistics::{Strictness, change_points};
use fathom_record::{Better, Document, Params, Record, State, Unit};
use serde::Serialize;

use crate::compare::{Difference, differences};

/// What makes a change: as sure as one false alarm in a hundred series, and one per cent large, as
/// in a comparison; on each side three runs at least.
const STRICTNESS: Strictness = Strictness { p_max: 0.01, effect_min: 0.01, stretch_min: 3 };

/// A metric over time on one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// The metric.
    pub metric: String,
    /// The host's name.
    pub host: String,
    /// By case, in the order in which they first appear.
    pub series: Vec<Series>,
    /// Runs of this host in which something was imposed on the measurement, left out.
    pub imposed: Vec<String>,
    /// Other hosts that have runs of the metric.
    pub other_hosts: Vec<String>,
}

/// One case over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its parameters.
    pub params: Params,
    /// Unit of all values.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// In the order of time.
    pub points: Vec<Point>,
    /// Since when it is another.
    pub changes: Vec<Change>,
}

/// The case in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The run.
    pub run: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// The headline; absent where there is no number to be shown.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// The verdict.
    pub state: State,
}

/// A change that lasted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The first run after it.
    pub run: String,
    /// When that began.
    pub started: String,
    /// The run before.
    pub after_run: String,
    /// Mean before, back to the change before that.
    pub before: f64,
    /// Mean after, up to the next.
    pub after: f64,
    /// after ÷ before.
    pub ratio: f64,
    /// Two-sided p of Student's test, allowing for all places of the series.
    pub p: f64,
    /// Whether it is for the worse; absent where neither direction is.
    pub worse: Option<bool>,
    /// What else differs between the two runs beside it.
    pub differences: Vec<Difference>,
}

/// The history of a metric on a host, from documents that hold its records, oldest first.
pub fn history(
    metric: &str,
    host: &str,
    documents: &[Document],
    selects: &dyn Fn(&Params) -> bool,
) -> History {
    let has_it = |document: &&Document| document.records.iter().any(|one| selects(&one.params));
    let with_it: Vec<&Document> = documents.iter().filter(has_it).collect();
    let mut other_hosts: Vec<String> = with_it.iter().map(|one| one.host.name.clone()).collect();
    other_hosts.retain(|name| name != host);
    other_hosts.sort();
    other_hosts.dedup();
    let ours = with_it.iter().copied().filter(|document| document.host.name == host);
    let (imposed, ours): (Vec<&Document>, Vec<&Document>) = ours.partition(|one| is_imposed(one));
    let mut cases: Vec<&Record> = Vec::new();
    for record in ours.iter().flat_map(|document| &document.records) {
        let is_known = cases.iter().any(|known| known.params == record.params);
        if selects(&record.params) && !is_known {
            cases.push(record);
        }
    }
    History {
        metric: metric.to_owned(),
        host: host.to_owned(),
        series: cases.into_iter().map(|case| series(case, &ours)).collect(),
        imposed: imposed.into_iter().map(|document| document.run.id.clone()).collect(),
        other_hosts,
    }
}

/// Whether a laboratory had a hand in the run.
fn is_imposed(document: &Document) -> bool {
    document.run.notes.iter().any(|note| note.ends_with(" was imposed"))
}

fn series(case: &Record, documents: &[&Document]) -> Series {
    let mut points = Vec::new();
    let mut of_points = Vec::new();
    for document in documents {
        // A record in another unit is another quantity under an old name.
        let same = |record: &&Record| record.params == case.params && record.unit == case.unit;
        if let Some(record) = document.records.iter().find(same) {
            points.push(point(document, record));
            of_points.push(*document);
        }
    }
    let numbered: Vec<(usize, f64)> =
        points.iter().enumerate().filter_map(|(at, point)| Some((at, point.value?))).collect();
    let values: Vec<f64> = numbered.iter().map(|(_, value)| *value).collect();
    let change = |found: fathom_record::statistics::ChangePoint| {
        let (before, at) = (numbered[found.index - 1].0, numbered[found.index].0);
        let grew = found.after > found.before;
        Change {
            run: points[at].run.clone(),
            started: points[at].started.clone(),
            after_run: points[before].run.clone(),
            before: found.before,
            after: found.after,
            ratio: found.after / found.before,
            p: found.p,
            worse: match case.better {
                Better::Lower => Some(grew),
                Better::Higher => Some(!grew),
                Better::Neither => None,
            },
            differences: differences(of_points[before], of_points[at]),
        }
    };
    let changes = change_points(&values, &STRICTNESS).into_iter().map(change).collect();
    let (params, unit, better) = (case.params.clone(), case.unit, case.better);
    Series { params, unit, better, points, changes }
}

fn point(document: &Document, record: &Record) -> Point {
    let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
    Point {
        run: document.run.id.clone(),
        started: document.run.started.clone(),
        value: summary.map(|summary| summary.median).filter(|value| value.is_finite()),
        interval: summary.and_then(|summary| summary.ci95),
        state: record.verdict.state,
    }
}
