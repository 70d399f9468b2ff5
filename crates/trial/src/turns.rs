//! The order of the measurements, and how many there are.

use fathom_analysis::statistics::shuffled;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

/// A pass has each combination of values once. Of fewer passes a difference only looks like one.
pub const PASSES_MIN: usize = 8;
const PASSES_MAX: usize = 40;

/// Passes in pairs: the second one has the order of the first reversed (A B B A), so that what
/// drifts slows both sides alike.
pub struct TrialTurns {
    random: Xoshiro256PlusPlus,
    cells: usize,
    next: Option<Vec<usize>>,
}

impl TrialTurns {
    pub fn new(seed: u64, cells: usize) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), cells, next: None }
    }

    /// The order of the next pass.
    pub fn pass(&mut self) -> Vec<usize> {
        if let Some(reversed) = self.next.take() {
            return reversed;
        }
        let order = shuffled(self.cells, &mut self.random);
        self.next = Some(order.iter().rev().copied().collect());
        order
    }
}

/// How many passes each trial gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialPlan {
    /// The first so many fit into the time.
    pub trials: usize,
    pub passes: usize,
    pub seconds: f64,
}

impl TrialPlan {
    /// `pass_s`: a pass of each trial, in seconds. The first trial is always made.
    pub fn new(time_s: f64, pass_s: &[f64]) -> Self {
        let fits =
            |count: &usize| pass_s[..*count].iter().sum::<f64>() * PASSES_MIN as f64 <= time_s;
        let trials = (1..=pass_s.len()).rev().find(fits).unwrap_or(1);
        let all_s = pass_s.iter().take(trials).sum::<f64>();
        // Even, since they are in pairs; saturates.
        let passes = ((time_s / all_s) as usize / 2 * 2).clamp(PASSES_MIN, PASSES_MAX);
        Self { trials, passes, seconds: all_s * passes as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_mirrored_and_both_orders_begin() {
        let mut turns = TrialTurns::new(7, 2);
        let mut first = [0; 2];
        for _ in 0..100 {
            let (one, mut other) = (turns.pass(), turns.pass());
            first[one[0]] += 1;
            other.reverse();
            assert_eq!(one, other, "A B B A or B A A B");
        }
        assert!(first.iter().all(|count| *count > 30), "{first:?}");
        let order =
            |seed| (0..20).flat_map(|_| TrialTurns::new(seed, 4).pass()).collect::<Vec<_>>();
        assert_eq!(order(7), order(7));
        let mut cells = TrialTurns::new(8, 4).pass();
        cells.sort_unstable();
        assert_eq!(cells, [0, 1, 2, 3]);
    }

    #[test]
    fn plan_fits_its_time_with_eight_of_each_side() {
        let plan = |time_s, pass_s: &[f64]| TrialPlan::new(time_s, pass_s);
        assert_eq!(plan(300.0, &[2.0, 2.0]), TrialPlan { trials: 2, passes: 40, seconds: 160.0 });
        assert_eq!(plan(100.0, &[2.0, 2.0, 4.0]).passes, 12);
        let some = plan(100.0, &[4.0, 8.0, 8.0]);
        assert_eq!((some.trials, some.passes), (2, 8), "the last one does not fit");
        let long = plan(100.0, &[60.0, 1.0]);
        assert_eq!((long.trials, long.passes, long.seconds), (1, 8, 480.0));
    }
}
