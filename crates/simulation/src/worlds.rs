//! Worlds whose truth is known: processes that differ, and rounds that differ within each.
//!
//! A value is `TRUTH` with one per cent of it for each deviation of its process and of its round.
//! Both have a median of 0, so that `TRUTH` is what the typical process takes in its typical round.

use fathom_analysis::statistics;
use fathom_record::Sample;

use crate::Source;
use crate::shapes::{Draw, alike, drifting, heavy, log_normal, normal, slow_outliers, two_levels};

/// What a case really takes in every world.
pub(crate) const TRUTH: f64 = 100.0;
/// Rounds in a visit, as the program takes them.
pub(crate) const ROUNDS: usize = 12;
/// A deviation of a process or a round.
const DEVIATION: f64 = TRUTH / 100.0;

/// What an interval is promised to do in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Processes are independent draws, and as likely above the truth as below it: intervals keep
    /// the level that they state.
    Exact,
    /// Processes are independent draws, but the median of a few rounds does not lie around the
    /// truth evenly: intervals keep 93 % to 99 %.
    Independent,
    /// Values depend on each other or have two levels: 90 % are kept, or the case is marked.
    Marked,
}

pub(crate) struct World {
    pub(crate) name: &'static str,
    /// What it stands for in timings.
    pub(crate) stands_for: &'static str,
    pub(crate) kind: Kind,
    processes: Draw,
    rounds: Draw,
    /// The clock's step; 0 where it does not matter.
    step: f64,
}

impl World {
    const fn new(
        name: &'static str,
        kind: Kind,
        processes: Draw,
        rounds: Draw,
        stands_for: &'static str,
    ) -> Self {
        Self { name, stands_for, kind, processes, rounds, step: 0.0 }
    }

    /// One run of a case.
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

    /// The process medians of one run of a case.
    pub(crate) fn medians(&self, source: &mut Source, processes: usize) -> Vec<f64> {
        self.medians_of_cases(source, processes, 1).concat()
    }

    /// The process medians of some cases that are taken in the same visits: what a process is dealt
    /// falls on all of them alike, and their rounds are their own.
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

    /// How often the program marks a case of this world, at least, where it says that it does.
    pub(crate) fn marked_from(&self, processes: usize) -> f64 {
        match (self.name, processes) {
            ("drift in a visit", _) => 0.99,
            // Below 8 processes groups are not looked for, below 100 values modes are not.
            ("two paths", 10..) => 0.99,
            ("two kinds of processes", 20..) => 0.95,
            ("two kinds of processes", 10..) => 0.75,
            _ => 0.0,
        }
    }

    fn value(&self, process: f64, round: f64) -> f64 {
        // Nothing takes less than a hundredth of what it usually does.
        let value = (TRUTH + DEVIATION * (process + round)).max(TRUTH / 100.0);
        // The steps of a clock do not fall on the truth.
        let off = 0.3 * self.step;
        if self.step > 0.0 { ((value - off) / self.step).round() * self.step + off } else { value }
    }
}

impl Kind {
    /// Whether processes are independent draws of one level.
    pub(crate) fn is_independent(self) -> bool {
        matches!(self, Self::Exact | Self::Independent)
    }
}

/// All worlds, in the order of the page.
pub(crate) const WORLDS: [World; 10] = [
    World::new(
        "normal",
        Kind::Exact,
        normal,
        normal,
        "many small causes: addresses, alignment, cache sets",
    ),
    World::new(
        "log-normal",
        Kind::Independent,
        log_normal,
        log_normal,
        "a floor that nothing undercuts, and delays that add up above it",
    ),
    World::new(
        "heavy tail",
        Kind::Exact,
        heavy,
        heavy,
        "neighbours and interrupts of every size: Student's t with 2 degrees of freedom",
    ),
    World::new(
        "outliers",
        Kind::Independent,
        slow_outliers,
        slow_outliers,
        "one round and one process in ten disturbed, a quarter slower in the mean",
    ),
    World {
        step: DEVIATION,
        ..World::new(
            "quantised",
            Kind::Independent,
            normal,
            normal,
            "a clock that steps as far as the processes differ; the truth lies between two steps",
        )
    },
    World::new(
        "two kinds of processes",
        Kind::Marked,
        two_levels,
        normal,
        "a layout drawn at the start: four processes in ten are 15 % slower",
    ),
    World::new(
        "two paths",
        Kind::Marked,
        normal,
        two_levels,
        "a fast and a slow path within each process: four rounds in ten are 15 % slower",
    ),
    World::new(
        "AR(1) rounds",
        Kind::Marked,
        normal,
        alike,
        "autocorrelated rounds of a visit, ρ = 0.8: frequency, cache contents",
    ),
    World::new(
        "drift in a visit",
        Kind::Marked,
        normal,
        drifting,
        "what is measured fills or settles: 10 % over each visit",
    ),
    World::new(
        "drift of the machine",
        Kind::Marked,
        drifting,
        normal,
        "each process slower than the one before, 10 % over the run",
    ),
];

/// The world of a name; the first where there is none.
pub(crate) fn world(name: &str) -> &'static World {
    WORLDS.iter().find(|world| world.name == name).unwrap_or(&WORLDS[0])
}
