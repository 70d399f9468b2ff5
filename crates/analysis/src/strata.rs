//! The two estimates of a case (METHOD 23b): at full speed from the first undisturbed visits, and
//! unfiltered from the first visits of any kind.

use fathom_record::{Estimate, NotSelected, Sample, Stratum, Summary};

use crate::clean::{CleanVisit, Conditions, Loop, select};
use crate::statistics::{median, summarise};

/// The samples of a case by stratum.
#[derive(Clone, Debug)]
pub struct Strata {
    as_found: Vec<Sample>,
    selected: Result<Vec<Sample>, NotSelected>,
    stratum: Stratum,
    visits: u32,
}

impl Strata {
    /// Selects samples for both estimates, in the order of their processes. `stratum` is that of
    /// undisturbed visits, or the reason why visits are not selected. Each estimate uses `wanted`
    /// visits; full speed uses `least` if too few are undisturbed for that. `visits` counts all
    /// visits, including those that waited for full speed in vain.
    #[must_use]
    pub fn of(
        samples: &[Sample],
        stratum: Result<Stratum, NotSelected>,
        (wanted, least): (u32, u32),
        visits: u32,
        reference: Option<&Loop>,
    ) -> Self {
        let mut in_order: Vec<&Sample> = samples.iter().collect();
        in_order.sort_by_key(|sample| sample.process);
        let conditions: Vec<Conditions> = in_order.iter().copied().map(Conditions::of).collect();
        let first = |count: u32| select(&conditions, reference, count as usize);
        let clean = stratum.and_then(|_| first(wanted).or_else(|_| first(least)));
        let selected = clean.map(|clean| {
            clean.iter().map(|one| clean_rounds_of(in_order[one.visit], one)).collect()
        });
        Self {
            as_found: as_found(&in_order, wanted as usize),
            selected,
            stratum: stratum.unwrap_or_default(),
            visits,
        }
    }

    /// The samples behind the headline: the clean rounds of selected visits, else all unfiltered.
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
            full_speed: Some(estimate_of(&summary, samples, self.visits)),
            as_found: found,
            ..summary
        })
    }
}

/// The first visits of any kind. Visits that waited for full speed would bias this estimate.
fn as_found(in_order: &[&Sample], wanted: usize) -> Vec<Sample> {
    let found = in_order.iter().filter(|sample| !sample.waited);
    found.take(wanted).map(|sample| (*sample).clone()).collect()
}

/// A sample with the values of its clean rounds only.
fn clean_rounds_of(sample: &Sample, visit: &CleanVisit) -> Sample {
    let per_round = (sample.values_per_round as usize).max(1);
    let is_clean = |value: usize| visit.rounds.get(value / per_round) == Some(&true);
    let values = sample.values.iter().enumerate().filter(|(at, _)| is_clean(*at));
    Sample {
        values: values.map(|(_, value)| *value).collect(),
        disturbed: Vec::new(),
        // A histogram does not record which round a timing is from.
        histogram: sample.histogram.clone().filter(|_| visit.rounds.iter().all(|clean| *clean)),
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
