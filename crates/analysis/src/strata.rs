//! The two estimates of a case (METHOD 23b): over all visits in the reported state of the core, and
//! over all visits.

use fathom_record::{Estimate, NotSelected, Sample, Stratum, Summary};

use crate::core_state::{CoreStateConditions, CoreStates};
use crate::statistics::{median, summarise};

/// The samples of a case by stratum.
#[derive(Clone, Debug)]
pub struct Strata {
    as_found: Vec<Sample>,
    selected: Result<Vec<Sample>, NotSelected>,
    stratum: Stratum,
}

impl Strata {
    /// Selects samples for both estimates, in the order of their processes. `selection` may have
    /// the reason why no visits are selected.
    #[must_use]
    pub fn new(
        samples: &[Sample],
        selection: Result<(), NotSelected>,
        states: Option<&CoreStates>,
    ) -> Self {
        let mut as_found: Vec<Sample> = samples.to_vec();
        as_found.sort_by_key(|sample| sample.process);
        let conditions: Vec<CoreStateConditions> =
            as_found.iter().map(CoreStateConditions::from_sample).collect();
        let states = selection.and(states.ok_or(NotSelected::NoReference));
        let selected = states.and_then(|states| states.select(&conditions)).map(|chosen| {
            chosen.iter().map(|(visit, rounds)| rounds_of(&as_found[*visit], rounds)).collect()
        });
        let stratum = states.map_or(Stratum::AsFound, |states| states.reported);
        Self { as_found, selected, stratum }
    }

    /// The samples behind the headline: the rounds of the selected visits, else all.
    #[must_use]
    pub fn headline(&self) -> &[Sample] {
        self.selected.as_ref().unwrap_or(&self.as_found)
    }

    /// The summary of the headline with both estimates. `None` without a value.
    #[must_use]
    pub fn summarise(&self) -> Option<Summary> {
        let as_found = summarise(&self.as_found)?;
        let estimate_of = |summary: &Summary, samples: &[Sample], of| Estimate {
            median: summary.median,
            interval: summary.interval,
            visits: summary.processes,
            of,
            process_medians: summary.process_medians.clone(),
            process_loops: loops_of(samples),
        };
        let found = Some(estimate_of(&as_found, &self.as_found, self.as_found.len() as u32));
        let Ok(samples) = &self.selected else {
            let not_selected = self.selected.as_ref().err().copied();
            return Some(Summary { as_found: found, not_selected, ..as_found });
        };
        let summary = summarise(samples)?;
        Some(Summary {
            stratum: self.stratum,
            in_state: Some(estimate_of(&summary, samples, self.as_found.len() as u32)),
            as_found: found,
            ..summary
        })
    }
}

/// A sample with the values of these rounds only.
fn rounds_of(sample: &Sample, rounds: &[bool]) -> Sample {
    if rounds.iter().all(|counts| *counts) {
        return sample.clone();
    }
    let per_round = (sample.values_per_round as usize).max(1);
    let counts = |value: usize| rounds.get(value / per_round) == Some(&true);
    let values = sample.values.iter().enumerate().filter(|(at, _)| counts(*at));
    Sample {
        values: values.map(|(_, value)| *value).collect(),
        disturbed: Vec::new(),
        // A histogram does not record which round a timing is from.
        histogram: None,
        ..sample.clone()
    }
}

/// The median loop of each sample with values, rounded to nanoseconds, the resolution of the clock.
/// Empty if a sample has no loops.
fn loops_of(samples: &[Sample]) -> Vec<f64> {
    let with_values = samples.iter().filter(|sample| !sample.values.is_empty());
    let loops = with_values.map(|sample| median(&sample.reference_ns).map(f64::round));
    loops.collect::<Option<_>>().unwrap_or_default()
}
