//! What is kept of the runs of many hosts: of each record the few numbers that a judgement reads.
//! A thousand hosts are held at once, and their cases, which are the same, are held once.

use std::collections::HashSet;
use std::sync::Arc;

use fathom_record::{
    Better, Cause, Class, Document, Fact, Host, MetricId, Params, Protocol, Record, Run, State,
    Stratum, Unit, Verdict,
};

use super::BETWEEN;
use super::pairs::Directed;
use super::series::logarithm;
use crate::compare::RunRecord;
use crate::display_value::DisplayValue;
use crate::evidence::not_judged;

/// Runs of many hosts as their judgement needs them. A run can be dropped once it is in here.
#[derive(Debug, Default)]
pub struct FleetRuns {
    pub(super) runs: Vec<FleetRun>,
    cases: HashSet<Arc<EntryCase>>,
}

/// A run.
#[derive(Debug)]
pub(super) struct FleetRun {
    /// Without records, far hosts, and texts for people.
    pub(super) head: Document,
    /// Whether it has a far host.
    pub(super) calls: bool,
    /// One of each record, in their order.
    pub(super) entries: Vec<FleetEntry>,
}

/// What several records are of.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct EntryCase {
    pub(super) metric: MetricId,
    pub(super) params: Params,
    pub(super) unit: Unit,
    pub(super) better: Better,
    pub(super) far: Option<EntryFar>,
}

/// The host at the far end.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct EntryFar {
    pub(super) name: String,
    pub(super) id: Option<String>,
}

/// A record.
#[derive(Debug)]
pub(super) struct FleetEntry {
    pub(super) case: Arc<EntryCase>,
    pub(super) state: State,
    /// The first reason for it.
    pub(super) cause: Option<Cause>,
    pub(super) is_cut_short: bool,
    /// Whether the number is compared with others, if it is valid.
    pub(super) is_number: bool,
    /// Whether it says something of its host.
    pub(super) is_judged: bool,
    pub(super) is_on_edge: bool,
    pub(super) stratum: Option<Stratum>,
    /// Valid or noisy.
    pub(super) shown: Option<f64>,
    /// Over all visits, and over those in the reported state of the core.
    numbers: Option<[EntryNumber; 2]>,
    pub(super) prediction: Option<Box<EntryPrediction>>,
    /// The number of a link.
    pub(super) link: Option<Box<Directed>>,
}

/// The number of a record in a stratum.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryNumber {
    pub(super) processes: u32,
    /// Its logarithm and the standard error of it; absent without an interval.
    pub(super) ln: Option<(f64, f64)>,
}

/// What should have been measured.
#[derive(Debug)]
pub(super) struct EntryPrediction {
    pub(super) value: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) uncertainty: f64,
    /// The value, or else a limit.
    pub(super) scale: f64,
    /// Measured ÷ scale.
    pub(super) ratio: f64,
}

impl FleetRuns {
    pub fn push(&mut self, document: &Document) {
        let Document { schema, tool, run, host, far, records } = document;
        let entry = |record| {
            let case = self.case(record, document.far_host(&record.params));
            FleetEntry::from_record(record, document, case)
        };
        let entries = records.iter().map(entry).collect();
        let mut host = host.clone();
        host.origins.clear();
        let verdict = Verdict { state: run.verdict.state, reasons: Vec::new() };
        let run = Run { verdict, notes: Vec::new(), ..run.clone() };
        let (tool, records) = (tool.clone(), Vec::new());
        let head = Document { schema: *schema, tool, run, host, far: Vec::new(), records };
        self.runs.push(FleetRun { head, calls: !far.is_empty(), entries });
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn case(&mut self, record: &Record, far: Option<&Host>) -> Arc<EntryCase> {
        let Record { metric, params, unit, better, .. } = record;
        let case = EntryCase {
            metric: metric.clone(),
            params: params.clone(),
            unit: *unit,
            better: *better,
            far: far.map(|far| EntryFar { name: far.name.clone(), id: far.id.clone() }),
        };
        if let Some(known) = self.cases.get(&case) {
            return Arc::clone(known);
        }
        let case = Arc::new(case);
        self.cases.insert(Arc::clone(&case));
        case
    }
}

impl<'d> FromIterator<&'d Document> for FleetRuns {
    fn from_iter<I: IntoIterator<Item = &'d Document>>(documents: I) -> Self {
        let mut runs = Self::default();
        documents.into_iter().for_each(|document| runs.push(document));
        runs
    }
}

