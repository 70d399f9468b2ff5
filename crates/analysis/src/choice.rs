//! Which visits a case is reported from: those of another state of the machine are left out, by a
//! count of the work or by the distance of its CPUs, never by values (METHOD 23e and 23f).

use fathom_record::quantity::quantity;
use fathom_record::{Sample, Unit};

use crate::statistics::median;

/// Distances of one state are closer than this factor to the next of them.
const APART: f64 = 1.5;
/// The least share of a run's readings on each side of a limit between states, in 1 of so many.
const SIDE_MIN: usize = 33;
/// The fewest visits of the state that a case is reported for.
const VISITS_MIN: usize = 3;

/// The states of a run's two CPUs: a hypervisor moves them between threads of one core, cores and
/// sockets.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    /// The limits between states, ascending.
    limits: Vec<f64>,
}

impl Distances {
    /// From all readings of a run.
    #[must_use]
    pub fn of<'s>(samples: impl Iterator<Item = &'s Sample>) -> Self {
        let mut all: Vec<f64> = samples.flat_map(|it| it.distance_ns.iter().copied()).collect();
        all.retain(|ns| *ns > 0.0);
        all.sort_by(f64::total_cmp);
        let side = (all.len() / SIDE_MIN).max(2);
        let mut limits = Vec::new();
        let mut from = 0;
        for at in 1..all.len() {
            if are_apart(all[at], all[at - 1]) && at - from >= side && all.len() - at >= side {
                limits.push((all[at] * all[at - 1]).sqrt());
                from = at;
            }
        }
        Self { limits }
    }

    /// The state of a visit: `Err` if it changed meanwhile, `None` if it is not known.
    fn state(&self, sample: &Sample) -> Option<Result<usize, ()>> {
        let of = |ns: &f64| self.limits.iter().filter(|limit| ns > limit).count();
        let mut states = sample.distance_ns.iter().map(of);
        let first = states.next()?;
        Some(if states.all(|state| state == first) { Ok(first) } else { Err(()) })
    }
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
    /// All visits.
    #[must_use]
    pub fn of(samples: &[&Sample], notes: Vec<String>) -> Self {
        let samples: Vec<Sample> = samples.iter().map(|sample| (*sample).clone()).collect();
        let readings: Vec<f64> =
            samples.iter().flat_map(|it| it.distance_ns.iter().copied()).collect();
        Self { distance_ns: median(&readings), samples, notes }
    }
}

/// Whether two distances are of different states.
#[must_use]
pub fn are_apart(a: f64, b: f64) -> bool {
    a.max(b) >= APART * a.min(b)
}

/// Chooses the visits of a case: all, if half of them were of another one by a count of the work,
/// so that its failed check invalidates the case.
#[must_use]
pub fn choose(samples: &[Sample], distances: &Distances, unit: Unit) -> Choice {
    // Its own check has failed then: another one that has is wrong work.
    let failed = |it: &Sample| it.checks_of_both().filter(|check| !check.passed).count();
    let (missed, kept): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.missed.is_some() && failed(sample) <= 1);
    if missed.len() >= kept.len() {
        return Choice::of(&samples.iter().collect::<Vec<_>>(), Vec::new());
    }
    let mut notes = Vec::new();
    if let Some(why) = missed.first().and_then(|first| first.missed.as_ref()) {
        let of = format!("{} of {} processes", missed.len(), samples.len());
        notes.push(format!("{of} are left out: {why}"));
    }
    let states: Vec<_> = kept.iter().map(|sample| distances.state(sample)).collect();
    let count = |state: usize| states.iter().filter(|it| **it == Some(Ok(state))).count();
    let most = (0..=distances.limits.len()).max_by_key(|state| (count(*state), usize::MAX - state));
    let Some(most) = most.filter(|most| count(*most) >= VISITS_MIN.max(kept.len().div_ceil(2)))
    else {
        return Choice::of(&kept, notes);
    };
    let of_state = |state: usize| -> Vec<&Sample> {
        let with = kept.iter().zip(&states).filter(|(_, it)| **it == Some(Ok(state)));
        with.map(|(sample, _)| *sample).collect()
    };
    let distance =
        |samples: &[&Sample]| Choice::of(samples, Vec::new()).distance_ns.unwrap_or_default();
    let usual = distance(&of_state(most));
    for state in (0..=distances.limits.len()).filter(|state| *state != most && count(*state) > 0) {
        let others = of_state(state);
        let values: Vec<f64> = others.iter().filter_map(|it| median(&it.values)).collect();
        notes.push(format!(
            "{} of {} processes are left out: their CPUs were {:.0} ns apart, not {usual:.0} \
             (there {})",
            others.len(),
            samples.len(),
            distance(&others),
            quantity(median(&values).unwrap_or_default(), unit),
        ));
    }
    let moved = states.iter().filter(|state| **state == Some(Err(()))).count();
    if moved > 0 {
        let of = format!("{moved} of {} processes", samples.len());
        notes.push(format!("{of} are left out: their CPUs were moved meanwhile"));
    }
    let chosen = kept.into_iter().zip(&states);
    let chosen = chosen.filter(|(_, state)| state.is_none_or(|state| state == Ok(most)));
    Choice::of(&chosen.map(|(sample, _)| sample).collect::<Vec<_>>(), notes)
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
    fn case_is_reported_for_the_state_of_most_visits() {
        let samples = visits();
        let choice = choose(&samples, &Distances::of(samples.iter()), Unit::Nanoseconds);
        assert_eq!(processes(&choice), [0, 1, 4, 6, 7, 9, 10, 11], "unknown ones are not left out");
        assert_eq!(
            choice.notes,
            [
                "3 of 12 processes are left out: their CPUs were 7 ns apart, not 68 (there \
                 12.00 ns)",
                "1 of 12 processes are left out: their CPUs were moved meanwhile"
            ]
        );
    }

    #[test]
    fn distances_without_a_gap_are_one_state() {
        let of = |ns: [f64; 4]| {
            let samples: Vec<Sample> =
                (0..40).map(|at| sample(at, 1.0, &[ns[at as usize % 4]])).collect();
            Distances::of(samples.iter()).limits.len()
        };
        assert_eq!(of([55.0, 75.0, 104.0, 140.0]), 0);
        assert_eq!(of([55.0, 60.0, 104.0, 140.0]), 1);
        assert_eq!(of([7.0, 28.0, 104.0, 104.0]), 2);
        // One outlier is no state.
        let mut samples: Vec<Sample> = (0..40).map(|at| sample(at, 1.0, &[28.0])).collect();
        samples.push(sample(40, 1.0, &[900.0]));
        assert_eq!(Distances::of(samples.iter()).limits.len(), 0);
        assert_eq!(Distances::of([].iter()).limits.len(), 0);
    }

    #[test]
    fn no_visit_is_left_out_without_a_usual_state() {
        // Three states of four visits each.
        let samples: Vec<Sample> =
            (0..12).map(|at| sample(at, 1.0, &[[7.0, 28.0, 104.0][at as usize % 3]; 2])).collect();
        let choice = choose(&samples, &Distances::of(samples.iter()), Unit::Nanoseconds);
        assert_eq!((choice.samples.len(), choice.notes.len()), (12, 0));
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
        assert_eq!(some.notes, ["2 of 5 processes are left out: asleep: at 45 %"]);
        // Their checks invalidate the case: of most visits, or of wrong work too.
        for all in [with(3, 1), with(2, 2)] {
            assert_eq!((all.samples.len(), all.notes.len()), (5, 0));
        }
    }
}
