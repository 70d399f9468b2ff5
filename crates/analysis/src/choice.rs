//! Which visits a case is reported from: those of another state of the machine are left out, by a
//! count of the work or by the distance of its CPUs, never by values (METHOD 23e and 23f).

use std::collections::BTreeSet;

use fathom_record::quantity::quantity;
use fathom_record::{Sample, Unit};

use crate::statistics::median;

/// Distances of one state are closer than this factor to the next of them.
const APART: f64 = 1.5;
/// The fewest visits with an interval.
const VISITS_MIN: usize = 5;
/// The least share of a run's readings on each side of a limit between states, in 1 of so many.
const SIDE_MIN: usize = 33;

/// The states of a run's two CPUs: a hypervisor moves them between threads of one core, cores and
/// sockets.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    /// The limits between states, ascending.
    limits: Vec<f64>,
    /// The state of most readings.
    usual: usize,
    /// The share of readings in it.
    share: Option<f64>,
}

impl Distances {
    /// From all readings of a run.
    #[must_use]
    pub fn from_samples<'s>(samples: impl Iterator<Item = &'s Sample>) -> Self {
        // Cases of one visit have the same readings.
        let mut seen = BTreeSet::new();
        let mut is_new = |it: &&Sample| {
            let bits: Vec<u64> = it.distance_ns.iter().map(|ns| ns.to_bits()).collect();
            it.started_ns.is_none() || seen.insert((it.started_ns, bits))
        };
        let samples = samples.filter(|it| is_new(it));
        let mut all: Vec<f64> = samples.flat_map(|it| it.distance_ns.iter().copied()).collect();
        all.retain(|ns| *ns > 0.0);
        all.sort_by(f64::total_cmp);
        let side = (all.len() / SIDE_MIN).max(2);
        let (mut limits, mut from, mut usual) = (Vec::new(), 0, (0, 0));
        for at in 1..=all.len() {
            let is_limit = at < all.len()
                && are_apart(all[at], all[at - 1])
                && at - from >= side
                && all.len() - at >= side;
            if is_limit || at == all.len() {
                if at - from > usual.1 {
                    usual = (limits.len(), at - from);
                }
                limits.extend(is_limit.then(|| (all[at] * all[at - 1]).sqrt()));
                from = at;
            }
        }
        let share = (!all.is_empty()).then(|| usual.1 as f64 / all.len() as f64);
        Self { limits, usual: usual.0, share }
    }

    /// The share of visits in the state of most.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share.unwrap_or(1.0)
    }

    fn is_usual(&self, ns: f64) -> bool {
        self.limits.iter().filter(|limit| ns > **limit).count() == self.usual
    }

    /// Whether a visit was in the usual state all the time, or nothing is known of it.
    fn is_usual_visit(&self, sample: &Sample) -> bool {
        sample.distance_ns.iter().all(|ns| self.is_usual(*ns))
    }
}

/// Whether two distances are of different states.
#[must_use]
pub fn are_apart(a: f64, b: f64) -> bool {
    a.max(b) >= APART * a.min(b)
}

/// The visits of a case, and what was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub samples: Vec<Sample>,
    pub notes: Vec<String>,
    /// How far apart the CPUs were in these visits.
    pub distance_ns: Option<f64>,
}

impl Choice {
    /// All of these visits.
    #[must_use]
    pub fn from_samples<'s>(
        samples: impl IntoIterator<Item = &'s Sample>,
        notes: Vec<String>,
    ) -> Self {
        let samples: Vec<Sample> = samples.into_iter().cloned().collect();
        Self { distance_ns: distance_of(&samples, |_| true), samples, notes }
    }
}

/// The median of these readings.
fn distance_of<'s>(
    samples: impl IntoIterator<Item = &'s Sample>,
    is_counted: impl Fn(f64) -> bool,
) -> Option<f64> {
    let readings = samples.into_iter().flat_map(|it| it.distance_ns.iter().copied());
    median(&readings.filter(|ns| is_counted(*ns)).collect::<Vec<f64>>())
}

