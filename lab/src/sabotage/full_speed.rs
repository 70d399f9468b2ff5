//! What the cases of a sabotage take at full speed, by its runs that were left alone.

use std::collections::BTreeMap;

use fathom_analysis::statistics::median;
use fathom_record::{Record, ReferenceBasis, State, Stratum};

use super::program::Seen;

/// How far an estimate at full speed may be from that of runs that were left alone, as a share.
pub(super) const OFF_MAX: f64 = 0.02;

/// Of each case the median over runs of what it takes at full speed.
#[derive(Debug, Default)]
pub(super) struct FullSpeed(BTreeMap<String, f64>);

impl FullSpeed {
    /// By these runs.
    pub(super) fn of<'s>(runs: impl IntoIterator<Item = &'s Seen>) -> Self {
        let mut estimates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for seen in runs {
            for record in &seen.document.records {
                let claimed = claimed(record, seen).into_iter();
                estimates.entry(record.name()).or_default().extend(claimed);
            }
        }
        let medians = estimates.into_iter();
        Self(medians.filter_map(|(name, values)| Some((name, median(&values)?))).collect())
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By what share a number is above that of a record's case at full speed, where it is known.
    pub(super) fn above(&self, record: &Record, number: f64) -> Option<f64> {
        self.0.get(&record.name()).map(|known| number / known - 1.0)
    }

    /// How far a record is off that claims full speed, where it does.
    pub(super) fn off(&self, record: &Record, seen: &Seen) -> Option<f64> {
        self.above(record, claimed(record, seen)?).map(f64::abs)
    }
}

/// What a valid record claims to take at full speed.
fn claimed(record: &Record, seen: &Seen) -> Option<f64> {
    // Fastest in one run is not full speed.
    let is_known = |basis| basis != ReferenceBasis::ThisRun;
    seen.document.run.reference.filter(|reference| is_known(reference.basis))?;
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
    use crate::sabotage::outside::Outside;

    /// A run of `cpu.call` whose case takes so long, at full speed where `claims`.
    pub(in crate::sabotage) fn run(median: f64, claims: bool, basis: ReferenceBasis) -> Seen {
        let (id, params) = (MetricId::new("cpu.call"), Params::none());
        let mut record = Record::new(id, params, "", Unit::Nanoseconds, Better::Lower);
        // As found it takes a tenth longer.
        let of = |median| Some(Estimate { median, ..Estimate::default() });
        let found = if claims { 1.1 * median } else { median };
        record.summary = Some(Summary {
            median,
            stratum: if claims { Stratum::FullSpeed } else { Stratum::AsFound },
            as_found: of(found),
            full_speed: of(median).filter(|_| claims),
            ..Summary::default()
        });
        let (loop_ns, frequency_ns) = (8_900.0, 8_900.0);
        let reference = Reference { loop_ns, frequency_ns, basis, visits: 5, clean: 5 };
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
        let outside = Outside::of(0);
        Seen { document, elapsed_ns: 1, outside, counted: None }
    }

    #[test]
    fn the_fastest_of_a_run_is_no_full_speed() {
        use ReferenceBasis::{EarlierRuns, ThisRun};
        let mut noisy = run(9.0, true, EarlierRuns);
        noisy.document.records[0].verdict.state = State::Noisy;
        let others = [run(9.0, false, EarlierRuns), run(9.0, true, ThisRun), noisy];
        assert!(FullSpeed::of(&others).is_empty());
        let alone = FullSpeed::of(&[1.0, 2.0, 2.2].map(|ns| run(ns, true, EarlierRuns)));
        let off = |seen: &Seen| alone.off(&seen.document.records[0], seen);
        assert!(others.iter().all(|seen| off(seen).is_none()));
        let slower = off(&run(2.1, true, EarlierRuns)).expect("a claim");
        assert!((slower - 0.05).abs() < 1e-12, "{slower}");
    }
}
