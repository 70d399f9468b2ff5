//! The stratum in which two sides are compared (METHOD 23b and 27): full speed if all runs have it
//! and their references agree, else unfiltered; and the speed of the core on each side.

use fathom_record::{Better, Document, Estimate, Record, Stratum};

use crate::choice::are_apart;
use crate::core_state::Loop;
use crate::differences::have_one_machine;
use crate::statistics::median;

/// A record and its run.
#[derive(Clone, Copy)]
pub(crate) struct RunRecord<'a> {
    pub(crate) record: &'a Record,
    pub(crate) run: &'a Document,
}

impl RunRecord<'_> {
    pub(crate) fn stratum(&self) -> Option<Stratum> {
        self.record.summary.as_ref().map(|summary| summary.stratum)
    }

    /// The estimate of a stratum; the headline if there are no visits.
    pub(crate) fn estimate(&self, stratum: Stratum) -> Option<Estimate> {
        let summary = self.record.summary.as_ref()?;
        let estimate = match stratum {
            Stratum::AsFound => summary.as_found.clone(),
            _ => summary.in_state.clone(),
        };
        let mut estimate = estimate.unwrap_or_else(|| Estimate {
            median: summary.median,
            interval: summary.interval,
            process_medians: summary.process_medians.clone(),
            ..Estimate::default()
        });
        estimate.process_medians.retain(|median| median.is_finite());
        if estimate.process_medians.is_empty() {
            estimate.process_medians.push(estimate.median);
        }
        Some(estimate)
    }
}

/// A difference in core speed up to this share is ignored. It is below the smallest reported
/// change.
const AS_FAST: f64 = 0.005;

/// The stratum in which the last is compared with the others: of each its own and its run.
pub(crate) fn stratum_of<'a>(
    all: impl Iterator<Item = (Option<Stratum>, &'a Document)>,
) -> Stratum {
    let all: Vec<_> = all.collect();
    let first = all.first().and_then(|(stratum, _)| *stratum).unwrap_or_default();
    let are_alike = all.iter().all(|(stratum, _)| *stratum == Some(first));
    let met_one_speed = all
        .last()
        .is_some_and(|(_, b)| all.iter().all(|(_, a)| !have_one_core(a, b) || met_one_speed(a, b)));
    if are_alike && met_one_speed { first } else { Stratum::AsFound }
}

fn have_one_core(a: &Document, b: &Document) -> bool {
    a.run.cpu == b.run.cpu && have_one_machine(a, b)
}

/// Whether the references of both agree within the tolerances of an undisturbed visit, or one is
/// unknown.
fn met_one_speed(a: &Document, b: &Document) -> bool {
    let full_speed = |run: &Document| run.run.reference.map(Loop::from);
    full_speed(a).zip(full_speed(b)).is_none_or(|(a, b)| b.is_at(&a))
}

/// How many times slower the core was throughout B than in A, if the references of one CPU of one
/// host disagree.
pub(super) fn changed(a: &Document, b: &Document) -> Option<f64> {
    let host = |run: &Document| (run.host.identity().to_owned(), run.host.cpu.model.clone());
    let is_one = a.run.cpu == b.run.cpu && host(a) == host(b);
    let times = b.run.reference?.loop_ns / a.run.reference?.loop_ns;
    (is_one && !met_one_speed(a, b)).then_some(times)
}

/// How many times slower the core was for the processes of B than for those of A, by their
/// reference loops; `None` if it was as fast, or another core.
pub(super) fn slower(a: &[RunRecord<'_>], b: RunRecord<'_>, stratum: Stratum) -> Option<f64> {
    let loops = |one: &RunRecord<'_>| one.estimate(stratum).map(|estimate| estimate.process_loops);
    let on_one_core = a.iter().all(|one| have_one_core(one.run, b.run));
    let in_a: Vec<f64> = a.iter().filter_map(loops).flatten().collect();
    let ratio = median(&loops(&b)?)? / median(&in_a)?;
    (on_one_core && (ratio - 1.0).abs() > AS_FAST).then_some(ratio)
}

/// How far apart the CPUs were in A and in B, if they were of two states on one host. Another
/// machine has other distances.
pub(super) fn distances(a: &[RunRecord<'_>], b: RunRecord<'_>) -> Option<[f64; 2]> {
    let of = |one: &RunRecord<'_>| one.record.summary.as_ref()?.distance_ns;
    let of_b = of(&b)?;
    let here = a.iter().filter(|one| have_one_core(one.run, b.run)).filter_map(of);
    here.map(|of_a| [of_a, of_b]).find(|[of_a, of_b]| are_apart(*of_a, *of_b))
}

/// Whether the core's speed explains a change whose interval excludes 1: it has the same direction
/// and is at most as large, up to the margin `least`. No work is slowed more than the reference
/// loop.
pub(super) fn explains(core: f64, [low, high]: [f64; 2], better: Better, least: f64) -> bool {
    let grew = low > 1.0;
    let nearest = if grew { low } else { high };
    let is_its_way = better.improves(grew).is_none_or(|improved| improved == (core < 1.0));
    is_its_way && nearest.ln().abs() <= core.ln().abs() + least.ln_1p()
}
