//! Outlines: of each run only the headline of each record. A history over a thousand runs, or the
//! noise between them, needs no more.

use std::sync::Arc;

use crate::{
    Better, Cause, Document, FarHost, Host, Interval, MetricId, Params, Protocol, Record, Run,
    RunHead, State, Stratum, Summary, Tool, Unit,
};

/// A run with headlines in place of records. What thousands of runs have in common is shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    pub tool: Arc<Tool>,
    pub run: Run,
    /// From a store without the sources of facts, and without the uptime.
    pub host: Arc<Host>,
    pub far: Arc<Vec<FarHost>>,
    pub headlines: Vec<Headline>,
}

impl<'a> From<&'a Outline> for RunHead<'a> {
    fn from(Outline { tool, run, host, far, .. }: &'a Outline) -> Self {
        Self { tool, run, host, far }
    }
}

/// The main number of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    pub metric: MetricId,
    /// Shared: all runs have the same few cases.
    pub params: Arc<Params>,
    pub unit: Unit,
    pub better: Better,
    pub state: State,
    /// The median; absent if no number may be shown.
    pub value: Option<f64>,
    /// Absent if the value is.
    pub interval: Option<[f64; 2]>,
    /// Which visits the value rests on.
    pub stratum: Stratum,
    /// The as-found median, if the value rests on selected visits.
    pub as_found: Option<f64>,
    pub as_found_interval: Option<[f64; 2]>,
    /// The upper bound, if only a bound is known.
    pub bound: Option<f64>,
    /// Whether the run was interrupted before all processes of the case had run.
    pub cut_short: bool,
}

impl Headline {
    /// The number and its interval, unfiltered or over selected visits; `None` if there is none.
    pub fn in_stratum(&self, as_found: bool) -> Option<(f64, Option<[f64; 2]>)> {
        match (as_found, self.stratum) {
            (false, Stratum::AsFound) => None,
            (true, state) if state != Stratum::AsFound => {
                Some((self.as_found?, self.as_found_interval))
            }
            _ => Some((self.value?, self.interval)),
        }
    }
}

impl From<&Document> for Outline {
    fn from(document: &Document) -> Self {
        let headlines = document.records.iter().map(Headline::from).collect();
        let Document { tool, run, host, far, .. } = document.clone();
        Self { tool: tool.into(), run, host: host.into(), far: far.into(), headlines }
    }
}

impl From<&Record> for Headline {
    fn from(record: &Record) -> Self {
        let (unit, verdict) = (record.unit, &record.verdict);
        let summary = record.summary.as_ref().filter(|_| verdict.shows_number());
        let bound = summary.and_then(|summary| summary.bound);
        let value = record.number(Protocol::Median);
        let is_selected = |summary: &&Summary| summary.stratum != Stratum::AsFound;
        let selected = value.and(summary).filter(is_selected);
        let as_found = selected.and_then(|summary| summary.as_found.as_ref());
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
    fn headline_has_a_number_only_if_it_may_be_shown() {
        let mut record = Record::fixture("os.syscall", Unit::Nanoseconds);
        assert_eq!(Headline::from(&record).value, None, "no summary");
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
        record.summary = summary(1.5, None);
        let in_stratum = |stratum, as_found| {
            let found = Headline { as_found: Some(3.0), stratum, ..Headline::from(&record) };
            found.in_stratum(as_found).map(|(number, _)| number)
        };
        for stratum in [Stratum::ToItself, Stratum::CoreAtFullSpeed] {
            assert_eq!([true, false].map(|it| in_stratum(stratum, it)), [Some(3.0), Some(1.5)]);
        }
        let unfiltered = [true, false].map(|it| in_stratum(Stratum::AsFound, it));
        assert_eq!(unfiltered, [Some(1.5), None]);
        record.summary = summary(1.5, Some(2.5));
        record.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
        assert_eq!(numbers(&record), (None, None, None));
        assert!(!Headline::from(&record).cut_short);
    }
}