impl EntryCase {
    /// The far host's [`identity`](Host::identity); empty without one.
    pub(super) fn far_identity(&self) -> &str {
        self.far.as_ref().map_or("", |far| far.key().0)
    }
}

impl EntryFar {
    /// What distinguishes hosts.
    pub(super) fn key(&self) -> (&str, &str) {
        (self.id.as_deref().unwrap_or(&self.name), &self.name)
    }
}

impl FleetEntry {
    fn from_record(record: &Record, run: &Document, case: Arc<EntryCase>) -> Self {
        let verdict = &record.verdict;
        let one = RunRecord { record, run };
        let shown = DisplayValue::from_record(record, Protocol::Median).number();
        let is_link = BETWEEN.contains(&record.metric.as_str());
        let number = |stratum| {
            let it = one.estimate(stratum)?;
            let processes = it.process_medians.len() as u32;
            let ln = logarithm(it.median, it.interval, &it.process_medians);
            Some(EntryNumber { processes, ln })
        };
        Self {
            case,
            state: verdict.state,
            cause: verdict.reasons.first().map(|reason| reason.cause),
            is_cut_short: verdict.is_cut_short(),
            is_number: shown.is_some() && !verdict.is_emulated() && record.on_cliff().is_none(),
            is_judged: not_judged(record).is_none(),
            is_on_edge: Fact::are_on_edge(&record.facts),
            stratum: record.summary.as_ref().map(|summary| summary.stratum),
            shown,
            numbers: number(Stratum::AsFound).zip(number(Stratum::ToItself)).map(<_>::from),
            prediction: EntryPrediction::from_record(one).map(Box::new),
            // The ends are set where hosts have numbers.
            link: Directed::between(0, 1, record).filter(|_| is_link).map(Box::new),
        }
    }

    /// Of a stratum; the headline if there are no visits.
    pub(super) fn number(&self, stratum: Stratum) -> Option<EntryNumber> {
        let [as_found, in_state] = self.numbers?;
        Some(if stratum == Stratum::AsFound { as_found } else { in_state })
    }
}

impl EntryPrediction {
    fn from_record(one: RunRecord<'_>) -> Option<Self> {
        // What follows from the same family says nothing of the machine.
        let prediction = one.record.prediction.as_ref();
        let prediction = prediction.filter(|it| it.class() != Class::SelfConsistency)?;
        let scale = prediction.value.or(prediction.high).or(prediction.low)?;
        let ratio = one.estimate(prediction.stratum)?.median / scale;
        let &fathom_record::Prediction { value, low, high, uncertainty, .. } = prediction;
        (scale > 0.0).then_some(Self { value, low, high, uncertainty, scale, ratio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_a_small_part_of_its_record() {
        let parts = [size_of::<FleetEntry>(), size_of::<EntryPrediction>()];
        assert!(parts.iter().sum::<usize>() <= 256, "{parts:?} bytes, of a thousand hosts");
        let documents = [Document::fixture(), Document::fixture()];
        let runs: FleetRuns = documents.iter().collect();
        let records = &documents[0].records;
        assert_eq!((runs.cases.len(), runs.runs[1].entries.len()), (records.len(), records.len()));
        for (a, b) in runs.runs[0].entries.iter().zip(&runs.runs[1].entries) {
            assert!(Arc::ptr_eq(&a.case, &b.case), "{:?} is held twice", a.case);
        }
        let head = &runs.runs[0].head;
        assert!(head.records.is_empty() && head.host.origins.is_empty());
    }
}
