//! Models of a measurement ("worlds") with a known true value: variation between processes, and
//! between the rounds of each.
//!
//! A value is `TRUTH` plus one per cent per deviation of its process and of its round. Both have a
//! median of 0, so that `TRUTH` is the typical round of the typical process.

use fathom_analysis::statistics;
use fathom_record::Sample;

use crate::Source;
use crate::shapes::{Draw, ar_08, drifting, heavy, log_normal, normal, slow_outliers, two_levels};

pub(crate) const TRUTH: f64 = 100.0;
/// Rounds per visit, as in the program.
pub(crate) const ROUNDS: usize = 12;
/// One deviation of a process or a round.
const DEVIATION: f64 = TRUTH / 100.0;

/// The guarantee for intervals in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldKind {
    /// Processes are independent, and above the truth as often as below it: intervals have their
    /// stated level.
    Exact,
    /// Processes are independent, but the median of a few rounds is biased: 93 % to 99 %.
    Independent,
    /// Values are autocorrelated or have two levels: 90 % of the intervals contain the truth, or
    /// the case is marked.
    Marked,
}

pub(crate) struct World {
    pub(crate) name: &'static str,
    /// The cause of such timings on a machine.
    pub(crate) models: &'static str,
    pub(crate) kind: WorldKind,
    processes: Draw,
    rounds: Draw,
    /// Step of the clock; 0 for none.
    step: f64,
}

impl World {
    const fn new(
        name: &'static str,
        kind: WorldKind,
        processes: Draw,
        rounds: Draw,
        models: &'static str,
    ) -> Self {
        Self { name, models, kind, processes, rounds, step: 0.0 }
    }

    /// The samples of a case in one run.
    pub(crate) fn samples(
        &self,
        source: &mut Source,
        processes: usize,
        rounds: usize,
    ) -> Vec<Sample> {
        let levels = (self.processes)(source, processes);
        let sample = |(process, level)| {
            let values = self.visit(source, level, rounds);
            Sample { process, values, ..Sample::default() }
        };
        (0..).zip(levels).map(sample).collect()
    }

    /// The process medians of a case in one run.
    pub(crate) fn medians(&self, source: &mut Source, processes: usize) -> Vec<f64> {
        self.medians_of_cases(source, processes, 1).concat()
    }

    /// The process medians of cases measured in the same visits: they share the deviation of the
    /// process, not those of the rounds.
    pub(crate) fn medians_of_cases(
        &self,
        source: &mut Source,
        processes: usize,
        cases: usize,
    ) -> Vec<Vec<f64>> {
        let levels = (self.processes)(source, processes);
        let mut median = |level: f64| {
            let values = self.visit(source, level, ROUNDS);
            statistics::median(&values).unwrap_or(f64::NAN)
        };
        (0..cases).map(|_| levels.iter().map(|level| median(*level)).collect()).collect()
    }

    fn visit(&self, source: &mut Source, level: f64, rounds: usize) -> Vec<f64> {
        let rounds = (self.rounds)(source, rounds);
        rounds.into_iter().map(|round| self.value(level, round)).collect()
    }

    /// Guaranteed minimum share of cases that the program marks.
    pub(crate) fn marked_from(&self, processes: usize) -> f64 {
        match (self.name, processes) {
            ("drift in a visit", _) => 0.99,
            // Groups need 8 processes, modes 100 values.
            ("two paths", 10..) => 0.99,
            ("two kinds of processes", 20..) => 0.95,
            ("two kinds of processes", 10..) => 0.75,
            _ => 0.0,
        }
    }

    fn value(&self, process: f64, round: f64) -> f64 {
        // Durations are positive.
        let value = (TRUTH + DEVIATION * (process + round)).max(TRUTH / 100.0);
        // The truth is not on a step of the clock.
        let off = 0.3 * self.step;
        if self.step > 0.0 { ((value - off) / self.step).round() * self.step + off } else { value }
    }
}

impl WorldKind {
    pub(crate) fn is_independent(self) -> bool {
        matches!(self, Self::Exact | Self::Independent)
    }
}

/// In the order of the page.
#[rustfmt::skip]
pub(crate) const WORLDS: [World; 10] = [
    World::new("normal", WorldKind::Exact, normal, normal,
        "many small causes: addresses, alignment, cache sets"),
    World::new("log-normal", WorldKind::Independent, log_normal, log_normal,
        "a lower bound, and delays that add up above it"),
    World::new("heavy tail", WorldKind::Exact, heavy, heavy,
        "neighbours and interrupts of every size: Student's t with 2 degrees of freedom"),
    World::new("outliers", WorldKind::Independent, slow_outliers, slow_outliers,
        "one round and one process in ten disturbed, 25 % slower on average"),
    World { step: DEVIATION, ..World::new("quantised", WorldKind::Independent, normal, normal,
        "clock steps as large as the spread of processes; the truth is between two steps") },
    World::new("two kinds of processes", WorldKind::Marked, two_levels, normal,
        "random memory layout per process: four processes in ten are 15 % slower"),
    World::new("two paths", WorldKind::Marked, normal, two_levels,
        "a fast and a slow path within each process: four rounds in ten are 15 % slower"),
    World::new("AR(1) rounds", WorldKind::Marked, normal, ar_08,
        "autocorrelated rounds of a visit, ρ = 0.8: frequency, cache contents"),
    World::new("drift in a visit", WorldKind::Marked, normal, drifting,
        "a cache or queue that fills: 10 % over each visit"),
    World::new("drift of the machine", WorldKind::Marked, drifting, normal,
        "each process slower than the one before, 10 % over the run"),
];

pub(crate) fn world(name: &str) -> &'static World {
    WORLDS.iter().find(|world| world.name == name).unwrap_or(&WORLDS[0])
}
