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
