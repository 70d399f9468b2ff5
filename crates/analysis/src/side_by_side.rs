//! Two to four hosts side by side: which gives the better numbers. Too few to say which is odd.

use fathom_record::{Better, Document, Headline, MetricId, Params, State, Typical, Unit};
use serde::Serialize;

use crate::evidence::not_judged;

/// The numbers of several hosts, each by one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideBySide {
    pub hosts: Vec<SideHost>,
    /// The cases that at least two of them have, in the order of the first run.
    pub rows: Vec<SideRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideHost {
    pub host: String,
    pub run: String,
    pub started: String,
    pub cpu: String,
    pub cpus: u32,
    pub memory_bytes: Option<u64>,
    /// The share of its visits on a core to itself, where it is known.
    pub undisturbed: Option<f64>,
}

/// A case on each host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideRow {
    pub metric: MetricId,
    pub params: Params,
    pub unit: Unit,
    pub better: Better,
    pub numbers: Vec<Option<SideNumber>>,
    /// The host whose interval is better than all others' and apart from them, if all numbers say
    /// something of their machines.
    pub best: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideNumber {
    pub value: f64,
    pub interval: Option<[f64; 2]>,
    pub state: State,
    /// Why it says nothing of its machine.
    pub not_judged: Option<String>,
    /// Its place among published machines of its kind.
    pub typical: Option<Typical>,
}

/// The runs side by side, after [`crate::typical::fill`].
#[must_use]
pub fn side_by_side(runs: &[&Document]) -> SideBySide {
    let host = |run: &&Document| SideHost {
        host: run.host.label(runs.iter().map(|other| &other.host)),
        run: run.run.name(),
        started: run.run.started.clone(),
        cpu: run.host.cpu.model.clone(),
        cpus: run.host.cpu.logical,
        memory_bytes: run.host.memory.total_bytes,
        undisturbed: run.run.reference.map(|it| it.clean_share()),
    };
    let mut rows: Vec<SideRow> = Vec::new();
    for record in runs.iter().flat_map(|run| &run.records) {
        let is_known =
            |row: &SideRow| (&row.metric, &row.params) == (&record.metric, &record.params);
        if rows.iter().any(is_known) {
            continue;
        }
        let numbers: Vec<Option<SideNumber>> =
            runs.iter().map(|run| number(run, &record.metric, &record.params)).collect();
        if numbers.iter().flatten().count() > 1 {
            rows.push(SideRow {
                metric: record.metric.clone(),
                params: record.params.clone(),
                unit: record.unit,
                better: record.better,
                best: best(&numbers, record.better),
                numbers,
            });
        }
    }
    SideBySide { hosts: runs.iter().map(host).collect(), rows }
}

fn number(run: &Document, metric: &MetricId, params: &Params) -> Option<SideNumber> {
    let record = run.records.iter().find(|it| (&it.metric, &it.params) == (metric, params))?;
    let Headline { value, interval, state, .. } = Headline::from(record);
    let not_judged = not_judged(record);
    Some(SideNumber { value: value?, interval, state, not_judged, typical: record.typical.clone() })
}

/// Of intervals: one that is apart from all others on the better side.
fn best(numbers: &[Option<SideNumber>], better: Better) -> Option<usize> {
    let interval = |it: &SideNumber| it.interval.filter(|_| it.not_judged.is_none());
    let known: Vec<(usize, [f64; 2])> = numbers
        .iter()
        .enumerate()
        .filter_map(|(at, number)| Some((at, number.as_ref()?)))
        .map(|(at, number)| Some((at, interval(number)?)))
        .collect::<Option<_>>()?;
    let is_better = |[low, high]: [f64; 2], [other_low, other_high]: [f64; 2]| match better {
        Better::Lower => high < other_low,
        Better::Higher => low > other_high,
        Better::Neither => false,
    };
    let beats = |(at, own): &&(usize, [f64; 2])| {
        known.iter().all(|(other, its)| other == at || is_better(*own, *its))
    };
    known.iter().find(beats).map(|(at, _)| *at).filter(|_| known.len() > 1)
}
