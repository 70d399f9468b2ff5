//! A run in short: what a series over many runs needs of each, and no more.
//!
//! A thousand runs are a million numbers. A history shows one of each record, and so does the noise
//! between runs.

use std::sync::Arc;

use crate::{
    Better, Cause, Document, Interval, MetricId, Params, Protocol, Record, State, Stratum, Summary,
    Unit,
};

/// A run with the headlines of its records in the place of the records.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// The run, its machine and its program, without records.
    pub document: Document,
    /// One of each record.
    pub headlines: Vec<Headline>,
}

/// The number of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// What was measured.
    pub metric: MetricId,
    /// With which parameters: in all runs the same few.
    pub params: Arc<Params>,
    /// The unit of the value.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// Whether it can be believed.
    pub state: State,
    /// The median; absent where there is no number to be shown.
    pub value: Option<f64>,
    /// Its interval; absent where the value is.
    pub interval: Option<[f64; 2]>,
    /// The visits behind the value.
    pub stratum: Stratum,
    /// The median as found, where the value is of selected visits.
    pub as_found: Option<f64>,
    /// Its interval.
    pub as_found_interval: Option<[f64; 2]>,
    /// What the value is at most, where no more is known.
    pub bound: Option<f64>,
    /// Whether the run was stopped before all processes of it were done.
    pub cut_short: bool,
}

impl Headline {
    /// The number and its interval, as found or over selected visits.
    pub fn in_stratum(&self, is_found: bool) -> Option<(f64, Option<[f64; 2]>)> {
        match (is_found, self.stratum) {
            (true, Stratum::FullSpeed | Stratum::CoreAtFullSpeed) => {
                Some((self.as_found?, self.as_found_interval))
            }
            (false, Stratum::AsFound) => None,
            _ => Some((self.value?, self.interval)),
        }
    }
}

impl From<&Document> for Outline {
    fn from(document: &Document) -> Self {
        let headlines = document.records.iter().map(Headline::from).collect();
        let (tool, run, host) =
            (document.tool.clone(), document.run.clone(), document.host.clone());
        let far = document.far.clone();
        let schema = document.schema;
        let document = Document { schema, tool, run, host, far, records: Vec::new() };
        Self { document, headlines }
    }
}

impl From<&Record> for Headline {
    fn from(record: &Record) -> Self {
        let (unit, verdict) = (record.unit, &record.verdict);
        let summary = record.summary.as_ref().filter(|_| verdict.shows_number());
        let bound = summary.and_then(|summary| summary.bound);
        let value = record.number(Protocol::Median);
        let is_selected = |summary: &&Summary| summary.stratum != Stratum::AsFound;
        let beside = value.and(summary).filter(is_selected);
        let as_found = beside.and_then(|summary| summary.as_found.as_ref());
        Self {
            metric: record.metric.clone(),
            params: Arc::new(record.params.clone()),
            unit,
            better: record.better,
            state: verdict.state,
            value,
            interval: value.and(summary).and_then(Summary::limits),
            stratum: summary.map_or_else(Stratum::default, |summary| summary.stratum),
            as_found: as_found.map(|estimate| estimate.median),
            as_found_interval: as_found.and_then(|it| it.interval).map(Interval::limits),
            bound,
            cut_short: verdict.reasons.iter().any(|one| one.cause == Cause::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::summary::{Basis, Interval};

    #[test]
    fn headline_has_no_number_where_none_is_shown() {
        let (id, params) = (MetricId::new("os.syscall"), Params::one("call", "stat"));
        let mut record = Record::new(id, params, "call", Unit::Nanoseconds, Better::Lower);
        assert_eq!(Headline::from(&record).value, None, "without a summary");
        let summary = |median, bound| {
            let interval = Interval { low: 1.0, high: 2.0, level: 0.95, basis: Basis::Processes };
            Some(Summary { median, bound, interval: Some(interval), ..Summary::default() })
        };
        let numbers = |record: &Record| {
            let Headline { value, interval, bound, .. } = Headline::from(record);
            (value, interval, bound)
        };
        record.summary = summary(1.5, None);
        assert_eq!(numbers(&record), (Some(1.5), Some([1.0, 2.0]), None));
        record.verdict = Verdict::because(State::Noisy, Cause::Interrupted, "after 2 of 5");
        assert_eq!(numbers(&record), (Some(1.5), Some([1.0, 2.0]), None));
        assert!(Headline::from(&record).cut_short);
        for (median, bound) in [(1.5, Some(2.5)), (-0.5, Some(0.5)), (-0.5, None), (0.0, None)] {
            record.summary = summary(median, bound);
            assert_eq!(numbers(&record), (None, None, bound), "{median}");
        }
        record.summary = summary(1.5, Some(2.5));
        record.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
        assert_eq!(numbers(&record), (None, None, None));
        assert!(!Headline::from(&record).cut_short);
    }
}
