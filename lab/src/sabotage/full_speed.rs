//! Full-speed estimates of the cases of a sabotage, from its undisturbed runs.

use std::collections::BTreeMap;

use fathom_analysis::statistics::median;
use fathom_record::{Record, ReferenceBasis, State, Stratum};

use super::program::RunResult;

/// Maximum relative error of a full-speed estimate against undisturbed runs.
pub(super) const OFF_MAX: f64 = 0.02;

/// For each case the median over runs of its full-speed estimate.
#[derive(Debug, Default)]
pub(super) struct FullSpeed(BTreeMap<String, f64>);

impl FullSpeed {
    pub(super) fn from_runs<'r>(runs: impl IntoIterator<Item = &'r RunResult>) -> Self {
        let mut estimates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for run in runs {
            for record in &run.document.records {
                let estimate = estimate(record, run).into_iter();
                estimates.entry(record.name()).or_default().extend(estimate);
            }
        }
        let medians = estimates.into_iter();
        Self(medians.filter_map(|(name, values)| Some((name, median(&values)?))).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The relative difference of a number from the case at full speed.
    pub(super) fn above(&self, record: &Record, number: f64) -> Option<f64> {
        self.0.get(&record.name()).map(|known| number / known - 1.0)
    }

    /// The relative error of a record's full-speed estimate.
    pub(super) fn off(&self, record: &Record, run: &RunResult) -> Option<f64> {
        self.above(record, estimate(record, run)?).map(f64::abs)
    }
}

/// A valid record's estimate at full speed.
fn estimate(record: &Record, run: &RunResult) -> Option<f64> {
    // The fastest loop of one run alone is not full speed.
    let is_known = |basis| basis != ReferenceBasis::ThisRun;
    run.document.run.reference.filter(|reference| is_known(reference.basis))?;
    let summary = record.summary.as_ref().filter(|_| record.verdict.state == State::Valid)?;
    (summary.stratum != Stratum::AsFound).then_some(summary.median)
}

#[cfg(test)]
pub(super) mod tests {
    use fathom_record::{
        Better, Document, Estimate, Host, MetricId, Params, Reference, Summary, Unit,
    };
    use serde_json::json;

    use super::*;
    use crate::sabotage::counters::MachineCounters;

    /// A run of `cpu.call` with this median, at full speed if `claims`, and 10 % more unfiltered.
    pub(in crate::sabotage) fn run(median: f64, claims: bool, basis: ReferenceBasis) -> RunResult {
        let (id, params) = (MetricId::new("cpu.call"), Params::none());
        let mut record = Record::new(id, params, "", Unit::Nanoseconds, Better::Lower);
        let of = |median| Some(Estimate { median, ..Estimate::default() });
        let found = if claims { 1.1 * median } else { median };
        record.summary = Some(Summary {
            median,
            stratum: if claims { Stratum::ToItself } else { Stratum::AsFound },
            as_found: of(found),
            in_state: of(median).filter(|_| claims),
            ..Summary::default()
        });
        let (loop_ns, frequency_ns) = (8_900.0, 8_900.0);
        let reference =
            Reference { loop_ns, frequency_ns, basis, visits: 5, clean: 5, ..Reference::default() };
        let document = json!({
            "schema": fathom_record::SCHEMA_VERSION,
            "tool": {"name": "fathom", "version": ""},
            "run": {
                "id": "1", "started": "", "effort": "quick", "protocol": "median", "seed": 0,
                "asked": [], "planned": 1, "state": "complete", "cpu": 1, "cpu_reason": "",
                "reference": reference, "clock": fathom_record::run::ClockFacts::default(),
                "verdict": record.verdict,
            },
            "host": Host::default(),
            "records": [record],
        });
        let document: Document = serde_json::from_value(document).expect("a document");
        let counters = MachineCounters::for_cpu(0);
        RunResult { document, elapsed_ns: 1, counters, counted: None }
    }

    #[test]
    fn fastest_loop_of_one_run_is_not_full_speed() {
        use ReferenceBasis::{EarlierRuns, ThisRun};
        let mut noisy = run(9.0, true, EarlierRuns);
        noisy.document.records[0].verdict.state = State::Noisy;
        let others = [run(9.0, false, EarlierRuns), run(9.0, true, ThisRun), noisy];
        assert!(FullSpeed::from_runs(&others).is_empty());
        let known = FullSpeed::from_runs(&[1.0, 2.0, 2.2].map(|ns| run(ns, true, EarlierRuns)));
        let off = |run: &RunResult| known.off(&run.document.records[0], run);
        assert!(others.iter().all(|run| off(run).is_none()));
        let slower = off(&run(2.1, true, EarlierRuns)).expect("an estimate");
        assert!((slower - 0.05).abs() < 1e-12, "{slower}");
    }
}
