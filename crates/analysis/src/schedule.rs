//! How many visits each unit gets in the time of a run (METHOD 10, 13): decided once, from what one
//! pilot visit of each unit cost, how far its rounds spread, and how often the core was in the
//! reported state; never from the values themselves.

use std::cmp::Ordering;

/// The fewest visits with an interval.
pub const VISITS_MIN: u32 = 5;
/// Numbers of visits whose interval by order statistics is hardly wider than its level needs.
const LEVELS: [u32; 12] = [VISITS_MIN, 9, 12, 17, 20, 25, 30, 35, 40, 52, 75, 100];
/// The share of a run that the pilot takes at most.
pub const PILOT_MAX: f64 = 0.2;
/// The share of the time that is kept for the records of the run and for its last visit.
const KEPT: f64 = 0.02;
/// A unit at which people look first is worth as much as so many others.
const FIRST: f64 = 4.0;
/// Relative spread of rounds below which more visits are worth less, and how much less at least.
const NARROW: f64 = 0.01;
const NARROW_WORTH: f64 = 0.25;

/// What is known of a unit after the pilot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PilotUnit {
    /// The time of a visit.
    pub cost_ns: f64,
    /// The relative spread of its rounds; absent without values.
    pub spread: Option<f64>,
    /// The share of visits that count, by the state of the core.
    pub share: f64,
    pub is_first: bool,
    /// Visits made.
    pub made: u32,
}

impl PilotUnit {
    /// The visits for so many that count.
    pub fn visits_for(&self, count: u32) -> u32 {
        (f64::from(count) / self.share.clamp(0.1, 1.0)).ceil() as u32
    }

    fn cost_of(&self, visits: u32) -> f64 {
        f64::from(visits.saturating_sub(self.made)) * self.cost_ns
    }

    /// What the step from one level to the next is worth for the time it takes: each visit narrows
    /// the interval by the same factor as a visit of another unit with as many.
    fn worth(&self, [from, to]: [u32; 2]) -> f64 {
        let first = if self.is_first { FIRST } else { 1.0 };
        let spread = (self.spread.unwrap_or(NARROW) / NARROW).clamp(NARROW_WORTH, 1.0);
        let [before, after] = [from, to].map(|count| self.visits_for(count));
        let time_ns = (self.cost_of(after) - self.cost_of(before)).max(1.0);
        first * spread * (f64::from(to) / f64::from(from)).ln() / time_ns
    }
}

/// The end of the visits of a run.
pub fn deadline_ns(budget_ns: f64) -> f64 {
    budget_ns * (1.0 - KEPT)
}

/// The order in which units keep their place: what people look at first, then the cheap ones.
pub fn by_place(a: &PilotUnit, b: &PilotUnit) -> Ordering {
    b.is_first.cmp(&a.is_first).then(a.cost_ns.total_cmp(&b.cost_ns))
}

/// The visits of each unit in all, those of the pilot included. 0: it does not fit at 5 visits that
/// count. `most` limits the visits that count.
pub fn visits(units: &[PilotUnit], left_ns: f64, most: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by(|a, b| by_place(&units[*a], &units[*b]));
    let (mut counts, mut left_ns) = (vec![0; units.len()], left_ns);
    let least = |unit: &PilotUnit| unit.visits_for(VISITS_MIN);
    for at in order {
        let cost_ns = units[at].cost_of(least(&units[at]));
        if cost_ns <= left_ns {
            left_ns -= cost_ns;
            counts[at] = VISITS_MIN;
        }
    }
    let step = |count: u32| {
        let next = LEVELS.iter().find(|level| **level > count && **level <= most);
        next.map(|next| [count, *next])
    };
    loop {
        let fits = |at: &usize| {
            let unit = &units[*at];
            let [from, to] = step(counts[*at])?;
            let [before, after] = [from, to].map(|count| unit.cost_of(unit.visits_for(count)));
            (counts[*at] > 0 && after - before <= left_ns).then(|| unit.worth([from, to]))
        };
        let worth = (0..units.len()).filter_map(|at| Some((at, fits(&at)?)));
        let Some((best, _)) = worth.max_by(|(_, a), (_, b)| a.total_cmp(b)) else { break };
        let [from, to] = step(counts[best]).unwrap_or_default();
        let unit = &units[best];
        left_ns -= unit.cost_of(unit.visits_for(to)) - unit.cost_of(unit.visits_for(from));
        counts[best] = to;
    }
    let in_all = |(unit, count): (&PilotUnit, &u32)| match count {
        0 => 0,
        count => unit.visits_for(*count).max(unit.made),
    };
    units.iter().zip(&counts).map(in_all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(cost_ms: f64, is_first: bool) -> PilotUnit {
        let (cost_ns, spread) = (cost_ms * 1e6, Some(0.05));
        PilotUnit { cost_ns, spread, share: 1.0, is_first, made: 1 }
    }

    fn cost_ns(units: &[PilotUnit], counts: &[u32]) -> f64 {
        units.iter().zip(counts).map(|(unit, count)| unit.cost_of(*count)).sum()
    }

    #[test]
    fn time_is_filled_and_not_exceeded() {
        let units: Vec<PilotUnit> =
            (0..60).map(|at| unit(8.0 + f64::from(at * at) / 4.0, at % 7 == 0)).collect();
        for seconds in [1.0, 10.0, 48.0, 200.0] {
            let counts = visits(&units, seconds * 1e9, 40);
            let spent_ns = cost_ns(&units, &counts);
            assert!(spent_ns <= seconds * 1e9, "{seconds}: {spent_ns}");
            let is_full = counts.iter().all(|count| *count == 40);
            assert!(is_full || spent_ns > 0.9 * seconds * 1e9, "{seconds}: {spent_ns}");
        }
    }

    #[test]
    fn dear_units_are_left_out_first_and_first_ones_last() {
        let units = [unit(900.0, false), unit(20.0, false), unit(400.0, true), unit(50.0, false)];
        assert_eq!(visits(&units, 6.0e9, 5), [5, 5, 5, 5]);
        assert_eq!(visits(&units, 3.0e9, 5), [0, 5, 5, 5]);
        assert_eq!(visits(&units, 1.7e9, 5), [0, 5, 5, 0]);
        assert_eq!(visits(&units, 0.1e9, 5), [0, 5, 0, 0], "what still fits is made");
    }

    #[test]
    fn first_wide_and_cheap_units_get_more() {
        let narrow = PilotUnit { spread: Some(0.000_1), ..unit(20.0, false) };
        let units = [unit(20.0, true), unit(20.0, false), unit(200.0, false), narrow];
        let counts = visits(&units, 4e9, 100);
        assert!(counts[0] > counts[1] && counts[1] > counts[2], "{counts:?}");
        assert!(counts[1] > counts[3] && counts[3] >= 5, "{counts:?}");
    }

    #[test]
    fn visits_grow_as_the_reported_state_is_rarer() {
        let half = PilotUnit { share: 0.5, ..unit(20.0, false) };
        assert_eq!(visits(&[half], 1e9, 5), [10]);
        assert_eq!(visits(&[half], 0.1e9, 5), [0]);
        let rare = PilotUnit { share: 0.0, ..half };
        assert_eq!(visits(&[rare], 1e12, 5), [50], "bounded");
    }
}