/// Chooses the visits of a case. All, if one did wrong work, or half of them were of another case
/// by a count of the work: their checks have failed, and invalidate the case.
#[must_use]
pub fn choose(samples: &[Sample], distances: &Distances, unit: Unit) -> Choice {
    // The check of a missed condition has failed, too.
    let failed = |it: &Sample| it.checks_of_both().filter(|check| !check.passed).count();
    let is_wrong = |it: &Sample| failed(it) > usize::from(it.missed.is_some());
    let (missed, kept): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.missed.is_some());
    if missed.len() >= kept.len() || samples.iter().any(is_wrong) {
        return Choice::from_samples(samples, Vec::new());
    }
    let mut notes = Vec::new();
    if let Some(why) = missed.first().and_then(|first| first.missed.as_ref()) {
        notes.push(format!("{} of {} processes left out: {why}", missed.len(), samples.len()));
    }
    let (usual, others): (Vec<&Sample>, Vec<&Sample>) =
        kept.iter().partition(|sample| distances.is_usual_visit(sample));
    let counts = format!("{} of {} processes", others.len(), samples.len());
    let at = distance_of(usual.iter().copied(), |ns| distances.is_usual(ns));
    let elsewhere = distance_of(others.iter().copied(), |ns| !distances.is_usual(ns));
    match (at, elsewhere) {
        (Some(at), Some(elsewhere)) if usual.len() >= VISITS_MIN.min(kept.len() - 1) => {
            let values: Vec<f64> = others.iter().filter_map(|it| median(&it.values)).collect();
            let value = median(&values).map_or(String::new(), |it| quantity(it, unit));
            notes.push(format!(
                "{counts} left out: CPUs {elsewhere:.0} ns apart, not {at:.0} (median {value})"
            ));
            Choice::from_samples(usual, notes)
        }
        // Too few visits are known to be in the usual state.
        (_, Some(elsewhere)) => {
            notes
                .push(format!("{counts} with CPUs {elsewhere:.0} ns apart, not as in most visits"));
            Choice { distance_ns: None, ..Choice::from_samples(kept, notes) }
        }
        (_, None) => Choice::from_samples(kept, notes),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Check;

    use super::*;

    fn sample(process: u32, value: f64, distance_ns: &[f64]) -> Sample {
        let distance_ns = distance_ns.to_vec();
        Sample { process, values: vec![value], distance_ns, ..Sample::default() }
    }

    /// Of twelve visits three are near and one is moved.
    fn visits() -> Vec<Sample> {
        let of = |at: u32| match at {
            2 | 3 | 8 => sample(at, 12.0, &[6.8, 7.0]),
            5 => sample(at, 8.0, &[59.0, 6.9]),
            6 => sample(at, 2.0, &[]),
            _ => sample(at, 3.0, &[55.0 + f64::from(at), 70.0]),
        };
        (0..12).map(of).collect()
    }

    fn processes(choice: &Choice) -> Vec<u32> {
        choice.samples.iter().map(|sample| sample.process).collect()
    }

    #[test]
    fn case_is_reported_for_the_usual_state_of_the_run() {
        let samples = visits();
        let choice = choose(&samples, &Distances::from_samples(samples.iter()), Unit::Nanoseconds);
        assert_eq!(processes(&choice), [0, 1, 4, 6, 7, 9, 10, 11], "unknown ones are not left out");
        let note = "4 of 12 processes left out: CPUs 7 ns apart, not 68 (median 12.00 ns)";
        assert_eq!(
            (choice.notes.as_slice(), choice.distance_ns),
            (&[note.to_owned()][..], Some(68.0))
        );
        // Of a visit that was moved, the readings in that state say nothing of the other one.
        let moved = [samples[0].clone(), samples[5].clone()];
        let choice = choose(&moved, &Distances::from_samples(samples.iter()), Unit::Nanoseconds);
        assert_eq!(
            choice.notes,
            ["1 of 2 processes left out: CPUs 7 ns apart, not 62 (median 8.000 ns)"]
        );
        // A case without a visit in that state keeps all, and is of no state.
        let near = [samples[2].clone(), samples[3].clone()];
        let choice = choose(&near, &Distances::from_samples(samples.iter()), Unit::Nanoseconds);
        let note = "2 of 2 processes with CPUs 7 ns apart, not as in most visits";
        assert_eq!((processes(&choice), choice.distance_ns), (vec![2, 3], None));
        assert_eq!(choice.notes, [note]);
    }

    #[test]
    fn readings_of_a_visit_count_once() {
        // Eight cases of one visit, far from the others.
        let mut samples: Vec<Sample> = (0..40).map(|at| sample(at, 1.0, &[28.0])).collect();
        samples.extend((0..8).map(|_| Sample { started_ns: Some(7), ..sample(40, 1.0, &[900.0]) }));
        assert_eq!(Distances::from_samples(samples.iter()).limits.len(), 0);
    }

    #[test]
    fn distances_without_a_gap_are_one_state() {
        let of = |ns: [f64; 4]| {
            let samples: Vec<Sample> =
                (0..40).map(|at| sample(at, 1.0, &[ns[at as usize % 4]])).collect();
            Distances::from_samples(samples.iter()).limits.len()
        };
        assert_eq!(of([55.0, 75.0, 104.0, 140.0]), 0);
        assert_eq!(of([55.0, 60.0, 104.0, 140.0]), 1);
        assert_eq!(of([7.0, 28.0, 104.0, 104.0]), 2);
        // One outlier is no state.
        let mut samples: Vec<Sample> = (0..40).map(|at| sample(at, 1.0, &[28.0])).collect();
        samples.push(sample(40, 1.0, &[900.0]));
        assert_eq!(Distances::from_samples(samples.iter()).limits.len(), 0);
        assert_eq!(Distances::from_samples([].iter()).limits.len(), 0);
    }

    #[test]
    fn visits_of_another_case_are_left_out_if_most_are_of_it() {
        let check = |passed| Check { name: "asleep".to_owned(), passed, detail: String::new() };
        let with = |missed: usize, failed: usize| {
            let mut samples: Vec<Sample> = (0..5).map(|at| sample(at, 1.0, &[])).collect();
            for one in &mut samples[..missed] {
                one.missed = Some("asleep: at 45 %".to_owned());
                one.checks = vec![check(false); failed];
            }
            choose(&samples, &Distances::default(), Unit::Nanoseconds)
        };
        let some = with(2, 1);
        assert_eq!(processes(&some), [2, 3, 4]);
        assert_eq!(some.notes, ["2 of 5 processes left out: asleep: at 45 %"]);
        // Their checks invalidate the case: of most visits, or of wrong work too.
        for all in [with(3, 1), with(2, 2)] {
            assert_eq!((all.samples.len(), all.notes.len()), (5, 0));
        }
        let mut samples = visits();
        samples[2].checks = vec![check(false)];
        let all = choose(&samples, &Distances::from_samples(samples.iter()), Unit::Nanoseconds);
        assert_eq!(all.samples.len(), 12, "wrong work elsewhere is wrong work");
    }
}
